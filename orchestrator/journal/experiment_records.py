"""Records of an experiment as a whole: its starts and ends, and measurements before its trials run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from orchestrator.journal.record import FORM, Form, Record
from orchestrator.journal.trial import TrialState, WarmTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentStarted(Record):
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

    kind: ClassVar[str] = "experiment_started"

    experiment: Mapping[str, Any]
    data: Mapping[str, str]
    environment: Mapping[str, Any]
    storage: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    tokenizers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentEnded(Record):
    """The command came to an end; a command that was killed leaves no such record.

    Attributes:
        outcome: ``finished``, ``budget_spent`` or ``interrupted``.
        ended_by: ``trials`` (the last trial has ended), ``plateau``, ``target``, ``hours``, ``gpu_hours``, ``signal``,
            or ``None``.
    """

    kind: ClassVar[str] = "experiment_ended"

    outcome: str
    ended_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteStarted(Record):
    """The experiment is a rerun of a suite of baselines.

    Attributes:
        suite: The resolved suite, with the keys of a suite's file.
    """

    kind: ClassVar[str] = "suite_started"

    suite: Mapping[str, Any]


def _read_studies(studies: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, tuple[WarmTrial, ...]]:
    return {
        study: tuple(WarmTrial(one["params"], TrialState(one["state"]), tuple(one["values"])) for one in trials)
        for study, trials in studies.items()
    }


def _write_studies(studies: Mapping[str, Sequence[WarmTrial]]) -> dict[str, list[dict[str, Any]]]:
    return {
        study: [{"params": one.params, "state": one.state, "values": list(one.values)} for one in trials]
        for study, trials in studies.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStarted(Record):
    """Samplers were given trials of another experiment to start from.

    Attributes:
        source: Name or folder of the other experiment.
        studies: Trials taken over, by study: params by the names of the search space, how the trial ended, and the
            values of the objectives.
        passed_over: How many trials of the other experiment did not fit, >= 0.
    """

    kind: ClassVar[str] = "warm_started"

    source: str
    studies: Mapping[str, Sequence[WarmTrial]] = field(metadata={FORM: Form(_read_studies, _write_studies)})
    passed_over: int


@dataclass(frozen=True)
class Footprint:
    """The GPU memory that a training was measured to take.

    Attributes:
        peak: The most bytes that the training held at any time, >= 0.
        room: Bytes of the GPU that were free before the training, > 0.
    """

    peak: int
    room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMeasured(Record):
    """The GPU memory of a trial was measured, to decide what share of a GPU a trial gets.

    Attributes:
        study: Name of the trial's study.
        peak: Bytes of GPU memory that the trial took at most, > 0.
        room: Bytes of GPU memory that were free before, > 0.
    """

    kind: ClassVar[str] = "memory_measured"

    study: str
    peak: int
    room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionMeasured(Record):
    """The speed of fused trials was measured, to decide how many are trained as one stacked model.

    Attributes:
        study: Name of the trials' study.
        trials: Number of fused trials with the most epochs an hour, >= 1.
        epochs_per_hour: Number of fused trials, as text -> epochs an hour of these trials together.
    """

    kind: ClassVar[str] = "fusion_measured"

    study: str
    trials: int
    epochs_per_hour: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitNoted(Record):
    """Something limits how many trials run at once.

    Attributes:
        message: The limit, in a sentence for people.
    """

    kind: ClassVar[str] = "limit_noted"

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyLowered(Record):
    """Memory ran out; from now on fewer trials run at once.

    Attributes:
        trials: Most trials at once, >= 1.
    """

    kind: ClassVar[str] = "concurrency_lowered"

    trials: int


@dataclass(frozen=True)
class MovedTrial:
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

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "MovedTrial":
        """Return the move that a line holds."""
        return cls(values["trial"], values["from"], values["params"], values["config"])

    def write(self) -> dict[str, Any]:
        """Return the move as it stands in a line."""
        return {"trial": self.trial, "from": self.source, "params": self.params, "config": self.config}


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationMoved(Record):
    """A population (pbt) decided after an epoch which of its trials resume from the model of another trial.

    Attributes:
        study: Name of the population's study.
        epoch: Epoch after which trials moved, >= 1.
        moves: The trials that take over a model: ``trial``; ``from``, the trial whose model it takes; ``params`` and
            ``config`` with which the trial resumes.
    """

    kind: ClassVar[str] = "population_moved"

    study: str
    epoch: int
    moves: Sequence[MovedTrial] = field(
        metadata={
            FORM: Form(
                lambda moves: tuple(map(MovedTrial.read, moves)),
                lambda moves: [move.write() for move in moves],
            )
        }
    )
