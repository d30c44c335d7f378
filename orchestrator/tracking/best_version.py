"""Which version of a registered model is the champion.

Only versions with the metric and the data of the newest version compete. A confirmed version comes before others, then
the version with the highest value. Of equal versions the oldest is the champion: an alias moves only to a better model.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

COMPARED = {"data_digest", "metric", "confirmed", "value"}
"""Tags of versions that decide which version is the champion."""


def number_of(version: "ModelVersion") -> int:
    """Return the number of a version, from 1."""
    return int(version.version)


def best_version(versions: Sequence["ModelVersion"]) -> "ModelVersion":
    """Return the champion; at least one version must have our tags."""
    kind = itemgetter("data_digest", "metric")
    ours = [version for version in versions if version.tags.keys() >= COMPARED]
    newest = kind(max(ours, key=number_of).tags)
    return max((version for version in ours if kind(version.tags) == newest), key=_rank)


def _rank(version: "ModelVersion") -> tuple[bool, float, int]:
    return version.tags["confirmed"] == "true", float(version.tags["value"]), -number_of(version)
