"""``orchestrator train``: one training, watched from the terminal."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.commands.options import DataRoot, Device, Json, Output, Overrides, Plugins
from orchestrator.text.terminal import make_console, say
from orchestrator.text.values import values_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainables.config import TrialConfig
    from trainables.reports import EpochReport


def train(
    config: Annotated[Path | None, typer.Argument(help="YAML of one training; left out, all comes from --set.")] = None,
    overrides: Overrides = None,
    data_root: DataRoot = Path("data"),
    output: Output = Path("runs"),
    name: Annotated[str | None, typer.Option(help="Folder under OUTPUT/train.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last good checkpoint.")] = False,
    device: Device = "auto",
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Train one model: [bold]orchestrator train --set dataset=flickr8k --set loss=nt_xent[/bold]."""
    from orchestrator.workload.begin import read_config
    from orchestrator.workload.begin import train as begin

    chosen = read_config(config, overrides or [], plugins or [])
    with _progress(chosen, quiet=as_json) as on_report:
        result = begin(
            chosen,
            data_root=data_root,
            output=output,
            name=name,
            resume=resume,
            device=device,
            on_report=on_report,
        )
    if as_json:
        print(json.dumps(result.to_dict(), indent=2))
        return
    best = f"{chosen.metric} {result.metrics[chosen.metric]:.2f}"
    say(f"best epoch {result.best_epoch} of {result.epochs}: {best}; the rsum of chance is {result.chance_rsum:.1f}")
    say(f"evaluate it on test: orchestrator evaluate {result.checkpoint} --data-root {data_root}")


@contextmanager
def _progress(config: "TrialConfig", *, quiet: bool) -> "Iterator[Callable[[EpochReport], None]]":
    """Show epochs as they end: a bar below their lines on a terminal, plain lines elsewhere."""
    if quiet:
        yield lambda report: None
    elif sys.stdout.isatty():
        yield from _bar(config)
    else:
        yield lambda report: say(_line(config, report))


def _bar(config: "TrialConfig") -> "Iterator[Callable[[EpochReport], None]]":
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    total = config.training.total_epochs
    with Progress(
        SpinnerColumn(), *Progress.get_default_columns()[:2], TimeElapsedColumn(), console=make_console()
    ) as progress:
        task = progress.add_task(escape(f"{config.dataset} {config.model} {config.loss}"), total=total)

        def show(report: "EpochReport") -> None:
            progress.console.print(_line(config, report), highlight=False)
            progress.update(task, completed=report.epoch)

        yield show


def _line(config: "TrialConfig", report: "EpochReport") -> str:
    metrics = report.metrics
    left = (config.training.total_epochs - report.epoch) * metrics["time/epoch_seconds"]
    learned = {name.removeprefix("loss/"): value for name, value in metrics.items() if name.startswith("loss/")}
    return (
        f"epoch {report.epoch:3d}/{config.training.total_epochs}  loss {metrics['train/loss']:10.4f}  "
        f"val rsum {metrics['val/rsum']:6.1f}{' *' if report.is_best else '  '}  "
        f"{values_text(learned)}{'  ' if learned else ''}"
        f"{metrics['time/epoch_seconds']:5.1f} s  ETA {time.strftime('%H:%M:%S', time.gmtime(left))}"
    )
