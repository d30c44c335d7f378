"""Regret of simulated searches on a noisy objective, with and without what is to help against noise.

The regret of a search is the best mean of any setting minus the mean of the setting that a search puts first, in rsum,
after so many epochs in all; ``noisy_search`` says what is simulated. All variants solve the same problems, so that a
difference has the standard error of the differences. ``same seed`` is how it was: a setting that is suggested again is
trained again with its seed. Variants that the product does not have are written here:

``replicates=N``  a setting that is suggested again is trained again N times at most, then another one is drawn
``incumbent``     every fourth trial trains the best setting so far again
``slack``         ASHA keeps a trial that is within the standard deviation of the noise, given to it, of the cut
``screen``        ASHA stops from epoch 1 on instead of 3
``prior``         half of the first ten suggestions, then a fifth, are drawn around the published settings (sd 0.25)
"""

import argparse
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import numpy as np

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.sections import Scheduler
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.points import best_points
from orchestrator.studies.study import Studies, Study, replicate_seed
from orchestrator.tuner.scheduler import Rungs, StudyScheduler
from tests.benchmarks.noisy_search import (
    EPOCHS,
    RANGES,
    SPACES,
    USUAL,
    Objective,
    Outcome,
    Problem,
    make_experiment,
    run_search,
)
from tests.benchmarks.rows import Row
from trainables.config import TrialConfig, derive_seed


def add_options(parser: argparse.ArgumentParser) -> None:
    """See ``command``."""
    parser.add_argument("--problems", type=int, default=3, help="of each space, noise and budget")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.5, 1.5, 3.0], help="standard deviations, in rsum")
    parser.add_argument("--budgets", type=int, nargs="+", default=[180, 360], help="in epochs; a whole trial has 15")
    parser.add_argument("--spaces", nargs="+", choices=SPACES, default=["one range", "three ranges", "120 listed"])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, help="by default those of each space")
    parser.add_argument("--concurrent", type=int, default=2, help="trials at a time")


def run(options: argparse.Namespace) -> Iterator[Row]:
    """See ``command``."""
    for space in options.spaces:
        names = options.variants or (LISTED if space.endswith("listed") else RANGED)
        for noise in options.noise:
            for budget in options.budgets:
                problems = [draw(space, noise, number) for number in range(options.problems)]
                case = f"{space}, {noise:g}, {budget}"
                yield from compare_all(case, names, space, problems, budget, options.concurrent)


def draw(space: str, noise: float, number: int) -> Problem:
    """Return a problem whose optimum is drawn."""
    drawn = random.Random(f"problem {number}")
    return Problem({**USUAL, **{searched: drawn.uniform(0.1, 0.9) for searched in SPACES[space]}}, noise, number)


def compare_all(
    case: str, names: Sequence[str], space: str, problems: Sequence[Objective], budget: int, concurrent: int
) -> Iterator[Row]:
    """Compare variants with the plain search on the same problems."""
    plain = [solve("same seed", space, problem, budget, concurrent) for problem in problems]
    for name in names:
        found = [solve(name, space, problem, budget, concurrent) for problem in problems]
        yield compare(f"{case}, {name}", found, plain)


def compare(case: str, ours: Sequence[Outcome], plain: Sequence[Outcome]) -> Row:
    """Return the mean regrets of a variant and of the plain search, with what lies between them."""
    chosen, confirmed = (
        [getattr(one, stage) - getattr(other, stage) for one, other in zip(ours, plain, strict=True)]
        for stage in ("chosen", "confirmed")
    )
    settings = fmean(one.points for one in ours)
    note = f"difference {error(chosen)}; after a confirmation {error(confirmed)}; {settings:.0f} settings"
    regrets = [fmean(one.chosen for one in each) for each in (ours, plain)]
    return Row(case, "rsum", *regrets, "same seed", None, note)


def error(differences: Sequence[float]) -> str:
    """Return a mean with its standard error."""
    spread = stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
    return f"{fmean(differences):+.2f} ± {spread:.2f}"


class SameSeed(Studies):
    """Trains what is suggested, as often as it is suggested, with the seed of the search."""

    def _draw(self, study: Study) -> tuple[Mapping[str, Any], TrialConfig, str | None]:
        params, suggestion = study.ask()
        return params, self._experiment.suggested(study.cell, suggestion), None


class Incumbent(SameSeed):
    """Trains the best setting so far again, with another seed, as every fourth trial."""

    def _draw(self, study: Study) -> tuple[Mapping[str, Any], TrialConfig, str | None]:
        leader = next(iter(best_points(self._ledger.history.study(study.cell.name))), None)
        if study.asked % 4 != 3 or leader is None:
            return super()._draw(study)
        study._asked += 1
        config = leader.first.config
        again = replace(config, seed=replicate_seed(config.seed, len(leader.trainings)))
        return leader.first.params, again, leader.first.id


class Prior(SameSeed):
    """Draws some suggestions around the published settings, by a normal of a quarter of each range."""

    def _draw(self, study: Study) -> tuple[Mapping[str, Any], TrialConfig, str | None]:
        number = study.asked
        draw = random.Random(derive_seed(study.cell.seed, "prior", number))
        if not number or draw.random() >= (0.5 if number < 10 else 0.2):
            return super()._draw(study)
        study._asked += 1
        params, suggestion = study._ask_for({name: near(name, draw) for name in study.cell.space.bounds()})
        return params, self._experiment.suggested(study.cell, suggestion), None


def near(name: str, draw: random.Random) -> float:
    """Return a value near the published one, within the range."""
    parameter = name.removeprefix("training.")
    (low, high), place = RANGES[parameter], -1.0
    while not 0 <= place <= 1:
        place = draw.gauss(USUAL[parameter], 0.25)
    return min(max(low * (high / low) ** place, low), high)


class Slack(Rungs):
    """Rungs that keep a trial that is below the cut by no more than the noise."""

    def __init__(self, rules: Scheduler, noise: float) -> None:
        self._factor, self._noise = rules.reduction_factor, noise
        self._rungs: dict[float, list[float]] = {}
        epoch = float(rules.grace_epochs)
        while epoch < EPOCHS:
            self._rungs[epoch] = []
            epoch *= self._factor

    def may_continue(self, trial_id: str, number: int, epoch: int, best: float) -> bool:
        """Note the best value so far at an epoch; say whether the trial may continue."""
        if epoch not in self._rungs:
            return True
        before = tuple(self._rungs[epoch])
        self._rungs[epoch].append(best)
        return not before or best >= np.percentile(before, 100 - 100 / self._factor) - self._noise


def solve(name: str, space: str, problem: Objective, budget: int, concurrent: int) -> Outcome:
    """Return what a variant comes to on a problem."""
    search: dict[str, Any] = {"replicates": int(name[-1])} if name.startswith("replicates") else {}
    experiment = make_experiment(space, problem.seed, search, {"grace_epochs": 1} if name == "screen" else {})

    class Scheduled(StudyScheduler):
        def __init__(self, experiment: Experiment, ledger: Ledger) -> None:
            super().__init__(experiment, ledger)
            if name == "slack":
                self._rules = {cell.name: Slack(cell.scheduler, problem.noise) for cell in experiment.cells()}

    studies = {"incumbent": Incumbent, "prior": Prior}.get(name, Studies if search else SameSeed)
    return run_search(space, experiment, problem, budget, concurrent, studies, Scheduled)


LISTED = ("replicates=0", "replicates=1", "replicates=2")
RANGED = ("incumbent", "slack", "screen", "prior")
"""Variants that can differ from the plain search in listed values, and in ranges, where no setting is drawn twice."""

VARIANTS = (*LISTED, *RANGED)
