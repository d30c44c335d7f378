"""An output folder that was moved or copied, and an experiment that was deleted in MLflow's pages."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient

from orchestrator.doctor.machine import Check
from orchestrator.tracking import connection, registry
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.registry import fetch_champion
from orchestrator.tracking.store import Store
from orchestrator.tracking.tracker import Tracker
from orchestrator.winners.winners import CARD, CHAMPIONS, MODEL, Champion
from tests.support.commands import CommandLine
from tests.support.experiments import add_trial, begun, make_experiment
from tests.support.records import append


@pytest.fixture
def runs(tmp_path: Path, store_template: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine) -> Path:
    """An output folder with two experiments in its database, whose shared champion is registered."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def save(packed: Path, folder: Path) -> None:
        shutil.copytree(packed, folder / "data" / MODEL)

    # What MLflow packs around a model takes seconds, and is nobody's concern here.
    monkeypatch.setattr(registry, "save_model", save)
    # A process of its own asks torch for GPUs.
    monkeypatch.setattr("orchestrator.doctor.machine.check_gpu", lambda: Check("gpu", "ok", "none"))
    output = tmp_path / "my runs"
    for name in ("tiny", "more"):
        with begun(output / name, make_experiment(name=name)) as ledger:
            trial = add_trial(ledger, [20.0])
            append(ledger, "experiment_ended", outcome="interrupted", ended_by="signal")
    shutil.copy(store_template, output / "mlflow.db")
    packed = output / "tiny" / CHAMPIONS / "pets"
    (packed / MODEL).mkdir(parents=True)
    (packed / MODEL / "vocabulary.json").write_text("[]")
    card = Champion("pets", "tiny", trial.id, False, "val/rsum", 20.0, "d1")
    (packed / CARD).write_text(json.dumps(asdict(card)))
    cli.shows("sync", "--output", output)
    # What is no concern of the store: files that a real search writes.
    cli.refuses("doctor", "tiny", "--output", output, "--repair", code=1)
    return output


def tracking(output: Path, cli: CommandLine, *more: str) -> list[dict[str, str]]:
    _, said, _ = cli.run("doctor", "tiny", "--output", output, "--json", *more)
    return [found for found in json.loads(said) if found["check"] == "tracking"]


def content(output: Path) -> str:
    with closing(sqlite3.connect(output / "mlflow.db")) as database:
        return "\n".join(database.iterdump())


@pytest.mark.parametrize("take", [Path.rename, shutil.copytree])
def test_a_database_from_elsewhere_is_left_alone_and_sync_makes_a_new_one(
    runs: Path, store_template: Path, take: Callable[[Path, Path], Path], cli: CommandLine
) -> None:
    assert tracking(runs, cli) == []
    before = content(runs)
    there = runs.with_name("there")
    take(runs, there)
    reason = f"{there / 'mlflow.db'}: keeps its files in {runs}, from where its folder was moved or copied"
    remedy = f"rename mlflow.db and make it again: `orchestrator sync --output {there}`"
    (finding,) = tracking(there, cli)
    assert (finding["state"], finding["found"]) == ("fail", reason) and remedy in finding["way_out"]
    code, said, _ = cli.run("doctor", "--output", there)
    said = " ".join(said.split())
    assert code == 1 and reason in said and remedy in said
    # The files of the original of a copy are still there to be read.
    reading = [["retrieve", "a dog", "--dataset", "pets"]] if take is Path.rename else []
    for command in (["sync"], ["sync", "tiny"], *reading):
        assert reason in cli.refuses(*command, "--output", there)
    assert tracking(there, cli, "--repair")[0]["state"] == "fail"
    assert content(there) == before and runs.exists() == (take is shutil.copytree)

    # Another folder again, because MLflow keeps the renamed database open in this process.
    mended = shutil.copytree(there, runs.with_name("mended"))
    (mended / "mlflow.db").rename(mended / "former.db")
    shutil.copy(store_template, mended / "mlflow.db")
    cli.shows("sync", "--output", mended)
    assert tracking(mended, cli) == [] and content(there) == before
    folder, found = fetch_champion(default_uri(mended), "pets", mended / "fetched")
    assert (found.version, (folder / "vocabulary.json").read_text()) == (1, "[]")
    if runs.exists():
        assert content(runs) == before, "the original is left alone"


def undelivered(output: Path) -> str:
    tracker = Tracker(default_uri(output), output, output / "tiny")
    tracker.start()
    tracker.close(0.1)
    return str(tracker.problem)


def test_a_search_in_a_moved_folder_goes_on_and_says_what_mlflow_misses(runs: Path) -> None:
    there = runs.rename(runs.with_name("there" * 40))
    before = content(there)
    problem = undelivered(there)
    assert f"keeps its files in {runs}" in problem and f"`orchestrator sync --output {there}`" in problem
    assert "start the server" not in problem
    card = there / "tiny" / CHAMPIONS / "pets" / CARD
    card.write_text(card.read_text().replace("20.0", "21.0"))
    _, (problem,) = registry.register_all(default_uri(there), there / "tiny")
    assert f"keeps its files in {runs}" in problem and "start the server" not in problem
    assert content(there) == before and not runs.exists()


def test_what_looks_like_a_move_and_is_none(runs: Path, cli: CommandLine) -> None:
    link = runs.with_name("link")
    link.symlink_to(runs)
    assert tracking(link, cli) == [], "another way to the same folder"
    there = runs.with_name("there")
    there.mkdir()
    shutil.copy(runs / "mlflow.db", there / "mlflow.db")
    shutil.copytree(runs / "tiny", there / "tiny")
    cli.shows("sync", "tiny", "--output", there)
    assert fetch_champion(default_uri(there), "pets", there / "fetched")[1].version == 1, "files that stayed behind"
    broken = runs.with_name("broken")
    shutil.copytree(runs, broken)
    (broken / "mlflow.db").write_bytes(b"no database" * 100)
    said = cli.refuses("retrieve", "a dog", "--dataset", "pets", "--output", broken)
    assert "icr-pets cannot be fetched: the database is damaged (" in said
    assert "(sqlite3.DatabaseError) file is not a database); rename its file" in said


def test_a_database_elsewhere_is_used_again_before_the_first_file_is_there(runs: Path, tmp_path: Path) -> None:
    uri = default_uri(tmp_path)
    shutil.copy(runs / "mlflow.db", tmp_path / "mlflow.db")
    (runs / "artifacts").rename(runs / "away")
    (runs / "artifacts").write_text("nothing can be written here, as on a full disk")
    with pytest.raises(NotADirectoryError):
        Store(uri, runs, runs / "new", "new")
    assert MlflowClient(tracking_uri=uri).get_experiment_by_name("new") is None
    (runs / "artifacts").unlink()
    for _ in range(2):
        Store(uri, runs, runs / "new", "new")


def test_a_deleted_experiment_comes_back_when_it_is_named(runs: Path, cli: CommandLine) -> None:
    client = MlflowClient(tracking_uri=default_uri(runs))

    def delete() -> str:
        found = client.get_experiment_by_name("tiny")
        client.delete_experiment(found.experiment_id)
        return str(found.experiment_id)

    number = delete()
    assert "the experiment tiny was deleted in MLflow's pages; `orchestrator sync tiny" in undelivered(runs)
    connect = Mock(wraps=connection.connect)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "connect", connect)
        _, out, err = cli.run("sync", "--output", runs)
    assert connect.call_count == 2, "an experiment is not asked for again that stays deleted"
    assert "warning: the experiment tiny was deleted in MLflow's pages: `orchestrator sync tiny" in err
    assert "more: 1 runs agree" in out and "tiny: 1 runs agree" not in out
    (finding,) = tracking(runs, cli)
    assert "the experiment tiny was deleted in MLflow's pages" in finding["found"]
    assert "--repair brings it back" in finding["way_out"]
    cli.shows("sync", "tiny", "--output", runs)
    assert client.get_experiment(number).lifecycle_stage == "active"
    assert tracking(runs, cli) == []
    delete()
    (finding,) = tracking(runs, cli, "--repair")
    assert (finding["state"], finding["way_out"]) == ("warn", "repaired: delivered")
    assert len(client.search_runs([number])) == 2, "a study and its trial, once"
