"""The candidates that leave a race after a round: they are beaten, lost a seed or trail, see ``race.py``."""

import math
from collections.abc import Sequence

import numpy as np

from orchestrator.results.candidates import Candidate, DatasetVerdict, Departed, Departure, Verdict
from orchestrator.results.statistics import has_spread

TRAILS = 0.2
"""Probability of a candidate's lag, if it were as good as the leader, below which the candidate leaves."""


def leaving(current: Sequence[Candidate], leader: Candidate, verdict: DatasetVerdict) -> dict[str, Departure]:
    """Return label -> departure of the candidates that leave after a round."""
    comparisons = {comparison.label: comparison.verdict for comparison in verdict.comparisons}
    spread, freedom = _pooled([candidate.sample(verdict.selection) for candidate in current])
    departures: dict[str, Departure] = {}
    for candidate in current:
        if candidate.left is not None or candidate is leader:
            continue
        label, seeds = candidate.label, len(candidate.values)
        if label in comparisons:
            if comparisons[label] is Verdict.BETTER:
                departures[label] = Departure(Departed.BEATEN, seeds)
        elif candidate.missing:
            departures[label] = Departure(Departed.LOST, seeds)
        elif _lag_p(leader, candidate, verdict.selection, spread, freedom) < TRAILS:
            departures[label] = Departure(Departed.TRAILED, seeds)
    return departures


def _pooled(samples: Sequence[np.ndarray]) -> tuple[float, int]:
    """Return the standard deviation pooled over the candidates, and its degrees of freedom."""
    freedom = sum(max(0, len(values) - 1) for values in samples)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in samples if len(values))
    return (math.sqrt(squares / freedom) if freedom else 0.0), freedom


def _lag_p(leader: Candidate, other: Candidate, metric: str, spread: float, freedom: int) -> float:
    """Return the probability that a candidate as good as the leader lags at least so far behind the leader."""
    from scipy.special import stdtr

    ahead, behind = leader.sample(metric), other.sample(metric)
    lead = float(ahead.mean() - behind.mean())
    if spread == 0.0 or not freedom:
        return 0.0 if has_spread(np.array([ahead.mean(), behind.mean()])) else 1.0
    return float(stdtr(freedom, -lead / (spread * math.sqrt(1 / len(ahead) + 1 / len(behind)))))
