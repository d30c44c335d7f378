"""Records of one trial, from its creation to its end."""

from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec

from orchestrator.journal.metrics import Metrics
from orchestrator.journal.record import Record, TrialRecord
from orchestrator.journal.trial import Stage, TrialState


class TrialCreated(TrialRecord, frozen=True, kw_only=True, tag="trial_created"):
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

    stage: Stage
    candidate: str | None
    study: str
    number: int
    params: Mapping[str, Any]
    config: Mapping[str, Any]


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
    """

    epoch: int
    metrics: Mapping[str, float]
    state: TrialState


class EpochLine(TrialRecord, frozen=True, kw_only=True, tag="epoch"):
    """The line of an ``EpochEnded`` as it is decoded: with the text of its metrics."""

    epoch: int
    metrics: msgspec.Raw
    state: TrialState

    @property
    def record(self) -> EpochEnded:
        """The record of the line."""
        return EpochEnded(
            n=self.n,
            format=self.format,
            time=self.time,
            elapsed=self.elapsed,
            trial=self.trial,
            epoch=self.epoch,
            metrics=Metrics(bytes(self.metrics)),
            state=self.state,
        )


class TrialPaused(TrialRecord, frozen=True, kw_only=True, tag="trial_paused"):
    """A trial waits for the other trials of its population, without an actor.

    Attributes:
        epoch: The newest epoch that the trial has trained, >= 1.
    """

    epoch: int


class TrialRetried(TrialRecord, frozen=True, kw_only=True, tag="trial_retried"):
    """A trial failed and resumes from its newest good checkpoint.

    Attributes:
        cause: ``error``, ``memory``, ``hung`` or ``preempted``, see ``tuner.failures.Cause``; ``None`` is an error.
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


class CheckpointDamaged(TrialRecord, frozen=True, kw_only=True, tag="checkpoint_damaged"):
    """A checkpoint could not be used; its trial resumes from an older checkpoint.

    Attributes:
        damage: The file and what is wrong with it.
    """

    damage: str


def has_ended(record: Record) -> TypeGuard[EpochEnded | TrialEnded]:
    """Say whether a record is the last record of its trial."""
    return isinstance(record, (EpochEnded, TrialEnded)) and record.state is not TrialState.RUNNING
