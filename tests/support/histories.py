"""Histories made up for the report's tests: the records of searches that nobody ran."""

import math
from typing import Any

import numpy as np

from orchestrator.journal.history import History
from orchestrator.journal.records import Record
from tests.support.records import event

LOSSES = ("triplet_sh", "nt_xent", "polynomial_relative")
STARTED = 1_780_000_000.0
EPOCHS = 30


def experiment(name: str = "flickr8k-losses", losses: tuple[str, ...] = LOSSES) -> dict[str, Any]:
    return {
        "name": name,
        "description": "Three losses on Flickr8k, their coefficients searched.",
        "datasets": ["flickr8k"],
        "models": ["vsepp"],
        "losses": list(losses),
        "training": {"epochs": EPOCHS, "batch_size": 128},
        "search": {"sampler": "tpe", "trials": 4, "metric": "val/rsum"},
        "resources": {"cpus": 1, "gpus": 0.25, "max_concurrent": None},
    }


class Author:
    """Writes records and keeps the history that they make."""

    def __init__(self, described: dict[str, Any] | None = None) -> None:
        self.history = History()
        self.time = STARTED
        self.apply(
            "experiment_started",
            experiment=described or experiment(),
            data={"flickr8k": "3f" * 32},
            environment={
                "versions": {"python": "3.11.9", "torch": "2.15.0", "ray": "2.60.0"},
                "git_revision": "0123456789abcdef",
                "machine": {"host": "node-1", "cpus": 2},
            },
        )

    def apply(self, kind: str, **fields: Any) -> Record:
        record = event(kind, time=self.time, elapsed=self.time - STARTED, **fields)
        self.history.apply(record)
        return record

    def create(
        self, loss: str, number: int, params: dict[str, Any], dataset: str = "flickr8k", candidate: str | None = None
    ) -> str:
        study = f"{dataset}-vsepp-{loss}"
        given = {"coefficients": [params[name] for name in sorted(params)]} if loss.startswith("poly") else params
        config = {
            "dataset": dataset,
            "model": "vsepp",
            "loss": loss,
            "loss_parameters": given,
            "training": {"epochs": EPOCHS},
            "metric": "val/rsum",
            "seed": 0,
        }
        trial = f"{study}-{number:04d}"
        fields = {"study": study, "number": number, "params": params, "config": config}
        self.apply("trial_created", trial=trial, stage="search", candidate=candidate, **fields)
        return trial

    def epoch(self, trial: str, epoch: int, metrics: dict[str, float], state: str = "running") -> None:
        self.time += metrics.get("time/epoch_seconds", 1.0)
        self.apply("epoch", trial=trial, epoch=epoch, metrics=metrics, state=state)

    def end(self, trial: str, state: str, error: str) -> None:
        self.apply("trial_ended", trial=trial, state=state, error=error)

    def finish(self) -> History:
        self.apply("experiment_ended", outcome="finished", ended_by="trials")
        return self.history


def repeated() -> tuple[History, str]:
    """Return a search whose last trial repeats the first one's setting, and the id of the repeat."""
    author = Author(experiment(losses=("nt_xent",)))
    first = author.create("nt_xent", 0, {"temperature": 0.1})
    other = author.create("nt_xent", 1, {"temperature": 0.5})
    again = author.create("nt_xent", 2, {"temperature": 0.1}, candidate=first)
    for trial, value in ((first, 30.0), (other, 20.0), (again, 32.0)):
        author.epoch(trial, 1, {"val/rsum": value}, "finished")
    return author.finish(), again


def metrics(rsum: float, random: np.random.Generator, counted: bool) -> dict[str, float]:
    """Return an epoch's metrics that add up to about ``rsum``."""
    shares = {"i2t_r1": 0.09, "i2t_r5": 0.18, "i2t_r10": 0.24, "t2i_r1": 0.07, "t2i_r5": 0.18, "t2i_r10": 0.24}
    found = {f"val/{name}": round(share * rsum, 2) for name, share in shares.items()}
    found |= {"val/rsum": round(rsum, 2), "train/loss": round(400 / rsum, 4), "time/epoch_seconds": 12.5}
    if counted:
        for way in ("i2t", "t2i"):
            found[f"cocos/{way}_negatives_per_query"] = round(20 * math.exp(-rsum / 60) + random.normal(0, 0.1), 3)
            found[f"cocos/{way}_queries_without_gradient"] = round(rsum / 3 + random.normal(0, 2), 2)
    return {name: float(value) for name, value in found.items()}


def suggest(loss: str, random: np.random.Generator) -> tuple[dict[str, Any], float]:
    """Return parameters and the rsum that they end with."""
    if loss == "nt_xent":
        temperature = float(np.exp(random.uniform(math.log(0.005), math.log(0.5))))
        return {"temperature": temperature}, 150 - 18 * (math.log10(temperature / 0.06)) ** 2
    if loss == "polynomial_relative":
        e = random.uniform([0, 0.2, -0.2, -0.1], [0.5, 2, 1, 0.3])
        reached = 158 - 160 * (e[0] - 0.2) ** 2 - 12 * (e[1] - 1.2) ** 2 - 8 * (e[2] - 0.4) ** 2 * (1 + e[1])
        return {f"e{power}": float(value) for power, value in enumerate(e)}, reached
    margin = float(random.uniform(0.02, 0.8))
    return {"margin": margin}, 146 - 90 * (margin - 0.2) ** 2


def search(trials: int, *, seed: int = 0, losses: tuple[str, ...] = LOSSES, counted: bool = True) -> History:
    """Return a finished search of so many trials, some of them stopped early, diverged and failed."""
    random = np.random.default_rng(seed)
    author = Author(experiment(losses=losses))
    for number in range(trials):
        loss = losses[number % len(losses)]
        params, reached = suggest(loss, random)
        trial = author.create(loss, number // len(losses), params)
        run(author, trial, reached + random.normal(0, 2), random, counted)
    return author.finish()


def run(author: Author, trial: str, reached: float, random: np.random.Generator, counted: bool) -> None:
    """Write the epochs of a trial; its number decides how it ends."""
    number = int(trial.rsplit("-", 1)[1])
    kind = {11: "diverged", 17: "failed"}.get(number % 20)
    last = 3 if kind else (EPOCHS if number < 3 or reached > 140 else int(random.choice([3, 9])))
    for epoch in range(1, last + 1):
        rsum = reached * (1 - math.exp(-epoch / 5)) + random.normal(0, 0.6)
        ending = "running" if epoch < last or kind else ("finished" if last == EPOCHS else "stopped_early")
        author.epoch(trial, epoch, metrics(max(rsum, 1.0), random, counted), ending)
    if kind:
        author.end(trial, kind, "train/loss is nan in epoch 4, step 17" if kind == "diverged" else "CUDA out of memory")
