"""Regret of searches over trainings of WSABIE that were really run, with and without replicates.

    python -m tests.benchmarks replicates_wsabie                      # 300 generated scenes, about a minute
    python -m tests.benchmarks replicates_wsabie --dataset flickr8k --data-root DATA --output runs/curves

``wsabie_curves`` says what is trained, ``replicates`` what the variants and the numbers are; a problem is a drawing of
the luck and the seed of the sampler.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.replicates import LISTED, compare_all
from tests.benchmarks.roots import roots_of
from tests.benchmarks.rows import Row
from tests.benchmarks.wsabie_curves import SPACE, Measured, train_curves


def add_options(parser: argparse.ArgumentParser) -> None:
    """See ``command``."""
    parser.add_argument("--dataset", default="scenes", help="scenes is generated where no --data-root is given")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--images", type=int, default=300, help="of the generated scenes")
    parser.add_argument("--seeds", type=int, default=8, help="with which each setting is trained, >= 2")
    parser.add_argument("--output", type=Path, help="keep the trainings there, and resume them")
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--budgets", type=int, nargs="+", default=[120, 240], help="in epochs; a whole trial has 15")
    parser.add_argument("--variants", nargs="+", choices=LISTED, default=list(LISTED))
    parser.add_argument("--concurrent", type=int, default=2, help="trials at a time")


def run(options: argparse.Namespace) -> Iterator[Row]:
    """See ``command``."""
    with roots_of(options) as (root, output):
        curves = train_curves(options.dataset, root, output, options.seeds)
    noise = Measured(curves, 0).noise
    for budget in options.budgets:
        problems = [Measured(curves, number) for number in range(options.problems)]
        case = f"{options.dataset}, noise {noise:.2f}, {budget}"
        yield from compare_all(case, options.variants, SPACE, problems, budget, options.concurrent)
