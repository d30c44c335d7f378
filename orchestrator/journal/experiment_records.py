"""Records of an experiment as a whole: its starts and ends, and measurements before its trials run."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from orchestrator.journal.record import Record
from orchestrator.journal.trial import WarmTrial


class ExperimentStarted(Record, frozen=True, kw_only=True, tag="experiment_started"):
    """A command began or resumed the experiment.

    Attributes:
        experiment: The resolved experiment, with the keys of an experiment file.
        data: Digest of each dataset, by name.
        tokenizers: Dataset -> what cuts its captions into tokens, with a digest where it is a file; empty in journals
            of older versions, which cut all captions as English.
        environment: Versions, git revision and machine, see ``machines.environment.describe_environment``.
        storage: Where checkpoints are kept: a folder or ``s3://bucket/prefix``; ``None`` is the experiment's folder.
        options: Options of the command line that a command which resumes needs, by name without dashes.
    """

    experiment: Mapping[str, Any]
    data: Mapping[str, str]
    environment: Mapping[str, Any]
    storage: str | None = None
    options: Mapping[str, str] = msgspec.field(default_factory=dict)
    tokenizers: Mapping[str, str] = msgspec.field(default_factory=dict)


class ExperimentEnded(Record, frozen=True, kw_only=True, tag="experiment_ended"):
    """The command came to an end; a command that was killed leaves no such record.

    Attributes:
        outcome: ``finished``, ``budget_spent`` or ``interrupted``.
        ended_by: ``trials`` (the last trial has ended), ``plateau``, ``target``, ``hours``, ``gpu_hours``, ``signal``,
            or ``None``.
    """

    outcome: str
    ended_by: str | None = None


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
        studies: Trials taken over, by study: params by the names of the search space, how the trial ended, and the
            values of the objectives.
        passed_over: How many trials of the other experiment did not fit, >= 0.
    """

    source: str
    studies: Mapping[str, Sequence[WarmTrial]]
    passed_over: int


class Footprint(msgspec.Struct, frozen=True):
    """The GPU memory that a training was measured to take.

    Attributes:
        peak: The most bytes that the training held at any time, >= 0.
        room: Bytes of the GPU that were free before the training, > 0.
    """

    peak: int
    room: int


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
    """The speed of fused trials was measured, to decide how many are trained as one stacked model.

    Attributes:
        study: Name of the trials' study.
        trials: Number of fused trials with the most epochs an hour, >= 1.
        epochs_per_hour: Number of fused trials, as text -> epochs an hour of these trials together.
    """

    study: str
    trials: int
    epochs_per_hour: Mapping[str, float] = msgspec.field(default_factory=dict)


class LimitNoted(Record, frozen=True, kw_only=True, tag="limit_noted"):
    """Something limits how many trials run at once.

    Attributes:
        message: The limit, in a sentence for people.
    """

    message: str


class ConcurrencyLowered(Record, frozen=True, kw_only=True, tag="concurrency_lowered"):
    """Memory ran out; from now on fewer trials run at once.

    Attributes:
        trials: Most trials at once, >= 1.
    """

    trials: int


class MovedTrial(msgspec.Struct, frozen=True, rename={"source": "from"}):
    """A trial that resumes from the model of another trial.

    Attributes:
        trial: Id of the trial.
        source: Id of the trial whose model it takes over; ``from`` in the file.
        params: Hyper-parameters with which the trial resumes, by the names of the search space.
        config: The source's config, with a schedule that ends in ``params``.
    """

    trial: str
    source: str
    params: Mapping[str, Any]
    config: Mapping[str, Any]


class PopulationMoved(Record, frozen=True, kw_only=True, tag="population_moved"):
    """A population (pbt) decided after an epoch which of its trials resume from the model of another trial.

    Attributes:
        study: Name of the population's study.
        epoch: Epoch after which trials moved, >= 1.
        moves: The trials that take over a model: ``trial``; ``from``, the trial whose model it takes; ``params`` and
            ``config`` with which the trial resumes.
    """

    study: str
    epoch: int
    moves: Sequence[MovedTrial]
