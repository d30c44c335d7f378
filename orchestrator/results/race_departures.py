"""Who leaves a race after a round: whoever is beaten, lost a seed or trails, see ``race.py``."""

import math
from collections.abc import Sequence

import numpy as np

from orchestrator.results.candidates import Candidate, DatasetVerdict, Departed, Departure, Verdict
from orchestrator.results.statistics import has_spread

TRAILS = 0.2
"""A candidate whose lag would be so improbable without a difference leaves."""


def leaving(current: Sequence[Candidate], leader: Candidate, verdict: DatasetVerdict) -> dict[str, Departure]:
    """Return who leaves after a round, and how."""
    comparisons = {one.label: one.verdict for one in verdict.comparisons}
    spread, freedom = _pooled([one.sample(verdict.selection) for one in current])
    found: dict[str, Departure] = {}
    for one in current:
        if one.left is not None or one is leader:
            continue
        seeds = len(one.values)
        if one.label in comparisons:
            if comparisons[one.label] is Verdict.BETTER:
                found[one.label] = Departure(Departed.BEATEN, seeds)
        elif one.missing:
            found[one.label] = Departure(Departed.LOST, seeds)
        elif _lag_p(leader, one, verdict.selection, spread, freedom) < TRAILS:
            found[one.label] = Departure(Departed.TRAILED, seeds)
    return found


def _pooled(samples: Sequence[np.ndarray]) -> tuple[float, int]:
    """Return the spread of all candidates together, and its degrees of freedom."""
    freedom = sum(max(0, len(values) - 1) for values in samples)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in samples if len(values))
    return (math.sqrt(squares / freedom) if freedom else 0.0), freedom


def _lag_p(leader: Candidate, other: Candidate, metric: str, spread: float, freedom: int) -> float:
    """Return how likely a candidate as good as the leader lags so far behind the leader."""
    from scipy.special import stdtr

    ahead, behind = leader.sample(metric), other.sample(metric)
    lead = float(ahead.mean() - behind.mean())
    if spread == 0.0 or not freedom:
        return 0.0 if has_spread(np.array([ahead.mean(), behind.mean()])) else 1.0
    return float(stdtr(freedom, -lead / (spread * math.sqrt(1 / len(ahead) + 1 / len(behind)))))
