"""Query by query: the counts are those of a loop, and the largest leads come first."""

import math
from dataclasses import replace
from statistics import median

import numpy as np
import pytest

from orchestrator.results.trial_comparison import DEPTHS, SHOWN, compare_queries
from trainables.ranks import Ranks

OWNER = np.repeat(np.arange(30, dtype=np.int32), 2)


def ranks_of(seed: int, typical: float = 4.0) -> Ranks:
    drawn = np.random.default_rng(seed).geometric(1 / typical, (2, len(OWNER))).astype(np.int32)
    return Ranks(drawn[0], drawn[1], OWNER, "ab" * 32, "test")


def test_counts_and_leads_are_those_of_a_loop() -> None:
    first, second = [ranks_of(1), ranks_of(2), ranks_of(3)], [ranks_of(4, 9.0), ranks_of(5, 9.0)]
    for way, found in zip(("i2t", "t2i"), compare_queries(first, second), strict=True):
        queries = range(30) if way == "i2t" else range(60)
        medians = [
            [median(int(one.i2t[q == OWNER].min() if way == "i2t" else one.t2i[q]) for one in runs) for q in queries]
            for runs in (first, second)
        ]
        pairs = list(zip(*medians, strict=True))
        for depth, counts in zip(DEPTHS, found.found, strict=True):
            assert counts == (
                depth,
                sum(a <= depth and b <= depth for a, b in pairs),
                sum(a <= depth < b for a, b in pairs),
                sum(b <= depth < a for a, b in pairs),
                sum(a > depth and b > depth for a, b in pairs),
            )
        for shown, sign in ((found.gained, 1), (found.lost, -1)):
            assert len(shown) <= SHOWN
            leads = [sign * math.log(second / first) for _, first, second in shown]
            assert leads == sorted(leads, reverse=True)
            best = sorted((sign * math.log(b / a) for a, b in pairs if sign * (b - a) > 0), reverse=True)
            assert leads == pytest.approx(best[:SHOWN])
            assert [ranks for _, *ranks in shown] == [list(pairs[query]) for query, *_ in shown]


def test_equal_ranks_are_neither_gained_nor_lost() -> None:
    i2t, t2i = compare_queries([ranks_of(1)], [ranks_of(1)])
    assert (i2t.gained, i2t.lost, t2i.gained, t2i.lost) == ((), (), (), ())
    assert all(only_first == only_second == 0 for _, _, only_first, only_second, _ in (*i2t.found, *t2i.found))


def test_ranks_of_other_queries_are_refused() -> None:
    with pytest.raises(ValueError, match="other queries"):
        compare_queries([ranks_of(1)], [replace(ranks_of(1), queries="cd" * 32)])
