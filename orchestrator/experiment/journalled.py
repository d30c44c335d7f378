"""The experiment of a journal in its own type, parsed once for each start."""

from functools import lru_cache

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.history import History
from trainables.errors import ConfigError

KEPT = 64
"""Experiments whose type is kept; a page about several experiments asks for each again and again."""


def experiment_of(history: History) -> Experiment:
    """Return the experiment of the newest start.

    Raises:
        ConfigError: If this version refuses the experiment, e.g. for a plug-in that is not installed.
    """
    return _parsed(history.experiment)


def known_experiment(history: History) -> Experiment | None:
    """Return the experiment of the newest start; ``None`` where nothing began, or where this version refuses it."""
    try:
        return experiment_of(history) if history.experiment else None
    except ConfigError:
        return None


@lru_cache(maxsize=KEPT)
def _parsed(begun: BegunExperiment) -> Experiment:
    return validate(Experiment, begun.values, f"journal of {begun.name}")
