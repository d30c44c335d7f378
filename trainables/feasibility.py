"""Feasible coefficients of polynomial losses, whose gradients have the right sign, and the nearest such coefficients.

A polynomial loss [Wei2021] maps a similarity x to f(x) = sum_p c_p x^p. Its gradient has the right sign where

    positive: f falls with s+,    sum_p p c_p x^(p-1) <= 0  for x in [-1, 1]     (eq. 14, 16)
    negative: f rises with s-,    sum_p p c_p x^(p-1) >= 0  for x in [-1, 1]     (eq. 15, 17)
    relative: f rises with Delta, sum_p p c_p x^(p-1) >= 0  for x in [-1, 2]

with Delta = hardest negative - positive. Delta could be as low as -2, but below -1 a pair is easier than any usual
margin, and requiring a rising f there would forbid hinges that are already 0; pass another domain to require more.

The feasible vectors are a closed convex cone, so each vector has one nearest feasible vector. This module imports only
the standard library, because search spaces use the module where torch is not imported.

References:
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval, eq. 10 to 17. TPAMI 2021
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from trainables.errors import ConfigError

LEARNED = "learned"
"""Value of a hyper-parameter of a loss that is learned with the model."""

Kind = Literal["positive", "negative", "relative"]
"""Argument of a polynomial: s+, s-, or Delta."""

DOMAINS: dict[str, tuple[float, float]] = {"positive": (-1.0, 1.0), "negative": (-1.0, 1.0), "relative": (-1.0, 2.0)}
"""Kind -> interval of x on which the slope of f must have the right sign."""

LARGEST_GATE = 2.0
"""Largest gate with an effect, because Delta is never below -2."""

TOLERANCE = 1e-9
"""Largest tolerated slope of the wrong sign, as a share of the largest slope that the coefficients could give."""

ROUNDS = 60
"""Most points that the projection tries; coefficients in searches take fewer than ten."""


def domain_of(kind: Kind, gate: float | None = None) -> tuple[float, float]:
    """Return the interval on which the slope of a kind must have the right sign: for Delta from -gate on.

    Only ``relative`` depends on the gate, >= 0: pairs with Delta at or below -gate cost nothing; ``None`` is no gate.

    Raises:
        ConfigError: If ``kind`` is unknown.

    Example:
        >>> domain_of("relative"), domain_of("relative", 0.2), domain_of("negative", 0.2)
        ((-1.0, 2.0), (-0.2, 2.0), (-1.0, 1.0))
    """
    _sign(kind)
    low, high = DOMAINS[kind]
    return (low if gate is None or kind != "relative" else 0.0 - min(gate, LARGEST_GATE), high)


def is_feasible(coefficients: Sequence[float], kind: Kind, domain: tuple[float, float] | None = None) -> bool:
    """Say whether the polynomial's slope has the right sign everywhere on the domain.

    Args:
        coefficients: Ascending powers, index = power; at least one, all finite.
        kind: The similarities that the polynomial weighs.
        domain: Interval that is checked, instead of ``DOMAINS[kind]``.

    Raises:
        ConfigError: If there are no coefficients, a coefficient is not finite, or ``kind`` is unknown.

    Example:
        >>> is_feasible((0.2, -1.0), "positive"), is_feasible((0.03, -0.4, 0.9), "negative")
        (True, False)
    """
    slope = _slope(coefficients, kind)
    low, high = domain or DOMAINS[kind]
    return _evaluate(slope, _lowest_point(slope, low, high)) >= -_allowance(slope, low, high)


def nearest_feasible(
    coefficients: Sequence[float], kind: Kind, domain: tuple[float, float] | None = None
) -> tuple[float, ...]:
    """Return the nearest feasible coefficients in Euclidean distance, to about 1e-6; feasible coefficients unchanged.

    The slope's sign at a point x is one linear constraint, n(x).c >= 0 with n(x) = (1, 2x, 3x^2, ...). The vector is
    projected on the constraint at its worst point, then on the constraints at two points, and so on; each step adds the
    point where the result is worst. A remaining rounding error is corrected by the linear coefficient, which shifts the
    whole slope.

    For the arguments see ``is_feasible``; the constant is never changed.

    Raises:
        ConfigError: If there are no coefficients, a coefficient is not finite, or ``kind`` is unknown.

    Example:
        >>> nearest_feasible((0.5, 0.3), "positive")
        (0.5, 0.0)
    """
    if is_feasible(coefficients, kind, domain):
        return tuple(float(number) for number in coefficients)
    low, high = domain or DOMAINS[kind]
    sign = _sign(kind)
    slope = _project(_slope(coefficients, kind), low, high)
    slope[0] += max(0.0, -_evaluate(slope, _lowest_point(slope, low, high)))
    return (float(coefficients[0]), *(sign * value / power + 0.0 for power, value in enumerate(slope, start=1)))


def lowest_value(coefficients: Sequence[float], low: float, high: float) -> float:
    """Return the lowest value of a polynomial on an interval.

    Coefficients, one at least, are in ascending powers and finite; ``low`` is below ``high``.

    Example:
        >>> lowest_value((1.0, 0.0, 1.0), -1.0, 2.0)
        1.0
    """
    return _evaluate(coefficients, _lowest_point(coefficients, low, high))


def require_finite(name: str, coefficients: Sequence[float]) -> None:
    """Raise ConfigError unless there is at least one coefficient and all are finite."""
    if len(coefficients) == 0 or not all(math.isfinite(number) for number in coefficients):
        raise ConfigError(f"{name} must be one or more finite numbers, ascending powers, got {tuple(coefficients)}")


def constant_problem(counts: Mapping[str, int]) -> str | None:
    """Return the problem of a loss whose polynomials are all constant, or ``None`` for other losses.

    ``counts`` maps the name of a polynomial to the number of its coefficients.
    """
    if any(count > 1 for count in counts.values()):
        return None
    return (
        f"{' and '.join(counts)} must hold a coefficient of power 1 or above, since a constant has no gradient, "
        f"got the constant alone; coefficients are listed by ascending powers, from the constant on"
    )


def _sign(kind: Kind) -> float:
    if kind not in DOMAINS:
        raise ConfigError(f"kind must be one of {', '.join(DOMAINS)}, got {kind!r}")
    return -1.0 if kind == "positive" else 1.0


def _slope(coefficients: Sequence[float], kind: Kind) -> list[float]:
    """Return the derivative's coefficients, negated where feasible slopes are <= 0; [0] for a constant."""
    require_finite("coefficients", coefficients)
    sign = _sign(kind)
    return [sign * power * number for power, number in enumerate(coefficients)][1:] or [0.0]


def _allowance(slope: Sequence[float], low: float, high: float) -> float:
    reach = max(abs(low), abs(high), 1.0)
    return TOLERANCE * sum(abs(number) * reach**power for power, number in enumerate(slope))


def _evaluate(polynomial: Sequence[float], x: float) -> float:
    value = 0.0
    for number in reversed(polynomial):
        value = value * x + number
    return value


def _lowest_point(polynomial: Sequence[float], low: float, high: float) -> float:
    """Return the x of a polynomial's minimum on an interval: an end, or a root of the derivative."""
    derivative = [power * number for power, number in enumerate(polynomial)][1:]
    return min([low, high, *_crossings(derivative, low, high)], key=lambda x: _evaluate(polynomial, x))


def _crossings(polynomial: Sequence[float], low: float, high: float) -> list[float]:
    """Return the sign changes of a polynomial on an interval, of which there is at most one between two extrema."""
    if len(polynomial) < 2:
        return []
    derivative = [power * number for power, number in enumerate(polynomial)][1:]
    edges = [low, *_crossings(derivative, low, high), high]
    found = []
    for left, right in pairwise(edges):
        at_left, at_right = _evaluate(polynomial, left), _evaluate(polynomial, right)
        if at_left == 0 or at_left * at_right < 0:
            found.append(left if at_left == 0 else _bisect(polynomial, left, right))
    return found


def _bisect(polynomial: Sequence[float], left: float, right: float) -> float:
    rising = _evaluate(polynomial, left) < 0
    middle = (left + right) / 2
    while left < middle < right:
        if (_evaluate(polynomial, middle) < 0) == rising:
            left = middle
        else:
            right = middle
        middle = (left + right) / 2
    return middle


def _project(slope: list[float], low: float, high: float) -> list[float]:
    """Return the slope of the nearest coefficients whose slope is >= 0 on the interval, up to rounding.

    Distances are measured between the coefficients c_p = slope_(p-1) / p.
    """
    start = [value / power for power, value in enumerate(slope, start=1)]
    active: dict[float, float] = {}
    current = slope
    for _ in range(ROUNDS):
        worst = _lowest_point(current, low, high)
        if _evaluate(current, worst) >= -10 * _allowance(slope, low, high):
            break
        active = _balance(start, {**active, worst: 0.0})
        nearest = [a + sum(m * _normal(x, len(start))[i] for x, m in active.items()) for i, a in enumerate(start)]
        current = [power * value for power, value in enumerate(nearest, start=1)]
    return current


def _normal(x: float, size: int) -> list[float]:
    """Return n(x), so that n(x).c is the slope at x of the polynomial with the coefficients c, without the constant."""
    return [power * x ** (power - 1) for power in range(1, size + 1)]


def _balance(start: Sequence[float], active: dict[float, float]) -> dict[float, float]:
    """Return the multipliers of points x with which start + sum of multiplier * n(x) has slope 0 at each point.

    Where a multiplier would become negative, the step stops at 0 and the point is left out (Lawson and Hanson).
    """
    while active:
        normals = [_normal(x, len(start)) for x in active]
        gram = [[_dot(a, b) for b in normals] for a in normals]
        wanted = dict(zip(active, _solve(gram, [-_dot(normal, start) for normal in normals]), strict=True))
        falling = {x: m / (m - wanted[x]) for x, m in active.items() if wanted[x] < 0}
        if not falling:
            return wanted
        first = min(falling, key=lambda x: falling[x])
        active = {x: m + falling[first] * (wanted[x] - m) for x, m in active.items() if x != first}
    return active


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a small positive definite system by Gauss-Jordan elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for pivot in range(len(rows)):
        scaled = [value / rows[pivot][pivot] for value in rows[pivot]]
        rows = [
            scaled if index == pivot else [a - row[pivot] * b for a, b in zip(row, scaled, strict=True)]
            for index, row in enumerate(rows)
        ]
    return [row[-1] for row in rows]
