"""How often the seeds that would detect a difference are between the numbers that an answer states, by simulation.

    python -m tests.benchmarks needed [--studies 1000]

A study estimates the variances over its seeds and its images, and states between which numbers of seeds of each
candidate a difference is detected in 80 % of studies. A row is the share of studies, in percent, whose range misses the
number that the true variances need. The note has the median range, and the quartiles of the single number that was
stated in older versions.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from orchestrator.results.statistics import MOST, DifferenceTest
from orchestrator.results.verdict import LEVEL
from tests.benchmarks.rows import Row

LIMIT = 5.0
"""Percent of studies whose range may miss."""

CASES = {
    "seeds alone": ((1.0, 1.0), 0.0, 1.2),
    "one spread four times the other": ((4.0, 1.0), 0.0, 4.0),
    "seeds and images": ((1.0, 1.0), 0.3, 1.5),
    "mostly images": ((1.0, 1.0), 0.6, 2.5),
}
"""Deviations of a run of both candidates, the error by the images of a difference, and the difference."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--studies", type=int, default=1000, help="of each row")
    parser.add_argument("--images", type=int, default=1000)


def run(options: argparse.Namespace) -> Iterator[Row]:
    for case, (spreads, of_images, difference) in CASES.items():
        for seeds in (2, 3, 5, 10):
            images = options.images if of_images else None
            yield _row(f"{case}, {seeds} seeds", spreads, of_images, difference, seeds, images, options.studies)


def _row(
    case: str,
    spreads: tuple[float, float],
    of_images: float,
    difference: float,
    seeds: int,
    images: int | None,
    studies: int,
) -> Row:
    generator = np.random.default_rng([seeds, len(case)])
    true = [spread**2 / seeds for spread in spreads]
    needed = _test(difference, true, of_images**2, seeds, images).needed_seeds(LEVEL) or MOST + 1
    missed, ends, single = 0, [], []
    for _ in range(studies):
        parts = [part * generator.chisquare(seeds - 1) / (seeds - 1) for part in true]
        of_image = of_images**2 * (generator.chisquare(images - 1) / (images - 1) if images else 1.0)
        test = _test(difference, parts, of_image, seeds, images)
        fewest, most = test.range_of_seeds(LEVEL) or (MOST + 1, None)
        most = MOST + 1 if most is None else most
        missed += not fewest <= needed <= most
        ends.append((fewest, most))
        single.append(test.needed_seeds(LEVEL) or MOST + 1)
    low, high = (np.array(ends)[:, place] for place in (0, 1))
    quartiles = np.quantile(single, [0.25, 0.75])
    note = f"{needed} needed; median range {np.median(low):.0f} to {np.median(high):.0f}; "
    note += f"a single number: quartiles {quartiles[0]:.0f} and {quartiles[1]:.0f}"
    return Row(case, "%", 100 * missed / studies, LIMIT, "limit", note=note)


def _test(difference: float, parts: list[float], of_images: float, seeds: int, images: int | None) -> DifferenceTest:
    return DifferenceTest(difference, (parts[0], parts[1]), (0.0, 0.0), (seeds, seeds), sum(parts) + of_images, images)
