"""Rank correlations against SciPy's, whatever the data."""

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.space import rank_correlation


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=40))
def test_rank_correlation_is_spearmans(pairs: list[tuple[int, int]]) -> None:
    x, y = zip(*pairs, strict=True)
    found = rank_correlation(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
