"""The coefficients of the polynomial losses, so parametrised that every suggestion pulls the right way.

What must hold is a sign of the slope f' (see ``trainables.polynomials``), so the slope is what is suggested: a
polynomial of degree d has a slope of degree d - 1, whose d Bernstein coefficients on the domain are the parameters,

    f'(x) = sum_k w_k C(d-1, k) t^k (1-t)^(d-1-k),    t = (x - low) / (high - low),    w_k >= 0   [Farouki2012]

A mean of numbers >= 0 with weights >= 0 is >= 0: no point of the box is infeasible, none is drawn in vain, and near
points are near polynomials, which samplers like. w_0 and w_(d-1) are the slopes at the ends, in between the w_k draw
the curve towards them; equal w_k are a constant slope, the published default. Polynomials of degree 3 and 4 whose slope
touches 0 inside the domain lie outside the box.

References:
    [Farouki2012] Farouki, The Bernstein polynomial basis: a centennial retrospective. CAGD 29, 379-419
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval, eq. 10 to 17. TPAMI 2021
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from search_spaces.space import Bounds, Domain, LossSpace, Range, SpaceError, Trial, Values, is_number, one_of
from trainables.polynomials import DOMAINS, Kind, is_feasible, nearest_feasible

DEGREES = (1, 2, 3, 4)

COEFFICIENTS = Domain(
    "one or more finite numbers, ascending powers",
    lambda value: isinstance(value, list | tuple) and len(value) > 0 and all(map(is_number, value)),
)
GATE = Domain("a number of at least 0, or null", lambda value: value is None or (is_number(value) and value >= 0))
OFFSET = Domain("a finite number", is_number)
WEIGHT = Domain("a number of at least 0", lambda value: is_number(value) and value >= 0)
DEGREE = Domain(f"one of {', '.join(map(str, DEGREES))}", lambda value: value in DEGREES and type(value) is int)


def coefficients(offset: float, weights: Sequence[float], kind: Kind) -> tuple[float, ...]:
    """Return the polynomial with a value at 0 and a slope.

    Args:
        offset: Its constant.
        weights: Bernstein coefficients of the size of its slope on ``DOMAINS[kind]``, one a degree, all >= 0.
        kind: What it weighs, and so which sign its slope has.

    Returns:
        Ascending powers, without zeros at the end.

    Example:
        >>> coefficients(0.2, (1.0, 1.0), "relative"), coefficients(0.2, (0.0, 3.0), "relative")
        ((0.2, 1.0), (0.2, 1.0, 0.5))
    """
    low, high = DOMAINS[kind]
    sign = -1.0 if kind == "positive" else 1.0
    degree = len(weights) - 1
    slope = [0.0] * len(weights)
    for index, weight in enumerate(weights):
        rising = _power([-low / (high - low), 1 / (high - low)], index)
        falling = _power([high / (high - low), -1 / (high - low)], degree - index)
        for power, value in enumerate(_times(rising, falling)):
            slope[power] += weight * math.comb(degree, index) * value
    # Twelve digits: what cancels exactly on paper is then exactly 0.
    found = [offset, *(round(sign * value / power, 12) + 0.0 for power, value in enumerate(slope, start=1))]
    while len(found) > 2 and found[-1] == 0:
        found.pop()
    return tuple(found)


def polynomial_relative(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest offset, degree and slope of the polynomial of Delta."""
    if "offset" not in bounds:
        return {}
    offset = bounds["offset"].suggest(trial, "offset")
    degree = int(bounds["degree"].suggest(trial, "degree"))
    return {"coefficients": coefficients(offset, _slopes(trial, bounds, "slope", degree), "relative")}


def polynomial_self(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest offset, degree and the slopes of both polynomials; only the sum of the two constants counts."""
    if "offset" not in bounds:
        return {}
    offset = bounds["offset"].suggest(trial, "offset")
    degree = int(bounds["degree"].suggest(trial, "degree"))
    return {
        "positive_coefficients": coefficients(offset, _slopes(trial, bounds, "positive", degree), "positive"),
        "negative_coefficients": coefficients(0.0, _slopes(trial, bounds, "negative", degree), "negative"),
    }


def _slopes(trial: Trial, bounds: Bounds, side: str, degree: int) -> list[float]:
    names = [f"{side}_{index}" for index in range(degree)]
    return [bounds[name].suggest(trial, name) for name in names]


def _power(factor: list[float], exponent: int) -> list[float]:
    result = [1.0]
    for _ in range(exponent):
        result = _times(result, factor)
    return result


def _times(first: Sequence[float], second: Sequence[float]) -> list[float]:
    result = [0.0] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            result[i + j] += a * b
    return result


def _relevant(sides: Sequence[str], names: Sequence[str], bounds: Bounds, fixed: Mapping[str, Any]) -> Bounds:
    """Drop the slopes beyond the highest degree; all of them where coefficients are fixed."""
    if any(name in fixed for name in names):
        return {}
    degree = bounds["degree"]
    highest = max(degree.values) if isinstance(degree, Values) else DEGREES[-1]
    beyond = {f"{side}_{index}" for side in sides for index in range(highest, DEGREES[-1])}
    return {name: bound for name, bound in bounds.items() if name not in beyond}


def _check(kinds: Mapping[str, Kind], values: Mapping[str, Any]) -> None:
    """Refuse coefficients that pull the wrong way somewhere, and tell the nearest that do not."""
    if values.get("allow_infeasible"):
        return
    for name, kind in kinds.items():
        if name in values and not is_feasible(values[name], kind):
            nearest = ", ".join(f"{number:.6g}" for number in nearest_feasible(values[name], kind))
            raise SpaceError(
                f"{name} {list(values[name])} pull the wrong way somewhere in {list(DOMAINS[kind])}; "
                f"the nearest that do not are [{nearest}], or set allow_infeasible: true"
            )


def _bounds(sides: Sequence[str]) -> dict[str, Range | Values]:
    slopes = {f"{side}_{index}": Range(0.0, 2.0) for side in sides for index in range(DEGREES[-1])}
    return {"offset": Range(0.0, 0.5), "degree": Values((2,)), **slopes}


def _published(sides: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Return the default, a constant slope of 1, in each degree; they are one and the same loss."""
    return tuple(
        {"offset": 0.2, "degree": degree, **{f"{side}_{index}": 1.0 for side in sides for index in range(degree)}}
        for degree in DEGREES
    )


def _searched(sides: Sequence[str]) -> dict[str, Domain]:
    slopes = {f"{side}_{index}": WEIGHT for side in sides for index in range(DEGREES[-1])}
    return {"offset": OFFSET, "degree": DEGREE, **slopes}


POLYNOMIAL_SELF = LossSpace(
    suggest=polynomial_self,
    bounds=_bounds(("positive", "negative")),
    published=_published(("positive", "negative")),
    searched=_searched(("positive", "negative")),
    parameters={
        "positive_coefficients": COEFFICIENTS,
        "negative_coefficients": COEFFICIENTS,
        "hinge": one_of("joint", "separate"),
        "gate": GATE,
        "allow_infeasible": one_of(True, False),
    },
    relevant=partial(_relevant, ("positive", "negative"), ("positive_coefficients", "negative_coefficients")),
    check=partial(_check, {"positive_coefficients": "positive", "negative_coefficients": "negative"}),
)
POLYNOMIAL_RELATIVE = LossSpace(
    suggest=polynomial_relative,
    bounds=_bounds(("slope",)),
    published=_published(("slope",)),
    searched=_searched(("slope",)),
    parameters={"coefficients": COEFFICIENTS, "gate": GATE, "allow_infeasible": one_of(True, False)},
    relevant=partial(_relevant, ("slope",), ("coefficients",)),
    check=partial(_check, {"coefficients": "relative"}),
)
