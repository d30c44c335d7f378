"""Several trials trained at once in one process; trials of one shape are trained as one stacked model.

A trial on features uses a small part of a GPU, and much of its time is spent on launching kernels. K trials whose
models have equal shapes take one forward and one backward pass over parameters of shape (K, ...). Otherwise each trial
is independent: each trial has its own loss, optimiser, schedule, clipping, metrics and checkpoints, and can diverge,
end or be replaced while the other trials continue. Up to rounding, the result of a trial is the result of training it
alone, because its batches and draws depend only on its own seed and epoch.

Trials may be at different epochs; trials with equal seed and epoch have equal batches, which are gathered once. Trials
that cannot be stacked are trained one after another.
"""

import time
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.devices import choose_device
from trainables.errors import DivergedError, PluginError
from trainables.fused.stacked_epoch import stack_shape, train_stacked
from trainables.plugins.blame import Blaming
from trainables.reports import EpochReport, Outcome
from trainables.trial import Trial

T = TypeVar("T")


class FusedTrials:
    """The trials of one process, each with a name that the caller chooses.

    Args:
        device: Name of the device, see ``trainables.devices``.
    """

    def __init__(self, device: str = "auto") -> None:
        self._device = choose_device(device)
        self._trials: dict[str, Trial] = {}

    def add(self, name: str, config: TrialConfig, data: Dataset, resume: Path | None = None) -> EpochReport | None:
        """Add a trial; return the report of its checkpoint if the trial is resumed, see ``run_trial``.

        Raises:
            CheckpointError: If ``resume`` is damaged or belongs to another trial.
        """
        neighbours = (other for other in self._trials.values() if other.data is data and not other.model.crop_size)
        beside = None if config.training.finetune else next(neighbours, None)
        trial = Trial(config, data, self._device, is_new=resume is None, beside=beside)
        report = None if resume is None else trial.restore(resume)
        self._trials[name] = trial
        return report

    def remove(self, name: str) -> None:
        """Remove a trial if it has not been removed yet."""
        self._trials.pop(name, None)

    def run_epoch(self, names: Iterable[str]) -> dict[str, Outcome]:
        """Train some trials for their next epoch; a trial that diverges, or whose plug-in fails, is removed.

        Returns:
            Each trial's report, or the error that ended it; ``time/train_seconds`` is its share of the common time.
        """
        shapes: dict[Hashable, dict[str, Trial]] = {}
        for name in names:
            trial = self._trials[name]
            trial.begin_epoch()
            shapes.setdefault(stack_shape(trial), {})[name] = trial
        outcomes: dict[str, Outcome] = {}
        for trials in shapes.values():
            outcomes |= zip(trials, run_together(list(trials.values())), strict=True)
        for name, outcome in outcomes.items():
            if isinstance(outcome, Exception):
                self.remove(name)
        return outcomes


def run_together(trials: list[Trial]) -> list[Outcome]:
    """Train and evaluate trials of one shape for the epoch that they have begun."""
    started = time.monotonic()
    losses = train_stacked(trials) if len(trials) > 1 else [_or_error(trials[0].train)]
    each = (time.monotonic() - started) / len(trials)
    return [
        loss if isinstance(loss, Exception) else _or_error(partial(trial.end_epoch, loss, each))
        for trial, loss in zip(trials, losses, strict=True)
    ]


def _or_error(work: Callable[[], T]) -> T | DivergedError | PluginError:
    try:
        with Blaming():
            return work()
    except (DivergedError, PluginError) as error:
        return error
