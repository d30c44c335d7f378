"""The knowledge of a sampler about a study: bounds, tried points, and the results of each point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from search_spaces.space import Bounds

State = Literal["running", "finished", "stopped_early", "failed"]
"""State of a trial; a trial that diverged has ``failed`` for a sampler."""


@dataclass(frozen=True)
class PastTrial:
    """A trial of a study as a sampler sees it; trainings of one point are one trial with their mean values.

    Attributes:
        params: Parameter -> value, by the names of ``StudySoFar.bounds``; in a conditional space, a trial has only the
            parameters of its point.
        state: State of the trial.
        values: The objectives of a trial that has finished, in the order of ``StudySoFar.directions``; else empty.
        epochs: Epoch -> the metric so far; empty if the study has several objectives.
    """

    params: Mapping[str, Any]
    state: State
    values: tuple[float, ...] = ()
    epochs: Mapping[int, float] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        """Whether no further epoch comes."""
        return self.state != "running"

    @property
    def best(self) -> float | None:
        """The value with which the trial counts, larger is better; ``None`` if it failed or has no value yet.

        A finished trial counts with its first objective, any other trial with its best epoch so far.
        """
        if self.values:
            return self.values[0]
        return None if self.state == "failed" else max(self.epochs.values(), default=None)


@dataclass(frozen=True)
class StudySoFar:
    """A study before its sampler suggests the point of the next trial.

    Attributes:
        bounds: Parameter -> its bounds. With ``search.loss: choose`` the loss itself is the parameter ``loss``, and the
            parameters of a loss are called ``<loss>.<parameter>``; settings are ``training.<name>`` and
            ``model.<name>``.
        trials: All trials so far, in the order of their numbers: first the trials that ``warm_start_from`` took over,
            then the trials of this search, with running trials and published points.
        directions: ``maximize`` or ``minimize`` of each objective; the first is always maximised.
        number: Number of the trial whose point is asked for, from 0.
        size: How many trials the study has in the end, >= 1.
        seed: Seed of the study, equal for all its trials.
    """

    bounds: Bounds
    trials: Sequence[PastTrial]
    directions: Sequence[str]
    number: int
    size: int
    seed: int
