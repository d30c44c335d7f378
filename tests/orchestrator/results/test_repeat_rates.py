"""Verdicts on repeated searches, by simulation: how often equal losses are told from each other, and leads are found.

``python -m tests.benchmarks repeats`` simulates far more cases; ``docs/evidence/verdict-errors.md`` has its table.
"""

import numpy as np
import pytest

from orchestrator.results.comparison import compare
from orchestrator.results.luck import variance_of_best
from orchestrator.results.runs import RunId, Runs
from orchestrator.results.verdict import LEVEL, LEVELS_OF_SEARCHES
from tests.support.repeat_rates import Design, _variance_of_best, p_values, searched_by_tpe, verdicts

STUDIES = 8000


def false_better(design: Design, studies: int = STUDIES) -> float:
    """Return the percentage of studies with a false *better*."""
    level = LEVELS_OF_SEARCHES.get(design.searches, LEVEL)
    return 100 * float(verdicts(design, studies, level, np.random.default_rng(3))[1].mean())


@pytest.mark.parametrize("wide", [3.0, 40.0])
def test_the_arrays_have_the_p_values_of_the_product(wide: float) -> None:
    generator = np.random.default_rng(0)
    values = [200 + luck * generator.standard_normal(4) for luck in (3.0, wide)]
    runs = [
        Runs(label, {RunId(number + 1, 0): {"test/rsum": value} for number, value in enumerate(of)}, is_repeated=True)
        for label, of in zip("ab", values, strict=True)
    ]
    difference, variances = values[0].mean() - values[1].mean(), [of.var(ddof=1) / 4 for of in values]
    expected = p_values(np.array(difference), np.array(variances[0]), np.array(variances[1]), 4, 0.0)
    assert compare(*runs, "test/rsum").p == pytest.approx(float(expected))


@pytest.mark.parametrize("lucks", [(3.0, 40.0), (40.0, 3.0), (9.0, 12.0)], ids=str)
def test_the_trials_of_both_losses_give_least_variances_where_their_luck_is_unlike(lucks: tuple[float, ...]) -> None:
    generator = np.random.default_rng(1)
    shown = [luck**2 for luck in lucks]
    values = [201 + generator.standard_normal(4), 200 + generator.standard_normal(4)]
    runs = [
        Runs(
            label,
            {RunId(number + 1, 0): {"test/rsum": value} for number, value in enumerate(of)},
            is_repeated=True,
            luck={"test/rsum": luck},
        )
        for label, of, luck in zip("ab", values, shown, strict=True)
    ]
    difference, variances = values[0].mean() - values[1].mean(), [of.var(ddof=1) / 4 for of in values]
    luck = (np.array(shown[0]), np.array(shown[1]))
    expected = p_values(np.array(difference), np.array(variances[0]), np.array(variances[1]), 4, 0.0, luck)
    alone = p_values(np.array(difference), np.array(variances[0]), np.array(variances[1]), 4, 0.0)
    compared = compare(*runs, "test/rsum")
    assert compared.p == pytest.approx(float(expected))
    assert compared.turned().p == pytest.approx(compared.p)
    assert bool(compared.p > 1.5 * alone) is (max(lucks) > 20)


def test_the_variance_of_the_best_is_that_of_drawn_searches() -> None:
    searches = [[7.0, 4.0, 9.0, None], [7.0, 8.0, None, 7.5], [7.0, 2.5, 6.0, 4.0]]
    generator = np.random.default_rng(0)
    values = np.array(searches, dtype=np.float64)
    drawn = values[generator.integers(0, 3, (200_000, 4)), np.arange(4)]
    assert variance_of_best(searches) == pytest.approx(np.nanmax(drawn, 1).var(), rel=0.02)
    assert variance_of_best([[7.0, 1.0], [7.0, 2.0]]) == 0.0, "published settings are best in each search"
    assert variance_of_best([[1.0], [2.0, None]]) is None, "a search of one trial says nothing of its luck"


def test_the_simulated_luck_is_that_of_the_product() -> None:
    seen = np.random.default_rng(4).normal(size=(3, 2, 5, 12))
    seen[0, 1, :, ::3] = -np.inf
    found = _variance_of_best(seen)
    for study, loss in np.ndindex(3, 2):
        trials = [[value if np.isfinite(value) else None for value in search] for search in seen[study, loss]]
        assert found[study, loss] == pytest.approx(variance_of_best(trials), rel=0.02)


@pytest.mark.parametrize("kind", ["random", "stopped"])
@pytest.mark.parametrize("searches", [2, 3, 5, 10])
@pytest.mark.parametrize("luck", [(20, 2), (10, 2), (6, 2), (2, 20, 20)], ids=str)
def test_rare_bad_searches_that_few_show_make_no_loss_better(luck: tuple[float, ...], searches: int, kind: str) -> None:
    means = np.where(np.arange(len(luck)) < 2, 0.0, -300.0)
    rate = false_better(Design(means, searches, np.array(luck, dtype=np.float64), kind), 3000)
    assert rate <= 4.0 + 3 * np.sqrt(4 * 96 / 3000)


@pytest.mark.parametrize("searches", [2, 3, 5, 10])
@pytest.mark.parametrize("luck", [(0, 0), (2, 2), (30, 30), (20, 2), (2, 20, 20)], ids=str)
def test_equal_losses_are_told_from_each_other_in_at_most_4_percent(luck: tuple[float, ...], searches: int) -> None:
    # Two equals before losses that are far behind are the worst case of many losses.
    means = np.where(np.arange(len(luck)) < 2, 0.0, -300.0)
    rate = false_better(Design(means, searches, np.array(luck, dtype=np.float64)))
    assert rate <= 4.0 + 3 * np.sqrt(4 * 96 / STUDIES)


def test_five_searches_find_a_lead_of_ten_whose_luck_is_two() -> None:
    for losses, least in ((2, 88), (4, 78), (11, 62)):
        means = np.zeros(losses)
        means[0] = 10.0
        winner, better = verdicts(Design(means, 5, np.full(losses, 2.0)), STUDIES, LEVEL, np.random.default_rng(5))
        assert 100 * float((better & (winner == 0)).mean()) > least


@pytest.mark.parametrize("stops", ["", "asha", "median"])
def test_searches_by_tpe_tell_equal_losses_from_each_other_no_more_often(stops: str) -> None:
    pool = searched_by_tpe(40, 6, 1600.0, stops)
    ended = np.isfinite(pool.seen)
    assert ended[:, 0].all() and (ended.all() if not stops else ended.mean() < 0.9)
    # The best of each search is among its trials that were trained to the end, within the noise of seeds.
    assert np.abs(pool.seen.max(axis=1) - pool.chosen).max() < 6 and pool.luck > 2
    design = Design(np.zeros(2), 3, np.zeros(2), "tpe", pool=pool)
    # A level of 4 %, and two standard errors of 8,000 studies.
    assert 0 < false_better(design) <= 4.5
