"""Runs of candidates: one container for seeds, searches, images and published means."""

import numpy as np
import pytest

from orchestrator.results.runs import RunId, Runs, Unit
from orchestrator.results.statistics import Measure

METRIC = "test/rsum"

REPEATED = Runs(
    "a",
    {RunId(search, seed): {METRIC: 100.0 + 10 * search + seed} for search in (1, 0) for seed in (2, 0)},
    images={METRIC: {RunId(s, seed): np.full(3, 100.0 + 10 * s + seed) for s in (0, 1) for seed in (0, 2)}},
)


def test_the_unit_is_the_search_where_there_are_several() -> None:
    assert (REPEATED.unit, REPEATED.searches) == (Unit.SEARCH, 2)
    assert REPEATED.sample(METRIC).tolist() == [100, 102, 110, 112]
    assert REPEATED.sample(METRIC, Unit.SEARCH).tolist() == [101, 111]
    rows = REPEATED.image_rows(METRIC, Unit.SEARCH)
    assert rows is not None and rows.tolist() == [[101] * 3, [111] * 3]
    assert REPEATED.measure(METRIC) == Measure(106, 5, 2)


def test_searches_with_unequal_numbers_of_seeds_count_alike() -> None:
    values = {RunId(0, 0): 1.0, RunId(0, 1): 3.0, RunId(1, 0): 8.0}
    runs = Runs("a", {run: {METRIC: value} for run, value in values.items()})
    assert runs.mean(METRIC) == 5.0


def test_one_search_has_its_seeds_in_order() -> None:
    runs = Runs.of_seeds("a", {3: {METRIC: 7.0}, 1: {METRIC: 5.0}}, missing={2: "diverged"}, loss="warp")
    assert (runs.unit, runs.seeds, runs.loss) == (Unit.SEED, [1, 3], "warp")
    assert runs.to_dict()["missing"] == {"2": "diverged"}
    assert runs.sample(METRIC).tolist() == [5, 7]


def test_images_of_some_runs_alone_are_not_used() -> None:
    runs = Runs.of_seeds("a", {0: {METRIC: 1.0}, 1: {METRIC: 2.0}}, images={METRIC: {0: np.ones(4)}})
    assert runs.image_rows(METRIC) is None
    assert runs.image_rows("test/i2t_r1") is None


def test_a_published_row_has_means_alone() -> None:
    row = Runs("table 1", means={METRIC: Measure(200.0, 1.5, 5)})
    assert row.has(METRIC) and not row.has("test/i2t_r1")
    assert (row.mean(METRIC), row.measures()) == (200.0, {METRIC: Measure(200.0, 1.5, 5)})
    assert row.quantity(METRIC).low is None
    with pytest.raises(KeyError):
        row.measure("test/i2t_r1")
