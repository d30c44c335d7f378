"""``orchestrator cocos``: which samples contribute to the gradient of a trained model's loss."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from orchestrator.commands.options import Checkpoint, DataRoot, Device, Json, Plugins
from orchestrator.text.terminal import make_console
from trainables.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainables.cocos import Spread


def cocos(
    checkpoint: Checkpoint,
    epsilon: Annotated[float, typer.Option(help="Count samples with a gradient weight above this, > 0.")] = 0.01,
    convention: Annotated[
        Literal["paper", "published"], typer.Option(help="Count as the paper defines, or as the published code does.")
    ] = "paper",
    data_root: DataRoot = Path("data"),
    device: Device = "auto",
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Count the samples of the train split that contribute to the gradient, in the training's batches."""
    if not 0 < epsilon < float("inf"):
        raise ConfigError(f"--epsilon must be a finite number above 0, got {epsilon}")
    from orchestrator.experiment.plugins import load_plugins
    from orchestrator.workload.contributions import measure_checkpoint

    load_plugins(plugins or [])
    result = measure_checkpoint(checkpoint, data_root, epsilon=epsilon, convention=convention, device=device)
    if as_json:
        print(json.dumps(result.to_dict(), indent=2))
        return
    _print_table(
        f"{result.dataset} train: {result.model} {result.loss}, epsilon {epsilon:g}, {convention} convention",
        result.statistics,
    )


def _print_table(title: str, statistics: "Mapping[str, Spread]") -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in ("counter", "mean", "std over batches"):
        table.add_column(heading, justify="left" if heading == "counter" else "right")
    for name, spread in statistics.items():
        table.add_row(name, f"{spread.mean:.4g}", f"{spread.std:.4g}")
    make_console().print(table)
