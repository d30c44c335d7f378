"""``orchestrator evaluate``: the retrieval metrics of a checkpoint."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from orchestrator.commands.options import Checkpoint, DataRoot, Device, Json, Plugins
from orchestrator.text.terminal import make_console, say
from orchestrator.workload.evaluation import JudgedEvaluation
from orchestrator.workload.evaluation import evaluate as evaluate_checkpoint


def evaluate(
    checkpoint: Checkpoint,
    split: Annotated[Literal["val", "test"], typer.Option(help="Split to evaluate on.")] = "test",
    folds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Evaluate this many equal parts of the split, in its order, and average the metrics: on COCO's 5,000 "
            "test images, 5 is the 1K protocol and 1 the 5K protocol.",
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
    """Evaluate the best model of a checkpoint on val or test.

    Where a dataset comes with people's judgements of pairs, a second table also counts the candidates as right that
    people judged to fit.
    """
    found = evaluate_checkpoint(
        checkpoint,
        data_root=data_root,
        split=split,
        folds=folds,
        ranks=ranks,
        device=device,
        plugins=plugins or [],
    )
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    protocol = "" if folds == 1 else f", mean of {folds} folds of {found.images // folds:,} images"
    title = f"{found.dataset} {split}: {found.model} {found.loss}{protocol}"
    print_metrics(title, found.metrics, found.chance_rsum)
    for judged in found.judged:
        print_judged(judged)
    if ranks is not None:
        say(f"ranks of {found.captions:,} captions and {found.images:,} images: {ranks}")


DIRECTIONS = {"i2t": "image to captions", "t2i": "caption to images"}

_RANKS = {"medr": "median rank", "meanr": "mean rank"}
_COLUMNS = {"r1": "R@1", "r5": "R@5", "r10": "R@10", **_RANKS, "map5": "mAP@5"}
_CLASS_COLUMNS = {**{f"r{k}": f"R@{k}" for k in (1, 2, 4, 8)}, **_RANKS}


def print_metrics(title: str, metrics: Mapping[str, float], chance: float) -> None:
    """Print both directions of retrieval as a table, a direction a row, beside the rsum of a random ranking."""
    # Where images retrieve images of their class, both directions are equal.
    of_classes = "i2t_r8" in metrics
    columns = _CLASS_COLUMNS if of_classes else _COLUMNS
    table = Table(title=f"{title}, rsum {metrics['rsum']:.1f} (chance {chance:.1f})", title_justify="left")
    table.add_column("direction")
    for heading in columns.values():
        table.add_column(heading, justify="right")
    for direction, words in ({"i2t": "image to images"} if of_classes else DIRECTIONS).items():
        values = (metrics.get(f"{direction}_{name}") for name in columns)
        table.add_row(words, *("" if value is None else f"{value:.3g}" for value in values))
    make_console().print(table)


READINGS = {"_annotated": "annotated", "": "judged", "_condensed": "without unjudged"}
"""Ending of the names of judged metrics -> which pairs count."""


def print_judged(judged: "JudgedEvaluation") -> None:
    """Print the metrics with and without people's judgements: a row for each direction and choice of pairs."""
    metrics = judged.metrics
    columns = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "r_precision": "R-Precision", "map_r": "mAP@R"}
    sums = [
        f"{metrics[f'rsum{ending}']:.1f} {words}" for ending, words in READINGS.items() if f"rsum{ending}" in metrics
    ]
    table = Table(title=f"{judged.judgements.title}: rsum {', '.join(sums)}", title_justify="left")
    table.add_column("direction")
    table.add_column("pairs")
    for heading in columns.values():
        table.add_column(heading, justify="right")
    for direction, words in DIRECTIONS.items():
        for ending, pairs in READINGS.items():
            values = [metrics.get(f"{direction}_{name}{ending}") for name in columns]
            if any(value is not None for value in values):
                table.add_row(words, pairs, *("" if value is None else f"{value:.3g}" for value in values))
    make_console().print(table)
    say(
        "annotated: an image's own captions, or a caption's own image, are right; judged: candidates that people "
        "judged to fit are right too, and candidates that nobody judged are wrong",
        *judged.judgements.sentences(),
        *_known(metrics),
    )


def _known(metrics: Mapping[str, float]) -> list[str]:
    """Return how many of the model's first answers were judged; empty if only fitting pairs were recorded."""
    names = {"i2t_top10_judged": "captions", "t2i_top10_judged": "images"}
    shares = [f"{metrics[name]:.0%} of the first ten {items}" for name, items in names.items() if name in metrics]
    return [f"people judged {' and '.join(shares)} that this model ranks"] if shares else []
