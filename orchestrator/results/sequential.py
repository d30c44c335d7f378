r"""Tests of a stream of proposals against a champion, valid however often and whenever somebody looks.

A proposal is compared with the champion in pairs: both are trained with the same fresh seed, next to each other. Their
difference in pair i is D_i, positive where the proposal is better. The proposal is *no better* where E[D_i] <= 0.

**Assumption.** Given everything before this proposal, its D_i are independent and normal with one mean d and one
standard deviation s, both unknown. The spreads of champion and proposal may differ, their runs of one seed may be
correlated, and a drift that both share cancels. ``tests/benchmarks/gate.py`` simulates what happens where it is broken.

**One proposal.** With c = sum(D) / sqrt(sum(D^2)) of n pairs and a scale t, the e-value is

    E_n = 2 (1 + n t^2)^(-1/2) (1 - k)^(-n/2) F_n(sqrt(n k / (1 - k)) sign(c)),    k = c^2 t^2 / (1 + n t^2)

where F_n is Student's distribution function with n degrees of freedom. It is the likelihood ratio of the pairs up to
their scale, with d / s drawn from the positive half of N(0, t^2), against d = 0.

*Proof.* (1) The right Haar prior ds / s gives, for d / s = h, the ratio E[exp(w h c)] exp(-n h^2 / 2) with w
chi-distributed with n degrees of freedom [Lai1976, WangRamdas2025]. It is the likelihood ratio of the maximal invariant
(D_2 / |D_1|, ..., D_n / |D_1|, sign D_1), so it is a martingale with start 1 where d = 0. A mixture over h is a
martingale too. Over h > 0 with the density 2 N(h; 0, t^2) it is 2 (1 + n t^2)^(-1/2) E[exp(w^2 k / 2) P(Z <= w b)],
with b = c t / sqrt(1 + n t^2) and k = b^2. The factor exp(w^2 k / 2) changes w into v / sqrt(1 - k) with v
chi-distributed, and P(Z <= v a) = F_n(a sqrt(n)).

(2) Let d <= 0. E_n(D - d), the same formula of the differences moved up to the mean 0, is such a martingale. E_n
increases in c, because each exp(w h c) does, and c of D - d is at least c of D. So E_n(D) <= E_n(D - d) at every n:
E_n is an e-process of "no better".

(3) By Ville's inequality a martingale that starts at 1 ever reaches 1 / a with probability at most a. So "keep as soon
as E_n >= 1 / a" errs with probability at most a, whatever stops it earlier: a budget, a kill, a person.

**The stream.** The j-th proposal that is tested gets the level a_j = A (j^(-1/2) - (j + 1)^(-1/2)); all a_j together
are A. Pairs of a proposal are new given the past, so the bound of (3) holds whatever the proposer has learnt from the
past. By the union bound at most a share A of streams ever keeps a proposal that is no better than the champion of its
time.

**Discards** need no bound: they cost power alone. A proposal is discarded as hopeless where the ratio of "d / s = 0" to
"d / s = h" reaches 20. Here h is the effect that the budget of pairs could still find. By (2) and (3), a proposal whose
d / s is at least h is discarded with a probability of at most 5 %.

References:
    [Lai1976] Lai, On confidence sequences, Annals of Statistics 4, 265-280.
    [WangRamdas2025] Wang and Ramdas, Anytime-valid t-tests and confidence sequences for Gaussian means with unknown
        variance, Sequential Analysis 44, 56-110.
    [Ville1939] Ville, Étude critique de la notion de collectif.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

TOTAL_LEVEL = 0.05
"""Share of streams that may keep a proposal that is no better."""

SCALE = 2.0
"""Scale t of the effects d / s that the e-value expects."""

FORLORN = 0.05
"""Probability with which a proposal may be discarded whose effect the budget could find."""

POWER_DEVIATE = 0.8416
"""Standard normal quantile of 0.8, the power that the smallest effect of a budget is found with."""

STEPS = 60
"""Halvings of an interval in which a bound is searched."""


class Decision(StrEnum):
    """What is known of a proposal after some pairs."""

    KEEP = "keep"
    DISCARD = "discard"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class PairedEvidence:
    """The pairs of a proposal, and what follows from them.

    Attributes:
        pairs: Number of pairs, >= 0.
        difference: Mean of the differences, in the metric's unit; 0 without pairs.
        low: Lower end of the interval that holds the true difference at all times together with 95 % probability.
        high: Its upper end; both are infinite where there are too few pairs.
        e_value: E_n, >= 0.
        needed: 1 / level: the e-value at which the proposal is kept.
        decision: Of these pairs.
    """

    pairs: int
    difference: float
    low: float
    high: float
    e_value: float
    needed: float
    decision: Decision


def level_of(position: int, total: float = TOTAL_LEVEL) -> float:
    """Return the level of the proposal at a position of the stream, from 1; all levels together are ``total``.

    Example:
        >>> round(level_of(1), 4), f"{level_of(100):.1e}"
        (0.0146, '2.5e-05')
        >>> round(sum(level_of(position) for position in range(1, 10_000)), 4)
        0.0495
    """
    return total * (position**-0.5 - (position + 1) ** -0.5)


def log_e_value(pairs: int, cosine: float, scale: float = SCALE) -> float:
    """Return the logarithm of E_n of n pairs, >= 1, whose c = sum(D) / sqrt(sum(D^2)) lies in [-sqrt(n), sqrt(n)].

    Example:
        >>> round(math.exp(log_e_value(1, 1.0)) + math.exp(log_e_value(1, -1.0)), 9)
        2.0
    """
    from scipy.special import stdtr

    widened = 1 + pairs * scale**2
    share = (cosine * scale) ** 2 / widened
    statistic = math.copysign(math.sqrt(pairs * share / (1 - share)), cosine)
    chance = max(float(stdtr(pairs, statistic)), 1e-300)
    return math.log(2 * chance) - math.log(widened) / 2 - pairs / 2 * math.log1p(-share)


def log_ratio(pairs: int, cosine: float, effect: float) -> float:
    """Return the logarithm of the likelihood ratio of d / s = ``effect`` against d = 0, of the pairs up to scale.

    Example:
        >>> log_ratio(5, 0.0, 1.0)
        -2.5
    """
    width = (np.arange(1000) + 0.5) / 1000 * (math.sqrt(pairs) + 12 + abs(effect * cosine))
    density = (pairs - 1) * np.log(width) - width**2 / 2
    tilted = density + width * effect * cosine
    return float(np.logaddexp.reduce(tilted) - np.logaddexp.reduce(density)) - pairs * effect**2 / 2


@lru_cache(maxsize=4096)
def keep_bound(pairs: int, level: float) -> float:
    """Return the smallest c at which a proposal is kept after n pairs; infinite where n pairs cannot suffice."""
    return _crossing(pairs, lambda cosine: log_e_value(pairs, cosine) + math.log(level))


@lru_cache(maxsize=4096)
def discard_bound(pairs: int, effect: float) -> float:
    """Return the largest c at which a proposal is hopeless after n pairs, if this effect could be found.

    Minus infinity where no n pairs are hopeless.
    """
    bound = _crossing(pairs, lambda cosine: log_ratio(pairs, cosine, effect) - math.log(FORLORN))
    return -math.inf if bound <= -math.sqrt(pairs) * (1 - 1e-12) else bound


def findable_effect(pairs: int, level: float) -> float:
    """Return the effect d / s that this number of pairs finds at a level with a probability of some 80 %.

    Infinite where so few pairs find none.
    """
    bound = keep_bound(pairs, level)
    if not math.isfinite(bound):
        return math.inf
    return (_student(pairs, bound) + POWER_DEVIATE) / math.sqrt(pairs)


def weigh(differences: Sequence[float], level: float, most: int) -> PairedEvidence:
    """Return what the pairs of a proposal say.

    Args:
        differences: Proposal minus champion of each pair, in its order; positive is better.
        level: Level of this proposal, in (0, 1).
        most: Number of pairs that the budget allows, >= 1.

    Example:
        >>> weigh([1.0, 1.2, 0.9, 1.1, 1.3], level=0.01, most=20).decision
        <Decision.KEEP: 'keep'>
        >>> weigh([-1.0, 0.2, -0.9, 0.1], level=0.01, most=20).decision
        <Decision.DISCARD: 'discard'>
        >>> weigh([1.0], level=0.01, most=20).decision
        <Decision.UNDECIDED: 'undecided'>
    """
    values = np.asarray(differences, dtype=np.float64)
    pairs, norm = len(values), float(np.sqrt(np.sum(np.square(values))))
    if not pairs or norm == 0.0:
        return PairedEvidence(pairs, 0.0, -math.inf, math.inf, 1.0, 1 / level, Decision.UNDECIDED)
    cosine = min(max(float(values.sum()) / norm, -math.sqrt(pairs)), math.sqrt(pairs))
    e_value = math.exp(min(log_e_value(pairs, cosine), 700.0))
    difference, (low, high) = float(values.mean()), interval(values)
    decision = Decision.UNDECIDED
    effect = findable_effect(most, level)
    if e_value >= 1 / level:
        decision = Decision.KEEP
    elif math.isfinite(effect) and pairs > 1 and cosine <= discard_bound(pairs, effect):
        decision = Decision.DISCARD
    return PairedEvidence(pairs, difference, low, high, e_value, 1 / level, decision)


def interval(differences: Sequence[float] | np.ndarray, level: float = TOTAL_LEVEL) -> tuple[float, float]:
    """Return the interval of the mean difference that holds at all numbers of pairs together, 1 - ``level``.

    Each end is the mean at which the e-value of that side reaches 2 / level.
    """
    values = np.asarray(differences, dtype=np.float64)
    pairs, bound = len(values), keep_bound(len(values), level / 2)
    if pairs < 2 or not math.isfinite(bound):
        return -math.inf, math.inf
    reach = _student(pairs, bound) * float(values.std(ddof=1)) / math.sqrt(pairs)
    return float(values.mean()) - reach, float(values.mean()) + reach


def _student(pairs: int, cosine: float) -> float:
    """Return Student's statistic of n pairs with this c."""
    return cosine * math.sqrt((pairs - 1) / max(pairs - cosine**2, 1e-300))


def _crossing(pairs: int, above: Callable[[float], float]) -> float:
    """Return where an increasing function of c first is at least 0; infinite where it is below 0 everywhere."""
    low, high = -math.sqrt(pairs), math.sqrt(pairs)
    if above(high) < 0:
        return math.inf
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if above(middle) >= 0 else (middle, high)
    return high
