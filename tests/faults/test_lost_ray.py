"""A Ray that dies, alone or with its driver: a sentence of ours, nothing left, and the same command goes on."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from orchestrator.journal.history import History
from orchestrator.tuner.ray_watch import CORE
from tests.faults.invariants import assert_invariants
from tests.faults.searches import Searches, tiny
from tests.faults.troubled_workload import TroubledWorkload

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(("gcs_server", "raylet"), id="Ray alone"),
        # Where the machine is busy, Ray now and then ends the driver before the driver can end Ray.
        pytest.param(("all",), id="Ray and driver", marks=pytest.mark.soak),
    ],
)
def test_a_search_whose_ray_dies_ends_in_order_and_goes_on(
    searches: Searches, tmp_path: Path, victims: tuple[str, ...]
) -> None:
    workload = TroubledWorkload(seconds=0.5, log=tmp_path / "trained.jsonl")
    snapshots: list[History] = []
    for victim in victims:
        process = searches.start(tiny(), workload, own_ray=True)
        seen = searches.records()
        searches.wait_for(lambda history, seen=seen: searches.records() > seen + 5, process)
        assert process.pid is not None
        driver = psutil.Process(process.pid)
        family = driver.children(recursive=True)
        began = time.monotonic()
        if victim == "all":
            # As whoever signals a process group does, e.g. `timeout`; or all of a control group, e.g. systemd.
            for one in (driver, *family):
                os.kill(one.pid, signal.SIGTERM)
        else:
            next(one for one in family if one.name() == victim).kill()
        process.join(120)
        assert process.exitcode == (130 if victim == "all" else 1), searches.errors()
        assert time.monotonic() - began < 60, "Ray itself would end the driver after 60 s"
        gone, left = psutil.wait_procs(family, timeout=10)
        assert (len(gone), left) == (len(family), [])
        snapshots.append(searches.history())
        assert snapshots[-1].outcome == ("interrupted" if victim == "all" else None)
        assert (searches.output / "tiny" / "lock").read_text() == ""
    told = searches.errors().splitlines()
    causes = [CORE[victim] for victim in victims if victim in CORE]
    assert [said for line in told for said in CORE.values() if f"({said})" in line] == causes
    assert len(told) == len(victims) and all("the same command goes on from here" in line for line in told), told
    searches.finish(tiny(), workload)
    assert_invariants(searches.output, before=snapshots, log=workload.log, kills=len(victims))
