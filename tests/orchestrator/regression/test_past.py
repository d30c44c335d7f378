"""Reruns of the past: the newest counts, and what a wrong clock has dated in the future is said and ignored."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import seal
from orchestrator.journal.records import SuiteStarted
from orchestrator.machines.cluster import describe_environment
from orchestrator.regression import rerun as rerun_module
from orchestrator.regression.rerun import accept_rerun, can_resume_suite, rerun
from orchestrator.regression.reruns import (
    SKEW,
    STAMP,
    SUMMARY,
    Request,
    find_fresh,
    name_rerun,
    past_reruns,
    read_summary,
    still_alarms,
    write_outcome,
)
from orchestrator.results.answer import Answer
from tests.support.experiments import add_trial, begun
from tests.support.fake_workload import FakeWorkload
from tests.support.in_process import Silent, without_ray
from tests.support.regression_results import make_suite
from trainables.errors import UserError

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def add(home: Path, started: timedelta, ended: timedelta | None = None) -> Path:
    """Write a rerun that started, and perhaps ended, so long after now."""
    directory = home / f"{NOW + started:{STAMP}}"
    directory.mkdir()
    (directory / JOURNAL_FILE).touch()
    if ended is not None:
        (directory / SUMMARY).write_text(json.dumps({"ended": (NOW + ended).timestamp(), "finding": "ok", "runs": {}}))
    return directory


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [NOW.timestamp()]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


HOURS = timedelta(hours=1)


def test_reruns_that_start_in_one_second_have_folders_of_their_own_in_order(tmp_path: Path, clock: list[float]) -> None:
    named = []
    for fraction in (0.0, 0.3, 0.9, 1.2):
        clock[0] = NOW.timestamp() + fraction
        named.append(name_rerun(tmp_path))
        named[-1].mkdir()
    assert [path.name for path in named] == [f"20260304T05060{second}Z" for second in (7, 8, 9)] + ["20260304T050610Z"]


def test_the_newest_rerun_decides_whether_one_is_due(tmp_path: Path) -> None:
    add(tmp_path, -30 * HOURS, -29 * HOURS)
    newest = add(tmp_path, -6 * HOURS, -5 * HOURS)
    unfinished = add(tmp_path, -2 * HOURS)
    past = past_reruns(tmp_path)
    assert (past.finished[-1], past.unfinished, past.warnings) == (newest, unfinished, ())
    # The journal of a rerun of claims lies in the folder of their experiment.
    (unfinished / "tiny").mkdir()
    (unfinished / JOURNAL_FILE).rename(unfinished / "tiny" / JOURNAL_FILE)
    assert past_reruns(tmp_path) == past
    for if_due, found in ((6 * 3600.0, newest), (4 * 3600.0, None), (None, None)):
        assert find_fresh(past.finished, if_due) == found
    assert find_fresh((), 3600.0) is None


@pytest.mark.parametrize(
    ("started", "ended"),
    [
        pytest.param(50 * HOURS, 51 * HOURS, id="it ran with a clock that was ahead"),
        pytest.param(-HOURS, 51 * HOURS, id="the clock was set forward while it ran"),
        pytest.param(50 * HOURS, None, id="it did not end"),
        pytest.param(50 * HOURS, -HOURS, id="the clock was set back while it ran"),
    ],
)
@pytest.mark.parametrize("age", [2 * HOURS, 30 * HOURS], ids=["one is fresh", "one is due"])
def test_a_rerun_dated_in_the_future_is_ignored_and_said(
    tmp_path: Path, started: timedelta, ended: timedelta | None, age: timedelta
) -> None:
    real = add(tmp_path, -age, -age)
    wrong = add(tmp_path, started, ended)
    past = past_reruns(tmp_path)
    assert (past.finished, past.unfinished) == ((real,), None)
    assert len(past.warnings) == 1 and f"dated in the future: {wrong.name};" in past.warnings[0]
    fresh = find_fresh(past.finished, 24 * 3600.0)
    assert fresh == (real if age < 24 * HOURS else None)


def test_clocks_of_two_machines_may_differ_a_little(tmp_path: Path) -> None:
    ahead = add(tmp_path, timedelta(seconds=SKEW / 2), timedelta(seconds=SKEW / 2))
    past = past_reruns(tmp_path)
    assert (past.finished, past.warnings) == ((ahead,), ())
    assert find_fresh(past.finished, 60.0) == ahead


@pytest.mark.parametrize("name", ["20990101T000000Z-kept", "20260102T030405Z.bak", "backup", "20260102T030406Z (copy)"])
def test_a_copy_of_a_rerun_under_another_name_is_no_rerun(tmp_path: Path, name: str) -> None:
    rerun = add(tmp_path, -2 * HOURS, -HOURS)
    add(tmp_path, -HOURS, -HOURS).rename(tmp_path / name)
    assert past_reruns(tmp_path) == ((rerun,), None, ())


@pytest.mark.parametrize("hours_ahead", [50, None])
def test_a_rerun_that_is_not_due_says_what_it_ignored(tmp_path: Path, hours_ahead: int | None) -> None:
    suite = make_suite()
    home = tmp_path / suite.name
    home.mkdir()
    for hours in (-1, *([] if hours_ahead is None else [hours_ahead])):
        directory = home / f"{NOW + hours * HOURS:{STAMP}}"
        directory.mkdir()
        (directory / SUMMARY).write_text(json.dumps({"ended": (NOW + hours * HOURS).timestamp(), "finding": "ok"}))
    request = Request(output=tmp_path, reference=tmp_path / "quick.accepted.json", if_due=24 * 3600.0)
    done = rerun(suite, request, FakeWorkload())
    assert (done.was_due, done.directory) == (False, home / f"{NOW - HOURS:{STAMP}}")
    assert (done.warnings == ()) == (hours_ahead is None)


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"ended": 1.0}', '{"ended": null, "finding": "ok"}', '{"ended": 1, "finding": "ok", "runs": []}'],
)
def test_a_damaged_summary_is_named(tmp_path: Path, text: str) -> None:
    directory = add(tmp_path, -HOURS, -HOURS)
    (directory / SUMMARY).write_text(text)
    with pytest.raises(UserError, match="damaged; remove") as caught:
        read_summary(directory)
    assert str(directory) in str(caught.value)


@pytest.mark.parametrize(
    ("finding", "accepted", "is_alarm"),
    [
        ("regression", None, True),
        ("regression", -HOURS, True),
        ("failed", -HOURS, True),
        ("regression", HOURS, False),
        ("changed", None, True),
        ("identical", None, False),
        ("ok", -HOURS, False),
        ("inconclusive", None, False),
    ],
)
def test_an_alarm_stays_one_until_it_is_accepted(finding: str, accepted: timedelta | None, is_alarm: bool) -> None:
    when = None if accepted is None else (NOW + accepted).isoformat()
    assert still_alarms({"ended": NOW.timestamp(), "finding": finding}, when) is is_alarm


def test_the_page_of_a_rerun_explains_its_metric_once(tmp_path: Path) -> None:
    about = Answer("suite", "", "Do the baselines give the accepted results?", "quick: ok.")
    write_outcome(tmp_path, "Regression rerun", [about], {"suite": "quick"}, {}, History(), "val/rsum")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").count("rsum: sum of six recalls, 0–600") == 1


def test_an_interrupted_rerun_with_trials_of_a_newer_version_is_compared_without_them(tmp_path: Path) -> None:
    suite, data = make_suite(), {"pets:global": "d1"}
    with begun(tmp_path, suite.experiment(), data=data, environment=describe_environment()) as ledger:
        ledger.append(SuiteStarted(suite=suite.model_dump(mode="json")))
        add_trial(ledger, [100.0])
    *before, trial, _ = (json.loads(line) for line in (tmp_path / JOURNAL_FILE).read_text().splitlines()[:4])
    trial["config"]["key_of_a_newer_version"] = 1
    kept = [{key: value for key, value in record.items() if key != "crc"} for record in (*before, trial)]
    (tmp_path / JOURNAL_FILE).write_bytes(b"".join(map(seal, kept)))
    assert can_resume_suite(tmp_path, suite, data)
    assert not can_resume_suite(tmp_path, suite, {"pets:global": "d2"})
    assert not can_resume_suite(tmp_path, make_suite(name="other"), data)


def test_a_rerun_that_was_killed_in_its_further_seeds_comes_to_the_same_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [{"dataset": "pets", "loss": "nt_xent", "loss_parameters": {"temperature": 0.1}}]
    suite = make_suite(cells=cells, seeds=3, max_seeds=9, matters=4.0, training={"epochs": 1})
    request = Request(data_root="", output=tmp_path / "runs", reference=tmp_path / "accepted.json", quiet=True)
    with without_ray():
        monkeypatch.setattr(rerun_module, "TrackingProcess", Silent)
        rerun(suite, request, FakeWorkload(noise=3.0))
        accept_rerun(suite, request.output, request.reference, why="first", who="ada")
        whole = rerun(suite, request, FakeWorkload(noise=3.0, shift=-4.0))
        (whole.directory / SUMMARY).unlink()
        journal = whole.directory / JOURNAL_FILE
        lines = journal.read_text().splitlines(keepends=True)
        begun_seed = next(n for n, line in enumerate(lines) if "trial_started" in line and "-seed4" in line)
        journal.write_text("".join(lines[: begun_seed + 1]))
        again = rerun(suite, request, FakeWorkload(noise=3.0, shift=-4.0))
    assert again.directory == whole.directory
    assert again.summary["cells"] == whole.summary["cells"]
    assert again.summary["runs"] == whole.summary["runs"]
