"""What a sampler is told of a study: where the study looks, which points were tried, and what became of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from search_spaces.space import Bounds

State = Literal["running", "finished", "stopped_early", "failed"]
"""How a trial stands; a trial that diverged has ``failed`` for a sampler."""


@dataclass(frozen=True)
class PastTrial:
    """A trial of a study as a sampler sees it; trainings of one point are one trial with their mean values.

    Attributes:
        params: Parameter -> value, by the names of ``StudySoFar.bounds``; where some parameters exist only at some
            values of others, a trial has only those that its point has.
        state: How the trial stands.
        values: The objectives of a trial that has finished, in the order of ``StudySoFar.directions``; else empty.
        epochs: Epoch -> the metric so far; empty where a study has several objectives.
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
        """The value with which the trial counts, larger is better; ``None`` where it failed or has no value yet.

        Of a trial that has finished the value is the first objective, of any other the best epoch so far.
        """
        if self.values:
            return self.values[0]
        return None if self.state == "failed" else max(self.epochs.values(), default=None)


@dataclass(frozen=True)
class StudySoFar:
    """What a sampler is told before it suggests the point of the next trial.

    Attributes:
        bounds: Parameter -> where it lies. With ``search.loss: choose`` the loss is the parameter ``loss`` itself, and
            those of a loss are called ``<loss>.<parameter>``; settings are ``training.<name>`` and ``model.<name>``.
        trials: All trials so far, in the order of their numbers: first those that ``warm_start_from`` took over, then
            those of this search, the running ones and the published points among them.
        directions: ``maximize`` or ``minimize`` of each objective; the first is always maximised.
        number: Of the trial whose point is asked for, from 0.
        size: How many trials the study has in the end, >= 1.
        seed: Of the study, the same for each of its trials.
    """

    bounds: Bounds
    trials: Sequence[PastTrial]
    directions: Sequence[str]
    number: int
    size: int
    seed: int
