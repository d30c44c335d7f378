"""Actors start side by side, keep their places while they start, and as many trials wait as an autoscaler is to see."""

import math
import os
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.machines.cluster import WAITING
from orchestrator.searches.search import run_search
from orchestrator.tuner import tune_patches
from orchestrator.tuner.tune_patches import fits
from tests.faults.searches import tiny
from tests.support.fake_workload import FakeWorkload
from tests.support.waiting import wait_until
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig

TRIALS = 16
SHORT = 10
"""So many trials end in the first actor before another actor has started; the next wait for one at its side."""


@dataclass(frozen=True)
class Attended(FakeWorkload):
    """Trials that take less time than an actor to start: ``SHORT`` of them end before the second actor has started.

    Each actor leaves a file in ``folder`` when its process loads this workload; ``driver`` is the process that does not
    train.
    """

    folder: Path = Path()
    driver: int = field(default_factory=os.getpid)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load the workload, which takes ``SHORT`` trials in the process of each actor but the first."""
        vars(self).update(state)
        if os.getpid() == self.driver:
            return
        (self.folder / f"{os.getpid()}.actor").touch()
        try:
            (self.folder / "first").touch(exist_ok=False)
        except FileExistsError:
            wait_until(lambda: self.ended() >= SHORT, "an actor trains while another starts")

    def ended(self) -> int:
        return len(list(self.folder.glob("*.ended")))

    def train(self, config: TrialConfig, resume: Path | None) -> Generator[EpochReport, None, None]:
        own = self.folder / f"{time.monotonic_ns()}.runs"
        own.touch()
        if len(list(self.folder.glob("*.runs"))) > 1:
            (self.folder / "together").touch()
        if self.ended() >= SHORT:
            wait_until((self.folder / "together").exists, "a second actor trains")
        try:
            yield from super().train(config, resume)
        finally:
            own.rename(own.with_suffix(".ended"))


@pytest.mark.proof
@pytest.mark.parametrize("limit", [None, 2], ids=["as many as fit", "two"])
def test_trials_shorter_than_an_actors_start_run_side_by_side(
    ray_session: None, output: Path, tmp_path: Path, limit: int | None
) -> None:
    import ray

    # The actors don't know the tests.
    for name in (__name__, wait_until.__module__):
        ray.cloudpickle.register_pickle_by_value(sys.modules[name])
    resources = {"cpus": 1, "gpus": 0, "max_concurrent": limit}
    experiment = tiny(training={"epochs": 1}, search={"sampler": "random", "trials": TRIALS}, resources=resources)
    # An actor of the test before may still be ending: while it has its CPU, there is room for one alone.
    wait_until(lambda: ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"], "all CPUs are free")
    run_search(experiment, Attended(folder=tmp_path), output, quiet=True)
    assert (tmp_path / "together").exists()
    # An actor that is ended while it starts is followed by another: the count would exceed the CPUs.
    # On many CPUs the trials may end before all actors have started: the count may be less.
    assert len(list(tmp_path.glob("*.actor"))) <= min(ray.cluster_resources()["CPU"], limit or math.inf)


@dataclass(frozen=True)
class Beheld(FakeWorkload):
    """The first trial writes down how many trials wait for nodes while it runs.

    The driver adds to the file ``looks`` in ``folder`` whenever it looks at what is free.
    """

    folder: Path = Path()
    expected: int = 0

    def train(self, config: TrialConfig, resume: Path | None) -> Generator[EpochReport, None, None]:
        if not (self.folder / "waited").exists():
            (self.folder / "waited").touch()
            (self.folder / "waited").write_text(str(self.behold()))
        yield from super().train(config, resume)

    def behold(self) -> int:
        """Return how many trials wait once there are as many as expected, and the driver could have added more."""
        wait_until(lambda: waiting_groups() >= self.expected, f"{self.expected} trials wait")
        # The driver adds what the first of two further looks allows before the second look.
        seen = self.looks()
        wait_until(lambda: self.looks() >= seen + 2, "the driver looks at what is free")
        return waiting_groups()

    def looks(self) -> int:
        looks = self.folder / "looks"
        return looks.stat().st_size if looks.exists() else 0


def waiting_groups() -> int:
    """Return how many placement groups wait, which is what an autoscaler counts."""
    import ray

    return sum(group["state"] == "PENDING" for group in ray.util.placement_group_table().values())


@pytest.mark.proof
@pytest.mark.parametrize(("said", "waiting"), [(None, 1), ("3", 3)], ids=["one", "as many as asked for"])
def test_so_many_trials_wait_for_nodes(
    ray_session: None, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, waiting: int
) -> None:
    import ray

    # The actors don't know the tests.
    for name in (__name__, wait_until.__module__):
        ray.cloudpickle.register_pickle_by_value(sys.modules[name])
    if said is None:
        monkeypatch.delenv(WAITING, raising=False)
    else:
        monkeypatch.setenv(WAITING, said)

    def noted_fits(*free_and_wanted: Any) -> int:
        with (tmp_path / "looks").open("a") as looks:
            looks.write("1")
        return fits(*free_and_wanted)

    monkeypatch.setattr(tune_patches, "fits", noted_fits)
    experiment = tiny(training={"epochs": 1}, resources={"cpus": ray.cluster_resources()["CPU"], "gpus": 0})
    run_search(experiment, Beheld(folder=tmp_path, expected=waiting), output, quiet=True)
    assert (tmp_path / "waited").read_text() == str(waiting)


@pytest.mark.parametrize(
    ("free", "wanted", "places"),
    [
        ({"CPU": 4.0}, {"CPU": 1.0}, 4),
        ({"CPU": 4.0, "GPU": 1.0}, {"CPU": 1.0, "GPU": 0.5}, 2),
        ({"CPU": 4.0}, {"CPU": 1.0, "GPU": 1.0}, 0),
        ({"CPU": 1.0}, {"CPU": 0.0625, "GPU": 0.0}, 16),
        ({"CPU": 0.3}, {"CPU": 0.1}, 3),
        ({}, {"CPU": 1.0}, 0),
    ],
)
def test_as_many_fit_as_the_scarcest_allows(free: dict[str, float], wanted: dict[str, float], places: int) -> None:
    assert fits(free, wanted) == places
