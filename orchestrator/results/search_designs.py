"""How to split a budget of trainings between searches: few with many trials each, or many with few.

A search of n trials finds a setting below the best that there is, by more the fewer its trials, and its luck is the
standard deviation of that over searches. How both change with n is simulated: the best of n places at random in a
square, cube, ... of the searched parameters, on a quadratic with its peak in the middle. A sampler that learns gains
more with each trial, so that many trials are worth more than here. The simulated luck is scaled to that of
``OF_TRIALS`` trials that is usual, or to the luck that earlier searches had. With these searches ``STUDIES`` studies of
two equal losses are simulated, with noise of seeds and images. A study with a difference d, whose test calls c and more
significant, finds a lead of c - d and more. The lead that 80 % of studies find is that quantile of c - d.

A search with fewer trials finds worse settings. So each design asks another question: which loss is better at n trials.
"""

import math
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.results.comparison import wary_of_luck
from orchestrator.results.luck import variance_of_best
from orchestrator.results.statistics import POWER, DifferenceTest, quantile
from orchestrator.results.verdict import LEVEL, LEVELS_OF_SEARCHES

USUAL_LUCK, OF_TRIALS = (2.0, 5.0), 12
"""Usual standard deviations of the best setting over searches, in rsum, and the trials of such a search."""

NOISE, ERROR_OF_IMAGES, IMAGES = 1.5, 1.5, 1000
"""Usual standard deviation over seeds, standard error of a loss by its test images, in rsum, and their number."""

REPEATS = (3, 4, 5, 6, 8, 10, 15, 20)
"""Numbers of searches that are compared; two find hardly anything."""

FEWEST_TRIALS, MOST_TRIALS = 3, 512
"""Trials of a search, at least; and most that are simulated, beyond which nothing changes."""

STUDIES, SEARCHES = 1000, 4000
"""Simulated studies of a design, and simulated searches."""

FEWEST_MEASURED = 3
"""Searches of a loss from which on their luck is taken as measured."""

SHOWN = 5
"""Most designs that are shown."""

NEARLY = 1.1
"""Ratio to the smallest lead up to which fewer searches with more trials are preferred: they find better settings."""


@dataclass(frozen=True)
class SearchDesign:
    """Repeated searches of each loss, for one budget of trainings.

    Attributes:
        searches: Independent searches of each loss, >= 2.
        trials: Trials of each search.
        leads: For each luck that is assumed, the lead of one of two losses that is found in 80 % of studies, in rsum.
        below: For each, how far the mean setting of such a search lies below that of a single search with all trials.
        is_own: Whether this is the design of the experiment.
    """

    searches: int
    trials: int
    leads: tuple[float, ...]
    below: tuple[float, ...]
    is_own: bool = False


@dataclass(frozen=True)
class Luck:
    """Standard deviations over searches of so many trials, each as one assumption, and whether they were measured."""

    deviations: tuple[float, ...] = USUAL_LUCK
    trials: int = OF_TRIALS
    is_measured: bool = False


USUAL = Luck()


def measured_luck(history: History) -> Luck:
    """Return the median luck of an experiment's losses by all trials of their searches; the usual one where unknown."""
    studies: dict[tuple[str, str, str], dict[int, list[float | None]]] = {}
    for trial in (trial for trial in history.stage(Stage.SEARCH) if not trial.is_zero_shot):
        of = (trial.config.dataset, trial.config.model, trial.config.loss)
        value = trial.best_value if trial.state is TrialState.FINISHED else None
        studies.setdefault(of, {}).setdefault(trial.search, []).append(value)
    known = [list(searches.values()) for searches in studies.values() if len(searches) >= FEWEST_MEASURED]
    variances = [variance for searches in known if (variance := variance_of_best(searches))]
    if not variances:
        return USUAL
    trials = round(median(len(search) for searches in known for search in searches))
    return Luck((math.sqrt(median(variances)),), trials, is_measured=True)


def search_designs(
    budget: int, seeds: int, parameters: int, luck: Luck, own: tuple[int, int] | None = None
) -> list[SearchDesign]:
    """Return designs that cost as much, by the lead that they find.

    Args:
        budget: Trainings of a loss: trials of all its searches, and the trainings that confirm their best.
        seeds: Fresh seeds of the best of each search, >= 1.
        parameters: Searched parameters of a loss, >= 1.
        luck: What is known of the luck.
        own: Searches and trials of the experiment, where it repeats its searches.

    Returns:
        At most ``SHOWN`` designs, the recommended one first; the experiment's own is among them.
    """
    sizes = {count: budget // count - seeds for count in REPEATS}
    sizes = {count: size for count, size in sizes.items() if size >= FEWEST_TRIALS} | (dict([own]) if own else {})
    best = best_of_random(parameters, min(MOST_TRIALS, max([luck.trials, budget, *sizes.values()])))

    def design(count: int, size: int) -> SearchDesign:
        at, of, whole = (best[:, min(number, MOST_TRIALS) - 1] for number in (size, luck.trials, budget))
        scales = [deviation / float(of.std()) for deviation in luck.deviations]
        leads = tuple(_lead(count, scale * at, seeds) for scale in scales)
        below = tuple(scale * float(whole.mean() - at.mean()) for scale in scales)
        return SearchDesign(count, size, leads, below, (count, size) == own)

    ordered = sorted((design(*pair) for pair in sizes.items()), key=lambda one: (sum(one.leads), one.searches))
    if not ordered:
        return []
    good = [one for one in ordered if sum(one.leads) <= NEARLY * sum(ordered[0].leads)]
    first = min(good, key=lambda one: one.searches)
    shown = [first, *(one for one in ordered if one is not first)]
    mine = [one for one in shown[SHOWN:] if one.is_own]
    return [*shown[: SHOWN - len(mine)], *mine]


def best_of_random(parameters: int, trials: int) -> NDArray[np.float64]:
    """Return the best of the first 1, 2, ... random trials of ``SEARCHES`` searches, shape (SEARCHES, trials)."""
    generator = np.random.default_rng(parameters)
    below = np.zeros((SEARCHES, trials))
    for _ in range(parameters):
        below += generator.uniform(-1, 1, below.shape) ** 2
    best: NDArray[np.float64] = -np.minimum.accumulate(below, axis=1)
    return best


def _lead(count: int, searches: NDArray[np.float64], seeds: int) -> float:
    """Return the lead that studies of ``count`` searches find, whose best settings have the values ``searches``."""
    generator, level = np.random.default_rng(count), LEVELS_OF_SEARCHES.get(count, LEVEL)
    values = generator.choice(searches, (STUDIES, 2, count))
    values = values + NOISE / math.sqrt(seeds) * generator.standard_normal(values.shape)
    images = ERROR_OF_IMAGES * generator.standard_normal((STUDIES, 2))
    differences = np.subtract(*(values.mean(axis=2) + images).T)
    found = []
    for difference, (first, second) in zip(differences, values.var(axis=2, ddof=1) / count, strict=True):
        total = float(first + second) + 2 * ERROR_OF_IMAGES**2
        test = DifferenceTest(0.0, (float(first), float(second)), (0.0, 0.0), (count, count), total, IMAGES)
        test = wary_of_luck(test, (None, None))
        found.append(quantile(1 - level / 2, test.freedom) * test.error - difference)
    return float(np.quantile(found, POWER))
