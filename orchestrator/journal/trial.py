"""One trial according to the journal: its state, its epochs, and the parameters that name it to people."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Any

from orchestrator.journal.epochs import Epochs
from trainables.config import TrialConfig
from trainables.model_parameters import ZERO_SHOT, published_parameters
from trainables.parameter_values import LEARNED

SHARE_OF_BEST = 0.95
"""Share of its best value from which a trial counts as nearly there, see ``Trial.epochs_to_95``."""


class TrialState(StrEnum):
    """State of a trial; all states but ``RUNNING`` are final."""

    RUNNING = "running"
    """Created and not ended: the trial trains, waits, or is to be resumed."""
    FINISHED = "finished"
    """Trained to its end: for all its epochs, or until its ``training.patience`` was over."""
    STOPPED_EARLY = "stopped_early"
    """Ended by the scheduler because other trials of its study were better at the same epoch."""
    DIVERGED = "diverged"
    """A loss or a metric stopped being finite. Never wins."""
    FAILED = "failed"
    """Raised an error again after every retry. Never wins."""


class Stage(StrEnum):
    """Purpose of a trial."""

    SEARCH = "search"
    """Suggested by a sampler; may be stopped early."""
    CONFIRM = "confirm"
    """One of the best of a search, trained again with a fresh seed."""
    REGRESS = "regress"
    """A baseline that a suite trains again to detect regressions."""


@dataclass(slots=True)
class Trial:
    """One trial according to the journal.

    Attributes:
        id: ``<study>-<number>`` in a search; restarts do not change the id.
        study, number, params, config, stage, candidate, search: See ``TrialCreated``.
        epochs: Epoch, from 1 -> metrics; each epoch once.
        times, created, ended: The dates at which each epoch was recorded, the trial was created, and its state became
            final (``None`` before), in seconds since the Unix epoch.
        created_after, ended_after: The experiment's running time in seconds at the same moments, see ``Spending``.
            Dates are for people and for MLflow; durations and orders come from the running time.
        retries, memory_retries: How often the trial was started again after a failure, and after lack of memory.
        setbacks: How often since its newest epoch, not counting starts after lack of memory or the loss of a machine.
        error: Why the trial diverged or failed.
        damage: A line about each checkpoint that was skipped as damaged.
        not_replayed: Why no CUDA graph replays its steps, although ``training.graph`` asks for one.
        environments: Environments of the starts that trained the trial, oldest first, see ``ExperimentStarted``.
    """

    id: str
    study: str
    number: int
    params: Mapping[str, Any]
    config: TrialConfig
    created: float
    stage: Stage = Stage.SEARCH
    candidate: str | None = None
    search: int = 1
    state: TrialState = TrialState.RUNNING
    epochs: Epochs = field(default_factory=Epochs)
    times: dict[int, float] = field(default_factory=dict)
    ended: float | None = None
    created_after: float = 0.0
    ended_after: float | None = None
    retries: int = 0
    setbacks: int = 0
    memory_retries: int = 0
    error: str | None = None
    damage: tuple[str, ...] = ()
    not_replayed: str | None = None
    environments: tuple[Mapping[str, Any], ...] = ()
    _best: tuple[int, int | None] = field(default=(0, None), init=False, repr=False, compare=False)
    _trained: tuple[int, float | None] = field(default=(0, None), init=False, repr=False, compare=False)

    @property
    def is_zero_shot(self) -> bool:
        """Whether a pretrained model is evaluated as it was published: the trial has no point of the search space."""
        published = published_parameters(self.config.model)
        return bool(published) and self.params == {f"model.{name}": value for name, value in published.items()}

    @property
    def compared_loss(self) -> str:
        """The loss as which the trial is compared: that of a model that is not trained has no effect."""
        return ZERO_SHOT if self.is_zero_shot else self.config.loss

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings that distinguish the trial from others of its experiment, wherever its name is shown.

        The loss comes first, where the search chose the loss. Searched names that the loss does not have follow, such
        as a polynomial's scale, margin and shape. Then come the loss's hyper-parameters, such as a polynomial's
        coefficients. The searched settings of ``training`` and of the model come last, by the names of the search
        space, e.g. ``training.learning_rate`` and ``model.radius``.
        """
        sections = {"training": vars(self.config.training), "model": self.config.model_parameters}
        settings = {f"{section}.{name}": value for section, of in sections.items() for name, value in of.items()}
        beside = {name: settings[name] for name in self.params if name in settings}
        if self.is_zero_shot:
            # Its loss has no effect.
            return beside
        chosen = {"loss": self.config.loss} if "loss" in self.params else {}
        # Where the search chose the loss, the names of its parameters begin with the name of the loss.
        suggested = {name.removeprefix(f"{self.config.loss}."): value for name, value in self.params.items()}
        known = {"loss", *settings, *self.config.loss_parameters}
        further = {name: value for name, value in suggested.items() if name not in known}
        return {**chosen, **further, **self.config.loss_parameters, **beside}

    @property
    def parameters_at_best(self) -> dict[str, Any]:
        """``parameters`` with the learned values of the best epoch; before any epoch, of the start."""
        return self._with_learned_values(self.parameters)

    @property
    def loss_parameters_at_best(self) -> dict[str, Any]:
        """The loss's hyper-parameters at the best epoch; before any epoch, those of the start.

        A learned hyper-parameter has the value that it had reached; before the first epoch it is left out.
        """
        parameters = self._with_learned_values(self.config.loss_parameters)
        return {name: value for name, value in parameters.items() if value != LEARNED}

    def _with_learned_values(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the word for a learned hyper-parameter by its value at the best epoch."""
        return {
            name: self.at_best.get(f"loss/{name}", value) if value == LEARNED else value
            for name, value in parameters.items()
        }

    @property
    def combination(self) -> dict[str, str]:
        """The trial's ``dataset``, ``model`` and ``loss``."""
        return {"dataset": self.config.dataset, "model": self.config.model, "loss": self.config.loss}

    @property
    def has_ended(self) -> bool:
        """Whether the trial's state is final."""
        return self.state is not TrialState.RUNNING

    @property
    def last_epoch(self) -> int:
        """The newest recorded epoch; 0 before the first."""
        return max(self.epochs, default=0)

    @property
    def total_epochs(self) -> int:
        """How many epochs a trial that finishes has, or the most that it can have with a patience."""
        return self.config.training.total_epochs

    @property
    def metric(self) -> str:
        """Name of the maximised metric."""
        return self.config.metric

    @property
    def best_epoch(self) -> int | None:
        """The first epoch with the highest metric, or ``None`` before the first epoch."""
        # Kept, because a page asks for the best epoch of each trial dozens of times, and epochs are only added.
        if self._best[0] != len(self.epochs):
            values = self.epochs.values_of(self.metric)
            best = max(values, key=lambda epoch: (values[epoch], -epoch), default=None)
            self._best = len(self.epochs), best
        return self._best[1]

    @property
    def at_best(self) -> Mapping[str, float]:
        """The metrics of the best epoch; empty before the first epoch."""
        best = self.best_epoch
        return {} if best is None else self.epochs[best]

    @property
    def best_value(self) -> float | None:
        """The highest metric so far, the value that sampler, scheduler and verdict all use."""
        return self.at_best.get(self.metric)

    def epochs_to_95(self, until: int | None = None) -> int | None:
        """The first epoch whose metric is at least 95 % of the best of the epochs ``until`` one, by default of all.

        Returns:
            ``None`` before the first epoch. The best may still rise until a trial ends, and this number with it.
        """
        every = self.epochs.values_of(self.metric)
        values = {epoch: value for epoch, value in every.items() if epoch <= (until or epoch)}
        least = SHARE_OF_BEST * max(values.values(), default=0.0)
        return min((epoch for epoch, value in values.items() if value >= least), default=None)

    @property
    def seconds(self) -> float:
        """How long the trial trained: the sum of its epochs' times, or, without such times, from creation to end."""
        # Kept like the best epoch.
        if self._trained[0] != len(self.epochs):
            known = self.epochs.values_of("time/epoch_seconds").values()
            self._trained = len(self.epochs), float(sum(known)) if known else None
        if self._trained[1] is not None:
            return self._trained[1]
        return 0.0 if self.ended_after is None else self.ended_after - self.created_after

    def running_best(self) -> dict[int, float]:
        """Return epoch -> best value so far, in the order of the epochs."""
        values = dict(sorted(self.epochs.values_of(self.metric).items()))
        return dict(zip(values, accumulate(values.values(), max), strict=True))


@dataclass(frozen=True)
class WarmTrial:
    """A trial of another experiment that a sampler starts from, with params by the names of the study's space.

    The values are those of the objectives, in their order; empty where the trial did not finish.
    """

    params: Mapping[str, Any]
    state: TrialState
    values: tuple[float, ...]


@dataclass(frozen=True)
class PriorPoint:
    """A setting, by the names of the study's space, that a study tries before its sampler suggests any.

    It was the best setting of the study of another dataset, its source.
    """

    params: Mapping[str, Any]
    source: str


def best_first(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that have a value, the highest value first; of equal trials the earlier trial comes first."""
    rated = [(value, trial) for trial in trials if (value := trial.best_value) is not None]
    return [trial for _, trial in sorted(rated, key=lambda pair: (-pair[0], pair[1].study, pair[1].number))]
