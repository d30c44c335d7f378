"""``orchestrator evaluate``: the retrieval metrics of a checkpoint."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.commands.options import DataRoot, Device, Json, Plugins
from orchestrator.text.terminal import make_console
from trainables.errors import ConfigError


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
    data_root: DataRoot = Path("data"),
    device: Device = "auto",
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Evaluate the best model of a checkpoint on val or test."""
    from orchestrator.experiment.plugins import load_plugins
    from trainables.chance import chance_rsum
    from trainables.checkpoint import read_config, resolve_checkpoint
    from trainables.data.dataset import open_dataset

    load_plugins(plugins or [])
    directory = resolve_checkpoint(checkpoint)
    config = read_config(directory)
    data = open_dataset(config, data_root)
    images = len(data.splits[split].image_rows)
    if images % folds:
        raise ConfigError(f"--folds must divide the {images:,} images of {data.name}'s {split} split, got {folds}")
    from trainables.evaluation import evaluate_checkpoint

    metrics = evaluate_checkpoint(directory, data, split, device=device, folds=folds)
    image_of_caption = data.splits[split].image_of_caption
    # A fold has a chance level of its own, and the folds are alike.
    chance = chance_rsum(image_of_caption[image_of_caption < images // folds])
    if as_json:
        where = {"checkpoint": str(directory), "dataset": data.name, "split": split, "images": images, "folds": folds}
        print(json.dumps({**where, "metrics": metrics, "chance_rsum": chance}))
        return
    protocol = "" if folds == 1 else f", mean of {folds} folds of {images // folds:,} images"
    print_metrics(f"{data.name} {split}: {config.model} {config.loss}{protocol}", metrics, chance)


def print_metrics(title: str, metrics: dict[str, float], chance: float) -> None:
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
