"""How well the ranking of trials at an early epoch agrees with their final ranking, on which early stopping relies.

Kendall's tau-b [Kendall1945] compares the ranking by the best values up to an epoch with the ranking by the best values
at the end, over the settings of a study that were trained to their end: 1 for equal rankings, 0 for unrelated rankings.
Trials that were stopped early are left out, because their final values are unknown; where the scheduler stops many
trials, the remaining trials are alike, and their tau is lower than the tau of all trials would be.

References:
    [Kendall1945] Kendall, The Treatment of Ties in Ranking Problems. Biometrika 33
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.experiment.experiment import ANY
from orchestrator.experiment.journalled import experiment_of
from orchestrator.journal.history import History
from orchestrator.journal.points import Point
from orchestrator.journal.trial import Trial

TELLING = 0.5
"""The tau from which an epoch is telling: of two trials, the trial ahead then ends ahead in three of four cases."""

FEWEST = 6
"""Fewest settings trained to their end for a tau: for 6 unrelated settings its standard deviation is already 0.35."""

SHARE = 0.5
"""The share of a study's settings that must be trained to their end before a low tau is attributed to the epoch."""

UNKNOWN = "a search with scheduler.name: none would tell whether the epoch stops the best"

JUDGING = ("asha", "hyperband", "median")
"""The schedulers that stop trials from ``grace_epochs`` on."""


@dataclass(frozen=True)
class EarlyEpochs:
    """How well the epochs of a study predict its end.

    Attributes:
        loss: Loss of the study; ``any`` where the search chose among several.
        settings: How many settings were trained to their end.
        begun: How many settings were trained at all.
        tau: Epoch before the last -> Kendall's tau-b in [-1, 1]; an epoch at which all values are equal is left out.
        grace: The first epoch at which the scheduler may stop a trial; ``None`` where it stops none.
    """

    loss: str
    settings: int
    begun: int
    tau: Mapping[int, float]
    grace: int | None

    @property
    def telling(self) -> int | None:
        """The first epoch from which on every tau is at least ``TELLING``; ``None`` where there is none."""
        weak = [epoch for epoch, tau in self.tau.items() if tau < TELLING]
        later = [epoch for epoch in self.tau if epoch > max(weak, default=0)]
        return min(later, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the agreement as plain values for JSON; an epoch that is a key becomes text."""
        return {
            "settings": self.settings,
            "begun": self.begun,
            "grace_epochs": self.grace,
            "first_telling_epoch": self.telling,
            "tau": {str(epoch): tau for epoch, tau in self.tau.items()},
        }


def rank_correlations(settings: Iterable[Point]) -> tuple[int, dict[int, float]]:
    """Return how many settings of a study were trained to their end, and Kendall's tau-b of each epoch but the last."""
    points = [Point(point.finished) for point in settings if point.finished]
    curves = [point.running_best() for point in points]
    last = min((max(curve) for curve in curves), default=0)
    ends = [curve[max(curve)] for curve in curves]
    if len(points) < FEWEST:
        return len(points), {}
    epochs = (epoch for epoch in range(1, last) if all(epoch in curve for curve in curves))
    order = _order(ends)
    taus = {epoch: _tau_b(_order([curve[epoch] for curve in curves]), order) for epoch in epochs}
    return len(points), {epoch: tau for epoch, tau in taus.items() if math.isfinite(tau)}


def _order(values: Sequence[float]) -> NDArray[np.int8]:
    """Return the sign of the difference of each pair of values, 1, 0 or -1, shape (n, n)."""
    return np.sign(np.subtract.outer(values, values)).astype(np.int8)


def _tau_b(first: NDArray[np.int8], second: NDArray[np.int8]) -> float:
    """Return Kendall's tau-b of two orders, see ``_order``; NaN where one of the two is constant.

    NumPy counts all pairs at once; an import of ``scipy.stats`` takes longer than the counts of thousands of trials.
    """
    pairs = math.sqrt(float(np.count_nonzero(first)) * float(np.count_nonzero(second)))
    return float(np.sum(first * second, dtype=np.int64)) / pairs if pairs else math.nan


def early_epochs(history: History, studies: Mapping[str, Sequence[Point]]) -> dict[str, EarlyEpochs]:
    """Return study -> how well its epochs predict its end, for each study with enough trials.

    Args:
        history: History of the experiment.
        studies: The settings of each study, see ``points_by_study``.
    """
    correlations = {name: rank_correlations(settings) for name, settings in studies.items()}
    if not any(tau for _, tau in correlations.values()):
        return {}
    found: dict[str, EarlyEpochs] = {}
    for cell in experiment_of(history).cells():
        settings, tau = correlations.get(cell.name, (0, {}))
        if tau:
            grace = cell.scheduler.grace_epochs if cell.scheduler.name in JUDGING else None
            found[cell.name] = EarlyEpochs(cell.loss, settings, len(studies[cell.name]), tau, grace)
    return found


def describe_early_epochs(studies: Mapping[str, EarlyEpochs]) -> list[str]:
    """Return a sentence about each study: how well the scheduler's first epoch ranks trials, and the key to change."""
    return [_sentence(name, study) for name, study in studies.items()]


def _sentence(name: str, study: EarlyEpochs) -> str:
    over = f"over {study.settings} of {study.begun} settings, which were trained to their end"
    grace = study.grace if study.grace in study.tau else None
    if grace is None:
        return f"{name}: {_first(study.telling, over)}."
    said = f"{name}: epoch {grace} ranks trials as the end does with Kendall's tau {study.tau[grace]:.2f} {over}"
    if study.tau[grace] >= TELLING:
        return f"{said}."
    if study.settings < SHARE * study.begun:
        return f"{said}; the scheduler chose these, and among trials that are alike tau is low: {UNKNOWN}."
    warning = "the scheduler may have stopped the best trials there"
    if study.telling is None:
        return f"{said}; {warning}, and no later epoch before the last tells: scheduler.name: none stops no trial."
    return (
        f"{said}; {warning}: epoch {study.telling} is the first from which on tau is at least {TELLING:g}, "
        f"so let the next search have {_setting(study)}."
    )


def _setting(study: EarlyEpochs) -> str:
    """Return the key of an experiment file that delays early stopping in a study to its first telling epoch."""
    if study.loss == ANY:
        return f"scheduler.grace_epochs: {study.telling}"
    return f"overrides: [{{losses: [{study.loss}], grace_epochs: {study.telling}}}]"


def _first(telling: int | None, over: str) -> str:
    if telling is None:
        return f"no epoch before the last ranks trials as the end does: Kendall's tau stays below {TELLING:g} {over}"
    return f"epoch {telling} is the first from which on Kendall's tau with the end is at least {TELLING:g}, {over}"


def of_dataset(studies: Mapping[str, EarlyEpochs], trials: Sequence[Trial]) -> dict[str, EarlyEpochs]:
    """Return the entries of the studies to which the trials belong."""
    names = {trial.study for trial in trials}
    return {name: study for name, study in studies.items() if name in names}
