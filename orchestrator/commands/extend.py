"""``orchestrator extend``: go on with a search that has ended, with more trials or more time."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import Address, Json, Output, Overrides, SharedDataRoot, Storage, TrackingUri


def extend(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment under OUTPUT, or its folder.")],
    trials: Annotated[int | None, typer.Option(min=1, help="So many more in each study.")] = None,
    hours: Annotated[float | None, typer.Option(help="For so many hours from now on at most.")] = None,
    overrides: Overrides = None,
    data_root: SharedDataRoot = "data",
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    address: Address = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Go on with a search that has ended: more trials, more hours, or another limit with [bold]--set[/bold]."""
    from orchestrator.commands.search import go_on
    from orchestrator.search.continuation import extend_experiment

    go_on(
        experiment,
        lambda directory: extend_experiment(directory, trials, hours, overrides or []),
        data_root,
        output,
        tracking_uri,
        as_json=as_json,
        address=address,
        storage=storage,
    )
