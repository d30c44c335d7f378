"""``orchestrator extend``: give a search that has ended more trials or more time."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import (
    Address,
    ExperimentName,
    Json,
    Output,
    Overrides,
    SharedDataRoot,
    Storage,
    TrackingUri,
)
from orchestrator.commands.search import resume_experiment
from orchestrator.search.resuming import extend_experiment


def extend(
    experiment: ExperimentName,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials to add to each study.")] = None,
    hours: Annotated[float | None, typer.Option(help="Hours that the search may take from now on.")] = None,
    overrides: Overrides = None,
    data_root: SharedDataRoot = "data",
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    address: Address = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Give a search that has ended more trials, more hours, or another limit by --set."""
    wanted = partial(extend_experiment, trials=trials, hours=hours, overrides=overrides or [])
    resume_experiment(experiment, wanted, data_root, output, tracking_uri, address, storage, as_json=as_json)
