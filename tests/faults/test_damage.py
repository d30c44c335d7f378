"""State files that are cut short, and a disk that fills up: repaired, or named; never read as no results."""

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.doctor.experiment import check_experiment
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.searches.status import Followed, read_status
from orchestrator.tracking.address import default_uri
from tests.faults.driver import Death, Tracking
from tests.faults.invariants import assert_invariants
from tests.faults.searches import Searches, SearchesHere, grid, with_store
from tests.faults.troubled_workload import Trouble

EXPERIMENT = grid([0.3, 0.05, 0.2, 0.02])


@pytest.fixture
def killed(any_searches: SearchesHere) -> SearchesHere:
    """A search that was killed when some trials had ended and each of the others had two checkpoints."""
    any_searches.crash(EXPERIMENT, any_searches.workload(troubles={0.3: Trouble("wait", epoch=4)}), ready)
    return any_searches


def ready(history: History) -> bool:
    running = history.running()
    return len(running) < len(history.trials) and any(2 <= trial.last_epoch < 5 for trial in running)


def cut(path: Path, *, lost: int) -> None:
    path.write_bytes(path.read_bytes()[: -lost or None])


def test_files_that_were_cut_short_cost_an_epoch_at_most(killed: SearchesHere) -> None:
    folder = killed.output / "tiny"
    victim = next(trial for trial in killed.history().running() if 2 <= trial.last_epoch < 5)
    newest = max((folder / "trials" / victim.id).glob("epoch_*"))
    before = killed.history()
    scratch = json.loads((folder / "lock").read_text())["scratch"]
    cut(newest / "state.pt", lost=7)
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"n":99,"time":17')
    for name in ("experiment.yaml", "lock"):
        cut(folder / name, lost=9)
    # A holder that is not known leaves it.
    shutil.rmtree(scratch, ignore_errors=True)
    (folder / "summary.json").write_text('{"winners": {}')
    found = [finding.found for finding in check_experiment(folder, default_uri(killed.output))]
    for named in ("state.pt: damaged", "journal.jsonl: 17 bytes", "experiment.yaml: missing, damaged"):
        assert any(named in line for line in found), found
    killed.die(EXPERIMENT, killed.workload(), Death("checkpoint_damaged", "torn"))
    killed.conclude(EXPERIMENT, killed.workload(), before, kills=3)
    assert [line for line in read_status(Followed(folder)).damage if victim.id in line and "state.pt: damaged" in line]


def test_a_search_without_its_database_or_any_checkpoint_still_ends_right(killed: SearchesHere) -> None:
    before = killed.history()
    (killed.output / "mlflow.db").unlink()
    shutil.rmtree(killed.output / "tiny" / "trials")
    (killed.output / "tiny" / "trials").mkdir()
    winner = next(trial for trial in before.trials.values() if trial.params == {"temperature": 0.05})
    # The winner's model is gone with the checkpoints if it had ended: that is said, not passed over.
    killed.finish(EXPERIMENT, killed.workload(), code=2 if winner.has_ended else 0)
    if winner.has_ended:
        assert "no good checkpoint left" in killed.errors() and winner.id in killed.errors()
    else:
        assert_invariants(killed.output, before=[before])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of some hundred kilobytes, where that can be had."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system of its own size can only be mounted by root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.proof
def test_a_disk_that_fills_up_stops_the_search_and_loses_nothing(small_disk: Path, searches: Searches) -> None:
    searches.tracking = Tracking(default_uri(searches.output), end=60)
    searches.output = small_disk / "runs"
    searches.output.mkdir()
    workload = searches.workload(otherwise=Trouble("wait"))
    process = searches.start(EXPERIMENT, workload)
    searches.wait_until_held(process)
    with suppress(OSError):
        (small_disk / "ballast").write_bytes(bytes(2**20))
    workload.go.touch()
    searches.join(process, 1)
    stopped = searches.history()
    assert "No space left on device" in searches.errors()
    assert "Traceback" not in searches.errors()
    assert stopped.running()
    (small_disk / "ballast").unlink()
    searches.finish(EXPERIMENT, workload)
    assert searches.printed().endswith("tracked\n"), searches.printed()
    searches.judge(stopped, kills=1, tracking_uri=searches.tracking.uri)


@pytest.mark.parametrize("under", ["the journal", "a trial"])
def test_a_full_disk_stops_the_search_and_fails_no_trial(
    tmp_path: Path, store_template: Path, monkeypatch: pytest.MonkeyPatch, under: str
) -> None:
    searches = SearchesHere(with_store(tmp_path / "runs", store_template))
    troubles = {0.2: Trouble("full disk", times=1)} if under == "a trial" else {}
    workload, write = searches.workload(troubles=troubles), Ledger._write

    def write_while_there_is_room(ledger: Ledger, line: bytes, may_lag: bool) -> None:
        if under == "the journal" and any(trial.epochs for trial in ledger.history.running()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(ledger, line, may_lag)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_write", write_while_there_is_room)
        searches.finish(EXPERIMENT, workload, code=1)
    stopped = searches.history()
    assert "No space left on device" in searches.errors()
    assert ("journal.jsonl" in searches.errors()) == (under == "the journal")
    assert {str(trial.state) for trial in stopped.trials.values()} <= {"finished", "running"}
    assert stopped.running()
    searches.conclude(EXPERIMENT, workload, stopped, kills=1)
