"""One trial as the journal tells of it: its state, its epochs, and what names it to a person."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trainables.config import LEARNED, Change, TrialConfig


class TrialState(StrEnum):
    """How a trial stands; all but ``RUNNING`` are final."""

    RUNNING = "running"
    """Created and not ended: training, waiting, or to be resumed."""
    FINISHED = "finished"
    """Trained for all its epochs."""
    STOPPED_EARLY = "stopped_early"
    """Ended by the scheduler because others of its study were better at the same epoch."""
    DIVERGED = "diverged"
    """A loss or a metric stopped being finite. Never wins."""
    FAILED = "failed"
    """Raised an error, again after every retry. Never wins."""


class Stage(StrEnum):
    """What a trial is for."""

    SEARCH = "search"
    """Suggested by a sampler; may be stopped early."""
    CONFIRM = "confirm"
    """One of the best of a search, trained again with a fresh seed."""
    REGRESS = "regress"
    """A baseline that is watched."""


@dataclass(frozen=True)
class Move:
    """A trial's change to the model of another one, and to hyper-parameters near that one's.

    Attributes:
        epoch: After which it moved.
        source: The trial whose model it took over as it was then.
        former: Its own config until then.
    """

    epoch: int
    source: str
    former: TrialConfig


def _changed(change: Change) -> dict[str, Any]:
    """Return the hyper-parameters that a change of the schedule sets."""
    return {**change.loss_parameters, **_prefixed("training", change.training)}


def _prefixed(section: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings under the names that the search space has for them."""
    return {f"{section}.{name}": value for name, value in settings.items()}


@dataclass(slots=True)
class Trial:
    """One trial, as far as the journal goes.

    Attributes:
        id: ``<study>-<number>`` in a search; the same across restarts.
        study: Name of the (dataset, model, loss) cell.
        number: Position in its study, from 0.
        params: What the searcher suggested, by the names of the search space; of a trial that moved, the newest.
        config: What it is trained with; of a trial that moved, with the schedule that its model has.
        state: How it stands.
        epochs: Metrics by epoch, from 1, of the model that it has; each epoch once.
        times: The date at which each epoch was recorded, in seconds since the Unix epoch.
        created: The date at which the trial was created, in seconds since the Unix epoch.
        stage: What it is for.
        candidate: The first trial of the search with the same setting, which this one repeats with another seed.
        ended: The date at which the state became final; ``None`` before.
        created_after: The experiment's running time in seconds when the trial was created, see ``running_time``.
            Dates are for people and for MLflow; durations and orders come from the running time.
        ended_after: The running time when the state became final; ``None`` before.
        retries: How often it was started again after a failure.
        setbacks: The same since its newest epoch, those for want of memory or of a machine left out.
        memory_retries: How often it was started again for want of memory.
        error: What ended it, where it diverged or failed.
        moves: When it took over another's model, oldest first.
        abandoned: Metrics by epoch of models that it had before.
        damage: What was wrong with checkpoints of it that were passed over, a line each.
        environments: Those of the starts that trained it, oldest first, see ``environment.describe_environment``.
    """

    id: str
    study: str
    number: int
    params: Mapping[str, Any]
    config: TrialConfig
    created: float
    stage: Stage = Stage.SEARCH
    candidate: str | None = None
    state: TrialState = TrialState.RUNNING
    epochs: dict[int, Mapping[str, float]] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)
    ended: float | None = None
    created_after: float = 0.0
    ended_after: float | None = None
    retries: int = 0
    setbacks: int = 0
    memory_retries: int = 0
    error: str | None = None
    moves: tuple[Move, ...] = ()
    abandoned: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    damage: tuple[str, ...] = ()
    environments: tuple[Mapping[str, Any], ...] = ()
    _best: tuple[Mapping[int, Any], int, int | None] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def reported(self) -> dict[int, Mapping[str, float]]:
        """Metrics by epoch as the trial itself reported them, whatever model it had."""
        return {**self.epochs, **self.abandoned}

    def config_in(self, epoch: int) -> TrialConfig:
        """Return the config that the trial had when it trained an epoch."""
        return next((move.former for move in self.moves if epoch <= move.epoch), self.config)

    @property
    def parameters(self) -> dict[str, Any]:
        """What tells the trial from others of its experiment, wherever a person or a program reads its name.

        The loss where the search chose it; what was searched under names that the loss does not have, of a polynomial
        its scale, margin and shape; the loss's hyper-parameters, of a polynomial its coefficients; then the searched
        settings of ``training`` and of the model under the names of the search space, e.g. ``training.learning_rate``
        and ``model.radius``. ``temperature@5`` holds from epoch 5 on.
        """
        changes = {
            f"{name}@{change.epoch}": value
            for change in self.config.schedule
            for name, value in _changed(change).items()
        }
        return self._parameters_at_start() | changes

    @property
    def parameters_at_best(self) -> dict[str, Any]:
        """``parameters`` with the values of the best epoch, learned ones too; before the first, those of the start."""
        found = self._parameters_at_start()
        for change in self._changes_until_best():
            found |= _changed(change)
        return self._with_learned_values(found)

    @property
    def loss_parameters_at_best(self) -> dict[str, Any]:
        """The loss's hyper-parameters that were in force at the best epoch; before the first, those of the start.

        One that is learned has the value that it had reached; before the first epoch it is left out.
        """
        found = dict(self.config.loss_parameters)
        for change in self._changes_until_best():
            found |= change.loss_parameters
        return {name: value for name, value in self._with_learned_values(found).items() if value != LEARNED}

    def _with_learned_values(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Put the values that learned hyper-parameters had at the best epoch in the places of the word."""
        reached = self.epochs[self.best_epoch] if self.best_epoch is not None else {}
        return {
            name: reached.get(f"loss/{name}", value) if value == LEARNED else value
            for name, value in parameters.items()
        }

    def _parameters_at_start(self) -> dict[str, Any]:
        training, model = vars(self.config.training), self.config.model_parameters
        settings = {**_prefixed("training", training), **_prefixed("model", model)}
        beside = {name: settings[name] for name in self.params if name in settings}
        chosen = {"loss": self.config.loss} if "loss" in self.params else {}
        return {**chosen, **self._suggested(settings), **self.config.loss_parameters, **beside}

    def _suggested(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the sampler suggested under names that the config does not have.

        A trial that moved has none: its newest suggestion does not say what its first epochs were trained with.
        """
        if self.moves:
            return {}
        # Where the search chose the loss, the names of its parameters begin with the name of the loss.
        own = {name.removeprefix(f"{self.config.loss}."): value for name, value in self.params.items()}
        known = {"loss", *settings, *self.config.loss_parameters}
        return {name: value for name, value in own.items() if name not in known}

    def _changes_until_best(self) -> list[Change]:
        return [change for change in self.config.schedule if change.epoch <= (self.best_epoch or 1)]

    @property
    def combination(self) -> dict[str, str]:
        """Its dataset, model and loss by the names of these columns."""
        return {"dataset": self.config.dataset, "model": self.config.model, "loss": self.config.loss}

    @property
    def has_ended(self) -> bool:
        """Whether its state is final."""
        return self.state is not TrialState.RUNNING

    @property
    def last_epoch(self) -> int:
        """The newest epoch recorded; 0 before the first."""
        return max(self.epochs, default=0)

    @property
    def total_epochs(self) -> int:
        """How many epochs it has when it finishes."""
        return self.config.training.total_epochs

    @property
    def metric(self) -> str:
        """Name of the metric that is maximised."""
        return self.config.metric

    @property
    def best_epoch(self) -> int | None:
        """The epoch with the highest metric (the first of equals), or ``None`` before the first."""
        # Asked dozens of times of every trial for a page. Epochs are only added, or replaced all at once by a move.
        if self._best is None or self._best[0] is not self.epochs or self._best[1] != len(self.epochs):
            epochs, metric = self.epochs, self.metric
            best = max(epochs, key=lambda epoch: (epochs[epoch][metric], -epoch), default=None)
            self._best = epochs, len(epochs), best
        return self._best[2]

    @property
    def best_value(self) -> float | None:
        """The highest metric so far: the one value that sampler, scheduler and verdict all use."""
        epoch = self.best_epoch
        return None if epoch is None else self.epochs[epoch][self.metric]

    def running_best(self) -> dict[int, float]:
        """Return the best value so far at each epoch, in the order of the epochs."""
        best = float("-inf")
        return {epoch: (best := max(best, self.epochs[epoch][self.metric])) for epoch in sorted(self.epochs)}


@dataclass(frozen=True)
class WarmTrial:
    """A trial of another experiment that a sampler starts from.

    Attributes:
        params: By the names of the study's space.
        state: How it ended.
        values: Of the objectives, in their order; empty where it did not finish.
    """

    params: Mapping[str, Any]
    state: TrialState
    values: tuple[float, ...]


def seconds_of(trial: Trial) -> float:
    """Return how long a trial trained: its epochs' own times, or, where they have none, from creation to end."""
    epochs = [metrics.get("time/epoch_seconds") for metrics in trial.reported.values()]
    known = [seconds for seconds in epochs if seconds is not None]
    if known:
        return float(sum(known))
    return 0.0 if trial.ended_after is None else trial.ended_after - trial.created_after


def best_first(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that have a value, the highest first, of equals the earlier first."""
    rated = [(trial.best_value, trial) for trial in trials if trial.best_value is not None]
    return [trial for _, trial in sorted(rated, key=lambda pair: (-pair[0], pair[1].study, pair[1].number))]
