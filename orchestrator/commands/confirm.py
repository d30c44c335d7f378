"""``orchestrator confirm``: the best trials of a search, trained again with fresh seeds."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import Address, Json, Output, SharedDataRoot, Storage, TrackingUri


def confirm(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment under OUTPUT, or its folder.")],
    top: Annotated[int | None, typer.Option(help="The best so many of each study; as searched with, or 3.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Fresh seeds for each; as searched with, or 5.")] = None,
    trainings: Annotated[
        int | None, typer.Option(help="A race instead: so many trainings at most on a dataset, for those that can win.")
    ] = None,
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
    """Confirm what a search has found so far; the same command goes on with a confirmation that was interrupted."""
    from orchestrator.commands.search import go_on
    from orchestrator.search.continuation import confirm_experiment

    changes = {"top": top, "seeds": seeds, "trainings": trainings, "baseline": baseline}
    go_on(
        experiment,
        lambda directory: confirm_experiment(directory, changes),
        data_root,
        output,
        tracking_uri,
        as_json=as_json,
        address=address,
        storage=storage,
        search=False,
    )
