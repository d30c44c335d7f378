"""A trial as a run, for TensorBoard and Weights & Biases."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial
from orchestrator.results.confirmed import metrics_of

TEST = "test/"
BEST = "best/"
"""Prefix of a metric at the epoch with the highest value of the study's metric."""


@dataclass(frozen=True)
class TrialRun:
    """A trial with its settings and numbers as plain values.

    Attributes:
        trial: The trial in the journal.
        settings: Dataset, model, loss, stage and state, then the searched parameters; numbers, truth values and words.
        best: Metrics at the best epoch as ``best/NAME``, and metrics on the test split as ``test/NAME``.
    """

    trial: Trial
    settings: Mapping[str, float | bool | str]
    best: Mapping[str, float]

    @property
    def group(self) -> str:
        """The name that all trainings of one setting share; trainings of a confirmation have a name of their own."""
        name = self.trial.candidate or self.trial.id
        return f"{name} confirmed" if self.trial.stage is Stage.CONFIRM else name

    @property
    def moment(self) -> float:
        """The date of the newest epoch, or of the trial's creation, in seconds since the Unix epoch."""
        return max(self.trial.times.values(), default=self.trial.created)


def trial_runs(history: History) -> Iterator[TrialRun]:
    """Yield the trials of an experiment and of its confirmation, in the order of the journal."""
    for trial in history.trials.values():
        stands = {"stage": str(trial.stage), "state": history.standing(trial)}
        searched = {name: _plain(value) for name, value in trial.parameters.items() if name != "loss"}
        best = {
            name if name.startswith(TEST) else f"{BEST}{name}": value
            for name, value in metrics_of(trial, history).items()
        }
        yield TrialRun(trial, {**trial.combination, **stands, **searched}, best)


def _plain(value: Any) -> float | bool | str:
    """Return a value that every program can show; coefficients and ``None`` become text."""
    return value if isinstance(value, bool | int | float | str) else str(value)
