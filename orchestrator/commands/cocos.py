"""``orchestrator cocos``: which samples contribute to the gradient of a trained model's loss."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from orchestrator.commands.options import Checkpoint, DataRoot, Device, Json, Plugins
from orchestrator.experiment.plugins import load_plugins
from orchestrator.text.terminal import make_console
from orchestrator.workload.evaluation import measure_checkpoint
from trainables.cocos import Spread
from trainables.errors import ConfigError

CURVE = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Values of epsilon of ``--curve``."""


def cocos(
    checkpoint: Checkpoint,
    epsilon: Annotated[float, typer.Option(help="Count samples with a gradient weight above this, > 0.")] = 0.01,
    convention: Annotated[
        Literal["paper", "published"], typer.Option(help="Count as the paper defines, or as the published code does.")
    ] = "paper",
    curve: Annotated[bool, typer.Option("--curve", help="Count at epsilons from 0.0001 to 1 as well.")] = False,
    data_root: DataRoot = Path("data"),
    device: Device = "auto",
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Count the samples of the train split that contribute to the gradient, in the training's batches."""
    if not 0 < epsilon < float("inf"):
        raise ConfigError(f"--epsilon must be a finite number above 0, got {epsilon}")

    load_plugins(plugins or [])
    result = measure_checkpoint(
        checkpoint,
        data_root,
        epsilon=epsilon,
        convention=convention,
        device=device,
        curve=CURVE if curve else (),
    )
    if as_json:
        print(json.dumps(result.to_dict(), indent=2))
        return
    _print_table(
        f"{result.dataset} train: {result.model} {result.loss}, epsilon {epsilon:g}, {convention} convention",
        result.statistics,
    )

    if result.curve:
        _print_curve(result.curve)


def _print_curve(curve: "Mapping[float, Mapping[str, Spread]]") -> None:
    """Print each counter's mean, a column an epsilon; ``-`` where no query has a counted candidate."""
    names = list(dict.fromkeys(name for counters in curve.values() for name in counters))
    table = Table(title="mean of each counter by epsilon", title_justify="left")
    table.add_column("counter")
    for epsilon in curve:
        table.add_column(f"{epsilon:g}", justify="right")
    for name in names:
        cells = (f"{counters[name].mean:.4g}" if name in counters else "-" for counters in curve.values())
        table.add_row(name, *cells)
    make_console().print(table)


def _print_table(title: str, statistics: "Mapping[str, Spread]") -> None:
    table = Table(title=title, title_justify="left")
    for heading in ("counter", "mean", "std over batches"):
        table.add_column(heading, justify="left" if heading == "counter" else "right")
    for name, spread in statistics.items():
        table.add_row(name, f"{spread.mean:.4g}", f"{spread.std:.4g}")
    make_console().print(table)
