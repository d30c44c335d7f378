"""A workload whose best temperature changes with the epoch: no constant one does as well as one that follows.

An epoch adds to what the model has learned, the more the nearer its temperature is to the best of that epoch, so that
what a trial is worth depends on all the temperatures that it was trained with.
"""

import json
import math
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.workload.workload import Evaluation
from tests.support.fake_workload import FakeWorkload
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig
from trainables.errors import CheckpointError, DivergedError
from trainables.files import write_whole

EPOCHS = 12


def best_temperature(epoch: int) -> float:
    """Return the best temperature of an epoch, from 0.05 in the first to 0.2 in the last."""
    return float(0.05 * 4 ** ((epoch - 1) / (EPOCHS - 1)))


def gain(temperature: float, epoch: int) -> float:
    """Return what an epoch adds to val/rsum."""
    return 30 * math.exp(-((math.log(temperature / best_temperature(epoch)) / 0.35) ** 2) / 2)


def learned(temperatures: Iterable[float]) -> float:
    """Return val/rsum after epochs with given temperatures."""
    return sum(gain(temperature, epoch) for epoch, temperature in enumerate(temperatures, start=1))


@dataclass(frozen=True)
class DriftingWorkload(FakeWorkload):
    """Trainings that resume from what their checkpoint has learned; ``log`` gets a line for each epoch trained."""

    log: Path = Path("/dev/null")

    def train(self, config: TrialConfig, resume: Path | None) -> Generator[EpochReport, None, None]:
        epoch, value, used = 0, 0.0, list[float]()
        if resume is not None:
            state = json.loads((resume / "state.pt").read_text())
            epoch, value, used = state["epoch"], state["value"], state["used"]
            if used != [config.at(number).loss_parameters["temperature"] for number in range(1, epoch + 1)]:
                raise CheckpointError(f"{resume}: written by a trial with another schedule")
            yield report(epoch, value, used)
        for current in range(epoch + 1, config.training.total_epochs + 1):
            time.sleep(self.seconds)
            temperature = float(config.at(current).loss_parameters["temperature"])  # type: ignore[arg-type]
            if current == 2 and temperature > self.diverges_above:
                raise DivergedError("train/loss", math.nan, current, 17)
            value, used = value + gain(temperature, current), [*used, temperature]
            self._write(config, current)
            yield report(current, value, used)

    def test(self, config: TrialConfig, checkpoint: Path) -> Evaluation:
        return Evaluation({"rsum": json.loads((checkpoint / "best.pt").read_text())["value"] - 1})

    def _write(self, config: TrialConfig, epoch: int) -> None:
        with self.log.open("a") as file:
            file.write(json.dumps({"config": config.until(epoch).to_dict(), "epoch": epoch}) + "\n")


def report(epoch: int, value: float, used: list[float]) -> EpochReport:
    def save(directory: Path) -> None:
        for name in ("state.pt", "best.pt"):
            write_whole(directory / name, json.dumps({"epoch": epoch, "value": value, "used": used}))

    metrics = {"train/loss": 1 / epoch, "val/rsum": value, "val/rsum_best": value, "time/epoch_seconds": 0.1}
    return EpochReport(epoch, metrics, True, save)
