"""Trainings of WSABIE that were really run, eight seeds of each of 30 settings, from which simulated searches draw.

Each seed is a grid search of the product, all of whose trials train as one stacked model, over the listed temperatures
of NT-Xent and learning rates of ``noisy_search``. A simulated training of a setting draws one of its eight curves, with
replacement, so that the luck between trainings is that of WSABIE.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, variance
from typing import TypeAlias

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.journal import read_journal
from orchestrator.search.search import run_search
from orchestrator.workload.training import TrainablesWorkload
from tests.benchmarks.noisy_search import EPOCHS, bounds_of
from trainables.config import TrialConfig

SPACE = "30 listed"
METRIC = "val/rsum"

Setting: TypeAlias = tuple[float, float]
"""Temperature and learning rate."""

Curves: TypeAlias = Mapping[Setting, Sequence[Sequence[float]]]
"""Of each setting, the values after each epoch, one row a seed."""


@dataclass(frozen=True)
class Measured:
    """An objective whose trainings are looked up.

    Attributes:
        curves: See ``Curves``.
        seed: Of the luck.
    """

    curves: Curves
    seed: int

    @property
    def noise(self) -> float:
        """Standard deviation of the best epochs of the trainings of a setting, pooled over settings."""
        return fmean(variance([max(curve) for curve in rows]) for rows in self.curves.values()) ** 0.5

    def value(self, config: TrialConfig, epoch: int) -> float:
        """See ``Objective``; the same seed of a search is always the same training."""
        setting = setting_of(config)
        draw = random.Random(f"{self.seed} {setting} {config.seed}")
        return draw.choice(self.curves[setting])[epoch - 1]

    def expected(self, config: TrialConfig) -> float:
        """See ``Objective``; the mean over seeds of the best epoch."""
        return self._mean(setting_of(config))

    def best(self, space: str) -> float:
        """See ``Objective``."""
        return max(self._mean(setting) for setting in self.curves)

    def _mean(self, setting: Setting) -> float:
        return fmean(max(curve) for curve in self.curves[setting])


def setting_of(config: TrialConfig) -> Setting:
    """Return the searched parameters of a training."""
    return float(config.loss_parameters["temperature"]), config.training.learning_rate


def train_curves(dataset: str, data_root: Path, output: Path, seeds: int, device: str = "cpu") -> Curves:
    """Train every setting with so many seeds, or what is left of it, and return the curves."""
    curves: dict[Setting, list[list[float]]] = {}
    workload = TrainablesWorkload(str(data_root.resolve()), device=device)
    for seed in range(seeds):
        experiment = make_grid(dataset, seed)
        run_search(experiment, workload, output, quiet=True)
        for setting, curve in read_curves(output / experiment.name / "journal.jsonl").items():
            curves.setdefault(setting, []).append(curve)
    return curves


def read_curves(journal: Path) -> dict[Setting, list[float]]:
    """Return the values after each epoch of each setting of a grid."""
    settings: dict[str, Setting] = {}
    curves: dict[Setting, list[float]] = {}
    for record in read_journal(journal):
        if record["kind"] == "trial_created":
            settings[record["trial"]] = setting_of(TrialConfig.from_dict(record["config"]))
        elif record["kind"] == "epoch":
            curves.setdefault(settings[record["trial"]], []).append(record["metrics"][METRIC])
    return curves


def make_grid(dataset: str, seed: int) -> Experiment:
    """Return the search that trains every setting once."""
    bounds = bounds_of(SPACE)
    values = {
        "name": f"{dataset}-wsabie-curves-{seed}",
        "datasets": [dataset],
        "models": ["wsabie"],
        "losses": ["nt_xent"],
        "training": {"epochs": EPOCHS, "learning_rate_drop_epochs": EPOCHS, "embedding_size": 64},
        "search": {
            "sampler": "grid",
            "trials": 30,
            "seed": seed,
            "metric": METRIC,
            "space": {"nt_xent": {"temperature": bounds.pop("temperature")}},
            "training": bounds,
        },
        "scheduler": {"name": "none"},
        "resources": {"cpus": 1, "gpus": 0, "fuse": 30},
    }
    return validate(Experiment, values, "wsabie_curves")
