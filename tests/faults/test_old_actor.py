"""An actor that outlives its driver writes nothing into what the next driver has claimed."""

import json
import os
import signal
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.storage.stores import ClaimLostError, FolderStore
from orchestrator.tuner.actor import TrialActor
from orchestrator.workload.workload import TestEvaluation
from tests.faults.invariants import assert_invariants
from tests.faults.searches import CONTEXT, Searches, live_actors, tiny
from tests.faults.troubled_workload import TroubledWorkload
from tests.support.fake_workload import report
from trainables.checkpoint import EpochReport
from trainables.config import TrainingConfig, TrialConfig

pytestmark = pytest.mark.proof


@dataclass(frozen=True)
class Slow:
    """A training whose second checkpoint is half written when it asks whether it may continue."""

    ask: Connection

    def check(self, experiment: Experiment) -> dict[str, str]:
        raise NotImplementedError

    def tokenizers(self, experiment: Experiment) -> dict[str, str]:
        raise NotImplementedError

    def notes(self, experiment: Experiment) -> list[str]:
        raise NotImplementedError

    def expecting(self, digests: Mapping[str, str]) -> "Slow":
        return self

    def test(self, config: TrialConfig, checkpoint: Path) -> TestEvaluation:
        raise NotImplementedError

    def train(self, config: TrialConfig, resume: Path | None) -> Generator[EpochReport, None, None]:
        yield report(0.1, 1)
        second = report(0.1, 2)

        def save(directory: Path) -> None:
            second.save(directory)
            self.ask.send("may I?")
            self.ask.recv()

        yield EpochReport(2, second.metrics, True, save)


def act(checkpoints: Checkpoints, ask: Connection) -> None:
    """Be an actor that trains two epochs, and tell what came of each."""
    actor = TrialActor.__new__(TrialActor)
    trial = TrialConfig(dataset="pets", loss_parameters={"temperature": 0.1}, training=TrainingConfig(epochs=5))
    config = {"trial": "a", "config": json.dumps(trial.to_dict())}
    actor.setup(config, workload=Slow(ask), checkpoints=checkpoints)
    for _ in range(2):
        try:
            ask.send(actor.step()["step"].refused)
        except ClaimLostError as error:
            ask.send(str(error))


@pytest.mark.parametrize("claimed", [False, True], ids=["undisturbed", "claimed by another driver"])
def test_what_it_was_writing_never_appears(cluster: str, tmp_path: Path, claimed: bool) -> None:
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=act, args=(Checkpoints(FolderStore.claimed(tmp_path)), theirs))
    process.start()
    assert ours.recv() is None
    assert ours.recv() == "may I?"
    if claimed:
        Checkpoints(FolderStore.claimed(tmp_path))
    ours.send("yes")
    refused = ours.recv()
    process.join(60)
    appeared = sorted(path.name for path in (tmp_path / "a").iterdir())
    if claimed:
        assert "another driver" in refused
        assert appeared == ["epoch_0001"]
    else:
        assert refused is None
        assert appeared == ["epoch_0001", "epoch_0002"]


@pytest.mark.proof
def test_frozen_actors_of_a_killed_driver_do_no_harm_when_they_wake(searches: Searches, tmp_path: Path) -> None:
    workload = TroubledWorkload(seconds=0.3, log=tmp_path / "trained.jsonl")
    process = searches.start(tiny(), workload, own_ray=True)
    searches.wait_for(lambda history: any(trial.last_epoch >= 2 for trial in history.running()), process)
    children = psutil.Process(process.pid).children(recursive=True)
    frozen = [child for child in children if child in live_actors()]
    assert frozen
    for actor in frozen:
        actor.suspend()
    process.kill()
    process.join()
    killed = searches.history()
    again = searches.start(tiny(), workload)
    seen = searches.records()
    searches.wait_for(lambda history: searches.records() > seen + 4, again)
    for actor in frozen:
        if actor.is_running():
            os.kill(actor.pid, signal.SIGCONT)
    again.join(240)
    assert again.exitcode == 0, searches.errors()
    deadline = time.monotonic() + 300
    while any(actor.is_running() for actor in frozen) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert_invariants(searches.output, before=[killed], log=workload.log, kills=1, strays=True)
