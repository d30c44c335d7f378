"""Actors start side by side, and trials that end while others start do not take their actors' places."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.search import run_search
from orchestrator.tune_places import fits
from tests.orchestrator import fake_workload
from tests.orchestrator.experiments import make_experiment
from tests.orchestrator.fake_workload import FakeWorkload
from trainables.config import TrialConfig
from trainables.reports import EpochReport

TRIALS = 60


@dataclass(frozen=True)
class Attended(FakeWorkload):
    """Trials that take less time than an actor to start, until two have been there at once."""

    folder: Path = Path()

    def train(self, config: TrialConfig, resume: Path | None) -> Iterator[EpochReport]:  # type: ignore[override]
        own = self.folder / f"{time.monotonic_ns()}.runs"
        own.touch()
        if len(list(self.folder.glob("*.runs"))) > 1:
            (self.folder / "together").touch()
        if not (self.folder / "together").exists():
            time.sleep(1.0)
        try:
            yield from super().train(config, resume)
        finally:
            own.unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 2], ids=["as many as fit", "two"])
def test_trials_shorter_than_an_actors_start_run_side_by_side(
    ray_session: None, output: Path, tmp_path: Path, limit: int | None
) -> None:
    import ray

    for module in (fake_workload, sys.modules[__name__]):
        ray.cloudpickle.register_pickle_by_value(module)
    resources: dict[str, Any] = {"cpus": 1, "gpus": 0, "max_concurrent": limit}
    experiment = make_experiment(
        losses=["nt_xent"],
        training={"epochs": 1},
        search={"sampler": "random", "trials": TRIALS},
        scheduler={"name": "none"},
        resources=resources,
    )
    run_search(experiment, Attended(folder=tmp_path), output, quiet=True)
    assert (tmp_path / "together").exists()


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
