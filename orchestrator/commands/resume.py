"""``orchestrator resume``: go on with a search from its directory alone."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import DataRoot, Json, Output, TrackingUri


def resume(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment under OUTPUT, or its folder.")],
    data_root: DataRoot = Path("data"),
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    as_json: Json = False,
) -> None:
    """Go on with a search that was interrupted or killed, as it was described when it started."""
    from orchestrator.commands.search import run
    from orchestrator.continuation import read_experiment
    from orchestrator.journal import find_directory

    directory = find_directory(experiment, output)
    run(read_experiment(directory), data_root, directory.resolve().parent, tracking_uri, as_json=as_json)
