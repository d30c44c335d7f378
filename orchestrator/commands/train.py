"""``orchestrator train``: one training, shown on the terminal."""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

from orchestrator.commands.options import DataRoot, Device, Json, Output, Overrides, Plugins
from orchestrator.text.terminal import make_console, say, typed_program
from orchestrator.text.values import clock_text, count_text, values_text
from orchestrator.text.wording import metric_text, number_text
from orchestrator.workload.single import TrainingStart, directory_of, read_config, read_epochs
from orchestrator.workload.single import train as begin
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig
from trainables.errors import UserError
from trainables.metric_table import values_in


class TrainingInterruptedError(UserError):
    """A signal stopped the training; the command with ``--resume`` resumes the training."""

    exit_code = 130


def train(
    config: Annotated[
        Path | None, typer.Argument(help="YAML file of one training; by default all keys come from --set.")
    ] = None,
    overrides: Overrides = None,
    data_root: DataRoot = Path("data"),
    output: Output = Path("runs"),
    name: Annotated[
        str | None, typer.Option(help="Name of the training's folder under OUTPUT/train; by default of its settings.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the last good checkpoint.")] = False,
    device: Device = "auto",
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Train one model: orchestrator train --set dataset=flickr8k --set loss=nt_xent."""
    chosen = read_config(config, overrides or [], plugins or [])
    try:
        with _progress(chosen, quiet=as_json) as shown:
            result = begin(chosen, data_root=data_root, output=output, name=name, resume=resume, device=device, **shown)
    except KeyboardInterrupt:
        options = {"--data-root": [str(data_root)], "--output": [str(output)], "--name": [name] if name else []}
        own_device = [] if device == "auto" else [device]
        options |= {"--set": overrides or [], "--device": own_device, "--plugin": plugins or []}
        arguments = [part for option, values in options.items() for value in values for part in (option, value)]
        again = [typed_program(), "train", *([str(config)] if config else []), *arguments]
        raise TrainingInterruptedError(_how_to_resume(directory_of(chosen, output, name), again)) from None
    if as_json:
        print(json.dumps(result.to_dict(), indent=2))
        return
    best = f"{chosen.metric} {metric_text(chosen.metric, result.metrics[chosen.metric])}"
    chance = number_text(result.chance_rsum)
    say(f"best epoch {result.best_epoch} of {result.epochs}: {best}; the rsum of chance is {chance}")
    evaluation = [typed_program(), "evaluate", str(result.checkpoint), "--data-root", str(data_root)]
    say(f"evaluate it on test: {shlex.join(evaluation)}")


def _how_to_resume(directory: Path, again: Sequence[str]) -> str:
    """Return a text with a training's number of epochs and the command that resumes the training."""
    if not (directory / "config.yaml").exists():
        return f"{directory}: nothing was trained; start again with: {shlex.join(again)}"
    epochs = max(read_epochs(directory), default=0)
    return f"{directory}: {count_text(epochs, 'epoch')} trained; resume with: {shlex.join([*again, '--resume'])}"


class _Shown:
    """Prints a line for the start and for each epoch, on a terminal above a bar that moves with each step."""

    def __init__(self, config: TrialConfig, bar: Progress | None) -> None:
        self._config, self._steps, self._epochs, self._shown = config, 1, 0, 0.0
        self._not_replayed: str | None = None
        self._bar = bar or Progress(console=make_console(), disable=True)
        about = escape(f"{config.dataset} {config.model} {config.loss}")
        self._task = self._bar.add_task(about, total=config.training.total_epochs)

    def start(self, start: TrainingStart) -> None:
        """Print the lines about the start of the training."""
        self._steps = max(1, start.steps)
        say(*_start_lines(self._config, start))

    def step(self, step: int) -> None:
        """Move the bar inside an epoch, which may begin before the former is reported; the evaluation ends it."""
        self._shown = max(self._shown, self._epochs + step / (self._steps + 1))
        self._bar.update(self._task, completed=self._shown)

    def report(self, report: EpochReport) -> None:
        """Print the epoch's line."""
        self._epochs = report.epoch
        self._bar.update(self._task, completed=report.epoch)
        say(_line(self._config, report))
        if report.not_replayed is not None and report.not_replayed != self._not_replayed:
            say(f"trains without a CUDA graph: {report.not_replayed}")
        self._not_replayed = report.not_replayed


@contextmanager
def _progress(config: TrialConfig, *, quiet: bool) -> Iterator[dict[str, Any]]:
    """Give the functions that ``train`` calls at its start and as steps and epochs end; none if nothing is shown."""
    if quiet:
        yield {}
        return
    columns = (SpinnerColumn(), *Progress.get_default_columns()[:3], TimeElapsedColumn())
    with Progress(*columns, console=make_console()) if sys.stdout.isatty() else nullcontext() as bar:
        shown = _Shown(config, bar)
        yield {"on_start": shown.start, "on_step": shown.step, "on_report": shown.report}


def _start_lines(config: TrialConfig, start: TrainingStart) -> list[str]:
    """Return the lines about config, device and folder that a training prints at its start."""
    parameters = values_text(config.loss_parameters)
    loss = f"{config.loss} ({parameters})" if parameters else config.loss
    epochs, steps = count_text(config.training.total_epochs, "epoch"), count_text(start.steps, "step")
    return [
        f"training {config.model} with {loss} on {config.dataset}: {epochs} of {steps}, on {start.device}",
        *start.notes,
        f"files: {start.directory}",
    ]


def _line(config: TrialConfig, report: EpochReport) -> str:
    metrics = report.metrics
    left = (config.training.total_epochs - report.epoch) * metrics["time/epoch_seconds"]
    learned = values_in(metrics, "loss")
    return (
        f"epoch {report.epoch:3d}/{config.training.total_epochs}  "
        f"loss {number_text(metrics['train/loss'], decimals=4):>10}  "
        f"val rsum {number_text(metrics['val/rsum']):>6}{' *' if report.is_best else '  '}  "
        f"{values_text(learned)}{'  ' if learned else ''}"
        f"{number_text(metrics['time/epoch_seconds']):>5} s  ETA {clock_text(left)}"
    )
