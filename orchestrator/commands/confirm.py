"""``orchestrator confirm``: the best trials of a search, trained again with fresh seeds."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import Address, ExperimentName, Json, Output, SharedDataRoot, Storage, TrackingUri
from orchestrator.commands.search import resume_experiment
from orchestrator.search.resuming import confirm_experiment


def confirm(
    experiment: ExperimentName,
    top: Annotated[
        int | None, typer.Option(help="Best trials of each study to confirm; by default as in the search, or 3.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Fresh seeds for each candidate; by default as in the search, or 5.")
    ] = None,
    trainings: Annotated[
        int | None,
        typer.Option(help="Run a race: at most this many trainings a dataset, the last of them for the two in front."),
    ] = None,
    surface: Annotated[
        bool,
        typer.Option(
            "--surface",
            help="First train the setting to use of each study's surface, and confirm it too; continues the search.",
        ),
    ] = False,
    baseline: Annotated[
        str | None, typer.Option(help="Loss to compare the winner with, instead of the best published settings.")
    ] = None,
    data_root: SharedDataRoot = "data",
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    address: Address = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Train the best trials of a search again with fresh seeds. The same command resumes."""
    changes = {"top": top, "seeds": seeds, "trainings": trainings, "baseline": baseline, "surface": surface or None}
    wanted = partial(confirm_experiment, changes=changes)
    resume_experiment(
        experiment, wanted, data_root, output, tracking_uri, address, storage, as_json=as_json, search=surface
    )
