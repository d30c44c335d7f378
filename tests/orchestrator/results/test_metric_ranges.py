"""What a retrieval metric can be: the ends are those of perfect and of hopeless similarities."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.experiment.values import COUNTS, METRICS
from orchestrator.results.candidates import Candidate, range_of
from orchestrator.results.verdict import judge
from trainables.metrics import retrieval_metrics

PAIRS = torch.eye(20, dtype=torch.bool)


def test_perfect_and_hopeless_similarities_reach_the_ends() -> None:
    perfect = retrieval_metrics(PAIRS.double(), PAIRS)
    hopeless = retrieval_metrics(1 - PAIRS.double(), PAIRS)
    for metric, value in perfect.items():
        ends = range_of(f"test/{metric}")
        if ends[1] == math.inf:
            assert (value, hopeless[metric]) == (ends[0], 20.0)
        else:
            assert (hopeless[metric], value) == ends


def test_every_metric_that_can_be_searched_for_has_two_ends() -> None:
    assert all(math.isfinite(end) for metric in METRICS for end in range_of(metric))
    assert range_of(next(iter(COUNTS))) == (-math.inf, math.inf)


@pytest.mark.parametrize("metric", ["test/rsum", "test/i2t_r1", "test/t2i_map5"])
@given(data=st.data())
def test_no_interval_leaves_the_range_of_its_metric(metric: str, data: st.DataObject) -> None:
    low, high = range_of(metric)
    seeds = data.draw(st.integers(2, 5))
    runs = st.lists(st.floats(low, high), min_size=seeds, max_size=seeds)
    candidates = [
        Candidate(
            "pets", "vsepp", loss, {}, loss, {seed: {metric: value} for seed, value in enumerate(data.draw(runs))}
        )
        for loss in ("nt_xent", "triplet_sh")
    ]
    verdict = judge(candidates, metric=metric, selection=metric)
    for standing in verdict.standings:
        assert standing.student is not None
        assert low <= standing.student.low <= standing.student.high <= high
        assert standing.student.low - 1e-9 <= standing.result.mean <= standing.student.high + 1e-9
    for comparison in verdict.comparisons:
        if comparison.interval is not None:
            assert low - high <= comparison.interval.low <= comparison.interval.high <= high - low


@given(st.lists(st.floats(0, 600), min_size=1, max_size=6))
def test_the_deviation_that_stands_for_uncertainty_is_the_samples(values: list[float]) -> None:
    candidate = Candidate("pets", "vsepp", "nt_xent", {}, "a", {seed: {"rsum": v} for seed, v in enumerate(values)})
    result = candidate.measures()["rsum"]
    if len(values) == 1:
        assert result.sample_std is None
    else:
        assert result.sample_std == pytest.approx(np.std(values, ddof=1), abs=1e-9)
