"""How often the set of best settings holds the true optimum, and which setting to use, by simulation.

    python -m tests.benchmarks bands [--searches 500] [--trials 24] [--only "2 ridge"]
    python -m tests.benchmarks bands --journals RUNS/one RUNS/two

Searches over surfaces of one to three parameters (``tests/support/simulated_surfaces.py``); no rule was chosen on those
called *drawn*. Each row is the percentage of searches whose optimum is said to be worse than the set of best settings,
beside 7 %, the most that is allowed. The note has how often the optimum is in the set, and not in the space of which
nothing is said; how often the 95 % interval at the setting to use misses; the shares of the space that the set has, and
of which nothing is said; how often a range is narrowed, and how often the box around the three best trials misses the
optimum. Then it has how far the setting with the highest lower end lies below the optimum, beside the best trial, with
the paired difference and its standard error; and how often a parameter without effect is said to matter.

With ``--journals``, real searches of two experiments with different seeds: each row is the probability with which the
best setting of one search reaches the best of the other's surface, beside the limit of its set.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from orchestrator.experiment.experiment import known_experiment
from orchestrator.journal.directory import read_history
from orchestrator.journal.history import History
from orchestrator.journal.points import points_of, ranked
from orchestrator.results.bands import WHOLE, band_of, place_of
from orchestrator.results.surface import REACH, Surface
from tests.benchmarks.rows import Row, error_of_mean
from tests.support.simulated_surfaces import DRAWN, SURFACES, Simulated

LIMIT = 7.0
"""Percent of searches whose set may miss the optimum."""

CASES = [
    (1, "peaked", 2.5, "tpe", True),
    (1, "cliff", 1.0, "tpe", False),
    (1, "cliff", 2.5, "tpe", True),
    (2, "peaked", 5.0, "tpe", False),
    (2, "flat", 5.0, "tpe", False),
    (2, "kink", 5.0, "tpe", False),
    (2, "cliff", 1.0, "tpe", False),
    (2, "ridge", 5.0, "tpe", False),
    (2, "ridge", 2.5, "tpe", True),
    (2, "ridge", 2.5, "uniform", False),
    (2, "irrelevant", 5.0, "tpe", False),
    (2, "irrelevant", 2.5, "tpe", True),
    (3, "cliff", 1.0, "tpe", False),
    (3, "ridge", 5.0, "tpe", False),
    (3, "ridge", 2.5, "tpe", True),
    (3, "irrelevant", 1.0, "tpe", False),
    *((dimensions, "plateau", 2.5, "tpe", False) for dimensions in (1, 2, 3)),
    *((dimensions, "edge", 2.5, "tpe", False) for dimensions in (1, 2, 3)),
    *((dimensions, "peaked", 2.5, "tpe", False) for dimensions in (1, 2, 3)),
    *((dimensions, "equal peaks", 2.5, "tpe", False) for dimensions in (1, 2, 3)),
    *((dimensions, "two peaks", 2.5, "tpe", False) for dimensions in (1, 2, 3)),
    *((dimensions, "broad peaks", 2.5, "tpe", False) for dimensions in (1, 2, 3)),
    *((dimensions, "hidden peak", 2.5, "tpe", False) for dimensions in (1, 2, 3)),
    *((dimensions, DRAWN, 2.5, "tpe", False) for dimensions in (1, 2, 3)),
    *((dimensions, DRAWN, 2.5, "tpe", True) for dimensions in (1, 2, 3)),
    *((dimensions, "thin", 2.5, "tpe", False) for dimensions in (2, 3)),
    *((dimensions, "aligned", 2.5, "tpe", False) for dimensions in (2, 3)),
]
"""Parameters, surface, noise of seeds in points of rsum, sampling, and whether trials are stopped early."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--searches", type=int, default=60, help="of each row, simulated")
    parser.add_argument("--trials", type=int, default=24, help="of a search")
    parser.add_argument("--only", default="", help="rows whose name begins so")
    parser.add_argument("--journals", nargs=2, type=Path, help="folders of two experiments with equal studies")


def run(options: argparse.Namespace) -> Iterator[Row]:
    if options.journals:
        yield from compare_journals(*map(read_history, options.journals))
        return
    gains: list[float] = []
    for dimensions, surface, noise, sampling, stopping in CASES:
        case = f"{dimensions} {surface}, noise {noise:g}, {sampling}{', stopping' if stopping else ''}"
        if case.startswith(options.only):
            seeds, how = range(options.searches), (sampling, stopping)
            found = np.array([simulate(surface, dimensions, options.trials, noise, seed, *how) for seed in seeds])
            gains += list(found[:, 7] - found[:, 6])
            yield _row(case, found)
    if gains:
        note = f"highest lower end {np.mean(gains):+.2f} ± {error_of_mean(gains):.2f} beside the best trial"
        yield Row("all searches", "rsum", float(np.mean(gains)), None, "", note=note)


def simulate(
    surface: str, dimensions: int, trials: int, noise: float, seed: int, sampling: str, stopping: bool
) -> list[float]:
    """Return of one search: what it misses, shares of the space, and regrets, in the order of ``_row``.

    The regrets are those of the setting with the highest lower end and of the best trial; the last number says whether
    the last parameter is said to matter.
    """
    name = [*SURFACES, DRAWN].index(surface)
    generator = np.random.default_rng([dimensions, name, round(10 * noise), len(sampling), stopping, seed])
    search = Simulated(surface, dimensions, trials, noise, generator, sampling, stopping)
    fitted = Surface(search.observed(), seed)
    at_optimum, top = fitted.predict(search.optimum[None]), search.best_trials(3)
    low, high = top.min(axis=0), top.max(axis=0)
    _, *ends = (float(values[0]) for values in fitted.band(fitted.predict(fitted.safest[None])))
    return [
        float(fitted.excludes(at_optimum)[0]),
        float(not ends[0] <= search.expected(fitted.safest) <= ends[1]),
        float(not ((low <= search.optimum) & (search.optimum <= high)).all()),
        fitted.share,
        fitted.unexplored,
        float((fitted.widths < WHOLE).any()),
        search.regret(fitted.safest),
        search.regret(top[0]),
        float(fitted.holds(at_optimum)[0]),
        float(fitted.change(dimensions - 1)[1] > 0),
    ]


def _row(case: str, found: np.ndarray) -> Row:
    missed, misses, boxed, share, far, narrowed, *_, inside, matters = 100 * found.mean(axis=0)
    safest, best = found[:, 6:8].T
    error_of_rate = 100 * float(np.sqrt(0.07 * 0.93 / len(found)))
    note = (
        f"in the set {inside:.0f} %; interval misses {misses:.1f} %; {share:.0f} % of the space, nothing said of "
        f"{far:.0f} %; narrowed in "
        f"{narrowed:.0f} %; box misses in {boxed:.0f} %; {safest.mean():.1f} below the optimum, the best trial "
        f"{best.mean():.1f} ({(best - safest).mean():+.2f} ± {error_of_mean(best - safest):.2f})"
    )
    note += f"; matters falsely in {matters:.0f} %" if "irrelevant" in case else ""
    note += "; ABOVE" if max(missed, misses) > LIMIT + 2 * error_of_rate else ""
    return Row(case, "%", missed, LIMIT, "most allowed", note=note)


def compare_journals(first: History, second: History) -> Iterator[Row]:
    """Ask of each study with a surface whether the set of one search holds the best setting of the other."""
    for one, other, names in ((first, second, "second's best"), (second, first, "first's best")):
        experiment = known_experiment(one)
        for cell in experiment.cells() if experiment else ():
            band, best = band_of(cell, points_of(one.study(cell.name))), ranked(points_of(other.study(cell.name)))[:1]
            if best and band is not None:
                at = band.surface.predict(place_of(band.bounds, best[0].first)[None])
                ends = (f"{name} {low:.2g} to {high:.2g}" for name, (low, high) in band.ranges.items())
                note = f"{100 * band.surface.share:.0f} % of the space: {', '.join(ends)}; best {best[0].first.params}"
                reached = 100 * float(band.surface.reach(at)[0])
                yield Row(f"{cell.name}, {names}", "%", reached, 100 * REACH, "limit of the set", note=note)
