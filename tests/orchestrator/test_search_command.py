"""``orchestrator search`` and its companions as a person types them, without starting Ray."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.commands.ui import choose_port
from orchestrator.history import TrialState
from orchestrator.ledger import Ledger
from orchestrator.lock import hold
from tests.orchestrator.experiments import add_trial, make_experiment, start
from tests.precomputed_folder import write_precomputed

ONE_STUDY = ["--set", "losses=[nt_xent]", "--set", "datasets=[pets]", "--set", "resources.gpus=0"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    write_precomputed(tmp_path / "data" / "pets")
    return tmp_path


def refuse(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 2) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == code
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    return message


def test_an_unknown_dataset_is_refused_and_nothing_is_written(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refuse(["search", "scenes-smoke", "--set", "datasets=[petz]"], capsys)
    assert "petz" in message
    assert not (root / "runs").exists()


def test_more_cpus_than_there_are_are_refused_before_anything_is_written(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refuse(["search", "scenes-smoke", *ONE_STUDY, "--set", "resources.cpus=4096"], capsys)
    assert "resources.cpus: a trial asks for 4096, but there are" in message
    assert not (root / "runs").exists()


def test_a_folder_that_cannot_be_written_is_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "taken").write_text("a file")
    message = refuse(["search", "scenes-smoke", *ONE_STUDY, "--output", "taken"], capsys)
    assert "--output taken: cannot be written" in message


def test_a_second_start_is_refused_with_exit_code_3(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "runs" / "scenes-smoke").mkdir(parents=True)
    with hold(root / "runs" / "scenes-smoke"):
        message = refuse(["search", "scenes-smoke", *ONE_STUDY], capsys, code=3)
    assert "already running: process" in message
    assert not (root / "runs" / "scenes-smoke" / "journal.jsonl").exists()


def test_a_damaged_journal_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = root / "runs" / "scenes-smoke"
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text("{}\n{}\n")
    assert "journal.jsonl: line 1: damaged" in refuse(["search", "scenes-smoke", *ONE_STUDY], capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["search", "scenes-smoke", "--set", "training.epoch=3"],
        ["search", "scenes-smoke", "--set", "datasets=[nowhere]"],
        ["search", "nothing"],
        ["status", "nowhere"],
        ["ui", "--output", "nowhere"],
    ],
    ids=" ".join,
)
def test_help_and_refusals_load_nothing_heavy(arguments: list[str], root: Path) -> None:
    code = (
        "import sys, atexit\n"
        "heavy = {'torch', 'ray', 'optuna', 'mlflow', 'pandas'}\n"
        "atexit.register(lambda: print('loaded:', sorted(heavy & set(sys.modules))))\n"
        "from orchestrator.cli import main\n"
        "main(sys.argv[1:])"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    assert "loaded: []" in done.stdout
    assert done.returncode == (0 if arguments == ["--help"] else 2)
    assert "Traceback" not in done.stderr


@pytest.fixture
def experiment(root: Path) -> Path:
    folder = root / "runs" / "tiny"
    folder.mkdir(parents=True)
    ledger = Ledger(folder / "journal.jsonl")
    start(ledger, make_experiment())
    add_trial(ledger, [10.0, 30.0])
    add_trial(ledger, [20.0], state=TrialState.RUNNING)
    ledger.close()
    return folder


def test_status_shows_trials_and_who_runs_them(experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main_returns(["status", str(experiment)])
    shown = capsys.readouterr().out
    assert "tiny: killed" in shown
    assert "finished" in shown
    with hold(experiment):
        main_returns(["status", str(experiment), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["running"], told["outcome"], len(told["trials"])) == (True, None, 2)
    assert told["winners"]["pets"]["val"]["rsum"] == 30.0


def main_returns(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 0


def test_the_ui_takes_another_port_where_the_wanted_one_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert choose_port(port) != port
    assert choose_port(port) == port


def test_the_ui_has_a_way_out_where_there_is_no_store(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "run `orchestrator search` first" in refuse(["ui"], capsys)
