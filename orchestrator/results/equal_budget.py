"""Computes from a journal which loss is ahead at which budget.

The unit is a candidate: all trials of a search with equal settings, whatever their seeds. The value of a candidate is
the mean over its finished trials or, without any, over its trials that were stopped early; its cost is the cost of all
its trials. A candidate without a value (diverged, failed) counts as the worst of its loss, so that failures count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.equal_budget_answers import (
    UNITS,
    Crossing,
    EqualBudget,
    LossComparison,
    LossCurve,
    Unit,
)
from orchestrator.results.expected_best import (
    Curve,
    Values,
    best_quantiles,
    chance_to_improve,
    crossings,
    expected_best,
    lead_probability,
)

FEWEST = 4
"""Fewest candidates of a loss for which a curve is drawn."""

MOST_POINTS = 40
"""Number of trials above which a curve leaves some numbers of trials out."""


@dataclass(frozen=True)
class SearchedLoss:
    """The candidates of one loss on one dataset.

    Attributes:
        model: Name of the model, as in ``TrialConfig``.
        loss: Name of the loss.
        label: The loss, after the model where the dataset has several models.
        values: Value of each candidate, shape (n,), in the order in which the candidates were created.
        epochs: Mean number of epochs that a candidate trained.
        hours: Mean hours that a candidate trained, times its share of GPUs where the share is known.
    """

    model: str
    loss: str
    label: str
    values: Values
    epochs: float
    hours: float

    @cached_property
    def curve(self) -> Curve:
        """The expected best value over the number of candidates that are drawn."""
        return Curve(self.values)

    def cost(self, unit: Unit) -> float:
        """Return the mean cost of a candidate in the given unit."""
        return {"trials": 1.0, "epochs": self.epochs, "hours": self.hours}[unit]


def equal_budgets(history: History) -> dict[str, EqualBudget]:
    """Return the answers for each dataset; a dataset is left out where no loss has ``FEWEST`` candidates."""
    metric, gpus = history.metric, history.experiment.gpus
    found = {}
    for dataset in dict.fromkeys(trial.config.dataset for trial in history.stage(Stage.SEARCH)):
        trials = [trial for trial in history.stage(Stage.SEARCH) if trial.config.dataset == dataset]
        losses = searched_losses(trials, metric, gpus or 1.0)
        if not losses:
            continue
        found[dataset] = EqualBudget(
            metric=metric,
            hours_are="GPU hours" if gpus else "trial hours",
            losses=[_curve(loss) for loss in losses],
            comparisons=[_compare(losses[0], other) for other in losses[1:]],
        )
    return found


def searched_losses(trials: Sequence[Trial], metric: str, gpus: float) -> list[SearchedLoss]:
    """Return the losses that have enough candidates, the loss with the highest value first."""
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
        hours=sum(trial.seconds for trial in every) / 3600 * gpus / len(candidates),
    )


def _value(trials: Sequence[Trial], metric: str) -> float | None:
    """Return the mean value of the finished trials or, if none finished, of the trials that were stopped early."""
    for state in (TrialState.FINISHED, TrialState.STOPPED_EARLY):
        ended = [trial for trial in trials if trial.state is state]
        values = [trial.epochs[trial.best_epoch or 0][metric] for trial in ended]
        if values:
            return fmean(values)
    return None


def _curve(loss: SearchedLoss) -> LossCurve:
    count = len(loss.values)
    draws: Sequence[int] = range(1, count + 1)
    if count > MOST_POINTS:
        doubled = [2**power for power in range(count.bit_length())]
        draws = sorted({*np.geomspace(1, count, MOST_POINTS).round().astype(int).tolist(), *doubled, count})
    low, high = best_quantiles(loss.values, draws)
    return LossCurve(
        label=loss.label,
        model=loss.model,
        loss=loss.loss,
        candidates=count,
        trials=[float(drawn) for drawn in draws],
        epochs=[drawn * loss.epochs for drawn in draws],
        hours=[drawn * loss.hours for drawn in draws],
        expected=expected_best(loss.values, draws).tolist(),
        low=low.tolist(),
        high=high.tolist(),
    )


def _compare(first: SearchedLoss, other: SearchedLoss) -> LossComparison:
    """Compare the loss with the highest value with another loss: where curves cross, and how probable the lead is."""
    both = min(len(first.values), len(other.values))
    expected = [float(expected_best(loss.values, [both])[0]) for loss in (first, other)]
    crossed = {}
    for unit in UNITS:
        costs = (first.cost(unit), other.cost(unit))
        found = crossings(first.curve, other.curve, costs) if min(costs) > 0 else []
        crossed[unit] = [Crossing(at, first.label if ahead else other.label) for at, ahead in found]
    return LossComparison(
        first=first.label,
        other=other.label,
        trials=both,
        difference=expected[0] - expected[1],
        probability=lead_probability(first.values, other.values, both),
        crossings=crossed,
        # The best of twice as many trials is among the new trials with probability 1/2, for any distribution.
        further_trials=len(other.values),
        chance=chance_to_improve(len(other.values), len(other.values)),
    )
