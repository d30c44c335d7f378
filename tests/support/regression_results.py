"""Runs of a small suite with chosen numbers."""

from typing import Any

from orchestrator.experiment.yaml_files import validate
from orchestrator.regression.accepted import Accepted, CellRecord, Conditions
from orchestrator.regression.suite import Suite

CONDITIONS = Conditions(
    config={"loss": "nt_xent", "training": {"epochs": 3, "gradient_clip": 2.0}},
    data_digest="d" * 64,
    git_revision="a" * 40,
    versions={"torch": "2.15.0", "ray": "2.60.0"},
    machine={"host": "one", "cpus": 2},
)


def make_suite(**changes: Any) -> Suite:
    """Return a suite of two cells on a dataset that does not exist."""
    values = {
        "name": "quick",
        "matters": 10,
        "training": {"epochs": 3},
        "resources": {"gpus": 0},
        "cells": [{"dataset": "pets", "loss": "nt_xent"}, {"dataset": "pets", "loss": "triplet"}],
    }
    return validate(Suite, {**values, **changes}, "quick.yaml")


def runs(
    scores: list[float], *, first: int = 1, count: float = 20.0, conditions: Conditions = CONDITIONS
) -> CellRecord:
    """Return runs with these scores, one a seed."""
    values = {
        seed: {"val/rsum": score, "last/cocos/i2t_negatives_per_query": count + seed / 10}
        for seed, score in enumerate(scores, start=first)
    }
    return CellRecord(conditions, values, {})


def accepted(**cells: CellRecord) -> Accepted:
    """Return a reference of the small suite."""
    names = {f"pets-vsepp-{name}": one for name, one in cells.items()}
    return Accepted("quick", "ada", "2026-01-02T03:04:05Z", "the first that was right", names)


def new(**cells: CellRecord) -> dict[str, CellRecord]:
    """Return the runs of a rerun by cell."""
    return {f"pets-vsepp-{name}": one for name, one in cells.items()}
