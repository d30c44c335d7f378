"""Records of one trial, from its creation to its end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeGuard

from orchestrator.journal.record import FORM, Form, Record, TrialRecord
from orchestrator.journal.trial import Stage, TrialState

STATE = {FORM: Form(TrialState)}
"""Metadata of a field that holds a ``TrialState``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCreated(TrialRecord):
    """A trial was suggested or planned; the record is written before the trial runs.

    Attributes:
        stage: Purpose of the trial: ``search``, ``confirm`` or ``regress``.
        candidate: Id of the first trial of the search with the same setting, which this trial repeats with another
            seed; ``None`` where the trial repeats none.
        study: Name of the (dataset, model, loss) cell.
        number: Position in the stage of its study, >= 0.
        params: Suggestion of the searcher, by the names of the search space.
        config: All settings that decide the outcome, with the keys of a training's file.
    """

    kind: ClassVar[str] = "trial_created"

    stage: Stage = field(metadata={FORM: Form(Stage)})
    candidate: str | None
    study: str
    number: int
    params: Mapping[str, Any]
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted(TrialRecord):
    """A trial got an actor and trains from now on.

    Attributes:
        gpus: Number of GPUs that the actor takes, >= 0; e.g. 0.25 for a quarter of a GPU.
    """

    kind: ClassVar[str] = "trial_started"

    gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnded(TrialRecord):
    """A trial trained an epoch, and its scheduler judged it; written after the epoch's checkpoint.

    Attributes:
        epoch: Number of the epoch, from 1.
        metrics: Metrics by name: ``train/...``, ``val/...``, ``cocos/...``, ``time/...``; finite numbers.
        state: State of the trial after the epoch: ``running``, ``finished`` or ``stopped_early``.
    """

    kind: ClassVar[str] = "epoch"

    epoch: int
    metrics: Mapping[str, float] = field(metadata={FORM: Form(read=lambda value: value, write=dict)})
    state: TrialState = field(metadata=STATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPaused(TrialRecord):
    """A trial waits for the other trials of its population, without an actor.

    Attributes:
        epoch: The newest epoch that the trial has trained, >= 1.
    """

    kind: ClassVar[str] = "trial_paused"

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRetried(TrialRecord):
    """A trial failed and resumes from its newest good checkpoint.

    Attributes:
        cause: ``error``, ``memory``, ``hung`` or ``preempted``, see ``tuner.failures.Cause``; ``None`` is an error.
        error: What happened, in a line for people.
    """

    kind: ClassVar[str] = "trial_retried"

    cause: str | None = None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded(TrialRecord):
    """A trial diverged or failed.

    Attributes:
        state: ``diverged`` or ``failed``.
        error: What ended the trial, in a line for people.
    """

    kind: ClassVar[str] = "trial_ended"

    state: TrialState = field(metadata=STATE)
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDamaged(TrialRecord):
    """A checkpoint could not be used; its trial resumes from an older checkpoint.

    Attributes:
        damage: The file and what is wrong with it.
    """

    kind: ClassVar[str] = "checkpoint_damaged"

    damage: str


def has_ended(record: Record) -> TypeGuard[EpochEnded | TrialEnded]:
    """Say whether a record is the last record of its trial."""
    return isinstance(record, (EpochEnded, TrialEnded)) and record.state is not TrialState.RUNNING
