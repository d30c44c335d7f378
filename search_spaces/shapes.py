"""All slopes up to degree 3 that are nowhere negative on an interval, each given by numbers in [0, 1].

With t in [0, 1] on the interval, a slope w(t) of mean 1, so that the integral of w over t is 1, is

    degree 0:  w = 1
    degree 1:  w = s 2t + (1-s) 2(1-t)
    degree 2:  w = s (t-d)^2 / m(d) + (1-s) 6 t(1-t),                          m(d) = 1/3 - d + d^2
    degree 3:  w = s t(t-d2)^2 / n(d2) + (1-s) (1-t)(t-d1)^2 / n(1-d1),        n(d) = 1/4 - 2d/3 + d^2/2,
               d2 = d1 + g (1-d1)

Each part is nowhere negative and has the mean 1, and so has a mean of two parts. Conversely every polynomial that is
above 0 on [0, 1] has exactly one such representation with 0 < d < 1, or 0 < d1 < d2 < 1 [KarlinShapley1953], a sharper
form of Lukacs's theorem [Szego1939, theorem 1.21.1]. The other slopes are limits of these slopes, and a closed box
contains the limits.

A polynomial loss has the slope of degree d - 1, where d is the degree of the loss.

References:
    [KarlinShapley1953] Karlin and Shapley, Geometry of Moment Spaces. Memoirs of the AMS 12
    [Szego1939] Szego, Orthogonal Polynomials. AMS Colloquium Publications 23
"""

import math
from collections.abc import Mapping, Sequence

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
    found = [_rounded(constant, abs(constant))]
    found += [_rounded(value / power, largest) for power, value in enumerate(slope, start=1)]
    while len(found) > 2 and found[-1] == 0:
        found.pop()
    return tuple(found)


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
    found = [0.0] * len(slope)
    for value in reversed(slope):
        # Horner's rule on polynomials: found * (start + step x) + value.
        found = [start * same + step * before for same, before in zip(found, [0.0, *found[:-1]], strict=True)]
        found[0] += value
    return found
