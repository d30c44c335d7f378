"""The records of a journal: typed structs, of which a line names the kind, and the reader of a line."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Self, TypeGuard

import msgspec
from msgspec import structs

from orchestrator.journal.trial import PriorPoint, Stage, TrialState, WarmTrial

LEFT_OUT = frozenset({"format", "first", "level", "ranks", "judged", "values", "search", "not_replayed"})
"""Fields that a line does not have where they are ``None``."""


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """One event of an experiment.

    Attributes:
        n: Position of the record in the journal: 0, 1, 2 ... without a gap; -1 before the record is written.
        format: Number of the journal's format, in its first record only; a journal without one has format 1.
        time: Date of the record, in seconds since the Unix epoch.
        elapsed: Seconds since the writing process had opened the journal, >= 0, by a monotonic clock.
    """

    n: int = -1
    format: int | None = None
    time: float = 0.0
    elapsed: float = 0.0

    @property
    def kind(self) -> str:
        """Kind of the record, as in its line."""
        return str(self.__struct_config__.tag)

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the line by name and in their order, without the checksum."""
        values = structs.asdict(self)
        shared = {name: values.pop(name) for name in SHARED}
        whole = {**shared, "kind": self.kind, **values}
        return {name: value for name, value in whole.items() if value is not None or name not in LEFT_OUT}

    def unwritten(self) -> Self:
        """Return the event without its place and its date in the journal."""
        return structs.replace(self, n=-1, format=None, time=0.0, elapsed=0.0)


SHARED = Record.__struct_fields__
"""Names of the fields that records of all kinds have, in the order of the line."""


class TrialRecord(Record, frozen=True, kw_only=True):
    """One event of one trial.

    Attributes:
        trial: Id of the trial.
    """

    trial: str


class ExperimentStarted(Record, frozen=True, kw_only=True, tag="experiment_started"):
    """A command began or resumed the experiment.

    Attributes:
        experiment: The resolved experiment, with the keys of an experiment file.
        data: Digest of each dataset, by name.
        tokenizers: Dataset -> what cuts its captions into tokens, with a digest where it is a file. Older journals,
            without it, cut all captions as English.
        data_caveats: Dataset -> sentences about pictures and captions that are there several times, see
            ``trainables.data.repeats``; empty in journals of older versions.
        environment: Versions, git revision and machine, see ``machines.cluster.describe_environment``.
        storage: Where checkpoints are kept: a folder or ``s3://bucket/prefix``; ``None`` is the experiment's folder.
        options: Options of the command line that a command which resumes needs, by name without dashes.
    """

    experiment: Mapping[str, Any]
    data: Mapping[str, str]
    environment: Mapping[str, Any]
    storage: str | None = None
    options: Mapping[str, str] = msgspec.field(default_factory=dict)
    tokenizers: Mapping[str, str] = msgspec.field(default_factory=dict)
    data_caveats: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)


class SuiteStarted(Record, frozen=True, kw_only=True, tag="suite_started"):
    """The experiment is a rerun of a suite of baselines.

    Attributes:
        suite: The resolved suite, with the keys of a suite's file.
    """

    suite: Mapping[str, Any]


class WarmStarted(Record, frozen=True, kw_only=True, tag="warm_started"):
    """Samplers were given trials of another experiment to start from.

    Attributes:
        source: Name or folder of the other experiment.
        studies: Trials taken over, by study: params by the names of the search space, state, and values of the
            objectives.
        passed_over: How many trials of the other experiment did not fit, >= 0.
    """

    source: str
    studies: Mapping[str, Sequence[WarmTrial]]
    passed_over: int


class PriorRead(Record, frozen=True, kw_only=True, tag="prior_read"):
    """Settings that did best on other datasets were read, which the studies try right after the published settings.

    Attributes:
        studies: Settings by study, in their order: params by the names of the search space, and their origin, a study.
    """

    studies: Mapping[str, Sequence[PriorPoint]]


class MemoryMeasured(Record, frozen=True, kw_only=True, tag="memory_measured"):
    """The GPU memory of a trial was measured, to decide what share of a GPU a trial gets.

    Attributes:
        study: Name of the trial's study.
        peak: Bytes of GPU memory that the trial took at most, > 0.
        room: Bytes of GPU memory that were free before, > 0.
    """

    study: str
    peak: int
    room: int


class FusionMeasured(Record, frozen=True, kw_only=True, tag="fusion_measured"):
    """The speed of fused trials was measured, to decide how many an engine trains, and how.

    Attributes:
        study: Name of the trials' study.
        trials: Number of fused trials with the most epochs an hour, >= 1.
        epochs_per_hour: Number of fused trials, as text -> epochs an hour of these trials together.
        in_turns: Whether these trials take steps in turns, which was faster than one stacked model.
    """

    study: str
    trials: int
    epochs_per_hour: Mapping[str, float] = msgspec.field(default_factory=dict)
    in_turns: bool = False


class LimitNoted(Record, frozen=True, kw_only=True, tag="limit_noted"):
    """Something limits how many trials run at once.

    Attributes:
        message: The limit, in a sentence for people.
    """

    message: str


class TrialCreated(TrialRecord, frozen=True, kw_only=True, tag="trial_created"):
    """A trial was suggested or planned; the record is written before the trial runs.

    Attributes:
        stage: Purpose of the trial: ``search``, ``confirm`` or ``regress``.
        candidate: Id of the first trial of the search with the same setting, which this trial repeats; ``None`` where
            it repeats none.
        study: Name of the (dataset, model, loss) cell, with the number of its search where that is not the first.
        number: Position in the stage of its study, >= 0.
        params: Suggestion of the searcher, by the names of the search space.
        config: All settings that decide the outcome, with the keys of a training's file.
        search: Number of the trial's search among the independent searches of its study, from 1; without it the first.
    """

    stage: Stage
    candidate: str | None
    study: str
    number: int
    params: Mapping[str, Any]
    config: Mapping[str, Any]
    search: int | None = None


class TrialStarted(TrialRecord, frozen=True, kw_only=True, tag="trial_started"):
    """A trial got an actor and trains from now on.

    Attributes:
        gpus: Number of GPUs that the actor takes, >= 0; e.g. 0.25 for a quarter of a GPU.
    """

    gpus: float


class EpochEnded(TrialRecord, frozen=True, kw_only=True, tag="epoch"):
    """A trial trained an epoch, and its scheduler judged it; written after the epoch's checkpoint.

    Attributes:
        epoch: Number of the epoch, from 1.
        metrics: Metrics by name: ``train/...``, ``val/...``, ``cocos/...``, ``time/...``; finite numbers.
        state: State of the trial after the epoch: ``running``, ``finished`` or ``stopped_early``.
        not_replayed: Why no CUDA graph replays the trial's steps, where ``training.graph`` asks for one. Only the first
            epoch with a reason has it.
    """

    epoch: int
    metrics: Mapping[str, float]
    state: TrialState
    not_replayed: str | None = None


class CheckpointDamaged(TrialRecord, frozen=True, kw_only=True, tag="checkpoint_damaged"):
    """A checkpoint could not be used; its trial resumes from an older checkpoint.

    Attributes:
        damage: The file and what is wrong with it.
    """

    damage: str


class ConcurrencyLowered(Record, frozen=True, kw_only=True, tag="concurrency_lowered"):
    """Memory ran out; from now on fewer trials run at once.

    Attributes:
        trials: Most trials at once, >= 1.
    """

    trials: int


class TrialRetried(TrialRecord, frozen=True, kw_only=True, tag="trial_retried"):
    """A trial failed and resumes from its newest good checkpoint.

    Attributes:
        cause: ``error``, ``memory``, ``hung`` or ``preempted``, see ``tuner.callback.Cause``; ``None`` is an error.
        error: What happened, in a line for people.
    """

    cause: str | None = None
    error: str


class TrialEnded(TrialRecord, frozen=True, kw_only=True, tag="trial_ended"):
    """A trial diverged or failed.

    Attributes:
        state: ``diverged`` or ``failed``.
        error: What ended the trial, in a line for people.
    """

    state: TrialState
    error: str


def has_ended(record: Record) -> TypeGuard[EpochEnded | TrialEnded]:
    """Say whether a record is the last record of its trial."""
    return isinstance(record, (EpochEnded, TrialEnded)) and record.state is not TrialState.RUNNING


class ConfirmationPlan(Record, frozen=True, kw_only=True, tag="confirmation_planned"):
    """The trials of a dataset that are trained again were chosen; written before the first of these trainings.

    The level of the verdict depends on the values that had been seen before.

    Attributes:
        dataset: Name of the dataset.
        candidates: Ids of the trials of the search that are trained again, in the order of training.
        seeds: Seeds of each candidate in a fixed design, >= 1; ``None`` in a race.
        trainings: Most trainings of a race, >= 1; ``None`` in a fixed design.
        baseline: Label or loss of the baseline; ``None`` where there is none.
        looks: How often values had been seen when the plan was made, >= 0. Openings of test count, and replaced plans
            whose candidates could already be compared on val.
        first: Seeds of each candidate in the first round of a race, >= 2; ``None`` of a fixed design.
        level: Level of the verdict if nothing had been seen before, in (0, 1); without it a fixed design has 0.04.
    """

    dataset: str
    candidates: tuple[str, ...]
    seeds: int | None
    trainings: int | None
    baseline: str | None
    looks: int
    first: int | None = None
    level: float | None = None


class OpenedTest(Record, frozen=True, kw_only=True, tag="test_opened"):
    """The test split of a dataset is about to be read; written before the split is opened.

    Attributes:
        dataset: Name of the dataset.
        trials: Ids of the trials that are evaluated.
        elsewhere: Other experiment of the output folder -> how often it had opened the test split of the same data.
    """

    dataset: str
    trials: Sequence[str]
    elsewhere: Mapping[str, int] = msgspec.field(default_factory=dict)


class EvaluatedOnTest(TrialRecord, frozen=True, kw_only=True, tag="test_evaluated"):
    """A trial was evaluated on the test split, once for each trial.

    Attributes:
        metrics: Metrics on the test split, by name without a prefix, e.g. ``rsum``; finite numbers.
        ranks: The ranks of the queries, see ``trainables.ranks.Ranks.to_text``.
        judged: Ranks of the candidates that people judged to fit, a mapping a source of judgements. See
            ``trainables.judged_ranks.JudgedRanks.to_text``.
        values: Metric of a plug-in, of one direction -> the value of each test image, see
            ``trainables.ranks.pack_numbers``.
    """

    metrics: Mapping[str, float]
    ranks: Mapping[str, Any] | None = None
    judged: Sequence[Mapping[str, Any]] | None = None
    values: Mapping[str, str] | None = None


class ExperimentEnded(Record, frozen=True, kw_only=True, tag="experiment_ended"):
    """The command came to an end; a command that was killed leaves no such record.

    Attributes:
        outcome: ``finished``, ``budget_spent`` or ``interrupted``.
        ended_by: ``trials`` (the last trial has ended), ``plateau``, ``target``, ``hours``, ``gpu_hours``, ``signal``,
            or ``None``.
    """

    outcome: str
    ended_by: str | None = None


KINDS: dict[str, type[Record]] = {
    str(kind.__struct_config__.tag): kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, Record) and kind not in (Record, TrialRecord)
}
"""Kind, as in a line -> its class: all kinds of records that this version reads and writes."""

_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(reduce(or_, KINDS.values()))

CHECKSUM = "crc"
"""Name of the last value of a line."""


class RecordError(ValueError):
    """An undamaged line whose fields do not make a record of its kind."""


def read_record(line: bytes | memoryview) -> Record:
    """Return the typed record of a line in JSON; fields that its kind does not have are ignored.

    Of a kind that this version does not know, only the time counts: its record has no fields of its own.

    Raises:
        RecordError: If the line is no record, a field is missing, or a field has a value that is not allowed.
    """
    try:
        return _DECODER.decode(line)
    except msgspec.DecodeError as error:
        values = read_values(line)
        kind = values.get("kind")
        if not isinstance(kind, str):
            raise RecordError("a record without a kind") from None
        if kind in KINDS:
            raise RecordError(f"a record of kind {kind}: {error}") from None
        return Record(**{name: values[name] for name in SHARED if name in values})


def read_values(line: bytes | memoryview) -> dict[str, Any]:
    """Return the values of a line by name, without its checksum.

    Raises:
        RecordError: If the line is no JSON object.
    """
    try:
        values = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise RecordError(f"no record: {error}") from None
    values.pop(CHECKSUM, None)
    return values
