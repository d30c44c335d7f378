"""Finds keys that changed between two starts of an experiment, so that its trials cannot be compared any more."""

from collections.abc import Mapping
from typing import Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from trainables.errors import ConfigError

FREE = ("description", "budget", "resources", "patience", "confirm", "plugins")
"""Sections that may change between two starts of an experiment, because they do not change the outcome of any trial.

Plug-ins are compared by their digests, see ``plugins.changed_plugins``.
"""


def changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the keys whose change would make trials of two starts of one experiment incomparable, with both values.

    A larger ``search.trials`` is no such change, unless the trials are a population; nor is a change in a section of
    ``FREE``. A missing key has the value ``None``.
    """
    before, after = dict(_flat(_whole(old))), dict(_flat(new))
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    grows = before.get("search.trials", 0) <= after.get("search.trials", 0)
    if grows and before.get("scheduler.name") != "pbt":
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
