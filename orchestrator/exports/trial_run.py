"""A trial for programs that call a training a run: TensorBoard, Weights & Biases."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial
from orchestrator.results.confirmed import metrics_of

TEST = "test/"
BEST = "best/"
"""Before the name of a metric at the epoch with the highest value of the study's metric."""


@dataclass(frozen=True)
class TrialRun:
    """A trial with its settings and numbers as plain values.

    Attributes:
        trial: As the journal has it.
        settings: Dataset, model, loss, stage and state, then what was searched; numbers, truth values and words.
        best: Metrics at the best epoch as ``best/NAME``, and those on the test split as ``test/NAME``.
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
    """Yield the trials of an experiment, those of its confirmation too, in the order of the journal."""
    for trial in history.trials.values():
        stands = {"stage": str(trial.stage), "state": history.standing(trial)}
        searched = {name: _plain(value) for name, value in trial.parameters.items() if name != "loss"}
        best = {
            name if name.startswith(TEST) else f"{BEST}{name}": value
            for name, value in metrics_of(trial, history).items()
        }
        yield TrialRun(trial, {**trial.combination, **stands, **searched}, best)


def _plain(value: Any) -> float | bool | str:
    """Return a value that every program can show; coefficients, and no value, become text."""
    return value if isinstance(value, bool | int | float | str) else str(value)
