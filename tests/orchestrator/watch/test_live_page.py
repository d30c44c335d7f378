"""The pages of experiments while their journals grow, without a server."""

import errno
import json
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.requests import Request

from orchestrator.journal import ledger as writing
from orchestrator.journal.journal import JournalReader
from orchestrator.journal.trial import Trial
from orchestrator.report.leaderboard import TrialRow
from orchestrator.watch import app
from orchestrator.watch.app import Server
from orchestrator.watch.experiments import Experiments, Watched
from tests.support.experiments import add_trial, begun, make_experiment
from tests.support.records import append
from trainables.errors import ConfigError
from trainables.ranks import Ranks


def test_as_of_moves_when_the_journal_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_800_000_000.0]
    clock = SimpleNamespace(time=lambda: now[0], monotonic=time.monotonic)
    monkeypatch.setattr(writing, "time", clock)
    experiments = Experiments(tmp_path)
    server = Server(experiments, "runs", "test")

    def as_of() -> list[str]:
        return re.findall(r"as of ([^<]+)<", server.html(experiments.find("tiny")))

    with begun(tmp_path / "tiny") as ledger:
        assert as_of() == ["2027-01-15 08:00:00 UTC"]
        now[0] += 61
        assert as_of() == ["2027-01-15 08:00:00 UTC"], "the time of the newest record, and not of the look"
        add_trial(ledger, [30.0])
        assert as_of() == ["2027-01-15 08:01:01 UTC"]


def test_a_journal_that_is_being_read_keeps_the_start_page_from_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_read, may_end = threading.Event(), threading.Event()

    def read(watched: Watched) -> None:
        with watched.lock:
            is_read.set()
            may_end.wait()

    monkeypatch.setattr(Watched, "_read", read)
    monkeypatch.setattr(app, "PATIENCE", 0.0)
    experiments = Experiments(tmp_path)
    server = Server(experiments, "runs", "test")
    with begun(tmp_path / "long"), ThreadPoolExecutor(1) as visitor:
        try:
            experiments.all()[0].reading()
            is_read.wait()
            page = visitor.submit(server.html, None)
            assert "its journal is being read" in page.result(timeout=60)
        finally:
            may_end.set()


def explained(server: Server) -> list[str]:
    """Return the lines of the start page about metrics, once all journals have been read."""
    head = server.html(None).partition("</header>")[0]
    return re.findall(r'<p class="quiet">([^<]+)</p>', head)


def test_the_start_page_explains_the_metrics_that_are_on_it_with_their_chance_where_it_is_known(tmp_path: Path) -> None:
    search = {"sampler": "random", "trials": 4}
    with begun(tmp_path / "empty"), begun(tmp_path / "by-rsum") as first:
        server = Server(Experiments(tmp_path), "runs", "test")
        assert explained(server) == [], "no metric is on the page"
        trial = add_trial(first, [30.0])
        assert explained(server) == ["rsum: sum of six recalls, 0–600"]
        experiment = make_experiment(name="by-recall", search={**search, "metric": "val/i2t_r1"})
        with begun(tmp_path / "by-recall", experiment) as second:
            add_trial(second, [30.0])
            rank = "i2t R@1: percentage of queries with a positive in first place"
            assert sorted(explained(server)) == [rank, "rsum: sum of six recalls, 0–600"]
        append(first, "test_opened", dataset="pets", trials=[trial.id])
        best, owners = np.ones(5000, np.int32), np.arange(1000, dtype=np.int32).repeat(5)
        ranks = Ranks(best, best, owners, "0" * 64, "test")
        append(first, "test_evaluated", trial=trial.id, metrics={"rsum": 30.0}, ranks=ranks.to_text())
        assert sorted(explained(server)) == [rank, "rsum: sum of six recalls, 0–600, chance 3.2"]


def test_a_row_that_changes_while_rows_are_sent_is_sent_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiments = Experiments(tmp_path)
    server, rows_since = Server(experiments, "runs", "test"), Watched.rows_since

    def changes(since: int) -> tuple[list[str], int]:
        scope = {"type": "http", "path_params": {"name": "tiny"}, "query_string": f"since={since}".encode()}
        sent = json.loads(server.changes(Request(scope)).body)
        return [row["id"] for row in sent["rows"]], sent["since"]

    with begun(tmp_path / "tiny") as ledger:
        first = add_trial(ledger, [30.0])
        late: list[Trial] = []

        def rows_and_a_record(watched: Watched, version: int) -> list[TrialRow]:
            rows = rows_since(watched, version)
            late.append(add_trial(ledger, [40.0]))
            return rows

        with monkeypatch.context() as patch:
            patch.setattr(Watched, "rows_since", rows_and_a_record)
            sent, version = changes(0)
        assert sent == [first.id]
        assert changes(version)[0] == [late[0].id]


def test_two_folders_of_one_name_are_refused_and_one_folder_named_twice_is_watched_once(tmp_path: Path) -> None:
    folder, other = tmp_path / "first" / "tiny", tmp_path / "second" / "tiny"
    with pytest.raises(ConfigError, match="have one name; watch one of them at a time"):
        Experiments(tmp_path, [folder, other])
    assert len(Experiments(tmp_path, [folder, tmp_path / "second" / ".." / "first" / "tiny"]).all()) == 1


def test_a_disk_that_answers_again_is_no_problem_any_more_and_a_damaged_journal_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(reader: JournalReader) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with begun(tmp_path / "tiny") as ledger:
        add_trial(ledger, [30.0])
    watched = Watched(tmp_path / "tiny")
    assert watched.seen().problem is None
    with monkeypatch.context() as patch:
        patch.setattr(JournalReader, "_look", fail)
        assert os.strerror(errno.ESTALE) in watched.seen().problem
    assert watched.seen().problem is None
    with ledger.path.open("a") as file:
        file.write("nonsense\nnonsense\n")
    assert [("damaged" in watched.seen().problem) for _ in range(2)] == [True, True]
