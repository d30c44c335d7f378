"""Reruns: the first is accepted, the next compared, and none starts twice or is lost."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from orchestrator.experiment.experiment import data_key
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.lock import AlreadyRunningError, hold
from orchestrator.regression.accepted import AcceptedError, read_accepted
from orchestrator.regression.comparison import Finding
from orchestrator.regression.rerun import accept_rerun, rerun
from orchestrator.regression.reruns import Request, Rerun
from orchestrator.regression.suite import Suite
from tests.support.fake_workload import FakeWorkload
from tests.support.regression_results import make_suite

CELLS = [
    {"dataset": "pets", "loss": "nt_xent", "loss_parameters": {"temperature": 0.05}},
    {"dataset": "pets", "loss": "triplet", "loss_parameters": {"margin": 0.2}},
]


@pytest.fixture
def asked(output: Path, trials_run: None) -> Request:
    return Request(output=output, reference=output / "quick.accepted.json", quiet=True)


SUITE = make_suite(cells=CELLS)


def go(asked: Request, suite: Suite = SUITE, **changes: Any) -> Rerun:
    return rerun(suite, asked, FakeWorkload(noise=1.0, **changes))


def test_accepted_then_unchanged_then_worse(asked: Request) -> None:
    first = go(asked)
    assert first.result.finding is Finding.UNKNOWN
    for changes in ({"val_images": 10}, {"training": {"epochs": 4}}, {"cells": CELLS[:1]}):
        with pytest.raises(AcceptedError, match="ran other cells, or otherwise, than quick has now"):
            accept_rerun(make_suite(**{"cells": CELLS, **changes}), asked.output, asked.reference, why="other settings")
    accept_rerun(SUITE, asked.output, asked.reference, why="the first", who="ada")
    reference = read_accepted(asked.reference, "quick")
    assert [sorted(runs.values) for runs in reference.cells.values()] == [[1, 2, 3]] * 2

    same = go(asked)
    assert same.result.finding is Finding.IDENTICAL
    assert [cell.identical for cell in same.result.cells] == [3, 3]
    assert [(len(cell.trend), cell.drift) for cell in same.result.cells] == [(1, None), (1, None)]

    accept_rerun(SUITE, asked.output, asked.reference, why="started anew", restart_drift=True)
    restarted = read_accepted(asked.reference, "quick")
    assert restarted.first == {}
    accept_rerun(SUITE, asked.output, asked.reference, why="the second")
    again = read_accepted(asked.reference, "quick")
    assert {first.when for first in again.first.values()} == {restarted.when}
    worse = go(asked, shift=-30.0)
    assert len(worse.result.cells[0].trend) == 2
    drift = worse.result.cells[0].drift
    assert drift.new == pytest.approx(drift.accepted - 10, abs=1e-6), "one of three reruns"
    assert worse.result.finding is Finding.REGRESSION
    assert len({done.directory for done in (first, same, worse)}) == 3
    for name in ("report.html", "junit.xml", "summary.json", JOURNAL_FILE):
        assert (worse.directory / name).stat().st_size > 0
    assert not list((worse.directory / "trials").glob("*/epoch_*"))
    assert json.loads((worse.directory / "summary.json").read_text())["finding"] == "regression"

    fresh = go(replace(asked, if_due=3600.0))
    assert (fresh.was_due, fresh.directory, fresh.is_alarm) == (False, worse.directory, True)
    due = go(replace(asked, if_due=1e-9))
    assert due.result is not None


def test_a_cell_reads_the_data_of_its_own_settings_and_model(asked: Request) -> None:
    cells = [{**CELLS[0], "model_parameters": {"pooling": "mean"}}, {**CELLS[1], "dataset": "birds", "model": "vsrn"}]
    suite = make_suite(cells=cells)
    done = go(asked, suite)
    history = History.of(read_journal(done.directory / JOURNAL_FILE))
    assert set(history.data) == {data_key(suite.config(cell, 1)) for cell in suite.cells}
    assert "pets:regions" in history.data and "birds:global" not in history.data


def test_what_is_inconclusive_gets_the_seeds_that_settle_it(asked: Request) -> None:
    go(asked, make_suite(cells=CELLS, seeds=8, max_seeds=8))
    accept_rerun(SUITE, asked.output, asked.reference, why="the first")
    suite = make_suite(cells=CELLS, seeds=2, max_seeds=7, matters=2.0)
    done = go(asked, suite, shift=-2.0)
    assert max(cell.seeds for cell in done.result.cells) > 2


@pytest.mark.proof
@pytest.mark.parametrize("trials_run", ["on Ray"], indirect=True)
def test_the_papers_are_compared_on_test(asked: Request) -> None:
    cells = [{"dataset": "flickr30k", "loss": "triplet", "loss_parameters": {"margin": 0.2}}]
    done = go(asked, make_suite(cells=cells, published=True))
    published = done.result.cells[0].published
    history = History.of(read_journal(done.directory / JOURNAL_FILE))
    new = mean(metrics["rsum"] for metrics in history.tests.values())
    assert (published.accepted, published.new) == (309.4, pytest.approx(new))
    assert len(history.tests) == 3 and sum(map(len, history.tests_opened.values())) == 3


def test_a_rerun_that_was_killed_is_gone_on_with_and_another_code_is_not(asked: Request) -> None:
    done = go(asked)
    (done.directory / "summary.json").unlink()
    trials = set(History.of(read_journal(done.directory / JOURNAL_FILE)).trials)
    again = go(asked)
    assert again.directory == done.directory
    assert set(History.of(read_journal(again.directory / JOURNAL_FILE)).trials) == trials
    (again.directory / "summary.json").unlink()
    other = go(asked, make_suite(cells=CELLS, matters=11))
    assert other.directory != again.directory


def test_two_at_once_do_not_collide(asked: Request) -> None:
    home = asked.output / "quick"
    home.mkdir()
    with hold(home), pytest.raises(AlreadyRunningError, match="already running"):
        go(asked)
    with pytest.raises(AcceptedError, match="no finished rerun"):
        accept_rerun(SUITE, asked.output, asked.reference, why="nothing")
