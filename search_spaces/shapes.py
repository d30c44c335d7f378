"""All slopes up to degree 3 that are nowhere negative on an interval, each given by numbers in [0, 1].

With t in [0, 1] on the interval, a slope w(t) of mean 1, so that the integral of w over t is 1, is

    degree 0:  w = 1
    degree 1:  w = s 2t + (1-s) 2(1-t)
    degree 2:  w = s (t-d)^2 / m(d) + (1-s) 6 t(1-t),                          m(d) = 1/3 - d + d^2
    degree 3:  w = s t(t-d2)^2 / n(d2) + (1-s) (1-t)(t-d1)^2 / n(1-d1),        n(d) = 1/4 - 2d/3 + d^2/2,
               d2 = d1 + g (1-d1)

Each part is nowhere negative and has the mean 1, and so has a mean of two parts. Conversely every polynomial that is
above 0 on [0, 1] has exactly one such representation with 0 < d < 1, or 0 < d1 < d2 < 1 [KarlinShapley1953]. This is a
sharper form of Lukacs's theorem [Szego1939, theorem 1.21.1]. The other slopes are limits of these slopes, and a closed
box contains the limits.

A polynomial loss has the slope of degree d - 1, where d is the degree of the loss.

``balanced_polynomials`` gives two polynomials around a joint hinge that equal similarities never satisfy. The joint
hinge of ``polynomial_self`` costs [a(s+) + b(s^)]+. The hinge does not compare s+ with s^. So a model whose
similarities are all equal to one s may have a low cost, and ranks nothing. Such a model costs [T(s)]+, where

    T(s) = a(s) + b(s)

and two rules keep a model from staying there:

    the margin holds     T(s) >= scale x margin at every s of [-1, 1], so that equal similarities always cost;
    no drift to an end   T'(-1) <= 0 <= T'(1): where all similarities are 1 the negatives push at least as hard as the
                         positives pull, and where all are -1 the positives pull at least as hard. Then T is lowest
                         between the ends, or T is constant, and at its lowest point push and pull cancel, so that only
                         the difference between s+ and s^ is left.

Without these two rules, 24 trials of VSE++ on Flickr8k were suggested (``docs/losses.md``). After five
epochs, of the 10 trials that keep both rules, 8 reached a val rsum of 154 to 232. The trial that is the mean of the
triplet loss reached 94, and a trial with a margin of 0.03 reached 20. Two trials that break the second rule by 0.12 or
less reached 37 and 47. The other 12 stayed between 4 and 16, where chance is 3.

Both rules hold by construction, the second except for slopes that are nearly 0 at an end (``FARTHEST``). Of uniform
draws, 0.70 % of degree 3 and 0.50 % of degree 4 break it, at -1 by less than 0.1 scale, at 1 by at most 6 scale. To
keep it there as well would change what the points of a search mean, and so needs a new space version. With slopes w_a
and w_b of mean 1 and a(s) = scale (margin + lift - W_a(s)), b(s) = scale balance W_b(s), where W is the integral of w
from 0:

    balance   lies between w_a(1) / w_b(1) and w_a(-1) / w_b(-1); ``push`` is the place, on a logarithmic scale;
    lift      is the highest value of W_a - balance W_b on [-1, 1], 0 at least, because both are 0 at 0.

The two ratios are in the right order if the push of the negatives grows with s more than the pull of the positives, as
[Wei2021] asks of weights. So of two shapes, the negatives get the shape that grows more.

References:
    [KarlinShapley1953] Karlin and Shapley, Geometry of Moment Spaces. Memoirs of the AMS 12
    [Szego1939] Szego, Orthogonal Polynomials. AMS Colloquium Publications 23
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval, eq. 10 and 14 to 17. TPAMI 2021
"""

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from trainables.parameter_values import lowest_value

CONSTANT: Mapping[int, Mapping[str, float]] = {
    1: {},
    2: {"shape2": 1 / 2},
    3: {"shape3_ends": 1 / 3, "shape3_dip": 1 / 2},
    4: {"shape4_hard": 1 / 2, "shape4_dip": 1 / 4, "shape4_gap": 2 / 3},
}
"""Degree of the loss -> the parameters of its slope's shape, each in [0, 1], with their values for a constant slope.

``shape2`` is s; ``shape3_ends`` is s and ``shape3_dip`` d; ``shape4_hard`` is s, ``shape4_dip`` d1, ``shape4_gap`` g.
"""

DIGITS = 12
"""Digits that are kept of the largest coefficient: terms that cancel exactly on paper are then exactly 0."""


def polynomial(
    constant: float, size: float, degree: int, shape: Mapping[str, float], domain: tuple[float, float]
) -> tuple[float, ...]:
    """Return the polynomial with a value at 0 and a slope.

    Args:
        constant: Value at 0.
        size: Mean of the slope on the domain; below 0 the polynomial falls.
        degree: Degree of the polynomial, 1 to 4.
        shape: The parameters of its slope that ``CONSTANT`` has for the degree, each in [0, 1].
        domain: Where the slope has the sign of ``size``: low and high, low < high.

    Returns:
        Ascending powers, without zeros at the end, two at least.

    Example:
        >>> polynomial(0.2, 1.0, 1, {}, (-1.0, 2.0)), polynomial(0.0, 3.0, 2, {"shape2": 1.0}, (-1.0, 2.0))
        ((0.2, 1.0), (0.0, 2.0, 1.0))
    """
    slope = [size * value for value in _substitute(_slope(degree, shape), domain)]
    largest = max(map(abs, slope))
    terms = [_rounded(constant, abs(constant))]
    terms += [_rounded(value / power, largest) for power, value in enumerate(slope, start=1)]
    while len(terms) > 2 and terms[-1] == 0:
        terms.pop()
    return tuple(terms)


def ends(degree: int, shape: Mapping[str, float]) -> tuple[float, float]:
    """Return the slope, of mean 1, at the two ends of its domain: low and high.

    Example:
        >>> ends(2, {"shape2": 0.75})
        (0.5, 1.5)
    """
    slope = _slope(degree, shape)
    return slope[0], sum(slope)


def _rounded(value: float, largest: float) -> float:
    """Return a number rounded to ``DIGITS`` digits of the largest number of its kind."""
    return round(value, DIGITS - math.floor(math.log10(largest or 1.0))) + 0.0


def _slope(degree: int, shape: Mapping[str, float]) -> list[float]:
    """Return the slope's coefficients in ascending powers of t."""
    if degree == 1:
        return [1.0]
    share, *dips = (shape[name] for name in CONSTANT[degree])
    if degree == 2:
        return _mixed(share, [0.0, 2.0], [2.0, -2.0])
    if degree == 3:
        (dip,) = dips
        mean = 1 / 3 - dip + dip**2
        return _mixed(share, [dip**2 / mean, -2 * dip / mean, 1 / mean], [0.0, 6.0, -6.0])
    first, gap = dips
    second = first + gap * (1 - first)
    upper, lower = _mean_of_cubic(second), _mean_of_cubic(1 - first)
    rising = [0.0, second**2 / upper, -2 * second / upper, 1 / upper]
    falling = [first**2 / lower, -first * (2 + first) / lower, (1 + 2 * first) / lower, -1 / lower]
    return _mixed(share, rising, falling)


def _mean_of_cubic(dip: float) -> float:
    """Return the mean of t (t - dip)^2 on [0, 1], which is 1/36 at least."""
    return 1 / 4 - 2 * dip / 3 + dip**2 / 2


def _mixed(share: float, first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [share * a + (1 - share) * b for a, b in zip(first, second, strict=True)]


def _substitute(slope: Sequence[float], domain: tuple[float, float]) -> list[float]:
    """Return the coefficients in powers of x of a polynomial in powers of t = (x - low) / (high - low)."""
    low, high = domain
    start, step = -low / (high - low), 1 / (high - low)
    terms = [0.0] * len(slope)
    for value in reversed(slope):
        # Horner's rule on polynomials: terms * (start + step x) + value.
        terms = [start * term + step * before for term, before in zip(terms, [0.0, *terms[:-1]], strict=True)]
        terms[0] += value
    return terms


SIMILARITIES = (-1.0, 1.0)
"""Domain of similarities."""

WIDEST = 4.0
"""The balance leaves [1 / 4, 4] only if both of its limits do."""

FARTHEST = 64.0
"""No limit leaves [1 / 64, 64]: a slope that is nearly 0 at -1, or at 1, would ask for any balance."""


def balanced_polynomials(
    scale: float, margin: float, degree: int, two_shapes: Sequence[Mapping[str, float]], push: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the polynomials of the positives and of the negatives.

    Args:
        scale: Mean size of the positives' slope, > 0.
        margin: Least cost of a pair whose two similarities are equal, as a multiple of ``scale``, > 0.
        degree: Degree of both polynomials, 1 to 4.
        two_shapes: Two shapes as in ``CONSTANT``, in either order.
        push: Push of the negatives, from 0, the least that the positives' pull at s = 1 allows, to 1, the most that
            the positives' pull at s = -1 allows.

    Returns:
        Ascending powers of s+ and of s^, two at least each.

    Example:
        >>> balanced_polynomials(1.0, 0.2, 1, ({}, {}), 0.5)
        ((0.2, -1.0), (0.0, 1.0))
    """
    pull_shape, push_shape = two_shapes
    if _grows_more(degree, pull_shape, push_shape):
        pull_shape, push_shape = push_shape, pull_shape
    balance = _balance(ends(degree, pull_shape), ends(degree, push_shape), push)
    positive = polynomial(0.0, -scale, degree, pull_shape, SIMILARITIES)
    negative = polynomial(0.0, scale * balance, degree, push_shape, SIMILARITIES)
    alike = [a + b for a, b in zip_longest(positive, negative, fillvalue=0.0)]
    # Terms that cancel on paper leave at most a rounding error.
    lift = max(0.0, -lowest_value(alike, *SIMILARITIES))
    constant = scale * margin + (lift if lift > scale * ROUNDING else 0.0)
    return (constant, *positive[1:]), negative


ROUNDING = 1e-9
"""Part of the scale below which a lift is a rounding error."""


def _grows_more(degree: int, first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    """Say whether the first slope grows by a larger factor from -1 to 1 than the second."""
    (first_low, first_high), (second_low, second_high) = ends(degree, first), ends(degree, second)
    return first_high * second_low > first_low * second_high


def _balance(pull: tuple[float, float], push: tuple[float, float], share: float) -> float:
    """Return the balance at a share of the way between its limits, of slopes at -1 and at 1."""
    most = _ratio(pull[0], push[0])
    # For slopes that grow equally the two limits are equal, but for rounding.
    least = min(_ratio(pull[1], push[1]), most)
    low, high = max(least, min(1 / WIDEST, most)), min(most, max(WIDEST, least))
    return float(low ** (1 - share) * high**share)


def _ratio(pull: float, push: float) -> float:
    """Return the balance at which push and pull are equal, from 1 / ``FARTHEST`` to ``FARTHEST``."""
    return min(max(pull / push, 1 / FARTHEST), FARTHEST) if push > 0 else FARTHEST
