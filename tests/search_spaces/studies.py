"""Experiments with one loss, and the spaces of their studies."""

from typing import Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from search_spaces import StudySpace


def experiment(loss: str = "polynomial_relative", training: Any = None, **search: Any) -> Experiment:
    values = {"name": "p", "datasets": ["pets"], "losses": [loss], "training": training or {}, "search": search}
    return validate(Experiment, values, "p.yaml")


def space_of(loss: str = "polynomial_relative", training: Any = None, **search: Any) -> StudySpace:
    return experiment(loss, training, **search).cells()[0].space
