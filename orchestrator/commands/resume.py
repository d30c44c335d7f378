"""``orchestrator resume``: go on with a search from its directory alone."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import Address, Json, Output, SharedDataRoot, Storage, TrackingUri


def resume(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment under OUTPUT, or its folder.")],
    data_root: SharedDataRoot = "data",
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    address: Address = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Go on with a search that was interrupted or killed, as it was described when it started."""
    from orchestrator.commands.search import go_on
    from orchestrator.search.continuation import read_experiment

    go_on(
        experiment,
        read_experiment,
        data_root,
        output,
        tracking_uri,
        as_json=as_json,
        address=address,
        storage=storage,
    )
