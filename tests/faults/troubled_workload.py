"""Fake trainings that write down each epoch they train, and get into trouble where they are told to."""

import json
import os
import time
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.fake_workload import FakeWorkload
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig

EVER = 1_000_000


@dataclass(frozen=True)
class Trouble:
    """What happens in an epoch, the first ``times`` times that it is trained."""

    kind: str
    epoch: int = 2
    times: int = EVER


@dataclass(frozen=True)
class TroubledWorkload(FakeWorkload):
    """Trainings known by their parameter; ``log`` gets a line for each epoch trained and each trouble met.

    ``otherwise`` happens to those that ``troubles`` does not name. Those of the loss ``untimed`` cannot be timed.
    """

    log: Path = Path("trained.jsonl")
    troubles: Mapping[float, Trouble] = field(default_factory=dict)
    otherwise: Trouble | None = None
    untimed: str = ""

    @property
    def go(self) -> Path:
        """The file that trainings wait for which are told to wait."""
        return self.log.with_name("go")

    @property
    def measured(self) -> Path:
        """The file that gets the number of the process for each measurement of memory."""
        return self.log.with_name("measured")

    def measure(self, config: TrialConfig) -> tuple[int, int]:
        with self.measured.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return super().measure(config)

    def rates(self, config: TrialConfig) -> Mapping[int, float]:
        if config.loss == self.untimed:
            raise RuntimeError(f"no clock for {config.loss}")
        return super().rates(config)

    def train(self, config: TrialConfig, resume: Path | None) -> Generator[EpochReport, None, None]:
        (parameter,) = config.loss_parameters.values()
        self._write("begun", parameter, 0)
        trouble = self.troubles.get(parameter, self.otherwise)
        # The epoch that a resumed training repeats was trained before.
        trained = 0 if resume is None else json.loads((resume / "state.pt").read_text())["epoch"]
        stream = super().train(config, resume)
        if resume is not None:
            yield next(stream)
        for epoch in range(trained + 1, config.training.total_epochs + 1):
            if trouble is not None and trouble.epoch == epoch and self._count(trouble.kind, parameter) < trouble.times:
                self._write(trouble.kind, parameter, epoch)
                get_into(trouble.kind)
                while trouble.kind == "wait" and not self.go.exists():
                    time.sleep(0.05)
            report = next(stream)
            self._write("trained", parameter, epoch)
            yield report

    def _write(self, kind: str, parameter: float, epoch: int) -> None:
        line = json.dumps({"kind": kind, "parameter": parameter, "epoch": epoch, "pid": os.getpid()}) + "\n"
        with self.log.open("a") as file:
            file.write(line)

    def _count(self, kind: str, parameter: float) -> int:
        return sum((line["kind"], line["parameter"]) == (kind, parameter) for line in read_log(self.log))


def get_into(kind: str) -> None:
    if kind == "hang":
        time.sleep(EVER)
    if kind == "error":
        raise RuntimeError("no luck")
    if kind == "memory":
        raise MemoryError
    if kind == "death":
        os.kill(os.getpid(), 9)
    if kind == "full disk":
        raise OSError(28, "No space left on device")


def read_log(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def trained_epochs(path: Path) -> Counter[float]:
    """Return how many epochs were trained for each parameter, those trained again counted again."""
    return Counter(line["parameter"] for line in read_log(path) if line["kind"] == "trained")
