"""The doctor of an experiment: each breach is named with its file or trial, and mended where nothing is lost by it."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from orchestrator.doctor import experiment as doctor
from orchestrator.doctor.experiment import check_experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.lock import AlreadyRunningError, hold
from orchestrator.journal.trial import TrialState
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.sync import DeliveryError
from tests.support.commands import CommandLine
from tests.support.experiments import add_trial, begun
from tests.support.fake_workload import report
from tests.support.records import append
from trainables.checkpoint import find_damage, find_latest, save_epoch

NAME = "pets-vsepp-nt_xent"


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interrupted experiment in which everything holds: a finished trial and one that ran."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    with begun(folder) as ledger:
        for state in (TrialState.FINISHED, TrialState.RUNNING):
            trial = add_trial(ledger, [1.0, 2.0, 3.0], state=state)
            for epoch in (1, 2, 3):
                save_epoch(folder / "trials" / trial.id, report(0.1, epoch))
        append(ledger, "experiment_ended", outcome="interrupted", ended_by="signal")
    mended = {"file": "repaired: written from the journal", "tracking": "repaired: delivered"}
    assert states(folder, repair=True) == mended
    return folder


@pytest.fixture
def folder(healthy: Path, tmp_path: Path) -> Path:
    """A copy of it, whose database keeps its files there."""
    shutil.copytree(healthy.parent, tmp_path / "runs")
    former, here = healthy.parent.as_uri(), (tmp_path / "runs").as_uri()
    with closing(sqlite3.connect(tmp_path / "runs" / "mlflow.db")) as connection, connection:
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            connection.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (former, here))
    return tmp_path / "runs" / "tiny"


def states(folder: Path, *, repair: bool = False) -> dict[str, str]:
    findings = check_experiment(folder, default_uri(folder.parent), repair=repair)
    return {finding.check: finding.way_out for finding in findings if finding.state != "ok"}


def test_without_mlflow_nobody_looks_at_what_mlflow_holds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "is_installed", lambda extra: extra != "tracking")
    assert states(folder, repair=True) == {"tracking": "pip install 'icr-orchestrator[tracking]'"}


def test_a_checkpoint_that_was_passed_over_is_named(folder: Path) -> None:
    ledger = Ledger(folder / "journal.jsonl")
    (trial,) = ledger.history.running()
    ledger.note_damage(trial, "s3://bucket/x/epoch_0002-ab/state.pt: damaged")
    ledger.close()
    findings = [one for one in check_experiment(folder, default_uri(folder.parent)) if one.check == "checkpoint"]
    assert [(one.state, one.found) for one in findings] == [
        ("warn", f"{trial.id}: passed over: s3://bucket/x/epoch_0002-ab/state.pt: damaged")
    ]


def cut(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / name
        path.write_bytes(path.read_bytes()[:-3])

    return damage


def leave_lock(folder: Path) -> None:
    scratch = folder.parent.parent / "icr-left"
    scratch.mkdir(mode=0o700)
    with hold(folder, scratch):
        content = (folder / "lock").read_text()
    (folder / "lock").write_text(content)


def add_stray(folder: Path) -> None:
    save_epoch(folder / "trials" / f"{NAME}-0001", report(0.1, 5))


def leave_half(folder: Path) -> None:
    (folder / "trials" / f"{NAME}-0001" / ".epoch_0004.77").mkdir()


NEWEST = f"trials/{NAME}-0001/epoch_0003"
BREACHES = [
    pytest.param(cut("journal.jsonl"), "journal", "bytes of a record", id="torn journal"),
    pytest.param(leave_lock, "lock", "which is gone, with 0 processes and", id="stale lock"),
    pytest.param(cut(f"{NEWEST}/state.pt"), "checkpoint", f"{NEWEST}/state.pt: damaged", id="damaged checkpoint"),
    pytest.param(cut(f"{NEWEST}/manifest.json"), "checkpoint", f"{NEWEST}/manifest.json: damaged", id="manifest"),
    pytest.param(add_stray, "checkpoint", "beyond what the journal knows", id="stray"),
    pytest.param(leave_half, "checkpoint", "half written when its process was killed", id="half written"),
    pytest.param(cut("experiment.yaml"), "file", "experiment.yaml: missing, damaged", id="experiment.yaml"),
]


@pytest.mark.parametrize(("damage", "check", "found"), BREACHES)
def test_a_breach_is_named_and_mended(
    folder: Path, damage: Callable[[Path], None], check: str, found: str, cli: CommandLine
) -> None:
    damage(folder)
    code, said, _ = cli.run("doctor", folder, "--json")
    rows = json.loads(said)
    assert code == 1 and any(row["check"] == check and found in row["found"] for row in rows)
    assert all(row["way_out"] for row in rows)
    assert "repaired" in cli.shows("doctor", folder, "--repair")
    left = check_experiment(folder, default_uri(folder.parent))
    assert [finding for finding in left if finding.state == "fail"] == []
    if check == "checkpoint" and "damaged" in found:
        latest = find_latest(folder / "trials" / f"{NAME}-0001")
        assert latest.name == "epoch_0002"


def damage_line(folder: Path, number: int) -> bytes:
    """Damage a line of the journal, from 1; return the journal as it is then."""
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    lines[number - 1] = b"x" + lines[number - 1]
    (folder / "journal.jsonl").write_bytes(b"".join(lines))
    return b"".join(lines)


def test_a_journal_without_its_description_is_left_alone(folder: Path) -> None:
    before = damage_line(folder, 1)
    findings = check_experiment(folder, default_uri(folder.parent), repair=True)
    assert [(finding.check, finding.state) for finding in findings] == [("journal", "fail")]
    assert "journal.jsonl: line 1: damaged" in findings[0].found
    assert (folder / "journal.jsonl").read_bytes() == before


def test_a_repair_goes_past_a_damaged_line_and_says_what_is_lost(folder: Path) -> None:
    # The second epoch of the finished trial: started, created and an epoch before it.
    before = damage_line(folder, 5)
    (finding,) = check_experiment(folder, default_uri(folder.parent))
    assert finding.found.endswith(
        f"journal.jsonl: line 5: damaged; later records that need these lines: 1 of {NAME}-0000, 1 of experiment_ended"
    )
    copies = list(folder.glob("journal.jsonl.damaged-*"))
    assert copies == [] and "--repair keeps the other 9 records, and the file as it is" in finding.way_out
    findings = check_experiment(folder, default_uri(folder.parent), repair=True)
    assert (findings[0].check, findings[0].state) == ("journal", "warn")
    (copy,) = folder.glob("journal.jsonl.damaged-*")
    assert copy.name in finding.way_out
    assert copy.read_bytes() == before
    assert not any("--repair" in one.way_out for one in findings), "nothing asks for the repair that was just made"
    assert any("beyond what the journal knows" in one.found for one in findings)
    (aside,) = (folder / "set_aside").glob(f"*/trials/{NAME}-0000/epoch_0003")
    assert find_damage(aside) is None
    trial = History.of(read_journal(folder / "journal.jsonl")).trials[f"{NAME}-0000"]
    assert (trial.state, sorted(trial.epochs)) == (TrialState.RUNNING, [1])


def results(folder: Path) -> dict[str, bytes]:
    """Return the content of each file of a checkpoint or summary, by its path from the trial on."""
    files = [path for path in folder.rglob("*") if path.is_file() and "epoch_" in f"{path}"]
    content = {"/".join(path.parts[path.parts.index("trials") :]): path.read_bytes() for path in files}
    return content | {path.name: path.read_bytes() for path in folder.rglob("summary.json")}


@pytest.mark.parametrize(
    ("records", "unknown"), [(1, 2), (3, 1)], ids=["no trial is known", "the first epoch of a trial is known"]
)
def test_results_that_a_cut_journal_lacks_are_moved(folder: Path, records: int, unknown: int, cli: CommandLine) -> None:
    summary = json.dumps({"trials": [{"trial": f"{NAME}-0000"}, {"trial": f"{NAME}-0001"}]})
    (folder / "summary.json").write_text(summary)
    journal = (folder / "journal.jsonl").read_bytes()
    before = results(folder)
    lines = journal.splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join(lines[:records]) + lines[records][:20])
    lacks = f"warning: the journal lacks trials: {unknown} of trials/"
    assert lacks in " ".join(cli.shows("status", folder).split())
    code, said, _ = cli.run("doctor", folder, "--repair")
    assert code == 1, "what the journal lost is lost until the journal is restored"
    assert f"restore {folder / 'journal.jsonl'} from a backup" in said
    assert results(folder) == before, "every file is still there"
    (copy,) = folder.glob("journal.jsonl.damaged-*")
    assert copy.read_bytes() == b"".join(lines[:records]) + lines[records][:20]
    assert all(str(path) in said for path in (folder / "set_aside").glob(f"*/trials/{NAME}-0001"))
    assert str(next((folder / "set_aside").glob("*/summary.json"))) in said
    # Whoever finds the journal again moves the files back, and nothing is lost.
    for part in (folder / "set_aside").glob("*/"):
        shutil.copytree(part, folder, dirs_exist_ok=True)
    shutil.rmtree(folder / "set_aside")
    (folder / "summary.json").unlink()
    copy.unlink()
    (folder / "journal.jsonl").write_bytes(journal)
    assert states(folder).keys() <= {"tracking"}, "MLflow was told of the cut journal"
    assert states(folder, repair=True).keys() <= {"tracking"}
    assert states(folder) == {}


def test_a_file_that_is_written_from_the_journal_is_kept_as_it_was(folder: Path) -> None:
    (folder / "experiment.yaml").write_text("name: mine\n")
    assert states(folder, repair=True)["file"].startswith("repaired: written from the journal; the former file: ")
    (former,) = (folder / "set_aside").glob("*/experiment.yaml")
    assert former.read_text() == "name: mine\n"


def test_a_damaged_last_line_is_said_and_kept(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    last = len((folder / "journal.jsonl").read_bytes().splitlines())
    before = damage_line(folder, last)
    found = {one.check: one for one in check_experiment(folder, default_uri(folder.parent))}["journal"]
    assert f"line {last}, the last: damaged" in found.found
    Ledger(folder / "journal.jsonl").close()
    (copy,) = folder.glob("journal.jsonl.damaged-*")
    assert copy.read_bytes() == before
    assert copy.name in found.way_out
    assert f"the last line, {last}, is damaged and was cut off; its event happens again" in caplog.text
    assert len(read_journal(folder / "journal.jsonl")) == last - 1


def test_a_lost_winner_is_said_and_not_mended(folder: Path) -> None:
    shutil.rmtree(folder / "trials" / f"{NAME}-0000")
    for repair in (False, True):
        assert "restore its model" in states(folder, repair=repair)["checkpoint"]


def test_runs_that_are_missing_in_mlflow_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(folder / "journal.jsonl")
    add_trial(ledger, [5.0])
    ledger.close()
    found = check_experiment(folder, default_uri(folder.parent))
    assert f"{NAME}-0002 has 0 runs" in next(row.found for row in found if row.check == "tracking")
    with monkeypatch.context() as patched:
        patched.setattr("orchestrator.doctor.experiment.deliver", Mock(side_effect=DeliveryError("no answer")))
        assert states(folder, repair=True)["tracking"] == "could not be repaired: no answer"
    assert states(folder, repair=True)["tracking"] == "repaired: delivered"
    assert "tracking" not in states(folder)


def test_a_damaged_database_is_named(folder: Path) -> None:
    (folder.parent / "mlflow.db").write_bytes(b"no database" * 100)
    assert "rename its file" in states(folder, repair=True)["tracking"]


def test_a_removed_database_is_made_again(folder: Path) -> None:
    (folder.parent / "mlflow.db").unlink()
    assert states(folder, repair=True)["tracking"] == "repaired: delivered"
    assert states(folder) == {}


def test_a_contradiction_in_the_journal_is_found(folder: Path) -> None:
    ledger = Ledger(folder / "journal.jsonl")
    append(ledger, "epoch", trial=f"{NAME}-0000", epoch=3, metrics={"val/rsum": 3.0}, state="finished")
    append(ledger, "epoch", trial=f"{NAME}-0001", epoch=5, metrics={"val/rsum": 3.0}, state="running")
    ledger.close()
    found = [finding.found for finding in check_experiment(folder, default_uri(folder.parent))]
    assert f"{NAME}-0000: ended 2 times" in found
    assert f"{NAME}-0000: epoch 3 is there 2 times" in found
    assert f"{NAME}-0001: has epochs [1, 2, 3, 5]" in found


def test_an_experiment_that_runs_is_not_mended(folder: Path, cli: CommandLine) -> None:
    assert "everything holds" in cli.shows("doctor", folder)
    with hold(folder):
        assert states(folder) == {}
        with pytest.raises(AlreadyRunningError):
            check_experiment(folder, default_uri(folder.parent), repair=True)


def test_a_checkpoint_that_a_running_experiment_removes_meanwhile_is_no_breach(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = folder / "trials" / f"{NAME}-0001" / "epoch_0001"

    def look(path: Path) -> str | None:
        if path == first:
            shutil.rmtree(path)
        return find_damage(path)

    monkeypatch.setattr(doctor, "find_damage", look)
    with hold(folder):
        assert states(folder) == {}
    assert not first.exists()


def test_repair_needs_a_name(cli: CommandLine) -> None:
    assert "name the experiment" in cli.refuses("doctor", "--repair")
