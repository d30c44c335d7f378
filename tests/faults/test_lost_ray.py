"""A Ray that dies, alone or with its driver: a sentence of ours, nothing left, and the same command resumes."""

import os
import signal
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil
import pytest

from orchestrator.journal.history import History
from orchestrator.tuner.runtime import CORE
from tests.faults.invariants import assert_invariants
from tests.faults.searches import Searches, tiny
from tests.faults.troubled_workload import TroubledWorkload

pytestmark = pytest.mark.proof


@pytest.mark.proof
def test_a_search_whose_ray_dies_ends_in_order_and_resumes(searches: Searches, tmp_path: Path) -> None:
    workload = TroubledWorkload(seconds=0.5, log=tmp_path / "trained.jsonl")
    snapshots: list[History] = []
    for victim in CORE:
        process = searches.start(tiny(), workload, own_ray=True)
        wait_for_epochs(searches, process)
        assert process.pid is not None
        family = psutil.Process(process.pid).children(recursive=True)
        next(one for one in family if one.name() == victim).kill()
        process.join(240)
        # Ray itself would end the driver after 60 s, without the sentence that is looked for below.
        assert process.exitcode == 1, searches.errors()
        snapshots.append(assert_nothing_left(searches, family))
        assert snapshots[-1].outcome is None
    told = searches.errors().splitlines()
    assert [said for line in told for said in CORE.values() if f"({said})" in line] == list(CORE.values())
    assert len(told) == len(CORE) and all("resume with the same command" in line for line in told), told
    searches.finish(tiny(), workload)
    assert_invariants(searches.output, before=snapshots, log=workload.log, kills=len(CORE))


@pytest.mark.parametrize(
    "is_orphan",
    [
        # What systemd starts has process 1 for its parent, which Ray takes for a raylet that is dead.
        pytest.param(True, id="started by process 1", marks=pytest.mark.proof),
        pytest.param(False, id="started by another process", marks=pytest.mark.proof),
    ],
)
def test_a_signal_to_a_search_and_its_ray_at_once_ends_both_in_order(
    searches: Searches, tmp_path: Path, is_orphan: bool
) -> None:
    """As whoever signals a process group does, e.g. ``timeout``, or all of a control group, e.g. systemd."""
    workload = TroubledWorkload(seconds=0.5, log=tmp_path / "trained.jsonl")
    process = searches.start_orphan(tiny(), workload) if is_orphan else searches.start(tiny(), workload, own_ray=True)
    wait_for_epochs(searches, process)
    assert process.pid is not None
    driver = psutil.Process(process.pid)
    family = driver.children(recursive=True)
    for one in (driver, *family):
        os.kill(one.pid, signal.SIGTERM)
    ended, _ = psutil.wait_procs([driver], timeout=240)
    assert ended, "the driver waits for a Ray that is gone"
    if isinstance(process, ForkServerProcess):
        process.join()
        assert process.exitcode == 130, searches.errors()
    history = assert_nothing_left(searches, family)
    assert history.outcome == "interrupted", searches.errors()
    (said,) = searches.errors().splitlines()
    assert said.startswith(f"{searches.output / 'tiny'}: resume with: orchestrator resume tiny ")
    searches.finish(tiny(), workload)
    assert_invariants(searches.output, before=[history], log=workload.log, kills=1)


def wait_for_epochs(searches: Searches, process: ForkServerProcess | psutil.Process) -> None:
    seen = searches.records()
    searches.wait_for(lambda history: searches.records() > seen + 5, process)


def assert_nothing_left(searches: Searches, family: list[psutil.Process]) -> History:
    """Return what the journal holds after the end of a search that had started these processes."""
    gone, left = psutil.wait_procs(family, timeout=60)
    assert (len(gone), left) == (len(family), [])
    assert (searches.output / "tiny" / "lock").read_text() == ""
    return searches.history()
