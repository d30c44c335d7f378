"""Designs of a confirmation at equal cost, by simulation: how often a winner with an equal is called better, and power.

    python -m tests.benchmarks race [--studies 4000] [--candidates 2 3 6 12 30] [--leads 1 1.5 2 3]

A study goes from the draw of its values to the verdict, with val and test the same numbers, which is the worst case.
*False better*: the two best candidates are equal, all others are worse by so many standard deviations; the share of
studies, in percent, whose verdict is *better*. *Missed*: the first candidate leads; the share in which it is not called
better. Both designs (``tests/support/race_rates.py``) have the same number of trainings. A row shows the race beside
fixed seeds, with the standard error in the note.
"""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.benchmarks.rows import Row
from tests.support.race_rates import Outcome, draw_values, fixed, race
from tests.support.study_rates import Array

WIDE = 4.0
"""Standard deviation of some candidates, where spreads are unequal."""

BATCH = 1000
"""Studies that are simulated together."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--studies", type=int, default=4000, help="of each row, simulated")
    parser.add_argument("--candidates", type=int, nargs="+", default=[2, 3, 6, 12, 30])
    parser.add_argument("--seeds", type=int, nargs="+", default=[5, 10], help="of each candidate, in the fixed design")
    parser.add_argument("--leads", type=float, nargs="+", default=[1.0, 1.5, 2.0, 3.0])
    parser.add_argument(
        "--likeness", type=float, nargs="*", default=[0.5, 0.9, 0.99], help="of images; none: no images"
    )


def run(options: argparse.Namespace) -> Iterator[Row]:
    for candidates in options.candidates:
        for seeds in options.seeds:
            yield from _false(candidates, seeds, options)
    for lead in options.leads:
        for behind in (0.0, 2.0, 6.0):
            for candidates in (count for count in options.candidates if count > 2 or not behind):
                for seeds in options.seeds:
                    means = np.r_[lead, np.full(candidates - 1, -behind)]
                    means[1] = 0.0
                    rest = f", others {-behind:g}" if behind else ""
                    yield _row(f"missed: {candidates}, {seeds} each, lead {lead:g}{rest}", means, seeds, options)


def spreads_of(candidates: int) -> dict[str, Array]:
    """Return the spreads of the candidates by a name; the first two are the equal bests."""
    place = np.arange(candidates)
    cases = {"one best wide": place == 0, "bests wide": place < 2, "others wide": place > 1, "one quiet": place != 0}
    wanted = cases if candidates > 2 else {"one best wide": place == 0}
    return {name: np.where(wide, WIDE, 1.0) for name, wide in wanted.items()}


def _false(candidates: int, seeds: int, options: argparse.Namespace) -> Iterator[Row]:
    """Count the winners that are called better although they have an equal."""
    # In standard errors of a mean, so that the hardest distance is among them for every number of seeds.
    for behind in (0.0, 3.0, 4.5, 18.0) if candidates > 2 else (0.0,):
        means = np.r_[0.0, 0.0, np.full(candidates - 2, -behind / np.sqrt(seeds))]
        case = f"false: {candidates}, {seeds} each, others {means[-1]:.2g}"
        yield _row(case, means, seeds, options)
        yield _row(f"{case}, t(3)", means, seeds, options, tails="t3")
        for name, spreads in spreads_of(candidates).items():
            yield _row(f"{case}, {name}", means, seeds, options, spreads=spreads)
        for likeness in options.likeness:
            yield _row(f"{case}, images {likeness:g}", means, seeds, options, likeness=likeness)


def _row(case: str, means: Array, seeds: int, options: argparse.Namespace, **how: Any) -> Row:
    trainings = len(means) * seeds
    generator = np.random.default_rng([0, len(means), seeds])
    outcomes: dict[str, list[Outcome]] = {"fixed": [], "race": []}
    for _ in range(max(1, options.studies // BATCH)):
        values = draw_values(generator, min(BATCH, options.studies), means, trainings, **how)
        outcomes["fixed"].append(fixed(values, trainings))
        outcomes["race"].append(race(values, trainings))
    missed = case.startswith("missed")
    shares = {name: _share(found, missed=missed) for name, found in outcomes.items()}
    return Row(case, "%", shares["race"], shares["fixed"], "fixed", note=_note(shares, outcomes, options.studies))


def _share(outcomes: list[Outcome], *, missed: bool) -> float:
    return 100 * float(np.mean([1 - one.found if missed else one.better.mean() for one in outcomes]))


def _note(shares: Mapping[str, float], outcomes: Mapping[str, list[Outcome]], studies: int) -> str:
    error = max(np.sqrt(share * (100 - share) / studies) for share in shares.values())
    used = np.mean([outcome.counts.sum(1).mean() for outcome in outcomes["race"]])
    return f"± {error:.1f}; the race used {used:.1f} trainings"
