"""Journals of searches that nobody ran, as long as wanted: what pages and tables of thousands of trials are tried on.

An epoch has the metrics of a real one, COCOS where the epoch is the best so far, in all their digits. Of the trials, as
under successive halving, two thirds end after 3 epochs, two ninths after 9, and the rest after 30: 7.3 on average.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.salvage import rewrite

LOSSES = ("triplet_sh", "nt_xent", "smooth_ap", "polynomial_relative")
EPOCHS = 30
SHARES = {"i2t_r1": 0.09, "i2t_r5": 0.18, "i2t_r10": 0.24, "t2i_r1": 0.07, "t2i_r5": 0.18, "t2i_r10": 0.24}
"""Metric of val -> its part of the sum of recalls."""

OTHERS = ("medr", "meanr", "map5", "average_recall")

COUNTERS = (
    "negatives_per_query",
    "negatives_per_batch",
    "queries_without_gradient",
    "negative_weight",
    "positive_weight",
)


def write_journal(directory: Path, trials: int) -> Path:
    """Write the journal of a finished search of so many trials into a new folder, and return the journal."""
    directory.mkdir(parents=True)
    path = directory / "journal.jsonl"
    rewrite(path, list(lines(directory.name, trials)))
    return path


def lines(name: str, trials: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of such a journal, without their numbers."""
    described = {
        "name": name,
        "datasets": ["flickr8k"],
        "models": ["vsepp"],
        "losses": list(LOSSES),
        "training": {"epochs": EPOCHS},
        "search": {"sampler": "tpe", "trials": math.ceil(trials / len(LOSSES)), "metric": "val/rsum"},
    }
    experiment = validate(Experiment, described, "generated")
    random, clock = np.random.default_rng(0), _Clock()
    environment = {"versions": {"torch": "2"}, "git_revision": "abc", "machine": {"host": "node-1", "cpus": 16}}
    begun = {"experiment": experiment.to_dict(), "data": {"flickr8k": "3f" * 32}, "environment": environment}
    yield {"n": 0, "format": 2} | clock.line("experiment_started") | begun
    for number in range(trials):
        cell = experiment.cells()[number % len(LOSSES)]
        params, settings, reached = _suggestion(cell.loss, random)
        study = {"trial": f"{cell.name}-{number // len(LOSSES):04d}"}
        config = experiment.trial_config(cell, settings).to_dict()
        where = {"stage": "search", "candidate": None, "study": cell.name, "number": number // len(LOSSES)}
        yield clock.line("trial_created") | study | where | {"params": params, "config": config}
        yield clock.line("trial_started") | study | {"gpus": 0.25}
        last = int(random.choice([3, 9, EPOCHS], p=[2 / 3, 2 / 9, 1 / 9]))
        best = 0.0
        for epoch in range(1, last + 1):
            rsum = max(1.0, reached * (1 - math.exp(-epoch / 5)) + random.normal(0, 0.6))
            metrics = epoch_metrics(rsum, random, is_best=rsum > best)
            best = max(best, rsum)
            state = "running" if epoch < last else "finished" if last == EPOCHS else "stopped_early"
            told = {"epoch": epoch, "metrics": {**metrics, "val/rsum_best": best}, "state": state}
            yield clock.line("epoch", metrics["time/epoch_seconds"]) | study | told
    yield clock.line("experiment_ended") | {"outcome": "finished", "ended_by": "trials"}


class _Clock:
    def __init__(self) -> None:
        self._seconds = 0.0

    def line(self, kind: str, seconds: float = 0.01) -> dict[str, Any]:
        """Return what all records have, in the order of the journal; the number is put in later."""
        self._seconds += seconds
        moment = {"time": round(1.78e9 + self._seconds, 3), "elapsed": round(self._seconds, 3)}
        return {"n": 0, **moment, "kind": kind}


def _suggestion(loss: str, random: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any], float]:
    """Return what a sampler may have suggested, the loss's parameters, and the sum of recalls that a trial comes to."""
    noise = float(random.normal(0, 2))
    if loss in ("nt_xent", "smooth_ap"):
        temperature = float(10 ** random.uniform(-2.2, -0.4))
        found = {"temperature": temperature}
        return found, found, 150 - 18 * (math.log10(temperature) + 1.2) ** 2 + noise
    margin = float(random.uniform(0.02, 0.8))
    reached = 146 - 90 * (margin - 0.2) ** 2 + noise
    if loss == "triplet_sh":
        return {"margin": margin}, {"margin": margin}, reached
    scale, shape = float(10 ** random.uniform(0, 2)), float(random.uniform(0, 1))
    coefficients = [scale * margin, scale * (1 - shape), scale * shape / 2]
    suggested = {"scale": scale, "margin": margin, "degree": 2, "shape2": shape}
    return suggested, {"coefficients": coefficients}, reached + 12 - 30 * (shape - 0.4) ** 2


def epoch_metrics(rsum: float, random: np.random.Generator, is_best: bool = False) -> dict[str, float]:
    """Return the metrics of an epoch, with counters where it is the best so far."""
    found = {f"val/{name}": share * rsum + random.normal(0, 0.1) for name, share in SHARES.items()}
    found |= {f"val/{way}_{name}": float(random.uniform(1, 50)) for way in ("i2t", "t2i") for name in OTHERS}
    found |= {"train/loss": 400 / rsum, "val/rsum": rsum, "val/r1_r5_sum": 0.52 * rsum}
    if is_best:
        names = [f"cocos/{way}_{name}{end}" for end in ("", "_std") for way in ("i2t", "t2i") for name in COUNTERS]
        found |= {name: float(value) for name, value in zip(names, random.uniform(0, 50, len(names)), strict=True)}
    return found | {"time/train_seconds": float(random.uniform(9, 11)), "time/epoch_seconds": 12.5}
