"""``sync``: one delivery at a time to a store and experiment, and runs of former times that went astray are mended."""

import json
import shlex
import shutil
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from orchestrator.commands import mlflow_store
from orchestrator.doctor.experiment import check_tracking
from orchestrator.journal.directory import RUNS_FILE, read_history, read_runs
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.lock import hold
from orchestrator.journal.trial import Stage
from orchestrator.report.leaderboard import leaderboard
from orchestrator.report.studies import studies_of
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.connection import DeliveryBusyError, connect, missing_database, take_turn
from orchestrator.tracking.description import NOTE, note_of
from orchestrator.tracking.store import Store
from orchestrator.tracking.sync import DeliveryError, deliver, find_differences
from orchestrator.tracking.tracker import Tracker
from orchestrator.tracking.view import newest_page
from orchestrator.winners.winners import weights_file
from tests.support.commands import CommandLine
from tests.support.experiments import add_repeat, add_trial, begun, make_experiment, open_test
from tests.support.records import append
from tests.support.waiting import wait_until


@pytest.fixture
def directory(output: Path) -> Path:
    with begun(output / "tiny") as ledger:
        first, _ = (add_trial(ledger, [value]) for value in (3.0, 2.0))
        open_test(ledger, [add_repeat(ledger, first, seed, seed, 20.0 + seed) for seed in (1, 2)])
        append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    return output / "tiny"


@pytest.fixture
def uri(output: Path) -> str:
    return default_uri(output)


@pytest.fixture
def history(directory: Path) -> History:
    return read_history(directory)


def all_runs(client: MlflowClient, filters: str = "") -> list[Run]:
    found = client.get_experiment_by_name("tiny")
    return [] if found is None else list(client.search_runs([found.experiment_id], filters))


@pytest.mark.parametrize("name", ["feature%2Fnew", "50% of b?c", "é#x&y=1;z+@h:1 'q' \\"])
def test_a_folder_of_any_name_has_its_database_and_files(
    directory: Path, tmp_path: Path, store_template: Path, name: str
) -> None:
    """Workspaces of continuous integration are named after branches."""
    output = tmp_path / "workspaces" / name
    output.mkdir(parents=True)
    shutil.copy(store_template, output / "mlflow.db")
    moved = directory.rename(output / "tiny")
    uri = default_uri(output)
    for _ in range(2):
        deliver(moved, output, uri)
    assert find_differences(uri, output, read_history(moved)) == []
    assert list(output.parent.iterdir()) == [output]
    assert list((output / "artifacts" / "tiny").glob("*/artifacts/config.yaml"))
    # Made anew, as by the first search.
    (output / "mlflow.db").rename(output / "former.db")
    connect(uri, output)
    assert (output / "mlflow.db").is_file() and missing_database(uri) is None
    assert list(output.parent.iterdir()) == [output]


def test_a_second_delivery_waits_for_the_first(
    directory: Path, output: Path, uri: str, history: History, client: MlflowClient
) -> None:
    waits = threading.Event()
    with take_turn(uri, directory):
        second = threading.Thread(target=deliver, args=(directory, output, uri), kwargs={"on_wait": waits.set})
        second.start()
        assert waits.wait(300)
        assert all_runs(client) == [], "it sends nothing while another process delivers"
    second.join()
    assert find_differences(uri, output, history) == []


def test_a_delivery_that_waited_has_what_was_recorded_meanwhile(directory: Path, output: Path, uri: str) -> None:
    waits = threading.Event()
    with take_turn(uri, directory):
        second = threading.Thread(target=deliver, args=(directory, output, uri), kwargs={"on_wait": waits.set})
        second.start()
        assert waits.wait(300)
        with closing(Ledger(directory / "journal.jsonl")) as ledger:
            add_trial(ledger, [4.0])
    second.join()
    assert find_differences(uri, output, read_history(directory)) == []


def test_what_a_rerun_of_a_suite_missed_is_delivered_by_the_command_that_is_named(
    output: Path, uri: str, cli: CommandLine
) -> None:
    folder = output / "tiny" / "20261126T215000Z"
    with begun(folder) as ledger:
        add_trial(ledger, [3.0])
    tracker = Tracker(uri, output, folder)
    with take_turn(uri, folder):
        tracker.start()
        wait_until(lambda: tracker.problem)
        tracker.close(0.0)
    _, command, _ = str(tracker.problem).split("`")
    cli.shows(*shlex.split(command)[1:])
    assert find_differences(uri, output, read_history(folder)) == []
    assert read_runs(folder) is not None, "beside its journal, not in the folder of all reruns"


def test_each_experiment_is_delivered_on_its_own_whatever_its_depth(
    output: Path, uri: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One journal is damaged, one experiment's folder cannot be read; the rest is a search, a rerun and claims."""
    places = ("broken", "tiny", "suite/20261126T215000Z", "claims-a/20261126T215000Z/certify-a-20261126T215000Z")
    for place in places:
        with begun(output / place, make_experiment(name=place.split("/")[0])) as ledger:
            add_trial(ledger, [3.0])
    journal = output / "broken" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([lines[0], "{damaged\n", *lines[1:]]))
    # An output folder of its own, and files of trainings and of MLflow.
    for place in ("other/mlflow.db", "train/x/journal.jsonl", "artifacts/x/journal.jsonl", ".hidden/journal.jsonl"):
        (output / place).parent.mkdir(parents=True)
        (output / place).touch()
    with begun(output / "other" / "inner") as ledger:
        add_trial(ledger, [3.0])
    code, out, err = cli.run("sync", "--output", output)
    assert code == 1
    assert [line.split(":")[0] for line in out.splitlines()] == ["claims-a", "suite", "tiny"]
    assert err.startswith("error: broken was not delivered: ") and err.count("\n") == 1
    for place in places[1:]:
        assert find_differences(uri, output, read_history(output / place)) == []
    code, out, _ = cli.run("sync", "--output", output, "--json")
    said = json.loads(out)
    assert (code, list(said["failed"]), len(said["experiments"])) == (1, ["broken"], 3)
    journal.unlink()
    assert cli.run("sync", "--output", output)[0] == 0


def test_a_store_that_does_not_answer_is_not_asked_for_every_experiment(
    output: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def refuse(directory: Path, *arguments: object, **options: object) -> None:
        asked.append(directory)
        raise DeliveryError("the store: does not answer")

    for name in ("a", "b", "c"):
        with begun(output / name, make_experiment(name=name)):
            pass
    monkeypatch.setattr(mlflow_store, "deliver", refuse)
    monkeypatch.setattr(mlflow_store, "_answers", lambda uri: False)
    code, _, err = cli.run("sync", "--output", output)
    assert (code, asked) == (1, [output / "a"])
    assert [line.split(" was")[0] for line in err.splitlines()] == ["error: a", "error: b", "error: c"]


def test_the_pages_begin_at_the_experiment_of_the_newest_run(output: Path, uri: str) -> None:
    """The experiment of a suite was made on its first night."""
    places = {"suite/20261126T215000Z": "pets", "search": "pets", "suite/20261127T215000Z": "birds"}
    for place, dataset in places.items():
        with begun(output / place, make_experiment(name=place.split("/")[0])) as ledger:
            add_trial(ledger, [3.0], dataset=dataset)
            append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
        deliver(output / place, output, uri)
        experiment = MlflowClient(tracking_uri=uri).get_experiment_by_name(place.split("/")[0])
        assert f"/experiments/{experiment.experiment_id}/" in str(newest_page(uri))


def test_the_delivery_of_a_rerun_has_the_files_of_the_rerun(output: Path, uri: str, client: MlflowClient) -> None:
    folder = output / "tiny" / "20261126T215000Z"
    with begun(folder) as ledger:
        trial = add_trial(ledger, [3.0])
        weights_file(folder, trial.id).parent.mkdir(parents=True)
        weights_file(folder, trial.id).write_bytes(b"whole")
        tracker = Tracker(uri, output, folder)
        tracker.start()
        tracker.close(300)
    assert tracker.problem is None
    (run,) = all_runs(client, "tags.kind = 'trial'")
    assert run.data.tags["weights"] == weights_file(folder, trial.id).name


def test_an_experiment_whose_folder_was_renamed_is_compared_with_its_runs(
    directory: Path, output: Path, uri: str, history: History
) -> None:
    renamed = directory.rename(output / "renamed")
    deliver(renamed, output, uri)
    assert list(check_tracking(renamed, history, uri)) == []


def test_beside_the_delivery_of_a_running_search_nothing_is_sent(
    directory: Path, output: Path, uri: str, client: MlflowClient, cli: CommandLine
) -> None:
    with hold(directory), take_turn(uri, directory):
        said = cli.shows("sync", "tiny", "--output", output)
    assert "tiny: its search is running and delivers to this store itself" in said
    assert all_runs(client) == []


def test_one_store_is_one_however_its_address_is_written(here: Path) -> None:
    for uri, again in (
        (default_uri(here), "sqlite:///mlflow.db"),
        ("https://me:secret@mlflow.example", "https://me:other@mlflow.example/"),
    ):
        with take_turn(uri, here / "tiny"):
            with pytest.raises(DeliveryBusyError):
                take_turn(again, Path("tiny"))
            take_turn(again, here / "other").close()


def test_a_tracker_that_waits_says_so(directory: Path, output: Path, uri: str, client: MlflowClient) -> None:
    tracker = Tracker(uri, output, directory)
    with take_turn(uri, directory):
        tracker.start()
        wait_until(lambda: tracker.problem)
        tracker.close(0.0)
        assert "another process delivers tiny to this store" in str(tracker.problem)
    assert all_runs(client) == []


def test_runs_that_were_made_twice_are_merged_below_one_study(
    output: Path, uri: str, history: History, client: MlflowClient, cli: CommandLine
) -> None:
    # As deliveries at the same time did before there was a lock: each reads first, then each sends.
    stores = [Store(uri, output, output / "tiny", "tiny") for _ in range(3)]
    for store in stores:
        store.deliver(history, history.trials, is_over=True)
    once = len(all_runs(client)) // 3
    assert len(all_runs(client)) == 3 * once
    # And as the mending of former versions left them: below a study that is in the trash.
    client.delete_run(all_runs(client, "tags.kind = 'study'")[0].info.run_id)
    said = cli.shows("sync", "tiny", "--output", output)
    assert f"{2 * once - 1} runs that were there twice are in MLflow's trash now" in said
    assert find_differences(uri, output, history) == []
    (study,) = all_runs(client, "tags.kind = 'study'")
    below = all_runs(client, "tags.kind != 'study'")
    assert below and {run.data.tags["mlflow.parentRunId"] for run in below} == {study.info.run_id}


def test_pages_and_runs_lead_to_each_other(
    directory: Path, output: Path, uri: str, history: History, client: MlflowClient
) -> None:
    assert read_runs(directory) is None
    deliver(directory, output, uri)
    runs = read_runs(directory)
    assert runs is not None and set(runs.trials) == set(history.trials)
    assert (runs.server, "orchestrator ui" in runs.note) == ("http://127.0.0.1:5000", True)
    rows = {row.id for row in leaderboard(studies_of(history), "val/rsum", ())[1]}
    for trial, run in runs.trials.items():
        found = client.get_run(run)
        assert (found.info.experiment_id, found.data.tags["trial"]) == (runs.experiment, trial)
        assert found.data.tags["report"] == "orchestrator report tiny --open"
        note, _, named = found.data.tags[NOTE].partition("\n\nReport: `report.html?find=")
        assert named.removesuffix("`") in rows, "a repeat has its row under the trial that it repeats"
        assert note_of(replace(history.trials[trial], stage=Stage.REGRESS)) == {NOTE: note}, "reruns have no row"
    (directory / RUNS_FILE).write_text('{"trials": []}', encoding="utf-8")
    assert read_runs(directory) is None


def test_a_run_below_another_study_is_a_difference(
    directory: Path, output: Path, uri: str, history: History, client: MlflowClient
) -> None:
    deliver(directory, output, uri)
    trial = all_runs(client, "tags.kind = 'trial'")[0]
    client.set_tag(trial.info.run_id, "mlflow.parentRunId", "0" * 32)
    (line,) = find_differences(uri, output, history)
    assert line == f"{trial.data.tags['trial']} is below a run that is not that of its study"
    deliver(directory, output, uri)
    assert find_differences(uri, output, history) == []


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mssql+pymssql://me@host/db", "the database's driver pymssql is not installed here"),
        ("postgresql+nosuch://me@host/db", "Can't load plugin: sqlalchemy.dialects:postgresql.nosuch"),
    ],
)
def test_a_store_without_its_driver_is_refused(directory: Path, address: str, message: str, cli: CommandLine) -> None:
    assert message in cli.refuses("sync", "tiny", "--output", directory.parent, "--tracking-uri", address)


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
