"""How often verdicts on repeated searches err, and which leads they find, by simulation.

    python -m tests.benchmarks repeats [--studies 4000] [--searches 1000] [--tpe]

A study has some losses, each searched repeatedly (``tests/support/repeat_rates.py``). A row is the share of studies,
in percent, in which equal losses are told from each other. Either all are equal, or the two best are, before others
that are far behind. ``luck`` is the standard deviation of the best setting over searches, in rsum; *ten* is a first
loss with ten times the luck of the others, *five* and *three* one with less. Its distribution is normal, or that of the
best of random trials, or of trials of which the worse half was stopped. The other rows are the share of studies that
find a lead, and interactions over datasets, trends and bends where there is none.

*tpe* are searches by Optuna of 6 and 12 trials, some with trials that ASHA or a rule of medians stopped; their luck
is that of the sampler's path. ``--searches`` is their number, from which studies draw theirs.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np

from orchestrator.results.datasets import LEVEL as INTERACTION_LEVEL
from orchestrator.results.datasets import interaction_test
from orchestrator.results.trends import find_trend
from orchestrator.results.verdict import LEVEL, LEVELS_OF_SEARCHES
from tests.benchmarks.rows import Row
from tests.support.repeat_rates import Design, against_constant, lucks, searched_by_tpe, verdicts

LIMIT, OF_INTERACTIONS = 4.0, 5.0
"""Percent of studies that may be wrong."""

SEARCHES = (2, 3, 5, 10)
FAR = -300.0

UNLIKE = (("ten", 20.0), ("five", 10.0), ("three", 6.0))
"""Name -> luck of a first loss beside others with a luck of 2."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--studies", type=int, default=4000, help="of each row")
    parser.add_argument("--searches", type=int, default=300, help="by TPE, of each number of trials and rule")
    parser.add_argument("--tpe", action="store_true", help="searches by TPE alone")


def run(options: argparse.Namespace) -> Iterator[Row]:
    for stops, trials, losses, searches in product(("", "asha", "median"), (6, 12), (2, 6), (2, 3, 5)):
        yield _false_by_tpe(options, stops, trials, losses, searches)
    if options.tpe:
        return
    for kind, losses, searches in product(("normal", "random", "stopped"), (2, 4, 6, 13), SEARCHES):
        yield _false(options.studies, kind, losses, searches)
    for kind, searches in product(("normal", "random", "stopped"), SEARCHES):
        yield _false_against_constant(options.studies, kind, searches)
    for losses, searches, luck, lead in product((2, 4, 11), SEARCHES, (2.0, 5.0), (5.0, 10.0)):
        yield _found(options.studies, losses, searches, luck, lead)
    for seeds in (1, 3, 5):
        yield _found(options.studies, 2, 3, 2.0, 10.0, seed=6.0, seeds=seeds)
    for searches, (luck, other) in product(SEARCHES, ((2.0, 2.0), (5.0, 5.0), (20.0, 2.0), (2.0, 20.0))):
        yield _found_by_trials(options.studies, searches, luck, other)
    for searches, luck in product(SEARCHES, (2.0, 5.0, 30.0)):
        yield _interaction(options.studies // 4, searches, luck)
        yield _trend(options.studies // 4, searches, luck)


def _false(studies: int, kind: str, losses: int, searches: int) -> Row:
    """Return the worst of several spreads of luck, with one to five seeds, over seeds alone and images as well."""
    generator, level = np.random.default_rng([losses, searches]), LEVELS_OF_SEARCHES.get(searches, LEVEL)
    shares: dict[str, float] = {}
    for behind in (0.0,) if losses == 2 else (0.0, FAR):
        means = np.where(np.arange(losses) < 2, 0.0, behind)
        for name, luck in (*((f"{luck}", np.full(losses, luck)) for luck in (0.0, 2.0, 5.0, 30.0)), *UNLIKE):
            of = luck if isinstance(luck, np.ndarray) else np.where(np.arange(losses) == 0, luck, 2.0)
            for seeds, image in ((1, 0.0), (1, 1.5), (5, 1.5)):
                design = Design(means, searches, of, kind, seeds=seeds, image=image)
                case = f"luck {name}, {seeds} seeds, images {image:g}{', others behind' if behind else ''}"
                shares[case] = 100 * float(verdicts(design, studies, level, generator)[1].mean())
    alike = {
        case: share for case, share in shares.items() if not case.startswith(tuple(f"luck {of}" for of, _ in UNLIKE))
    }
    worst, worst_alike = max(shares, key=shares.__getitem__), max(alike, key=alike.__getitem__)
    note = f"with luck alike {alike[worst_alike]:.1f} ({worst_alike}); worst: {worst}"
    case = f"false: {losses} losses, {searches} searches, {kind}"
    return Row(case, "%", shares[worst], LIMIT, "limit", note=note)


def _false_against_constant(studies: int, kind: str, searches: int) -> Row:
    """Return the worst of several spreads of luck, with one to five seeds, over seeds alone and images as well."""
    generator, level = np.random.default_rng(searches), LEVELS_OF_SEARCHES.get(searches, LEVEL)
    shares: dict[str, float] = {}
    for luck, (seeds, image) in product((2.0, 5.0, 20.0), ((1, 0.0), (1, 1.5), (5, 1.5))):
        design = Design(np.zeros(1), searches, np.array([luck]), kind, seeds=seeds, image=image)
        found = against_constant(design, studies, level, generator)
        shares[f"luck {luck:g}, {seeds} seeds, images {image:g}"] = 100 * float(found.mean())
    worst = max(shares, key=shares.__getitem__)
    case = f"false: a loss and a constant, {searches} searches, {kind}"
    return Row(case, "%", shares[worst], LIMIT, "limit", note=f"worst: {worst}")


FALLS = (100.0, 400.0, 1600.0)
"""By how much a setting is worse that is a range away from the best, in rsum."""


def _false_by_tpe(options: argparse.Namespace, stops: str, trials: int, losses: int, searches: int) -> Row:
    """Return the worst of several surfaces, with one to five seeds, over seeds alone and images as well."""
    generator, level = np.random.default_rng([trials, losses, searches]), LEVELS_OF_SEARCHES.get(searches, LEVEL)
    pools = {fall: searched_by_tpe(options.searches, trials, fall, stops) for fall in FALLS}
    shares: dict[str, float] = {}
    for fall, (seeds, image) in product(FALLS, ((1, 0.0), (1, 1.5), (5, 1.5))):
        pool = pools[fall]
        design = Design(np.zeros(losses), searches, np.zeros(losses), "tpe", seeds=seeds, image=image, pool=pool)
        case = f"luck {pool.luck:.1f}, {seeds} seeds, images {image:g}"
        shares[case] = 100 * float(verdicts(design, options.studies, level, generator)[1].mean())
    ahead = Design(10.0 * (np.arange(losses) == 0), searches, np.zeros(losses), "tpe", pool=pools[FALLS[0]])
    winner, better = verdicts(ahead, options.studies, level, generator)
    power = 100 * float((better & (winner == 0)).mean())
    worst = max(shares, key=shares.__getitem__)
    error = 100 * float(np.sqrt(LIMIT / 100 * (1 - LIMIT / 100) / options.studies))
    case = f"false: tpe{f', {stops}' if stops else ''}, {trials} trials, {losses} losses, {searches} searches"
    note = f"± {error:.1f}; worst: {worst}; with luck {pools[FALLS[0]].luck:.1f} a lead of 10 is found in {power:.0f} %"
    return Row(case, "%", shares[worst], LIMIT, "limit", note=note)


def _found(
    studies: int, losses: int, searches: int, luck: float, lead: float, seed: float = 1.5, seeds: int = 1
) -> Row:
    means = np.where(np.arange(losses) == 0, lead, 0.0)
    design = Design(means, searches, np.full(losses, luck), seed=seed, seeds=seeds)
    level = LEVELS_OF_SEARCHES.get(searches, LEVEL)
    winner, better = verdicts(design, studies, level, np.random.default_rng([losses, searches]))
    share = 100 * float((better & (winner == 0)).mean())
    of = f", sd of seeds {seed:g}, {seeds} seeds" if seed != 1.5 else ""
    return Row(f"found: lead {lead:g}, {losses} losses, {searches} searches, luck {luck:g}{of}", "%", share, None, "")


def _found_by_trials(studies: int, searches: int, luck: float, other: float) -> Row:
    """Return how often the first of two losses is found, where each search is the best of random trials."""
    lead = 10.0 if luck == other else 30.0
    design = Design(np.array([lead, 0.0]), searches, np.array([luck, other]), "random")
    level = LEVELS_OF_SEARCHES.get(searches, LEVEL)
    winner, better = verdicts(design, studies, level, np.random.default_rng(searches))
    share = 100 * float((better & (winner == 0)).mean())
    return Row(f"found: lead {lead:g}, {searches} searches, luck {luck:g} and {other:g}, random", "%", share, None, "")


def _interaction(studies: int, searches: int, luck: float) -> Row:
    """Return how often losses that are equal on three datasets interact with the datasets."""
    generator = np.random.default_rng(searches)
    design = Design(np.zeros(6), searches, np.full(6, luck))
    images = 60

    def significant() -> bool:
        cells = {}
        for dataset in range(3):
            theirs = lucks(design, 1, generator)[0][0] + 1.5 * generator.standard_normal((6, searches))
            of_images = 1.5 * np.sqrt(images) * generator.standard_normal((6, 1, images))
            cells[f"d{dataset}"] = dict(zip("abcdef", theirs[..., None] + of_images, strict=True))
        found = interaction_test(cells)
        return found is not None and found.p <= INTERACTION_LEVEL

    share = 100 * float(np.mean([significant() for _ in range(studies)]))
    return Row(f"interaction: {searches} searches, luck {luck:g}", "%", share, OF_INTERACTIONS, "limit")


def _trend(studies: int, searches: int, luck: float) -> Row:
    """Return how often six equal values of a parameter have a trend or a bend."""
    generator = np.random.default_rng(searches)
    draw = partial(generator.normal, 0.0, np.hypot(luck, 1.5), searches)
    trends = [find_trend({2.0**x: draw() for x in range(6)}, "x", "test/rsum", "a", "vsepp") for _ in range(studies)]
    share = 100 * float(np.mean([min(t["slope"]["p"], t["bend"]["p"]) <= 0.05 for t in trends if t is not None]))
    return Row(f"trend or bend: {searches} searches, luck {luck:g}", "%", share, OF_INTERACTIONS, "limit")
