"""The values that a parameter accepts; among them feasible coefficients, whose gradients have the right sign.

A polynomial loss [Wei2021] maps a similarity x to f(x) = sum_p c_p x^p. Its gradient has the right sign where

    positive: f falls with s+,    sum_p p c_p x^(p-1) <= 0  for x in [-1, 1]     (eq. 14, 16)
    negative: f rises with s-,    sum_p p c_p x^(p-1) >= 0  for x in [-1, 1]     (eq. 15, 17)
    relative: f rises with Delta, sum_p p c_p x^(p-1) >= 0  for x in [-1, 2]

with Delta = hardest negative - positive. Delta could be as low as -2. Below -1 a pair is easier than any usual margin,
and requiring a rising f there would forbid hinges that are already 0. Pass another domain to require more.

This module imports only the standard library, because search spaces use the module where torch is not imported.

References:
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval, eq. 10 to 17. TPAMI 2021
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any, Literal

from trainables.errors import ConfigError

LEARNED = "learned"
"""Value of a hyper-parameter of a loss that is learned with the model."""


@dataclass(frozen=True)
class Domain:
    """The values that a parameter of a model or a loss accepts.

    Attributes:
        rule: The values in words that follow "must be", e.g. ``a number above 0``.
        accepts: Says whether a value obeys the rule.
        is_count: Whether its ranges are of whole numbers, on a logarithmic scale.
    """

    rule: str
    accepts: Callable[[Any], bool]
    is_count: bool = False


def is_number(value: Any) -> bool:
    """Say whether a value is a finite number; a truth value is not."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def one_of(*choices: Any) -> Domain:
    """Return the domain of a parameter that is one of some words or truth values."""
    rule = "one of " + ", ".join(repr(choice) for choice in choices)
    return Domain(rule, lambda value: any(value == choice and type(value) is type(choice) for choice in choices))


NUMBER = Domain("a finite number", is_number)
POSITIVE = Domain("a number above 0", lambda value: is_number(value) and value > 0)
NOT_NEGATIVE = Domain("a number of at least 0", lambda value: is_number(value) and value >= 0)
SWITCH = Domain("true or false", lambda value: isinstance(value, bool))


def or_else(domain: Domain, other: str | None) -> Domain:
    """Return a domain that also accepts another value."""
    shown = "null" if other is None else repr(other)
    return Domain(f"{domain.rule}, or {shown}", lambda value: value == other or domain.accepts(value))


def count_or(*words: str, least: int = 1) -> Domain:
    """Return the domain of whole numbers from ``least`` on, and of some words."""

    def accepts(value: Any) -> bool:
        return value in words or (is_number(value) and value >= least and float(value).is_integer())

    rule = f"a whole number of at least {least}"
    return Domain(f"{rule}, or {' or '.join(map(repr, words))}" if words else rule, accepts, is_count=True)


def domain_like(default: Any, words: Sequence[Any] = (), *, whole: bool = False, positive: bool = False) -> Domain:
    """Return the domain of a plug-in's parameter: values of the type of its default.

    Args:
        default: A number, a word, true or false, or a list of numbers.
        words: The words that are accepted if ``default`` is a word; empty for any word.
        whole: Whether numbers are whole if ``default`` is.
        positive: Whether other numbers are above 0.
    """
    if isinstance(default, bool):
        return SWITCH
    if isinstance(default, str):
        return one_of(*words) if words else Domain("a word", lambda value: isinstance(value, str))
    if isinstance(default, list | tuple):
        return Domain("a list of numbers", lambda value: isinstance(value, list | tuple) and all(map(is_number, value)))
    if whole and isinstance(default, int):
        return Domain("a whole number", lambda value: is_number(value) and float(value).is_integer())
    return POSITIVE if positive else NUMBER


Kind = Literal["positive", "negative", "relative"]
"""Argument of a polynomial: s+, s-, or Delta."""

DOMAINS: dict[str, tuple[float, float]] = {"positive": (-1.0, 1.0), "negative": (-1.0, 1.0), "relative": (-1.0, 2.0)}
"""Kind -> interval of x on which the slope of f must have the right sign."""

LARGEST_GATE = 2.0
"""Largest gate with an effect, because Delta is never below -2."""

TOLERANCE = 1e-9
"""Largest tolerated slope of the wrong sign, as a share of the largest slope that the coefficients could give."""


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


def sign_problem(coefficients: Sequence[float], kind: Kind, domain: tuple[float, float]) -> str | None:
    """Return where the slope has the wrong sign on a domain, and how to mend it; ``None`` for feasible coefficients.

    The linear coefficient shifts the whole slope. For the arguments and errors see ``is_feasible``.

    Example:
        >>> sign_problem((0.0, 1.0, 0.9), "negative", (-1.0, 1.0))
        'must rise on [-1, 1], got (0.0, 1.0, 0.9), with a slope of -0.8 at -1: raise the coefficient of power 1 by 0.8'
    """
    if is_feasible(coefficients, kind, domain):
        return None
    slope = _slope(coefficients, kind)
    worst = _lowest_point(slope, *domain)
    wrong = -_evaluate(slope, worst)
    way, change = ("fall", "lower") if kind == "positive" else ("rise", "raise")
    return (
        f"must {way} on [{domain[0]:g}, {domain[1]:g}], got {tuple(coefficients)}, with a slope of "
        f"{-_sign(kind) * wrong:.6g} at {worst:.6g}: {change} the coefficient of power 1 by {wrong:.6g}"
    )


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
    crossings = []
    for left, right in pairwise(edges):
        at_left, at_right = _evaluate(polynomial, left), _evaluate(polynomial, right)
        if at_left == 0 or at_left * at_right < 0:
            crossings.append(left if at_left == 0 else _bisect(polynomial, left, right))
    return crossings


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
