"""Verdicts on repeated searches, by simulation: how often equal losses are told from each other, and leads are found.

``python -m tests.benchmarks repeats`` simulates far more cases; ``docs/evidence/verdict-errors.md`` has its table.
"""

import numpy as np
import pytest

from orchestrator.results.comparison import compare
from orchestrator.results.runs import RunId, Runs
from orchestrator.results.verdict import LEVEL, LEVELS_OF_SEARCHES
from tests.support.repeat_rates import Design, p_values, verdicts

STUDIES = 8000


def false_better(design: Design) -> float:
    """Return the percentage of studies with a false *better*."""
    level = LEVELS_OF_SEARCHES.get(design.searches, LEVEL)
    return 100 * float(verdicts(design, STUDIES, level, np.random.default_rng(3))[1].mean())


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
