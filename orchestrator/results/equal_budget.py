"""Losses at equal budgets, and how optimistic a search was: its findings for another search of the same size.

The unit is a candidate: all trials of a search with equal settings, whatever their seeds. The value of a candidate is
the mean over its finished trials or, without any, over its trials that were stopped early. Its cost is the cost of all
its trials. A candidate without a value (diverged, failed) counts as the worst of its loss, so that failures count.

Of n values sorted upwards, the best of k that are drawn without replacement is the i-th with probability
C(i - 1, k - 1) / C(n, k). The mean of the best under these probabilities is an unbiased estimate of the expected best
of k independent trials, for k up to n. The estimate of [Dodge2019] draws with replacement, which can repeat a value and
is too low, most of all for k near n [Tang2020]. The band contains the best of k values in 8 of 10 draws. At k = n only
one draw is possible and the band has no width, which says nothing about another search.

How often resampled searches of a loss are ahead of those of another is no forecast of another search, and not
calculated: where they stated 0.99, another search led in 80 % of cases. Repeated searches show it
(``experiment.sections.Search.repeats``).

The values are assumed exchangeable. Trials of a sampler that learns are not: its later trials are better than its
earlier trials, so the expected best of few trials is too high.

References:
    [Dodge2019] Dodge et al., Show Your Work: Improved Reporting of Experimental Results. EMNLP 2019, arXiv:1909.03004
    [Tang2020] Tang et al., Showing Your Work Doesn't Always Work. ACL 2020, arXiv:2004.13705
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from orchestrator.journal.history import History
from orchestrator.journal.points import points_of
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.answer import Json

GPU_HOURS = "GPU hours"

UNITS = ("trials", "epochs", "hours")
"""Units in which a budget is counted."""

Values = NDArray[np.float64]

BAND = (0.1, 0.9)
"""Quantiles of the best of k draws that bound the band."""

COMPARED = 200
"""Budgets at which two curves are compared."""


def expected_best(values: Values, draws: Sequence[int]) -> Values:
    """Return the expected best of values drawn without replacement.

    Args:
        values: Values of a search, shape (..., n), finite; larger is better.
        draws: Numbers of drawn values, each in [1, n].

    Returns:
        The expected best for each number, shape (..., len(draws)).

    Example:
        >>> expected_best(np.array([1.0, 2.0, 4.0]), [1, 2, 3]).round(3).tolist()
        [2.333, 3.333, 4.0]
    """
    count = values.shape[-1]
    weights = np.stack([_chosen(0, drawn - 1, count, drawn) for drawn in draws], axis=-1)
    return np.asarray(np.sort(values, axis=-1) @ weights)


def best_quantiles(values: Values, draws: Sequence[int]) -> Values:
    """Return the quantiles ``BAND`` of the best of values drawn without replacement, shape (2, len(draws)).

    A quantile is the smallest value that the best does not exceed with at least this probability.
    """
    count, ordered, levels = len(values), np.sort(values), np.array(BAND) - 1e-12
    return np.transpose([ordered[np.searchsorted(_chosen(1, drawn, count, drawn), levels)] for drawn in draws])


class Curve:
    """The candidates of one loss, and their expected best over the number of drawn values, see ``expected_best``.

    Each point is computed when it is first asked for, and kept: a search is compared with many others, in several units
    of the budget.

    Args:
        values: Value of each candidate, shape (n,), in the order in which the candidates were created.
        label: The loss, after the model where the dataset has several models.
        model: Name of the model, as in ``TrialConfig``; so is ``loss``.
        costs: Unit -> mean cost of a candidate; hours are times the share of GPUs where the share is known.
        searches: Number of repeated searches, >= 1, that the candidates come from.
    """

    def __init__(
        self,
        values: Values,
        label: str = "",
        model: str = "",
        loss: str = "",
        costs: Mapping[str, float] | None = None,
        searches: int = 1,
    ) -> None:
        self.values, self.label, self.model, self.loss, self.costs = values, label, model, loss, costs or {}
        self.count = len(values)
        # Losses are compared at the budget of one search, which needs no draw of all values.
        self.in_a_search = max(1, self.count // searches)
        self._points = np.full(self.count + 1, np.nan)

    def at_budgets(self, cost: float, budgets: Values) -> Values:
        """Return the expected best for budgets, interpolated linearly between whole numbers of trials.

        Each budget is from ``cost``, the mean cost of a trial, > 0, to n times ``cost``.
        """
        draws = budgets / cost
        whole = np.clip(np.floor(draws + 1e-9).astype(int), 1, self.count)
        lower, upper = self._at(np.stack([whole, np.minimum(whole + 1, self.count)]))
        return np.asarray(lower + (upper - lower) * np.clip(draws - whole, 0.0, 1.0))

    def _at(self, draws: NDArray[np.int_]) -> Values:
        """Return the expected best for each number of drawn values, in [1, n], in the shape of the numbers."""
        new = np.unique(draws[np.isnan(self._points[draws])])
        if new.size:
            self._points[new] = expected_best(self.values, new.tolist())
        return self._points[draws]

    def points(self) -> Json:
        """Return the expected best value and its band at growing numbers of trials, with the costs in each unit."""
        count = self.count
        draws: Sequence[int] = range(1, count + 1)
        if count > MOST_POINTS:
            doubled = [2**power for power in range(count.bit_length())]
            draws = sorted({*np.geomspace(1, count, MOST_POINTS).round().astype(int).tolist(), *doubled, count})
        low, high = best_quantiles(self.values, draws)
        return {
            "label": self.label,
            "model": self.model,
            "loss": self.loss,
            "candidates": count,
            **{unit: [drawn * cost for drawn in draws] for unit, cost in self.costs.items()},
            "expected": expected_best(self.values, draws).tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
        }


def crossings(first: Curve, second: Curve, costs: tuple[float, float]) -> list[tuple[float, bool]]:
    """Return each budget at which the curves of two searches cross, and whether the first is ahead after it.

    ``costs`` are the mean costs of a trial of each search, > 0, in the unit of the budget. The curves are compared at
    ``COMPARED`` budgets that both searches reach.
    """
    low, high = max(costs), min(first.count * costs[0], second.count * costs[1])
    if high <= low:
        return []
    budgets = np.geomspace(low, high, COMPARED)
    lead = first.at_budgets(costs[0], budgets) - second.at_budgets(costs[1], budgets)
    signs = [(float(budget), bool(value > 0)) for budget, value in zip(budgets, lead, strict=True) if abs(value) > 1e-9]
    return [now for before, now in pairwise(signs) if before[1] is not now[1]]


def _chosen(fewest: int, chosen: int, count: int, drawn: int) -> Values:
    """Return C(a, chosen) / C(count, drawn) for a = fewest, ..., fewest + count - 1; 0 where a < chosen."""
    logs = _log_factorials(count)
    total = logs[count] - logs[drawn] - logs[count - drawn]
    few, end = max(0, chosen - fewest), fewest + count
    there, left = logs[fewest + few : end], logs[fewest + few - chosen : end - chosen]
    return np.concatenate([np.zeros(few), np.exp(there - logs[chosen] - left - total)])


@lru_cache(maxsize=64)
def _log_factorials(count: int) -> Values:
    """Return the logarithms of 0!, 1!, ... count!, cached because figures need them repeatedly."""
    return np.array([math.lgamma(number + 1) for number in range(count + 1)])


FEWEST = 4
"""Fewest candidates of a loss for which a curve is drawn."""

MOST_POINTS = 40
"""Number of trials above which a curve leaves some numbers of trials out."""


def equal_budgets(history: History) -> dict[str, Json]:
    """Return the comparison of losses of each dataset, where at least two losses have ``FEWEST`` candidates.

    Returns:
        Dataset -> ``metric``; ``hours_are``, ``GPU hours`` or ``trial hours`` where the GPUs of a trial are not known;
        ``losses``, the curve of each loss, the loss with the highest value first; ``comparisons`` of the first loss
        with each other loss.
    """
    metric, gpus = history.metric, history.experiment.gpus
    analyses = {}
    for dataset, trials in _by_dataset(history).items():
        losses = searched_losses(trials, metric, gpus or 1.0)
        if len(losses) > 1:
            analyses[dataset] = {
                "metric": metric,
                "hours_are": GPU_HOURS if gpus else "trial hours",
                "losses": [loss.points() for loss in losses],
                "comparisons": [_compare(losses[0], other) for other in losses[1:]],
            }
    return analyses


def searched_losses(trials: Sequence[Trial], metric: str, gpus: float) -> list[Curve]:
    """Return the losses that have enough candidates, the loss with the highest value first."""
    several = len({trial.config.model for trial in trials}) > 1
    groups: dict[str, dict[str, list[Trial]]] = {}
    for trial in trials:
        if trial.has_ended:
            label = f"{trial.config.model} {trial.config.loss}" if several else trial.config.loss
            groups.setdefault(label, {}).setdefault(trial.config.setting, []).append(trial)
    losses = [_searched(label, list(group.values()), metric, gpus) for label, group in groups.items()]
    return sorted((loss for loss in losses if loss is not None), key=lambda loss: -float(loss.values.max()))


def _searched(label: str, candidates: Sequence[Sequence[Trial]], metric: str, gpus: float) -> Curve | None:
    values = [_value(trials, metric) for trials in candidates]
    known = [value for value in values if value is not None]
    if len(candidates) < FEWEST or not known:
        return None
    every = [trial for trials in candidates for trial in trials]
    epochs, seconds = sum(len(trial.epochs) for trial in every), sum(trial.seconds for trial in every)
    hours = seconds / 3600 * gpus / len(candidates)
    costs = {"trials": 1.0, "epochs": epochs / len(candidates), "hours": hours}
    filled = np.array([min(known) if value is None else value for value in values])
    searches = len({trial.search for trial in every})
    return Curve(filled, label, every[0].config.model, every[0].config.loss, costs, searches)


def _value(trials: Sequence[Trial], metric: str) -> float | None:
    """Return the mean value of the finished trials or, if none finished, of the trials that were stopped early."""
    for state in (TrialState.FINISHED, TrialState.STOPPED_EARLY):
        values = [trial.at_best[metric] for trial in trials if trial.state is state]
        if values:
            return fmean(values)
    return None


def _compare(first: Curve, other: Curve) -> Json:
    """Compare the loss with the highest value with another loss: where curves cross, and how probable the lead is."""
    both = min(first.in_a_search, other.in_a_search)
    expected = [float(expected_best(loss.values, [both])[0]) for loss in (first, other)]
    crossed: dict[str, list[Json]] = {}
    for unit in UNITS:
        places = crossings(first, other, (first.costs[unit], other.costs[unit]))
        crossed[unit] = [{"at": at, "ahead": first.label if ahead else other.label} for at, ahead in places]
    return {
        "first": first.label,
        "other": other.label,
        "trials": both,
        "difference": expected[0] - expected[1],
        "crossings": crossed,
        # The best of twice as many trials is among the new trials with probability 1/2, for any distribution.
        "further_trials": other.count,
    }


def optimism_of(history: History) -> dict[str, Json]:
    """Return how much higher the values of each dataset's search are than with fresh seeds.

    Returns:
        Dataset -> ``metric``; ``candidates``, the confirmed candidates that the search trained to their end, at least
        one, with both values, of which that of the search is the mean by which it chose; ``excess``, the mean
        difference of the two.
    """
    metric = history.metric
    values: dict[str, list[float]] = {}
    for trial in history.stage(Stage.CONFIRM):
        if trial.state is TrialState.FINISHED and trial.candidate is not None:
            values.setdefault(trial.candidate, []).append(trial.at_best[metric])
    analyses = {}
    for dataset, trials in _by_dataset(history).items():
        # Published settings that the search stopped early are left out: with fresh seeds they are trained to their
        # end, which alone makes their values higher.
        candidates: list[Json] = [
            {"trial": point.first.id, "search": value, "fresh": fmean(values[point.first.id])}
            for point in points_of(trials)
            if point.first.id in values and (value := point.mean(metric)) is not None
        ]
        if candidates:
            excess = fmean(candidate["search"] - candidate["fresh"] for candidate in candidates)
            analyses[dataset] = {"metric": metric, "candidates": candidates, "excess": excess}
    return analyses


def _by_dataset(history: History) -> dict[str, list[Trial]]:
    """Return the trials of the search of each dataset, without pretrained models that are not trained."""
    groups: dict[str, list[Trial]] = {}
    for trial in (trial for trial in history.stage(Stage.SEARCH) if not trial.is_zero_shot):
        groups.setdefault(trial.config.dataset, []).append(trial)
    return groups
