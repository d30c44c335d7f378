"""The experiment of a journal, and the keys in which another differs from it.

A start is refused where a key changed after which its trials could not be compared with the earlier trials.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

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


FREE = ("description", "budget", "resources", "patience", "confirm", "plugins")
"""Sections that may change between two starts of an experiment, because they do not change the outcome of any trial.

Plug-ins are compared by their digests, see ``plugins.changed_plugins``.
"""


def changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the keys whose change would make trials of two starts of one experiment incomparable, with both values.

    A larger ``search.trials`` is no such change, nor is a change in a section of ``FREE``. A missing key has the value
    ``None``.
    """
    before, after = dict(_flat(_whole(old))), dict(_flat(new))
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if before.get("search.trials", 0) <= after.get("search.trials", 0):
        changed = [key for key in changed if key != "search.trials"]
    return {key: (before.get(key), after.get(key)) for key in changed if key.partition(".")[0] not in FREE}


def _whole(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an experiment with the keys that an older version did not have, each with its default."""
    try:
        return validate(Experiment, values, "journal").to_dict()
    except ConfigError:
        # This version refuses the old experiment, so every difference counts.
        return values


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        rows += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return rows
