"""What the journal says about the trials: a pure fold over its records.

Everybody who needs to know how an experiment stands (searcher, scheduler, tracking, display, summary) reads it here,
so a fresh process that reads the journal knows what the process that wrote it knew.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orchestrator.journal.actors import Actors
from orchestrator.journal.journal import Record
from orchestrator.journal.running_time import RunningTime
from trainables.config import TrainingConfig


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


HALF_TRAINED, NOT_BEGUN = "half_trained", "not_begun"
"""What a trial is called that has not ended and that nobody trains now: it has epochs, or it has none."""


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
    former: Mapping[str, Any]


@dataclass(slots=True)
class Trial:
    """One trial, as far as the journal goes.

    Attributes:
        id: ``<study>-<number>`` in a search; the same across restarts.
        study: Name of the (dataset, model, loss) cell.
        number: Position in its study, from 0.
        params: What the searcher suggested, by the names of the search space; of a trial that moved, the newest.
        config: The whole ``TrialConfig`` as plain values; of a trial that moved, with the schedule that its model has.
        state: How it stands.
        epochs: Metrics by epoch, from 1, of the model that it has; each epoch once.
        times: The date at which each epoch was recorded, in seconds since the Unix epoch.
        created: The date at which the trial was created, in seconds since the Unix epoch.
        stage: What it is for.
        candidate: The trial of the search that it repeats with another seed.
        ended: The date at which the state became final; ``None`` before.
        created_after: The experiment's running time in seconds when the trial was created, see ``running_time``.
            Dates are for people and for MLflow; durations and orders come from the running time.
        ended_after: The running time when the state became final; ``None`` before.
        retries: How often it was started again after a failure.
        setbacks: The same since its newest epoch, those for want of memory left out.
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
    config: Mapping[str, Any]
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

    @property
    def reported(self) -> dict[int, Mapping[str, float]]:
        """Metrics by epoch as the trial itself reported them, whatever model it had."""
        return {**self.epochs, **self.abandoned}

    def config_in(self, epoch: int) -> Mapping[str, Any]:
        """Return the config that the trial had when it trained an epoch."""
        return next((move.former for move in self.moves if epoch <= move.epoch), self.config)

    @property
    def parameters(self) -> dict[str, Any]:
        """What tells the trial from others of its experiment, wherever a person or a program reads its name.

        The loss where the search chose it, the loss's hyper-parameters (of a polynomial its coefficients, though its
        slopes were searched), then the searched settings of ``training`` and of the model under the names of the search
        space, e.g. ``training.learning_rate`` and ``model.radius``. ``temperature@5`` holds from epoch 5 on.
        """
        changes = {
            f"{name}@{change['epoch']}": value
            for change in self.config.get("schedule", ())
            for name, value in _changed(change).items()
        }
        return self._parameters_at_start() | changes

    @property
    def parameters_at_best(self) -> dict[str, Any]:
        """``parameters`` with the values of the best epoch; before the first epoch, those of the start."""
        found = self._parameters_at_start()
        for change in self._changes_until_best():
            found |= _changed(change)
        return found

    @property
    def loss_parameters_at_best(self) -> dict[str, Any]:
        """The loss's hyper-parameters that were in force at the best epoch; before the first, those of the start."""
        found = dict(self.config["loss_parameters"])
        for change in self._changes_until_best():
            found |= change["loss_parameters"]
        return found

    def _parameters_at_start(self) -> dict[str, Any]:
        training, model = self.config.get("training", {}), self.config.get("model_parameters", {})
        settings = {**_prefixed("training", training), **_prefixed("model", model)}
        beside = {name: settings[name] for name in self.params if name in settings}
        chosen = {"loss": self.config["loss"]} if "loss" in self.params else {}
        return {**chosen, **self.config["loss_parameters"], **beside}

    def _changes_until_best(self) -> list[Mapping[str, Any]]:
        return [one for one in self.config.get("schedule", ()) if one["epoch"] <= (self.best_epoch or 1)]

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
        return TrainingConfig(**self.config["training"]).total_epochs

    @property
    def metric(self) -> str:
        """Name of the metric that is maximised."""
        return str(self.config["metric"])

    @property
    def best_epoch(self) -> int | None:
        """The epoch with the highest metric (the first of equals), or ``None`` before the first."""
        return max(self.epochs, key=lambda epoch: (self.epochs[epoch][self.metric], -epoch), default=None)

    @property
    def best_value(self) -> float | None:
        """The highest metric so far: the one value that sampler, scheduler and verdict all use."""
        epoch = self.best_epoch
        return None if epoch is None else self.epochs[epoch][self.metric]

    def running_best(self) -> dict[int, float]:
        """Return the best value so far at each epoch, in the order of the epochs."""
        best = float("-inf")
        return {epoch: (best := max(best, self.epochs[epoch][self.metric])) for epoch in sorted(self.epochs)}


def _changed(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyper-parameters that a change of the schedule sets."""
    return {**change["loss_parameters"], **_prefixed("training", change["training"])}


def _prefixed(section: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings under the names that the search space has for them."""
    return {f"{section}.{name}": value for name, value in settings.items()}


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


@dataclass
class History:
    """All that the journal says.

    Attributes:
        experiment: The resolved experiment of the newest start; empty before the first.
        data: Digest of each dataset by name.
        environment: Versions, revision and machine of the newest start.
        storage: Where the newest start keeps checkpoints; ``None`` is the experiment's directory.
        options: Of the command line of the newest start, without their dashes: what a command that goes on needs.
        footprints: Study -> what a trial of it was measured to take of a GPU, see ``gpu_share.Footprint``, with the
            resources and on the machine of the newest start.
        fusions: The same, how many of its trials train fastest at once, see ``trainables.cost.fused_pace``.
        trials: By id, in the order in which they were created.
        warm: Study -> trials of other experiments that it starts from.
        warmed_by: Experiment -> how many of its trials those are.
        tests_opened: Dataset -> trials for whose sake its test split was opened, in order.
        test_openings: Dataset -> how often it was opened.
        tests: Trial -> its metrics on the test split.
        outcome: How the newest start ended: ``finished``, ``budget_spent``, ``interrupted``, or ``None`` while it runs
            or if it was killed.
        ended_by: What ended it: ``trials`` (the last has ended), ``plateau``, ``target``, ``hours``, ``gpu_hours``,
            ``signal``, or ``None``.
        concurrency: Trials at a time after memory was short; ``None`` if it never was with these resources here.
        halvings: How often that was halved.
        moved: Study -> the epoch after which its population moved last.
        actors: Of the newest start.
        running_time: Of the experiment, over all its starts.
    """

    experiment: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    storage: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    footprints: dict[str, Mapping[str, int]] = field(default_factory=dict)
    fusions: dict[str, int] = field(default_factory=dict)
    trials: dict[str, Trial] = field(default_factory=dict)
    warm: dict[str, list[WarmTrial]] = field(default_factory=dict)
    warmed_by: dict[str, int] = field(default_factory=dict)
    tests_opened: dict[str, list[str]] = field(default_factory=dict)
    test_openings: dict[str, int] = field(default_factory=dict)
    tests: dict[str, Mapping[str, float]] = field(default_factory=dict)
    outcome: str | None = None
    ended_by: str | None = None
    concurrency: int | None = None
    halvings: int = 0
    moved: dict[str, int] = field(default_factory=dict)
    actors: Actors = field(default_factory=Actors)
    running_time: RunningTime = field(default_factory=RunningTime)

    @property
    def finished(self) -> bool:
        """Whether the newest start came to its end."""
        return self.outcome == "finished"

    @classmethod
    def of(cls, records: Iterable[Record]) -> "History":
        """Fold records, oldest first."""
        history = cls()
        for record in records:
            history.apply(record)
        return history

    def apply(self, record: Record) -> None:
        """Take one record into account; kinds that say nothing about the standing are passed over."""
        self.running_time.apply(record)
        self.actors.apply(record)
        handler = _HANDLERS.get(record["kind"])
        if handler is not None:
            handler(self, record)

    def study(self, name: str) -> list[Trial]:
        """Return the trials of a study's search in the order of their numbers."""
        return [trial for trial in self.stage(Stage.SEARCH) if trial.study == name]

    def stage(self, stage: Stage) -> list[Trial]:
        """Return the trials of a stage, oldest first."""
        return [trial for trial in self.trials.values() if trial.stage is stage]

    def running(self) -> list[Trial]:
        """Return the trials that have not ended, of any stage, oldest first."""
        return [trial for trial in self.trials.values() if not trial.has_ended]

    def standing(self, trial: Trial) -> str:
        """Return how a trial stands now, in the same word for people and programs.

        Returns:
            Its state; but for one that waits for room, for others or for the next start ``HALF_TRAINED`` or
            ``NOT_BEGUN``, because only what has an actor is running.
        """
        if trial.has_ended or trial.id in self.actors.gpus:
            return str(trial.state)
        return HALF_TRAINED if trial.epochs else NOT_BEGUN

    def count(self, stage: Stage, total: int) -> dict[str, int]:
        """Return how many of the ``total`` trials of a stage stand how; one not created yet has not begun."""
        trials = self.stage(stage)
        counts = Counter(map(self.standing, trials))
        counts[NOT_BEGUN] += max(0, total - len(trials))
        return {standing: number for standing, number in counts.items() if number}


def _start(history: History, record: Record) -> None:
    if _runs_on(record["experiment"], record["environment"]) != _runs_on(history.experiment, history.environment):
        # What was measured, or showed, with other resources or on another machine.
        history.concurrency, history.halvings = None, 0
        history.fusions, history.footprints = {}, {}
    history.experiment, history.data, history.environment = record["experiment"], record["data"], record["environment"]
    history.storage, history.options = record.get("storage"), record.get("options", {})
    history.outcome = history.ended_by = None


def _runs_on(experiment: Mapping[str, Any], environment: Mapping[str, Any]) -> tuple[Any, Any]:
    return experiment.get("resources"), environment.get("machine")


def _stop(history: History, record: Record) -> None:
    history.outcome, history.ended_by = record["outcome"], record.get("ended_by")


def _create(history: History, record: Record) -> None:
    fields = {name: record[name] for name in ("study", "number", "params", "config", "candidate")}
    newest = next(reversed(history.trials.values()), None)
    training = record["config"].get("training")
    if training is not None and newest is not None and newest.config.get("training") == training:
        # Most trials are trained alike: of thousands, equal settings are kept once.
        fields["config"] = {**record["config"], "training": newest.config["training"]}
    stage = Stage(record["stage"])
    history.trials[record["trial"]] = Trial(
        id=record["trial"],
        created=record["time"],
        created_after=history.running_time.seconds,
        stage=stage,
        **fields,
    )


def _epoch(history: History, record: Record) -> None:
    trial = history.trials[record["trial"]]
    trial.epochs[record["epoch"]] = record["metrics"]
    trial.times[record["epoch"]] = record["time"]
    trial.setbacks = 0
    if not trial.environments or trial.environments[-1] is not history.environment:
        trial.environments = (*trial.environments, history.environment)
    _set_state(history, trial, record)


def _end(history: History, record: Record) -> None:
    trial = history.trials[record["trial"]]
    trial.error = record["error"]
    _set_state(history, trial, record)


def _set_state(history: History, trial: Trial, record: Record) -> None:
    trial.state = TrialState(record["state"])
    trial.ended = record["time"] if trial.has_ended else None
    trial.ended_after = history.running_time.seconds if trial.has_ended else None


def _move(history: History, record: Record) -> None:
    history.moved[record["study"]] = record["epoch"]
    for move in record["moves"]:
        trial, source = history.trials[move["trial"]], history.trials[move["from"]]
        trial.abandoned = trial.reported
        trial.epochs = {epoch: source.epochs[epoch] for epoch in sorted(source.epochs) if epoch <= record["epoch"]}
        trial.moves = (*trial.moves, Move(record["epoch"], source.id, trial.config))
        trial.params, trial.config = move["params"], move["config"]


def _note_damage(history: History, record: Record) -> None:
    trial = history.trials[record["trial"]]
    trial.damage = (*trial.damage, record["damage"])


def _retry(history: History, record: Record) -> None:
    trial = history.trials[record["trial"]]
    trial.retries += 1
    if record.get("cause") == "memory":
        trial.memory_retries += 1
    else:
        trial.setbacks += 1


def _run_fewer(history: History, record: Record) -> None:
    history.concurrency = record["trials"]
    history.halvings += 1


def _warm(history: History, record: Record) -> None:
    for study, trials in record["studies"].items():
        found = [WarmTrial(one["params"], TrialState(one["state"]), tuple(one["values"])) for one in trials]
        history.warm.setdefault(study, []).extend(found)
    history.warmed_by[record["source"]] = sum(map(len, record["studies"].values()))


def _open_test(history: History, record: Record) -> None:
    dataset = record["dataset"]
    history.tests_opened.setdefault(dataset, []).extend(record["trials"])
    history.test_openings[dataset] = history.test_openings.get(dataset, 0) + 1


def _test(history: History, record: Record) -> None:
    history.tests[record["trial"]] = record["metrics"]


def _measure(history: History, record: Record) -> None:
    history.footprints[record["study"]] = {"peak": record["peak"], "room": record["room"]}


def _measure_fusion(history: History, record: Record) -> None:
    history.fusions[record["study"]] = record["trials"]


_HANDLERS = {
    "experiment_started": _start,
    "experiment_ended": _stop,
    "memory_measured": _measure,
    "fusion_measured": _measure_fusion,
    "trial_created": _create,
    "epoch": _epoch,
    "trial_ended": _end,
    "trial_retried": _retry,
    "population_moved": _move,
    "checkpoint_damaged": _note_damage,
    "concurrency_lowered": _run_fewer,
    "warm_started": _warm,
    "test_opened": _open_test,
    "test_evaluated": _test,
}


def best_first(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that have a value, the highest first, of equals the earlier first."""
    rated = [(trial.best_value, trial) for trial in trials if trial.best_value is not None]
    return [trial for _, trial in sorted(rated, key=lambda pair: (-pair[0], pair[1].study, pair[1].number))]
