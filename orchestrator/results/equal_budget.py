"""Which loss is ahead at which budget, and how much a search flatters itself: answers from the journal alone.

The unit is a candidate: all trials of a search with equal settings, whatever their seeds. Its value is the mean over
those that finished, or what was reached where none did; its cost is that of all its trials. A candidate without any
value (diverged, failed) counts as the worst of its loss, so that a loss which often fails pays for that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState, seconds_of
from orchestrator.results.expected_best import (
    Values,
    best_quantiles,
    chance_to_improve,
    crossings,
    expected_best,
    lead_probability,
)

FEWEST = 4
"""Candidates of a loss below which its curve says nothing."""

MOST_POINTS = 40
"""Of a curve; of more trials, some are left out."""


@dataclass(frozen=True)
class SearchedLoss:
    """The candidates of one loss on one dataset.

    Attributes:
        model: As in ``TrialConfig``.
        loss: The same.
        label: The loss, with the model before it where the dataset has several.
        values: Of each candidate, in the order in which they were created.
        epochs: That a candidate trained on average.
        hours: That a candidate trained on average, times its share of GPUs where that is known.
    """

    model: str
    loss: str
    label: str
    values: Values
    epochs: float
    hours: float

    def cost(self, budget: str) -> float:
        """Return what a candidate costs on average, in trials, epochs or hours."""
        return {"trials": 1.0, "epochs": self.epochs, "hours": self.hours}[budget]


def equal_budgets(history: History) -> dict[str, Any]:
    """Return for each dataset what its losses reach at equal budgets, and how much the search flatters itself.

    Returns:
        Dataset -> ``metric``, ``hours_are`` (``GPU hours``, or ``trial hours`` where the GPUs of a trial are not
        known), ``losses`` (best first, each with ``label``, ``model``, ``loss``, ``candidates`` and its curve:
        ``trials``, ``epochs``, ``hours``, ``expected``, and ``low`` and ``high`` of the band), ``comparisons`` (the
        best with each other), ``ended`` (how many trials), ``incumbents`` (who led the search when, with the value that
        fresh seeds confirmed) and ``flattery`` (mean of the confirmed candidates' values in the search minus those with
        fresh seeds; ``None`` without a confirmation). A dataset is left out where no loss has ``FEWEST`` candidates.
    """
    metric, gpus = str(history.experiment["search"]["metric"]), _gpus(history)
    found = {}
    for dataset in dict.fromkeys(trial.config.dataset for trial in history.stage(Stage.SEARCH)):
        trials = [trial for trial in history.stage(Stage.SEARCH) if trial.config.dataset == dataset]
        losses = searched_losses(trials, metric, gpus or 1.0)
        if not losses:
            continue
        confirmed = _confirmed(history, metric)
        found[dataset] = {
            "metric": metric,
            "hours_are": "GPU hours" if gpus else "trial hours",
            "losses": [_described(loss) for loss in losses],
            "comparisons": [_compare(losses[0], other) for other in losses[1:]],
            "ended": sum(trial.has_ended for trial in trials),
            "incumbents": _incumbents(trials, metric, confirmed),
            "flattery": _flattery(trials, metric, confirmed),
        }
    return found


def searched_losses(trials: Sequence[Trial], metric: str, gpus: float) -> list[SearchedLoss]:
    """Return the losses that have enough candidates, the one with the highest value first."""
    several = len({trial.config.model for trial in trials}) > 1
    groups: dict[str, dict[str, list[Trial]]] = {}
    for trial in trials:
        if trial.has_ended:
            label = f"{trial.config.model} {trial.config.loss}" if several else trial.config.loss
            groups.setdefault(label, {}).setdefault(trial.config.setting, []).append(trial)
    losses = [_searched(label, list(group.values()), metric, gpus) for label, group in groups.items()]
    return sorted((loss for loss in losses if loss is not None), key=lambda loss: -float(loss.values.max()))


def _searched(label: str, candidates: Sequence[Sequence[Trial]], metric: str, gpus: float) -> SearchedLoss | None:
    values = [_value(trials, metric) for trials in candidates]
    known = [value for value in values if value is not None]
    if len(candidates) < FEWEST or not known:
        return None
    every = [trial for trials in candidates for trial in trials]
    return SearchedLoss(
        model=every[0].config.model,
        loss=every[0].config.loss,
        label=label,
        values=np.array([min(known) if value is None else value for value in values]),
        epochs=sum(len(trial.reported) for trial in every) / len(candidates),
        hours=sum(map(seconds_of, every)) / 3600 * gpus / len(candidates),
    )


def _value(trials: Sequence[Trial], metric: str) -> float | None:
    """Return the mean over the trials that finished; where none did, over those that were stopped early."""
    for state in (TrialState.FINISHED, TrialState.STOPPED_EARLY):
        ended = [trial for trial in trials if trial.state is state]
        values = [trial.epochs[trial.best_epoch or 0][metric] for trial in ended]
        if values:
            return float(np.mean(values))
    return None


def _described(loss: SearchedLoss) -> dict[str, Any]:
    about = {"label": loss.label, "model": loss.model, "loss": loss.loss, "candidates": len(loss.values)}
    return {**about, **_curve(loss)}


def _curve(loss: SearchedLoss) -> dict[str, list[float]]:
    count = len(loss.values)
    draws: Sequence[int] = range(1, count + 1)
    if count > MOST_POINTS:
        doubled = [2**power for power in range(count.bit_length())]
        draws = sorted({*np.geomspace(1, count, MOST_POINTS).round().astype(int).tolist(), *doubled, count})
    low, high = best_quantiles(loss.values, draws)
    return {
        "trials": [float(drawn) for drawn in draws],
        "epochs": [drawn * loss.epochs for drawn in draws],
        "hours": [drawn * loss.hours for drawn in draws],
        "expected": expected_best(loss.values, draws).tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
    }


def _compare(first: SearchedLoss, other: SearchedLoss) -> dict[str, Any]:
    """Compare the loss with the highest value with another one: where they cross, and how sure the lead is."""
    both = min(len(first.values), len(other.values))
    expected = [float(expected_best(loss.values, [both])[0]) for loss in (first, other)]
    crossed = {}
    for budget in ("trials", "epochs", "hours"):
        costs = (first.cost(budget), other.cost(budget))
        found = crossings(first.values, other.values, costs) if min(costs) > 0 else []
        crossed[budget] = [{"at": at, "ahead": first.label if ahead else other.label} for at, ahead in found]
    return {
        "first": first.label,
        "other": other.label,
        "trials": both,
        "difference": expected[0] - expected[1],
        "probability": lead_probability(first.values, other.values, both),
        "crossings": crossed,
        # The best of twice as many is among the new ones with probability 1/2, whatever the distribution.
        "further_trials": len(other.values),
        "chance": chance_to_improve(len(other.values), len(other.values)),
    }


def _confirmed(history: History, metric: str) -> dict[str, tuple[float, int]]:
    """Return by candidate the mean value of its repeats with fresh seeds, and their number."""
    values: dict[str, list[float]] = {}
    for trial in history.stage(Stage.CONFIRM):
        if trial.state is TrialState.FINISHED and trial.candidate is not None:
            values.setdefault(trial.candidate, []).append(trial.epochs[trial.best_epoch or 0][metric])
    return {candidate: (float(np.mean(found)), len(found)) for candidate, found in values.items()}


def _incumbents(
    trials: Sequence[Trial], metric: str, confirmed: Mapping[str, tuple[float, int]]
) -> list[dict[str, Any]]:
    """Return the trials that led the search when they ended, oldest first."""
    ended = [trial for trial in trials if trial.has_ended]
    found: list[dict[str, Any]] = []
    best = -np.inf
    for after, trial in enumerate(sorted(ended, key=lambda one: (one.ended_after or 0.0, one.id)), start=1):
        value = trial.epochs[trial.best_epoch or 0][metric] if trial.state is TrialState.FINISHED else -np.inf
        if value > best:
            best = value
            mean, seeds = confirmed.get(trial.id, (None, 0))
            found.append({"after": after, "trial": trial.id, "value": value, "confirmed": mean, "seeds": seeds})
    return found


def _flattery(trials: Sequence[Trial], metric: str, confirmed: Mapping[str, tuple[float, int]]) -> float | None:
    excess = [
        trial.epochs[trial.best_epoch][metric] - confirmed[trial.id][0]
        for trial in trials
        if trial.id in confirmed and trial.best_epoch
    ]
    return float(np.mean(excess)) if excess else None


def _gpus(history: History) -> float | None:
    """Return the share of a GPU that each trial has; ``None`` where it has none, or where it is measured (``auto``)."""
    gpus = (history.experiment.get("resources") or {}).get("gpus")
    return float(gpus) if isinstance(gpus, int | float) and gpus > 0 else None
