"""``sync``: one delivery at a time to a store and experiment, and runs of former times that went astray are mended."""

import shutil
import threading
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient

from orchestrator.cli import main
from orchestrator.journal.directory import RUNS_FILE, read_runs
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.lock import hold
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.connection import DeliveryBusyError, connect, take_turn
from orchestrator.tracking.store import Store
from orchestrator.tracking.sync import deliver, find_differences
from orchestrator.tracking.tracker import Tracker
from tests.support.experiments import add_repeat, add_trial, make_experiment, open_test, start
from tests.support.records import append


@pytest.fixture
def directory(tmp_path: Path, store_template: Path) -> Path:
    """A finished experiment with a confirmed candidate, of which MLflow has nothing."""
    shutil.copy(store_template, tmp_path / "mlflow.db")
    (tmp_path / "tiny").mkdir()
    with closing(Ledger(tmp_path / "tiny" / "journal.jsonl")) as ledger:
        start(ledger, make_experiment())
        first, _ = (add_trial(ledger, [value]) for value in (3.0, 2.0))
        open_test(ledger, [add_repeat(ledger, first, seed, seed, 20.0 + seed) for seed in (1, 2)])
        append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    return tmp_path / "tiny"


def history_of(directory: Path) -> History:
    with closing(Ledger(directory / "journal.jsonl")) as ledger:
        return ledger.history


def all_runs(output: Path) -> list[str]:
    client = MlflowClient(default_uri(output))
    experiment = client.get_experiment_by_name("tiny")
    return [] if experiment is None else [run.info.run_id for run in client.search_runs([experiment.experiment_id])]


def test_a_second_delivery_waits_for_the_first(directory: Path) -> None:
    output, uri = directory.parent, default_uri(directory.parent)
    waits = threading.Event()
    with take_turn(uri, output, "tiny"):
        second = threading.Thread(target=deliver, args=(directory, output, uri), kwargs={"on_wait": waits.set})
        second.start()
        assert waits.wait(300)
        assert all_runs(output) == [], "it sends nothing while another process delivers"
    second.join()
    assert find_differences(uri, output, "tiny", history_of(directory)) == []


def test_beside_the_delivery_of_a_running_search_nothing_is_sent(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold(directory), take_turn(default_uri(directory.parent), directory.parent, "tiny"):
        with pytest.raises(SystemExit) as end:
            main(["sync", "tiny", "--output", str(directory.parent)])
        assert not end.value.code
    assert "tiny: its search is running and delivers to this store itself" in capsys.readouterr().out
    assert all_runs(directory.parent) == []


def test_one_store_is_one_however_its_address_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for uri, again in (
        (default_uri(tmp_path), "sqlite:///mlflow.db"),
        ("https://me:secret@mlflow.example", "https://me:other@mlflow.example/"),
    ):
        with take_turn(uri, tmp_path, "tiny"):
            with pytest.raises(DeliveryBusyError):
                take_turn(again, tmp_path, "tiny")
            take_turn(again, tmp_path, "other").close()


def test_a_tracker_waits_for_a_delivery_and_says_so(directory: Path) -> None:
    output, uri = directory.parent, default_uri(directory.parent)
    tracker = Tracker(uri, output, "tiny", directory / "journal.jsonl")
    with take_turn(uri, output, "tiny"):
        tracker.start()
        tracker.close(0.0)
        assert "another process delivers tiny to this store" in str(tracker.problem)
    assert all_runs(output) == []


def test_runs_that_were_made_twice_are_merged_below_one_study(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, uri, history = directory.parent, default_uri(directory.parent), history_of(directory)
    # As deliveries at the same time did before there was a lock: each reads first, then each sends.
    stores = [Store(uri, output, "tiny") for _ in range(3)]
    for store in stores:
        store.deliver(history, history.trials)
        store.end_studies(history)
    once = len(all_runs(output)) // 3
    assert len(all_runs(output)) == 3 * once
    # And as the mending of former versions left them: below a study that is in the trash.
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("tiny")
    assert experiment is not None
    study = client.search_runs([experiment.experiment_id], "tags.kind = 'study'")[0]
    client.delete_run(study.info.run_id)
    with pytest.raises(SystemExit):
        main(["sync", "tiny", "--output", str(output)])
    assert f"{2 * once - 1} runs that were there twice are in MLflow's trash now" in capsys.readouterr().out
    assert find_differences(uri, output, "tiny", history) == []
    runs = client.search_runs([experiment.experiment_id])
    parents = {run.data.tags["mlflow.parentRunId"] for run in runs if run.data.tags["kind"] != "study"}
    assert parents == {run.info.run_id for run in runs if run.data.tags["kind"] == "study"}


def test_pages_and_runs_lead_to_each_other(directory: Path) -> None:
    output, uri, history = directory.parent, default_uri(directory.parent), history_of(directory)
    assert read_runs(directory) is None
    deliver(directory, output, uri)
    runs = read_runs(directory)
    assert runs is not None and set(runs.trials) == set(history.trials)
    assert (runs.server, "orchestrator ui" in runs.note) == ("http://127.0.0.1:5000", True)
    for trial, run in runs.trials.items():
        found = MlflowClient(uri).get_run(run)
        assert (found.info.experiment_id, found.data.tags["trial"]) == (runs.experiment, trial)
        assert found.data.tags["report"] == "orchestrator report tiny --open"
    (directory / RUNS_FILE).write_text('{"trials": []}', encoding="utf-8")
    assert read_runs(directory) is None


def test_a_run_below_another_study_is_a_difference(directory: Path) -> None:
    output, uri, history = directory.parent, default_uri(directory.parent), history_of(directory)
    deliver(directory, output, uri)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("tiny")
    assert experiment is not None
    trial = client.search_runs([experiment.experiment_id], "tags.kind = 'trial'")[0]
    client.set_tag(trial.info.run_id, "mlflow.parentRunId", "0" * 32)
    (line,) = find_differences(uri, output, "tiny", history)
    assert line == f"{trial.data.tags['trial']} is below a run that is not that of its study"
    deliver(directory, output, uri)
    assert find_differences(uri, output, "tiny", history) == []


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("mssql+pymssql://me@host/db", "the database's driver pymssql is not installed here"),
        ("postgresql+nosuch://me@host/db", "Can't load plugin: sqlalchemy.dialects:postgresql.nosuch"),
    ],
)
def test_a_store_whose_driver_is_missing_is_refused(
    directory: Path, uri: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["sync", "tiny", "--output", str(directory.parent), "--tracking-uri", uri])
    said = capsys.readouterr().err
    assert end.value.code == 2 and message in said and "Traceback" not in said


def test_a_database_whose_creation_was_interrupted_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = default_uri(tmp_path)
    with monkeypatch.context() as interrupted:
        # As by a kill in the middle of the migration: the tables are there in part.
        interrupted.setattr(MlflowClient, "search_experiments", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            connect(uri, tmp_path)
    assert not (tmp_path / "mlflow.db").exists()
    assert list(tmp_path.glob(".mlflow.db.*.unfinished"))
    assert [one.name for one in connect(uri, tmp_path).search_experiments()] == ["Default"]
    assert not list(tmp_path.glob(".mlflow.db.*.unfinished"))
