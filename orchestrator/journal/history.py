"""The state of an experiment according to its journal: a pure fold over the records.

Searcher, scheduler, tracking, display and summary all read the state of an experiment here. So a new process that reads
the journal knows as much as the process that wrote the journal.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from orchestrator.journal import records
from orchestrator.journal.begun_experiment import NO_EXPERIMENT, BegunConfirm, BegunExperiment
from orchestrator.journal.trial import PriorPoint, Stage, Trial, TrialState, WarmTrial
from trainables.config import TrialConfig
from trainables.errors import UserError
from trainables.plugins.in_use import use


@dataclass
class Spending:
    """Adds up the running time and the GPU time over all starts, whatever the machine's clock does.

    Time between two starts does not count. Nor does the time from the last record of a process to its kill, because the
    date of the kill is unknown.

    Attributes:
        seconds: Running time up to the newest record, >= 0.
        gpu_seconds: The running time of each trial that had an actor, times its GPUs, >= 0.
        searched_seconds, searched_gpu_seconds: Those of the search alone, which its budget limits: without the time
            from the first record of a confirmation, or from the opening of test, to the end of that start.
        actors: Trial -> GPUs that its actor takes, for the actors of the newest start.
        training_seconds: The running time from the first trial of each start to the opening of test, >= 0.
        test_seconds: The running time in which models were evaluated on test, >= 0.
    """

    seconds: float = 0.0
    gpu_seconds: float = 0.0
    searched_seconds: float = 0.0
    searched_gpu_seconds: float = 0.0
    actors: dict[str, float] = field(default_factory=dict)
    training_seconds: float = 0.0
    test_seconds: float = 0.0
    _is_training: bool = False
    _is_searching: bool = True
    _repeats: set[str] = field(default_factory=set)
    _newest: records.Record | None = None

    def apply(self, record: records.Record) -> None:
        """Take one record into account."""
        before, self._newest = self._newest, record
        if before is not None and not isinstance(record, records.ExperimentStarted):
            # The time before this record is charged to the actors that ran until this record.
            # A journal that was mended may lack the record of a start.
            passed = max(0.0, record.elapsed - before.elapsed)
            self.seconds += passed
            self.gpu_seconds += passed * self.gpus
            self.searched_seconds += passed if self._is_searching else 0.0
            self.searched_gpu_seconds += passed * self.gpus if self._is_searching else 0.0
            self.training_seconds += passed if self._is_training else 0.0
            self.test_seconds += passed if isinstance(record, records.EvaluatedOnTest) else 0.0
        match record:
            case records.EpochEnded(state=TrialState.RUNNING):
                # Nearly all records.
                pass
            # A trial that is retried resumes later, in another actor.
            case records.EpochEnded() | records.TrialEnded() | records.TrialRetried():
                self.actors.pop(record.trial, None)
            case records.TrialStarted():
                # Before the first trial of a start nothing trains; Ray starts then, for example.
                self._is_training = True
                self._is_searching = record.trial not in self._repeats
                self.actors[record.trial] = record.gpus
            case records.TrialCreated(stage=Stage.CONFIRM):
                self._repeats.add(record.trial)
                self._is_searching = False
            case records.ConfirmationPlan():
                self._is_searching = False
            case records.OpenedTest():
                self._is_training = self._is_searching = False
            case records.ExperimentStarted():
                self._is_training, self._is_searching = False, True
                self.actors.clear()
            case records.ExperimentEnded():
                self.actors.clear()

    @property
    def newest(self) -> float | None:
        """Date of the newest record, in seconds since the Unix epoch; ``None`` before the first record."""
        return None if self._newest is None else self._newest.time

    @property
    def gpus(self) -> float:
        """GPUs in use now."""
        return sum(self.actors.values())


HALF_TRAINED, NOT_BEGUN = "half_trained", "not_begun"
"""Standing of a trial that has not ended and has no actor: with epochs, and without."""

STANDINGS = {standing: standing.replace("_", " ") for standing in (*map(str, TrialState), HALF_TRAINED, NOT_BEGUN)}
"""Standing of a trial (``History.standing``) -> its words, in the order in which counts name them."""


Value = TypeVar("Value", str, int)


@dataclass
class History:
    """The state of an experiment according to its journal.

    Attributes:
        source: Where the records come from, for messages.
        experiment: The experiment of the newest start; false before the first start.
        confirm: The confirmation of the newest start that had one: a search may start again without one.
        start_before_trials: The newest start before the first trial; what it says was settled before any training.
        data, data_caveats, environment, storage, options: Those of the newest start, see ``ExperimentStarted``.
        footprints: Study -> the most bytes of GPU memory that a trial took, and the bytes that were free before;
            measured with the resources and on the machine of the newest start.
        fusions: Study -> number of fused trials that train fastest, measured as ``footprints``.
        in_turns: Studies of ``fusions`` whose trials are faster in turns than stacked.
        trials: Id -> trial, in the order in which the trials were created.
        warm: Study -> trials of other experiments from which the study starts.
        warmed_by: Other experiment -> number of its trials from which studies start.
        prior: Study -> settings from elsewhere that it tries first; ``None`` where none were read.
        tests_opened: Dataset -> trials for which its test split was opened, in order.
        test_openings: Dataset -> how often its test split was opened.
        tests, test_ranks, test_judged, test_values: Trial -> its metrics on the test split, the ranks of its queries,
            those of the candidates that people judged, and the values of images in the metrics of plug-ins. See
            ``EvaluatedOnTest``; no entry where the record has none.
        opened_elsewhere: Dataset -> other experiment of the output folder -> how often it had opened the split before.
        confirm_looks: Dataset -> how often its test split was opened for trials of a confirmation.
        plans: Dataset -> the newest plan of its confirmation; no entry where an older version confirmed.
        is_rerun: Whether the trials are those of a suite of baselines; its experiment searches and confirms nothing.
        outcome, ended_by: How the newest start ended, see ``ExperimentEnded``; ``None`` if it runs or was killed.
        concurrency: Most trials at a time since memory ran out with these resources on this machine, if it ever did.
        halvings: How often ``concurrency`` was halved.
        ended: Trials in the order in which they ended.
    """

    source: str = "the journal"
    experiment: BegunExperiment = NO_EXPERIMENT
    confirm: BegunConfirm = field(default_factory=BegunConfirm)
    start_before_trials: records.ExperimentStarted | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    data_caveats: Mapping[str, Sequence[str]] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    storage: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    footprints: dict[str, tuple[int, int]] = field(default_factory=dict)
    fusions: dict[str, int] = field(default_factory=dict)
    in_turns: set[str] = field(default_factory=set)
    trials: dict[str, Trial] = field(default_factory=dict)
    warm: dict[str, list[WarmTrial]] = field(default_factory=dict)
    warmed_by: dict[str, int] = field(default_factory=dict)
    prior: Mapping[str, Sequence[PriorPoint]] | None = None
    tests_opened: dict[str, list[str]] = field(default_factory=dict)
    test_openings: dict[str, int] = field(default_factory=dict)
    opened_elsewhere: dict[str, Mapping[str, int]] = field(default_factory=dict)
    tests: dict[str, Mapping[str, float]] = field(default_factory=dict)
    test_ranks: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    test_judged: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    test_values: dict[str, Mapping[str, str]] = field(default_factory=dict)
    confirm_looks: dict[str, int] = field(default_factory=dict)
    plans: dict[str, records.ConfirmationPlan] = field(default_factory=dict)
    is_rerun: bool = False
    outcome: str | None = None
    ended_by: str | None = None
    concurrency: int | None = None
    halvings: int = 0
    ended: list[Trial] = field(default_factory=list)
    spending: Spending = field(default_factory=Spending)

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return self._known("name", self.experiment.name)

    @property
    def metric(self) -> str:
        """Name of the metric that the experiment maximises; overrides may give studies a metric of their own."""
        return self._known("search.metric", self.experiment.metric)

    @property
    def seed(self) -> int:
        """Seed of the experiment, from which all other seeds are made."""
        return self._known("search.seed", self.experiment.seed)

    def _known(self, key: str, value: Value | None) -> Value:
        if value is None:
            raise UserError(
                f"{self.source}: has no {key}, because no record of a start is whole; begin the experiment again with "
                f"its command, or restore the journal from a backup"
            )
        return value

    @property
    def finished(self) -> bool:
        """Whether the newest start came to its end."""
        return self.outcome == "finished"

    @property
    def searched(self) -> bool:
        """Whether the newest start came to its end, and the search with it or before it.

        ``confirm`` of a search that was killed or interrupted comes to its end, and leaves the rest of the search.
        """
        return self.finished and self.ended_by not in (None, "signal")

    @classmethod
    def of(cls, events: Iterable[records.Record], source: str = "the journal") -> "History":
        """Fold records, oldest first; ``source`` says in messages where the records come from."""
        history = cls(source)
        for record in events:
            history.apply(record)
        return history

    def apply(self, record: records.Record) -> None:
        """Update the state by one record: by the method with the name of its kind, if the kind has one."""
        self.spending.apply(record)
        handle = getattr(self, _handler_of(type(record)), None)
        if handle is not None:
            handle(record)

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
        """Return the present state of a trial, in one word for people and programs.

        Returns:
            The trial's state. Only a trial with an actor is running. A trial that waits for resources, for other trials
            or for the next start is ``HALF_TRAINED`` or ``NOT_BEGUN``.
        """
        if trial.has_ended or trial.id in self.spending.actors:
            return str(trial.state)
        return HALF_TRAINED if trial.epochs else NOT_BEGUN

    def count(self, stage: Stage, total: int) -> dict[str, int]:
        """Return standing -> number of the ``total`` trials of a stage; trials not created yet have not begun."""
        trials = self.stage(stage)
        counts = Counter(map(self.standing, trials))
        counts[NOT_BEGUN] += max(0, total - len(trials))
        return {standing: number for standing, number in counts.items() if number}

    def _on_experiment_started(self, record: records.ExperimentStarted) -> None:
        begun = BegunExperiment.of(record.experiment)
        if _runs_on(begun, record.environment) != _runs_on(self.experiment, self.environment):
            # Measurements with other resources or on another machine are no longer valid.
            self.concurrency, self.halvings = None, 0
            self.fusions, self.footprints = {}, {}
        # Configs of trials may have names that plug-ins define, which readers have to know; no code of a plug-in runs.
        use(begun.plugins)
        if not self.trials:
            self.start_before_trials = record
        self.experiment, self.data = begun, record.data
        self.data_caveats = record.data_caveats
        self.confirm = begun.confirm or self.confirm
        self.environment = record.environment
        self.storage, self.options = record.storage, record.options
        self.outcome = self.ended_by = None

    def _on_suite_started(self, record: records.SuiteStarted) -> None:
        self.is_rerun = True

    def _on_experiment_ended(self, record: records.ExperimentEnded) -> None:
        self.outcome, self.ended_by = record.outcome, record.ended_by

    def _on_trial_created(self, record: records.TrialCreated) -> None:
        self.trials[record.trial] = Trial(
            id=record.trial,
            study=record.study,
            number=record.number,
            params=record.params,
            config=TrialConfig.from_dict(record.config),
            created=record.time,
            created_after=self.spending.seconds,
            stage=record.stage,
            candidate=record.candidate,
            search=record.search or 1,
        )

    def _on_epoch(self, record: records.EpochEnded) -> None:
        trial = self.trials[record.trial]
        trial.epochs[record.epoch] = record.metrics
        trial.times[record.epoch] = record.time
        trial.setbacks = 0
        trial.not_replayed = record.not_replayed or trial.not_replayed
        if not trial.environments or trial.environments[-1] is not self.environment:
            trial.environments = (*trial.environments, self.environment)
        self._set_state(trial, record)

    def _on_trial_ended(self, record: records.TrialEnded) -> None:
        trial = self.trials[record.trial]
        trial.error = record.error
        self._set_state(trial, record)

    def _set_state(self, trial: Trial, record: records.EpochEnded | records.TrialEnded) -> None:
        trial.state = record.state
        if trial.has_ended:
            trial.ended, trial.ended_after = record.time, self.spending.seconds
            self.ended.append(trial)
        else:
            trial.ended = trial.ended_after = None

    def _on_checkpoint_damaged(self, record: records.CheckpointDamaged) -> None:
        trial = self.trials[record.trial]
        trial.damage = (*trial.damage, record.damage)

    def _on_trial_retried(self, record: records.TrialRetried) -> None:
        trial = self.trials[record.trial]
        trial.retries += 1
        if record.cause == "memory":
            trial.memory_retries += 1
        elif record.cause != "preempted":
            trial.setbacks += 1

    def _on_concurrency_lowered(self, record: records.ConcurrencyLowered) -> None:
        self.concurrency = record.trials
        self.halvings += 1

    def _on_warm_started(self, record: records.WarmStarted) -> None:
        for study, trials in record.studies.items():
            self.warm.setdefault(study, []).extend(trials)
        self.warmed_by[record.source] = sum(map(len, record.studies.values()))

    def _on_prior_read(self, record: records.PriorRead) -> None:
        self.prior = record.studies

    def _on_test_opened(self, record: records.OpenedTest) -> None:
        dataset = record.dataset
        self.tests_opened.setdefault(dataset, []).extend(record.trials)
        self.test_openings[dataset] = self.test_openings.get(dataset, 0) + 1
        # Those before the first opening: later ones did not know the numbers of this experiment.
        self.opened_elsewhere.setdefault(dataset, record.elsewhere)
        if any(self.trials[trial].stage is Stage.CONFIRM for trial in record.trials if trial in self.trials):
            self.confirm_looks[dataset] = self.confirm_looks.get(dataset, 0) + 1

    def _on_confirmation_planned(self, record: records.ConfirmationPlan) -> None:
        self.plans[record.dataset] = record.unwritten()

    def _on_test_evaluated(self, record: records.EvaluatedOnTest) -> None:
        self.tests[record.trial] = record.metrics
        if record.ranks is not None:
            self.test_ranks[record.trial] = record.ranks
        if record.judged is not None:
            self.test_judged[record.trial] = list(record.judged)
        if record.values is not None:
            self.test_values[record.trial] = record.values

    def _on_memory_measured(self, record: records.MemoryMeasured) -> None:
        self.footprints[record.study] = record.peak, record.room

    def _on_fusion_measured(self, record: records.FusionMeasured) -> None:
        self.fusions[record.study] = record.trials
        (self.in_turns.add if record.in_turns else self.in_turns.discard)(record.study)


@cache
def _handler_of(kind: type[records.Record]) -> str:
    return f"_on_{kind.__struct_config__.tag}"


def _runs_on(experiment: BegunExperiment, environment: Mapping[str, Any]) -> tuple[Any, Any]:
    return experiment.values.get("resources"), environment.get("machine")
