"""A workload with a closed-form learning curve: no torch, no data, and it can be told to go wrong."""

import json
import math
import random
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.experiment.experiment import Experiment, data_key
from orchestrator.workload.workload import TestEvaluation
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig
from trainables.errors import CheckpointError, DivergedError
from trainables.files import write_whole


def curve(parameter: float, epoch: int) -> float:
    """Return val/rsum at an epoch: rises with the epoch, highest for a parameter of 0.05."""
    peak = 300 - 20 * math.log(parameter / 0.05) ** 2
    return peak * (1 - math.exp(-0.5 * epoch))


@dataclass(frozen=True)
class FakeWorkload:
    """Trainings that take ``seconds`` an epoch.

    Trials whose parameter lies above ``diverges_above`` diverge in epoch 2; those below ``fails_below`` raise there
    every time, those below ``stumbles_below`` once. Seeds differ by a normal ``noise``, on val and on test by another;
    ``shift`` is on top of all values.
    """

    seconds: float = 0.0
    diverges_above: float = math.inf
    fails_below: float = -math.inf
    stumbles_below: float = -math.inf
    noise: float = 0.0
    shift: float = 0.0
    digest: str = "d1"
    footprint: tuple[int, int] = (4 * 2**30, 20 * 2**30)

    def check(self, experiment: Experiment) -> dict[str, str]:
        configs = (experiment.trial_config(cell, {}) for cell in experiment.cells())
        return {data_key(config): self.digest for config in configs}

    def tokenizers(self, experiment: Experiment) -> dict[str, str]:
        return dict.fromkeys(experiment.datasets, "english")

    def data_caveats(self, experiment: Experiment) -> dict[str, list[str]]:
        return {}

    def notes(self, experiment: Experiment) -> list[str]:
        return []

    def expecting(self, digests: Mapping[str, str]) -> "FakeWorkload":
        return self

    def measure(self, config: TrialConfig) -> tuple[int, int]:
        return self.footprint

    def rates(self, config: TrialConfig) -> Mapping[int, float]:
        return {1: 10.0, 4: 30.0}

    def rates_in_turns(self, config: TrialConfig) -> Mapping[int, float]:
        return {}

    def together(self, in_turns: Collection[tuple[str, str]] = ()) -> "FakeTogether":
        return FakeTogether(self)

    def train(self, config: TrialConfig, resume: Path | None) -> Generator[EpochReport, None, None]:
        (parameter,) = config.loss_parameters.values()
        epoch = 0
        if resume is not None:
            epoch = json.loads((resume / "state.pt").read_text())["epoch"]
            yield report(parameter, epoch, self.luck(config))
        for current in range(epoch + 1, config.training.total_epochs + 1):
            time.sleep(self.seconds)
            if current == 2 and parameter > self.diverges_above:
                raise DivergedError("train/loss", math.nan, current, 17)
            if current == 2 and (parameter < self.fails_below or (parameter < self.stumbles_below and resume is None)):
                raise RuntimeError(f"no luck with {parameter}")
            yield report(parameter, current, self.luck(config))

    def test(self, config: TrialConfig, checkpoint: Path) -> TestEvaluation:
        saved = json.loads((checkpoint / "best.pt").read_text())
        return TestEvaluation({"rsum": curve(saved["parameter"], saved["epoch"]) + self.luck(config, "test") - 1})

    def pack(self, config: TrialConfig, checkpoint: Path, folder: Path) -> None:
        raise CheckpointError(f"{checkpoint}: holds no model")

    def write_weights(self, checkpoint: Path, path: Path) -> None:
        path.write_bytes((checkpoint / "best.pt").read_bytes())

    def luck(self, config: TrialConfig, split: str = "val") -> float:
        drawn = random.Random(f"{split} {config.loss} {config.loss_parameters} {config.seed}")
        return self.shift + (drawn.gauss(0, self.noise) if self.noise else 0.0)


class FakeTogether:
    """Streams one after another; in ``rounds`` is who trained together."""

    def __init__(self, workload: FakeWorkload) -> None:
        self._workload = workload
        self._streams: dict[str, Generator[EpochReport, None, None]] = {}
        self.rounds: list[tuple[str, ...]] = []

    @property
    def names(self) -> set[str]:
        return set(self._streams)

    def add(self, name: str, config: TrialConfig, resume: Path | None) -> EpochReport | None:
        self._streams[name] = self._workload.train(config, resume)
        return None if resume is None else next(self._streams[name])

    def remove(self, name: str) -> None:
        self._streams.pop(name, None)

    def run_epoch(self, names: Sequence[str]) -> Mapping[str, EpochReport | DivergedError]:
        self.rounds.append(tuple(names))
        outcomes: dict[str, EpochReport | DivergedError] = {}
        for name in names:
            try:
                outcomes[name] = next(self._streams[name])
            except DivergedError as error:
                outcomes[name] = error
        return outcomes


def report(parameter: float, epoch: int, luck: float = 0.0) -> EpochReport:
    def save(directory: Path) -> None:
        for name in ("state.pt", "best.pt"):
            write_whole(directory / name, json.dumps({"epoch": epoch, "parameter": parameter}))

    value = curve(parameter, epoch) + luck
    metrics = {"train/loss": 1 / epoch, "val/rsum": value, "val/rsum_best": value, "time/epoch_seconds": 0.1}
    return EpochReport(epoch, metrics, True, save)
