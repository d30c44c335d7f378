"""State files that are cut short, and a disk that fills up: repaired, or named; never read as no results."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.doctor.experiment import check_experiment
from orchestrator.journal.history import History
from orchestrator.search.status import Followed, read_status
from orchestrator.tracking.address import default_uri
from tests.faults.driver import Death, Tracking
from tests.faults.invariants import assert_invariants
from tests.faults.searches import Searches, grid
from tests.faults.searches_here import SearchesHere
from tests.faults.troubled_workload import TroubledWorkload
from tests.support.bucket import free_port

EXPERIMENT = grid([0.3, 0.05, 0.2, 0.02])


@pytest.fixture
def killed(any_searches: Searches | SearchesHere, tmp_path: Path) -> Searches | SearchesHere:
    """A search that was killed when some trials had ended and each of the others had two checkpoints."""
    seconds = 0.2 if isinstance(any_searches, Searches) else 0.0
    any_searches.crash(EXPERIMENT, TroubledWorkload(seconds=seconds, log=tmp_path / "trained.jsonl"), ready)
    return any_searches


def ready(history: History) -> bool:
    running = history.running()
    return len(running) < len(history.trials) and any(2 <= trial.last_epoch < 5 for trial in running)


def cut(path: Path, *, lost: int) -> None:
    path.write_bytes(path.read_bytes()[: -lost or None])


def test_files_that_were_cut_short_cost_an_epoch_at_most(killed: Searches | SearchesHere, tmp_path: Path) -> None:
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
    log = tmp_path / "trained.jsonl"
    killed.die(EXPERIMENT, TroubledWorkload(log=log), Death("checkpoint_damaged", "torn"))
    killed.finish(EXPERIMENT, TroubledWorkload(log=log))
    assert_invariants(killed.output, before=[before], log=log, kills=3)
    assert [line for line in read_status(Followed(folder)).damage if victim.id in line and "state.pt: damaged" in line]


def test_a_search_without_its_database_or_any_checkpoint_still_ends_right(
    killed: Searches | SearchesHere, tmp_path: Path
) -> None:
    before = killed.history()
    (killed.output / "mlflow.db").unlink()
    shutil.rmtree(killed.output / "tiny" / "trials")
    (killed.output / "tiny" / "trials").mkdir()
    history_of_ended = {trial.id for trial in before.trials.values() if trial.ended is not None}
    assert history_of_ended
    log = tmp_path / "trained.jsonl"
    winner = min(before.trials.values(), key=lambda trial: abs(trial.params["temperature"] - 0.05))
    assert winner.params == {"temperature": 0.05}
    # The winner's model is gone with the checkpoints if it had ended: that is said, not passed over.
    killed.finish(EXPERIMENT, TroubledWorkload(log=log), code=2 if winner.id in history_of_ended else 0)
    if winner.id in history_of_ended:
        assert "no good checkpoint left" in killed.errors()
        assert winner.id in killed.errors()
    else:
        assert_invariants(killed.output, before=[before])


def test_what_cannot_be_repaired_is_refused_by_name(any_searches: Searches | SearchesHere, tmp_path: Path) -> None:
    searches = any_searches
    folder = searches.output / "tiny"
    workload = TroubledWorkload(log=tmp_path / "trained.jsonl")
    searches.finish(grid([0.05]), workload)
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join([*lines[:3], lines[3][:-20] + b"\n", *lines[4:]]))
    searches.finish(grid([0.05]), workload, code=2)
    assert "journal.jsonl: line 4: damaged, and records follow it" in searches.errors()
    assert "Traceback" not in searches.errors()


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
def test_a_disk_that_fills_up_stops_the_search_and_loses_nothing(
    small_disk: Path, store_template: Path, cluster: str, tmp_path: Path
) -> None:
    output = small_disk / "runs"
    output.mkdir()
    searches = Searches(output, cluster)
    searches.tracking = Tracking(default_uri(tmp_path))
    shutil.copy(store_template, tmp_path / "mlflow.db")
    workload = TroubledWorkload(seconds=0.1, log=tmp_path / "trained.jsonl")
    process = searches.start(EXPERIMENT, workload)
    searches.wait_for(lambda history: any(trial.epochs for trial in history.running()), process)
    fill(small_disk / "ballast")
    process.join(240)
    stopped = searches.history()
    assert process.exitcode == 1, searches.errors()
    assert "No space left on device" in searches.errors()
    assert "Traceback" not in searches.errors()
    assert stopped.running()
    (small_disk / "ballast").unlink()
    searches.finish(EXPERIMENT, workload)
    assert_invariants(output, before=[stopped], log=workload.log, kills=1, tracking_uri=searches.tracking.uri)
    searches.close()


# The driver meets the same error in CI on a disk that is full.
@pytest.mark.proof
def test_a_limit_of_file_sizes_stops_the_search_and_loses_nothing(searches: Searches, tmp_path: Path) -> None:
    workload = TroubledWorkload(seconds=0.1, log=tmp_path / "trained.jsonl")
    whole = searches.tracking
    # A database would be the first file to reach the limit, and its complaints would fill what the driver prints.
    searches.tracking = Tracking(f"http://127.0.0.1:{free_port()}", answer=1, end=1, pause=1)
    # Ray writes some files of its own; the journal is to be the longest.
    experiment = EXPERIMENT.model_copy(update={"description": "x" * 400_000})
    process = searches.start(experiment, workload, file_bytes=406_000)
    process.join(240)
    stopped, searches.tracking = searches.history(), whole
    assert process.exitcode == 1, searches.errors()
    assert "journal.jsonl" in searches.errors() and "File too large" in searches.errors()
    assert "Traceback" not in searches.errors()
    assert stopped.running()
    searches.finish(EXPERIMENT, workload)
    assert_invariants(searches.output, before=[stopped], log=workload.log, kills=1)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            return
