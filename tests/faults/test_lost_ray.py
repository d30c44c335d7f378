"""A Ray that dies, alone or with a search or an extraction: a sentence of ours, nothing left, and it resumes."""

import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil
import pytest

from orchestrator.journal.history import History
from orchestrator.tuner.own_ray import CORE
from tests.faults.searches import Searches, tiny
from tests.faults.troubled_workload import Trouble
from tests.integration.search_process import command
from tests.support.child_process import running
from tests.trainables.scenes_folder import write_scenes

pytestmark = pytest.mark.proof


def test_a_search_whose_ray_dies_ends_in_order_and_resumes(searches: Searches) -> None:
    workload = searches.workload(otherwise=Trouble("wait"))
    snapshots: list[History] = []
    for victim in CORE:
        process = searches.start(tiny(), workload, own_ray=True)
        searches.wait_until_held(process)
        assert process.pid is not None
        family = psutil.Process(process.pid).children(recursive=True)
        next(one for one in family if one.name() == victim).kill()
        workload.go.touch()
        # Ray itself would end the driver after 60 s, without the sentence that is looked for below.
        searches.join(process, 1)
        workload.go.unlink()
        assert_gone(family)
        assert (searches.output / "tiny" / "lock").read_text() == ""
        snapshots.append(searches.history())
        assert snapshots[-1].outcome is None
    told = searches.errors().splitlines()
    assert [said for line in told for said in CORE.values() if f"({said})" in line] == list(CORE.values())
    assert len(told) == len(CORE) and all("resume with the same command" in line for line in told), told
    workload.go.touch()
    searches.conclude(tiny(), workload, *snapshots, kills=len(CORE))


@pytest.mark.parametrize("victim", CORE)
def test_a_search_whose_ray_dies_while_it_starts_says_so_at_once(tmp_path: Path, victim: str) -> None:
    started = command(tmp_path / "runs", tiny(), 0.0)
    with running(started, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        driver = psutil.Process(process.pid)
        core: list[psutil.Process] = []
        while not core:
            assert process.poll() is None
            core = [one for one in driver.children() if one.name() == victim]
            time.sleep(0.01)
        family = driver.children(recursive=True)
        core[0].kill()
        # Ray's library asks for a minute, and then ends this process with a line of its own.
        said = process.communicate(timeout=50)[1]
    assert process.returncode == 1
    (line,) = said.splitlines()
    assert line.startswith(f"Ray did not start on this machine: {CORE[victim]}: "), said
    assert line.endswith("; nothing is lost: run the same command again")
    assert_gone(family)
    assert (tmp_path / "runs" / "tiny" / "lock").read_text() == ""


# What systemd starts has process 1 for its parent, which Ray takes for a raylet that is dead.
@pytest.mark.parametrize("is_orphan", [True, False], ids=["started by process 1", "started by another process"])
def test_a_signal_to_a_search_and_its_ray_at_once_ends_both_in_order(searches: Searches, is_orphan: bool) -> None:
    """As whoever signals a process group does, e.g. ``timeout``, or all of a control group, e.g. systemd."""
    workload = searches.workload(otherwise=Trouble("wait"))
    process = searches.start_orphan(tiny(), workload) if is_orphan else searches.start(tiny(), workload, own_ray=True)
    searches.wait_until_held(process)
    assert process.pid is not None
    driver = psutil.Process(process.pid)
    family = driver.children(recursive=True)
    end(driver, *family)
    workload.go.touch()
    ended, _ = psutil.wait_procs([driver], timeout=240)
    assert ended, "the driver waits for a Ray that is gone"
    if isinstance(process, ForkServerProcess):
        process.join()
        assert process.exitcode == 130, searches.errors()
    assert_gone(family)
    history = searches.history()
    assert (searches.output / "tiny" / "lock").read_text() == ""
    assert history.outcome == "interrupted", searches.errors()
    (said,) = searches.errors().splitlines()
    assert said.startswith(f"{searches.output / 'tiny'}: resume with: orchestrator resume tiny ")
    searches.conclude(tiny(), workload, history, kills=1)


def end(*processes: psutil.Process) -> None:
    for one in processes:
        # The driver may have ended some of the others already.
        with suppress(psutil.NoSuchProcess):
            one.terminate()


def assert_gone(family: list[psutil.Process]) -> None:
    gone, left = psutil.wait_procs(family, timeout=240)
    assert (len(gone), left) == (len(family), [])


EXTRACT = """
import sys, time
from pathlib import Path
from orchestrator.cli import main
from orchestrator.extraction import workers

extract, go = workers.extract_shards, Path(sys.argv.pop())

def held(*arguments):
    for result in extract(*arguments):
        yield result
        while not go.exists():
            time.sleep(0.05)

workers.extract_shards = held
main()
"""
"""A program whose workers have done a shard each when they wait for the file that is its last argument."""

RESUME = "finished shards are kept: resume with the same command\n"


def test_an_extraction_whose_ray_dies_ends_in_order_and_resumes(tmp_path: Path) -> None:
    out, go = tmp_path / "out", tmp_path / "go"
    command = [sys.executable, "-c", EXTRACT, "data", "extract", "scenes"]
    command += ["--shard-size", "8", "--workers", "2", "--backbone", "resnet18", "--weights", "none"]
    command += ["--data-root", str(write_scenes(tmp_path / "data", images=256)), "--out", str(out), str(go)]
    for victim in (*CORE, "all"):
        there = shards(out)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while shards(out) == there:
            assert process.poll() is None
            time.sleep(0.01)
        family = psutil.Process(process.pid).children(recursive=True)
        if victim == "all":
            end(psutil.Process(process.pid), *family)
        else:
            next(one for one in family if one.name() == victim).kill()
        said = process.communicate(timeout=120)[1]
        if victim == "all":
            assert (process.returncode, said) == (130, f"interrupted: {out}: {RESUME}")
        else:
            assert process.returncode == 1 and said.startswith(f"error: {out}: Ray is gone ({CORE[victim]}): "), said
            assert said.endswith(f"; {RESUME}") and said.count("\n") == 1
        assert_gone(family)
        assert (out / ".extract" / "lock").read_text() == ""
    go.touch()
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0
    assert sorted(path.name for path in out.iterdir()) == ["features_global.json", "features_global.npy"]


def shards(out: Path) -> int:
    return len(list((out / ".extract").glob("global_*.npy")))
