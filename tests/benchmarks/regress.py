"""How often ``regress`` raises an alarm without any change, and how often it finds the drop that it calls detectable.

    python -m tests.benchmarks regress [--suites 400] [--cells 1000]

Reruns of three seeds are compared with six accepted ones. In the first rows every difference matters, so that noise
alone is tested, at a rate of 5 %. In the others a drop of 2 standard deviations matters in one of seven cells.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from orchestrator.regression.comparison import POWER, detectable, level_of
from orchestrator.results.statistics import standard_error
from tests.benchmarks.rows import Row
from tests.support.regression_rates import sensitive_suite, share_with_alarms, shares_of_drops

RATE, MATTERS, SEEDS = 0.05, 2.0, (6, 3)

UNCHANGED = {
    "four cells": ([1.0] * 4, 0),
    "four cells, one five times as noisy": ([5.0, 1.0, 1.0, 1.0], 0),
    "four cells, drift tested": ([1.0] * 4, 2),
}
"""Suite -> spreads of its cells, and past reruns."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--suites", type=int, default=400, help="of each row, simulated")
    parser.add_argument("--cells", type=int, default=1000, help="of each drop, simulated")


def run(options: argparse.Namespace) -> Iterator[Row]:
    for number, (name, (scales, nights)) in enumerate(UNCHANGED.items()):
        suite = sensitive_suite(len(scales), RATE)
        share = share_with_alarms(np.random.default_rng([5, number]), suite, scales, options.suites, nights=nights)
        yield Row(f"false alarms: {name}", "%", 100 * share, 100 * RATE, "rate of the suite")
    level = level_of(RATE / 2, 7)
    drop = detectable(standard_error(1.0, SEEDS), sum(SEEDS) - 2, matters=MATTERS, level=level)
    drops = (MATTERS, drop)
    shares = shares_of_drops(np.random.default_rng(6), drops, SEEDS, options.cells, MATTERS, level)
    for name, true, share, stated in zip(("matters", "detectable"), drops, shares, (0.5, POWER), strict=True):
        yield Row(f"found: a drop that is {name}", "%", 100 * share, 100 * stated, "stated", note=f"{true:.2f} sd")
