"""``orchestrator resume``: resume a search from its folder alone."""

from pathlib import Path

from orchestrator.commands.options import Address, ExperimentName, Json, Output, SharedDataRoot, Storage, TrackingUri
from orchestrator.commands.search import resume_experiment
from orchestrator.search.resuming import read_experiment


def resume(
    experiment: ExperimentName,
    data_root: SharedDataRoot = "data",
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    address: Address = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Resume a search that was interrupted or killed, with the settings that it started with."""
    resume_experiment(experiment, read_experiment, data_root, output, tracking_uri, address, storage, as_json=as_json)
