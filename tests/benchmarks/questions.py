"""How often the answers to the questions of a dataset are wrong, by simulation.

    python -m tests.benchmarks questions [--studies 10000] [--seeds 3 5 10]

A study has losses x settings candidates, of which some are truly equal (``tests/support/question_rates.py``). Each row
is the share of studies, in percent, with a false *beats* in any answer; the note has the shares of (a) which loss,
(b) which coefficients and (c) against the baseline. Spreads are equal, or fourfold of the first candidate, or of all
others. ``images`` are studies over seeds and images. What is not to be exceeded is 5 % in each answer.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from tests.benchmarks.rows import Row
from tests.support.question_rates import NULLS, false_rates, true_means
from tests.support.study_rates import Array

SHAPES = ((1, 6), (2, 1), (2, 2), (2, 3), (3, 2), (5, 1), (6, 5))
"""Losses and settings of each."""

WIDE = 4.0
"""Standard deviation of some candidates, where spreads are unequal."""

BEHIND = (4.5, 18.0)
"""How far the worse candidates are behind, in standard errors of a mean."""

LIMIT = 5.0
"""Percent of studies in which an answer may be wrong."""

BATCH = 1000
"""Studies that are simulated together."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--studies", type=int, default=10_000, help="of each row, simulated")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10], help="of each candidate")
    parser.add_argument("--likeness", type=float, nargs="*", default=[0.5, 0.9], help="of images; none: no images")


def run(options: argparse.Namespace) -> Iterator[Row]:
    for losses, settings in SHAPES:
        for seeds in options.seeds:
            for null in NULLS:
                for behind in (0.0,) if null == "all equal" else BEHIND:
                    means = true_means(null, losses, settings, behind / np.sqrt(seeds))
                    if means is not None:
                        case = f"{losses} x {settings}, {seeds} seeds, {null}" + (f" {behind:g}" if behind else "")
                        yield from _rows(case, means, losses, seeds, options)


def _rows(case: str, means: Array, losses: int, seeds: int, options: argparse.Namespace) -> Iterator[Row]:
    first = np.arange(len(means)) == 0
    spreads = {"equal": np.ones(len(means)), "first wide": np.where(first, WIDE, 1.0)}
    spreads["others wide"] = np.where(first, 1.0, WIDE)
    for likeness in (None, *options.likeness):
        for name, spread in spreads.items():
            generator = np.random.default_rng([0, len(means), seeds])
            batches = [
                false_rates(generator, BATCH, means, losses, seeds, spreads=spread, likeness=likeness)
                for _ in range(max(1, options.studies // BATCH))
            ]
            shares = {answer: 100 * float(np.mean([batch[answer] for batch in batches])) for answer in batches[0]}
            error = np.sqrt(LIMIT * (100 - LIMIT) / options.studies)
            worst = max(shares[answer] for answer in "abc")
            note = ", ".join(f"{answer} {shares[answer]:.1f}" for answer in "abc")
            note += "; ABOVE" if worst > LIMIT + 2 * error else ""
            where = "" if likeness is None else f", images {likeness:g}"
            yield Row(f"{case}, {name}{where}", "%", shares["any"], LIMIT, "limit of each answer", note=note)
