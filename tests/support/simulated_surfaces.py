"""Searches that nobody ran, over surfaces whose optimum is known: the values of settings, and what a search tries.

A search begins at random. Then it draws, like TPE, near one of the best quarter of its settings, with a width that
shrinks as trials come in, and sometimes anywhere. With ``stopping``, trials have learning curves, which rise the more
slowly the smaller the last parameter is (the learning rate). Two in three are stopped at epochs 3 and 9 of 15, as ASHA
does.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from orchestrator.results.surface import Array, Observed, gain_to_end

BESIDE_ANOTHER = (0.1, 0.4)
"""Where the highest of two peaks may lie in each range; the other is larger by 0.5 and 0.3."""

TOP = 250.0
"""The highest value of f, in points of rsum."""

EPOCHS, RUNGS = 15, (3, 9)


def _peak(width: float) -> Callable[[Array], Array]:
    return lambda steps: 60 * (1 - np.exp(-(steps**2).sum(-1) / width))


def _flat(steps: Array) -> Array:
    return 2 * (steps**2).sum(-1) + 300 * (np.maximum(np.abs(steps) - 0.25, 0) ** 2).sum(-1)


def _ridge(steps: Array) -> Array:
    across, along = steps[:, 0] + steps[:, 1], steps[:, 0] - steps[:, 1]
    return 60 * (1 - np.exp(-(across**2 / 0.05 + along**2 / 4))) + 5 * (steps[:, 2:] ** 2).sum(-1)


def _cliff(steps: Array) -> Array:
    fall = 1 / (1 + np.exp(-(steps[:, 0] - 0.2) / 0.03)) - 1 / (1 + math.exp(0.2 / 0.03))
    return 20 * (steps**2).sum(-1) + 200 * np.maximum(fall, 0)


def _irrelevant(steps: Array) -> Array:
    return 60 * (1 - np.exp(-(steps[:, :-1] ** 2).sum(-1) / 0.1))


def _kink(steps: Array) -> Array:
    return np.where(steps < 0, 15 * np.abs(steps), 80 * steps**2 + 20 * np.abs(steps)).sum(-1)


def _two(width: float, other_width: float, behind: float) -> Callable[[Array], Array]:
    """Return the highest peak and another that is lower by ``behind``; at a distance of its width a peak has 37 %."""

    def below(steps: Array) -> Array:
        apart = np.where(np.arange(steps.shape[-1]) == 0, 0.5, 0.3)
        own, other = (np.exp(-(from_peak**2).sum(-1)) for from_peak in (steps / width, (steps - apart) / other_width))
        return np.asarray(60 - np.maximum(60 * own, (60 - behind) * other))

    return below


def _thin(steps: Array) -> Array:
    across, along = (steps[:, 0] + steps[:, 1]) / math.sqrt(2), (steps[:, 0] - steps[:, 1]) / math.sqrt(2)
    return 60 * (1 - np.exp(-(across**2 / 0.005 + along**2 / 2))) + 5 * (steps[:, 2:] ** 2).sum(-1)


def _aligned(steps: Array) -> Array:
    return 60 * (1 - np.exp(-(steps[:, 0] ** 2 / 0.005 + steps[:, 1] ** 2 / 2))) + 5 * (steps[:, 2:] ** 2).sum(-1)


def _plateau(steps: Array) -> Array:
    return 60 * (1 - np.exp(-(np.maximum(np.sqrt((steps**2).sum(-1)) - 0.25, 0) ** 2) / 0.02))


SURFACES: Mapping[str, Callable[[Array], Array]] = {
    "peaked": _peak(0.03),
    "broad": _peak(0.4),
    "flat": _flat,
    "kink": _kink,
    "cliff": _cliff,
    "ridge": _ridge,
    "irrelevant": _irrelevant,
    "edge": _peak(0.1),
    "plateau": _plateau,
    "thin": _thin,
    "aligned": _aligned,
    "equal peaks": _two(0.17, 0.17, 1),
    "two peaks": _two(0.17, 0.17, 8),
    "broad peaks": _two(0.25, 0.25, 4),
    "hidden peak": _two(0.1, 0.32, 6),
}
"""Name -> function of steps from the optimum, of shape (N, d), that says how far f lies below its highest value."""


DRAWN = "drawn"
"""Name of surfaces on which no rule was chosen: one to three peaks of random places, heights, widths and profiles."""

PROFILES: tuple[Callable[[Array], Array], ...] = (
    lambda squares: np.exp2(-squares),
    lambda squares: 1 / (1 + squares),
    lambda squares: np.maximum(0, 1 - np.sqrt(squares) / 2),
)
"""Bell, Lorentz curve and cone, of squared distances from the top; at a distance of 1 a peak has half its height."""


def _drawn(optimum: Array, generator: np.random.Generator) -> Callable[[Array], Array]:
    """Return up to three peaks, from a sixth to two thirds of a range wide at half their height."""
    count, profile = int(generator.integers(1, 4)), PROFILES[generator.integers(3)]
    tops = np.vstack([np.zeros_like(optimum), generator.random((count - 1, len(optimum))) - optimum])
    widths = np.exp(generator.uniform(math.log(1 / 12), math.log(1 / 3), count))
    heights = 60 - np.append(0, generator.uniform(2, 30, count - 1))

    def below(steps: Array) -> Array:
        squares = ((steps[:, None] - tops) ** 2).sum(-1) / widths**2
        return np.asarray(60 - (heights * profile(squares)).max(axis=1))

    return below


class Simulated:
    """A search on a surface, by ``tpe`` or ``uniform`` sampling; ``noise`` is a deviation over seeds, in rsum."""

    def __init__(
        self,
        surface: str,
        dimensions: int,
        trials: int,
        noise: float,
        generator: np.random.Generator,
        sampling: str = "tpe",
        stopping: bool = False,
    ) -> None:
        self._noise, self._generator = noise, generator
        self._sampling, self._trials = sampling, trials
        ends = BESIDE_ANOTHER if "peak" in surface and surface != "peaked" else (0.15, 0.85)
        self.optimum: Array = generator.uniform(*ends, dimensions)
        if surface == "edge":
            self.optimum[0] = 0.0
        self._below = _drawn(self.optimum, generator) if surface == DRAWN else SURFACES[surface]
        self.curves: list[dict[int, float]] = []
        places: list[Array] = []
        values: list[float] = []
        rungs: dict[int, list[float]] = {rung: [] for rung in RUNGS}
        for _ in range(trials):
            places.append(self._next(places, values))
            self.curves.append(self._train(places[-1], rungs if stopping else {}))
            values.append(max(self.curves[-1].values()))
        self.places = np.array(places)

    @property
    def ended(self) -> list[bool]:
        """Whether each trial was trained to its end."""
        return [EPOCHS in curve for curve in self.curves]

    def expected(self, place: Array) -> float:
        return TOP - float(self._below((place - self.optimum)[None])[0])

    def regret(self, place: Array) -> float:
        """Return how far f at a place lies below its highest value."""
        return TOP - self.expected(place)

    def observed(self) -> Observed:
        """Return what the search knows of its settings."""
        finished = [curve for curve, ended in zip(self.curves, self.ended, strict=True) if ended]
        rows = []
        for place, curve in zip(self.places, self.curves, strict=True):
            gain = (0.0, 0.0) if EPOCHS in curve else gain_to_end(max(curve), finished)
            rows += [] if gain is None else [(place, curve[max(curve)] + gain[0], gain[1])]
        places, values, unsure = (np.array(column) for column in zip(*rows, strict=True))
        return Observed(places, values, np.ones(len(values)), unsure)

    def best_trials(self, count: int) -> Array:
        """Return the places of the best trials that were trained to their end, shape (count, d)."""
        ended = [number for number, is_ended in enumerate(self.ended) if is_ended]
        return self.places[sorted(ended, key=lambda number: -self.curves[number][EPOCHS])[:count]]

    def _train(self, place: Array, rungs: Mapping[int, list[float]]) -> dict[int, float]:
        """Return epoch -> best value so far, up to the rung at which the trial is stopped."""
        end = self.expected(place) + self._noise * float(self._generator.normal())
        if not rungs:
            return {EPOCHS: end}
        tau, curve = 1.5 + 4 * (1 - place[-1]), dict[int, float]()
        for epoch in range(1, EPOCHS + 1):
            curve[epoch] = end * (1 - math.exp(-((epoch / tau) ** 1.3))) if epoch < EPOCHS else end
            if epoch in rungs:
                rungs[epoch].append(curve[epoch])
                if sum(value > curve[epoch] for value in rungs[epoch]) >= max(1, len(rungs[epoch]) / 3):
                    break
        best, running = -math.inf, {}
        for epoch, value in curve.items():
            running[epoch] = best = max(best, value)
        return running

    def _next(self, places: list[Array], values: list[float]) -> Array:
        generator, dimensions = self._generator, len(self.optimum)
        anywhere = generator.random(dimensions)
        if self._sampling == "uniform" or len(places) < max(3, min(10, self._trials // 4)) or generator.random() < 0.1:
            return anywhere
        top = np.argsort(-np.array(values))[: max(1, min(25, math.ceil(len(values) / 4)))]
        width = max(0.04, 0.3 / math.sqrt(len(values)))
        near = places[int(generator.choice(top))] + width * generator.normal(size=dimensions)
        return np.where((near < 0) | (near > 1), anywhere, near)
