"""Which version of a registered model is the champion.

Only versions with the metric and the data of the newest version compete, from the oldest to the newest: each challenges
the champion among those before it. A confirmed version beats every unconfirmed one. Of two confirmed versions, the
later one is the champion only where its mean is higher by more than the noise of the seeds, by Welch's test at the
level of verdicts. Without both deviations the higher value decides, and after a tie the champion stays.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from orchestrator.results.comparisons import LEVEL
from orchestrator.results.statistics import Measure, welch_p

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

COMPARED = {"data_digest", "metric", "confirmed", "value"}
"""Tags of versions that decide which version is the champion."""

STD, SEEDS = "std", "seeds"
"""Tags with the spread of the value over the seeds; versions without a confirmation do not have them."""


def spread_tags(std: float | None, seeds: int) -> dict[str, str]:
    """Return the tags with the deviation of a value over the seeds (``ddof=0``), if it is known, and their number."""
    return {} if std is None else {STD: str(std), SEEDS: str(seeds)}


def number_of(version: "ModelVersion") -> int:
    """Return the number of a version, from 1."""
    return int(version.version)


def best_version(versions: Sequence["ModelVersion"]) -> "ModelVersion":
    """Return the champion; at least one version must have our tags."""
    kind = itemgetter("data_digest", "metric")
    ours = sorted((version for version in versions if version.tags.keys() >= COMPARED), key=number_of)
    newest = kind(ours[-1].tags)
    champion, *challengers = (version for version in ours if kind(version.tags) == newest)
    for challenger in challengers:
        if _beats(challenger, champion):
            champion = challenger
    return champion


def _beats(challenger: "ModelVersion", champion: "ModelVersion") -> bool:
    confirmed = [version.tags["confirmed"] == "true" for version in (challenger, champion)]
    if confirmed[0] != confirmed[1]:
        return confirmed[0]
    first, second = _measure(challenger), _measure(champion)
    p = welch_p(first, second)
    return first.mean > second.mean and (p is None or p <= LEVEL)


def _measure(version: "ModelVersion") -> Measure:
    std = version.tags.get(STD)
    return Measure(float(version.tags["value"]), None if std is None else float(std), int(version.tags.get(SEEDS, 1)))
