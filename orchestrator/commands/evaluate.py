"""``orchestrator evaluate``: the retrieval metrics of a checkpoint."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.commands.options import DataRoot, Device, Json, Plugins
from orchestrator.text.terminal import make_console, say


def evaluate(
    checkpoint: Annotated[Path, typer.Argument(help="An epoch_NNNN directory, or a training's directory.")],
    split: Annotated[Literal["val", "test"], typer.Option(help="Which split to retrieve in.")] = "test",
    folds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Evaluate so many equal parts of the split alone, in its order, and average them: "
            "5 on COCO's 5,000 test images is the 1K protocol, 1 the 5K protocol.",
        ),
    ] = 1,
    ranks: Annotated[
        Path | None,
        typer.Option(help="Write the rank of each query's positives to this .npz file, to compare models by query."),
    ] = None,
    data_root: DataRoot = Path("data"),
    device: Device = "auto",
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Evaluate the best model of a checkpoint on val or test."""
    from orchestrator.experiment.plugins import load_plugins
    from orchestrator.workload.evaluation import evaluate as evaluate_checkpoint

    load_plugins(plugins or [])
    found = evaluate_checkpoint(checkpoint, data_root=data_root, split=split, folds=folds, ranks=ranks, device=device)
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    protocol = "" if folds == 1 else f", mean of {folds} folds of {found.images // folds:,} images"
    title = f"{found.dataset} {split}: {found.model} {found.loss}{protocol}"
    print_metrics(title, found.metrics, found.chance_rsum)
    if ranks is not None:
        say(f"ranks of {found.captions:,} captions and {found.images:,} images: {ranks}")


def print_metrics(title: str, metrics: Mapping[str, float], chance: float) -> None:
    """Print both directions of retrieval as a table, a direction a row, beside the rsum of a random ranking."""
    from rich.table import Table

    columns = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "medr": "median rank", "meanr": "mean rank", "map5": "mAP@5"}
    table = Table(title=f"{title}, rsum {metrics['rsum']:.1f} (chance {chance:.1f})", title_justify="left")
    table.add_column("direction")
    for heading in columns.values():
        table.add_column(heading, justify="right")
    for direction, words in (("i2t", "image to captions"), ("t2i", "caption to images")):
        values = (metrics.get(f"{direction}_{name}") for name in columns)
        table.add_row(words, *("" if value is None else f"{value:.3g}" for value in values))
    make_console().print(table)
