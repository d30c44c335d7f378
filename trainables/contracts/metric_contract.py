"""The contract of a plug-in's metric: each check says what is wrong, and what usually causes it.

Checks measure small rankings: with one positive and with several, perfect, at random and with the positives last.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch

from trainables.contracts import BrokenError, ContractFinding, PerhapsMeantError, run_checks
from trainables.metric_table import METRICS, Metric
from trainables.metric_values import Values

CANDIDATES = 20
"""Candidates of each query of the checks."""

POSITIVES = (1, 2, 5, 12)
"""Positives of the queries, in turn."""

Scores = tuple[torch.Tensor, torch.Tensor]
"""Similarities and matching pairs of queries, (Q, N)."""


def check_metric(name: str) -> Iterator[ContractFinding]:
    """Return a finding for each check of a metric."""
    return run_checks(CHECKS, METRICS[name], needed="values")


def _ranking(order: str, queries: int = 12) -> Scores:
    """Return similarities in which positives come ``first``, ``last``, or in ``any`` place."""
    counts = torch.tensor(POSITIVES).repeat(queries)[:queries]
    positives = torch.arange(CANDIDATES) < counts[:, None]
    noise = torch.rand(positives.shape, generator=torch.Generator().manual_seed(0))
    shift = {"first": 1.0, "any": 0.0, "last": -1.0}[order]
    return noise * 0.4 + shift * positives.float() * 0.5, positives


def _measure(metric: Metric, scores: Scores) -> Values:
    """Return the value of each query, (Q,)."""
    similarity, positives = scores
    if metric.of_similarities is not None:
        return np.asarray(metric.of_similarities(similarity, positives).detach(), dtype=np.float64)
    assert metric.of_queries is not None
    counts = positives.sum(1).numpy()
    places = np.argsort(-similarity.numpy(), axis=1).argsort(axis=1) + 1.0
    positions = np.sort(np.where(positives.numpy(), places, np.inf), axis=1)[:, : counts.max()]
    return np.asarray(metric.of_queries(positions, counts), dtype=np.float64)


def _check_values(metric: Metric) -> None:
    for order in ("first", "any", "last"):
        _measure(metric, _ranking(order))


def _check_alone(metric: Metric) -> None:
    scores = _ranking("any")
    together = _measure(metric, scores)
    for query in range(len(together)):
        alone = _measure(metric, (scores[0][query : query + 1], scores[1][query : query + 1]))
        if abs(float(alone[0]) - float(together[query])) > 1e-5 * max(1.0, abs(float(together[query]))):
            raise BrokenError(
                f"a query has {alone[0]:g} alone and {together[query]:g} beside others; its value must depend on its "
                "own candidates, because queries are measured in parts"
            )


def _check_direction(metric: Metric) -> None:
    first, last = (float(_measure(metric, _ranking(order)).mean()) for order in ("first", "last"))
    better, sign = ("larger", 1) if metric.larger_is_better else ("smaller", -1)
    if sign * (first - last) < 0:
        raise BrokenError(f"positives first give {first:g}, positives last {last:g}, but {better} is said to be better")
    if first == last:
        raise PerhapsMeantError(f"positives first and positives last both give {first:g}; it cannot rank models")


CHECKS: Mapping[str, tuple[Callable[[Metric], None], str]] = {
    "values": (_check_values, "returns a value in its range for each query"),
    "alone": (_check_alone, "the value of a query depends on this query alone"),
    "direction": (_check_direction, "is better where the positives come first"),
}
"""Name of a check of a metric -> the check, and the statement that it proves."""
