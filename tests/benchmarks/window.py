"""Regret of long simulated searches in which TPE is shown the best and the newest trials alone, beside all trials.

The regret of a search is the best mean of any setting minus the mean of the setting that the search puts first, in
rsum, after so many epochs in all; ``noisy_search`` says what is simulated. All numbers of trials shown solve the same
problems, so that a difference has the standard error of the differences. The processor's seconds are of whole searches,
journal and scheduler included. What the product shows is ``studies.study.NEWEST``; a search of no more trials is shown
whole.
"""

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from statistics import fmean

import pytest

from orchestrator.studies.study import NEWEST
from tests.benchmarks.noisy_search import SPACES, USUAL, Problem, make_experiment, run_search
from tests.benchmarks.replicates import error
from tests.benchmarks.rows import Row

ALL = 10**9
"""Trials that no search here has."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """See ``command``."""
    parser.add_argument("--problems", type=int, default=2)
    parser.add_argument("--noise", type=float, default=1.5, help="standard deviation of a training's luck, in rsum")
    parser.add_argument("--budget", type=int, default=1500, help="in epochs; a trial has five on average")
    parser.add_argument("--space", choices=SPACES, default="three ranges")
    parser.add_argument("--newest", type=int, nargs="+", default=[100, NEWEST], help="trials that TPE is shown")
    parser.add_argument("--concurrent", type=int, default=16, help="trials at a time")


def run(options: argparse.Namespace) -> Iterator[Row]:
    """See ``command``."""
    whole = [solve(ALL, number, options) for number in range(options.problems)]
    trials = fmean(found[1] for found in whole)
    for newest in options.newest:
        found = [solve(newest, number, options) for number in range(options.problems)]
        note = f"difference {error(differences(found, whole))}; {trials:.0f} trials, {len(found)} problems"
        yield Row(
            f"{newest} newest: regret", "rsum", mean(found, 0), mean(whole, 0), "all trials", needed=None, note=note
        )
        yield Row(
            f"{newest} newest: processor", "s", mean(found, 2), mean(whole, 2), "all trials", needed=None, note=note
        )


def solve(newest: int, number: int, options: argparse.Namespace) -> tuple[float, int, float]:
    """Return the regret of a search of a problem, how many trials it had, and the processor's seconds."""
    drawn = random.Random(f"problem {number}")
    optimum = {**USUAL, **{searched: drawn.uniform(0.1, 0.9) for searched in SPACES[options.space]}}
    experiment = make_experiment(options.space, number, {"trials": options.budget}, {})
    started = time.process_time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.studies.study.NEWEST", newest)
        problem = Problem(optimum, options.noise, number)
        outcome = run_search(options.space, experiment, problem, options.budget, options.concurrent)
    return outcome.chosen, outcome.trainings, time.process_time() - started


def differences(found: Sequence[tuple[float, int, float]], whole: Sequence[tuple[float, int, float]]) -> list[float]:
    """Return by how much each regret is larger than that of the search that is shown all trials."""
    return [one[0] - other[0] for one, other in zip(found, whole, strict=True)]


def mean(found: Sequence[tuple[float, int, float]], place: int) -> float:
    """Return the mean of one of the numbers of each search."""
    return fmean(one[place] for one in found)
