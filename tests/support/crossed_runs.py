"""Runs of candidates with known effects of seeds, of images and of both together, in any number."""

from dataclasses import dataclass

import numpy as np

from orchestrator.results.runs import Runs

Array = np.ndarray

COMMON = 5.0
"""Spread of what an image is worth to every candidate alike, in spreads of what it is worth to one of them."""


@dataclass(frozen=True)
class Effects:
    """What the values of a study are made of, in units of the standard error that images give a difference."""

    seeds: float = 1.0
    both: float = 1.0
    lead: float = 0.0
    spreads: tuple[float, ...] = (1.0,)
    images: int = 100

    def spread_of(self, candidate: int) -> float:
        """Return how widely the runs of a candidate scatter, relative to the others."""
        return self.spreads[min(candidate, len(self.spreads) - 1)]


def draw_runs(
    generator: np.random.Generator, effects: Effects, seeds: tuple[int, ...], splits: int = 1
) -> list[list[Array]]:
    """Return, for each split, the runs (seeds, images) of each candidate; a seed's own effect is in all splits.

    ``seeds`` are the runs of each candidate; 0 is a candidate without seeds, which has one run.
    """
    own = [
        effects.seeds * effects.spread_of(k) * generator.standard_normal((count, 1)) if count else np.zeros((1, 1))
        for k, count in enumerate(seeds)
    ]
    scale = np.sqrt(effects.images)
    drawn = []
    for _ in range(splits):
        common = COMMON * scale * generator.standard_normal(effects.images)
        runs = []
        for k, count in enumerate(seeds):
            of_image = scale / np.sqrt(2) * generator.standard_normal(effects.images)
            together = effects.both * scale * generator.standard_normal((max(1, count), effects.images))
            lead = effects.lead if k == 0 else 0.0
            runs.append(lead + own[k] + common + of_image + (together * effects.spread_of(k) if count else 0.0))
        drawn.append(runs)
    return drawn


def candidates_of(val: list[Array], test: list[Array], seeds: tuple[int, ...]) -> list[Runs]:
    """Return candidates ``c0``, ``c1`` ... with these runs, each of its own loss."""
    found = []
    for k, (on_val, on_test) in enumerate(zip(val, test, strict=True)):
        values = {
            seed: {"val/rsum": 300 + float(left.mean()), "test/rsum": 300 + float(right.mean())}
            for seed, (left, right) in enumerate(zip(on_val, on_test, strict=True))
        }
        found.append(
            Runs.of_seeds(
                f"c{k}",
                values,
                images={"test/rsum": {seed: 300 + runs for seed, runs in enumerate(on_test)}},
                dataset="pets",
                model="vsepp",
                loss=f"c{k}",
                has_seeds=bool(seeds[k]),
            )
        )
    return found
