"""A point near another point, with which population-based training resumes a trial.

The space's own function suggests the perturbed point, from a trial that answers near the given point. So a perturbed
point lies in the space: polynomials are moved by their slopes, and pull the right way wherever other suggestions do.

References:
    [Jaderberg2017] Jaderberg et al., Population Based Training of Neural Networks, section 4.1. arXiv:1711.09846
"""

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any

from search_spaces.space import is_number
from search_spaces.study import StudySpace, Suggestion

STEP = 1.25
"""A number is multiplied or divided by about this much, to the power of 0.5 to 1.5: [Jaderberg2017] takes 1.2
and 0.8 alone, so that two trials that resume from one point often get equal points.
"""

RESAMPLED = 0.25
"""Share of parameters that are drawn anew instead, which also leads away from 0."""


def perturb(
    space: StudySpace, point: Mapping[str, Any], kept: Collection[str], draw: Random
) -> tuple[dict[str, Any], Suggestion]:
    """Return a point near another point, and its suggestion.

    Parameters that are ``kept`` stay as they are; ``draw`` makes all choices.
    """
    near = _Near(point, kept, draw)
    suggestion = space.suggest(near)
    return near.chosen, suggestion


class _Near:
    """A trial that suggests values near a point, and draws parameters that the point lacks."""

    def __init__(self, point: Mapping[str, Any], kept: Collection[str], draw: Random) -> None:
        self._point, self._kept, self._draw = point, kept, draw
        self.chosen: dict[str, Any] = {}

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """Multiply the point's number, or draw a number."""
        if name in self._kept:
            return self._note(name, self._point[name])
        if self._is_drawn(name):
            return self._note(name, self._between(low, high, log=log))
        return self._note(name, min(max(self._point[name] * self._factor(), low), high))

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
        """Multiply the point's number, and move at least one step, or draw a number."""
        if name in self._kept:
            return int(self._note(name, self._point[name]))
        if self._is_drawn(name):
            return int(self._note(name, round(self._between(low, high, log=log))))
        before, factor = self._point[name], self._factor()
        stepped = max(round(before * factor), before + 1) if factor > 1 else min(round(before * factor), before - 1)
        return int(self._note(name, min(max(stepped, low), high)))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Take the listed number next to the point's number, or draw a choice; a word is kept or drawn anew."""
        if name in self._kept:
            return self._note(name, self._point[name])
        if self._is_drawn(name):
            return self._note(name, self._draw.choice(choices))
        if not all(map(is_number, choices)):
            return self._note(name, self._point[name])
        ordered = sorted(choices)
        place = ordered.index(self._point[name]) + self._draw.choice((-1, 1))
        return self._note(name, ordered[min(max(place, 0), len(ordered) - 1)])

    def _is_drawn(self, name: str) -> bool:
        # Drawn once for each name, so that each parameter is decided alone.
        drawn = self._draw.random() < RESAMPLED
        return drawn or name not in self._point

    def _factor(self) -> float:
        return STEP ** (self._draw.choice((-1, 1)) * self._draw.uniform(0.5, 1.5))

    def _between(self, low: float, high: float, *, log: bool) -> float:
        share = self._draw.random()
        value = low * (high / low) ** share if log else low + share * (high - low)
        return min(max(value, low), high)

    def _note(self, name: str, value: Any) -> Any:
        self.chosen[name] = value
        return value
