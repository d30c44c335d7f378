"""The coefficients of the polynomial losses, from a constant and slopes, or listed one by one; and their checks.

This parametrisation serves experiments that name its parameters; ``search_spaces.polynomial`` has the default.

A polynomial of degree d has a slope of degree d - 1, whose d Bernstein coefficients on the domain are the parameters,

    f'(x) = sum_k w_k C(d-1, k) t^k (1-t)^(d-1-k),    t = (x - low) / (high - low),    w_k >= 0   [Farouki2012]

The domain holds all similarities, [-1, 1]. For the relative loss the domain of Delta is [-1, 2], though Delta can be as
low as -2. Below -1 a suggestion may pull the wrong way while its hinge is active. Of uniform draws from the default
bounds, 5, 7 and 10 % do so for degrees 2, 3 and 4, and none for degree 1. A pair below -1 is easier than any usual
margin.

A mean of numbers >= 0 with weights >= 0 is >= 0: no point of the box is infeasible. Polynomials of degree 3 and 4 whose
slope comes near 0 inside the domain lie outside the box.

Coefficients can be listed as well, as in the published grid searches: e0, e1 ... of the relative loss, a0 ... and b0
... of the self loss [Wei2021]. Every combination must pull the right way, unless ``allow_infeasible`` is set.

References:
    [Farouki2012] Farouki, The Bernstein polynomial basis: a centennial retrospective. CAGD 29, 379-419
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval, eq. 10 to 17. TPAMI 2021
    [PolyLoss] https://github.com/wayne980/PolyLoss/blob/05da003/model.py#L337-L401
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from search_spaces.space import Asked, Bounds, Choose, LossSpace, Range, SpaceError, Values
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.parameter_values import (
    DOMAINS,
    NOT_NEGATIVE,
    NUMBER,
    Domain,
    Kind,
    constant_problem,
    domain_of,
    sign_problem,
)

DEGREES = (1, 2, 3, 4)
POWERS = (0, *DEGREES)

DEGREE = Domain(f"one of {', '.join(map(str, DEGREES))}", lambda value: value in DEGREES and type(value) is int)


@dataclass(frozen=True)
class Polynomial:
    """One polynomial of a loss.

    Attributes:
        name: Name of its coefficients in the loss's constructor.
        slope: Start of the names of its slopes.
        letter: Start of the names of its coefficients, as in [Wei2021].
        kind: The similarities that the polynomial weighs.
        prefix: Start of the names of its shape.
    """

    name: str
    slope: str
    letter: str
    kind: Kind
    prefix: str = ""

    def listed(self, bounds: Bounds) -> list[str]:
        """Return the coefficients that are searched one by one, lowest power first."""
        return [f"{self.letter}{power}" for power in POWERS if f"{self.letter}{power}" in bounds]

    def assemble(self, values: Mapping[str, float]) -> tuple[float, ...]:
        """Return the polynomial of coefficients by name; missing coefficients are 0."""
        highest = max(power for power in POWERS if f"{self.letter}{power}" in values)
        return tuple(float(values.get(f"{self.letter}{power}", 0.0)) for power in range(highest + 1))


RELATIVE = (Polynomial("coefficients", "slope", "e", "relative"),)
SELF = (
    Polynomial("positive_coefficients", "positive", "a", "positive", "positive_"),
    Polynomial("negative_coefficients", "negative", "b", "negative", "negative_"),
)

RELATIVE_PARAMETERS, SELF_PARAMETERS = (
    {name: entry.domain for name, entry in LOSS_PARAMETERS[loss].items()}
    for loss in ("polynomial_relative", "polynomial_self")
)
"""The constructors' parameters, with their domains."""


def check(sides: Sequence[Polynomial], values: Mapping[str, Any]) -> None:
    """Refuse coefficients that pull the wrong way somewhere, as the loss would (``SpaceError``).

    Two separate hinges take all coefficients, because the published coefficients pull the wrong way.
    """
    check_slope(sides, values)
    if values.get("allow_infeasible") or values.get("hinge") == "separate":
        return
    for side in sides:
        domain = domain_of(side.kind, values.get("gate"))
        if side.name in values and (problem := sign_problem(values[side.name], side.kind, domain)):
            raise SpaceError(f"{side.name} {problem}, or set allow_infeasible: true")


def check_slope(sides: Sequence[Polynomial], values: Mapping[str, Any]) -> None:
    """Refuse a loss of constants alone (``SpaceError``); a missing polynomial has a default that is no constant."""
    if all(side.name in values for side in sides):
        problem = constant_problem({side.name: len(values[side.name]) for side in sides})
        if problem:
            raise SpaceError(problem)


def can_be_triplet(loss: str, parameters: Mapping[str, Any], fixed: Mapping[str, Any]) -> bool:
    """Say whether a polynomial loss, with its fixed parameters, can equal the hardest-negative triplet loss.

    A fixed gate that is narrower than the margin would end the hinge before.
    """
    gate = fixed.get("gate")
    wide = gate is None or gate >= parameters.get("margin", 0.0)
    is_one = fixed.get("negatives", 1) == 1
    return loss == "triplet_sh" and is_one and wide and fixed.get("hinge") != "separate"


def are_fixed(sides: Sequence[Polynomial], bounds: Bounds, fixed: Mapping[str, Any]) -> bool:
    """Say whether the coefficients are fixed, so that none is searched (``SpaceError`` if some are listed too)."""
    if not any(side.name in fixed for side in sides):
        return False
    listed = [name for side in sides for name in side.listed(bounds)]
    if listed:
        raise SpaceError(f"coefficients are fixed, so {', '.join(listed)} cannot be searched; leave out one of both")
    return True


def coefficients(offset: float, weights: Sequence[float], kind: Kind) -> tuple[float, ...]:
    """Return the polynomial with a value at 0 and a slope.

    Args:
        offset: Constant of the polynomial.
        weights: Bernstein coefficients of the size of its slope on ``DOMAINS[kind]``, one for each degree, all >= 0.
        kind: The similarities that the polynomial weighs, which give the sign of its slope.

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
        rising = [[-low / (high - low), 1 / (high - low)]] * index
        falling = [[high / (high - low), -1 / (high - low)]] * (degree - index)
        product = _times(reduce(_times, rising, [1.0]), reduce(_times, falling, [1.0]))
        for power, value in enumerate(product):
            slope[power] += weight * math.comb(degree, index) * value
    # Twelve digits of the largest are kept: terms that cancel exactly on paper are then exactly 0.
    digits = 12 - math.floor(math.log10(max(map(abs, slope)) or 1.0))
    terms = [offset, *(round(sign * value / power, digits) + 0.0 for power, value in enumerate(slope, start=1))]
    while len(terms) > 2 and terms[-1] == 0:
        terms.pop()
    return tuple(terms)


def suggest_by_slopes(sides: Sequence[Polynomial], choose: Choose, bounds: Bounds) -> dict[str, Any]:
    """Suggest offset, degree and slopes, or the listed coefficients, of each polynomial of a loss.

    Only the sum of the constants of two polynomials counts, so the first polynomial gets the offset.
    """
    offset = choose("offset") if "offset" in bounds else 0.0
    degree = int(choose("degree")) if "degree" in bounds else 0
    polynomials: dict[str, Any] = {}
    for side in sides:
        constant = offset if side is sides[0] else 0.0
        names = side.listed(bounds)
        if names:
            polynomials[side.name] = side.assemble({name: choose(name) for name in names})
        elif degree:
            weights = [choose(f"{side.slope}_{index}") for index in range(degree)]
            polynomials[side.name] = coefficients(constant, weights, side.kind)
    return polynomials


def _times(first: Sequence[float], second: Sequence[float]) -> list[float]:
    result = [0.0] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            result[i + j] += a * b
    return result


def _relevant(sides: Sequence[Polynomial], bounds: Bounds, fixed: Mapping[str, Any]) -> Bounds:
    """Drop the slopes beyond the highest degree, and parameters that listed or fixed coefficients replace."""
    if are_fixed(sides, bounds, fixed):
        return {}
    listed = {name: side for side in sides for name in side.listed(bounds)}
    _check_listed(sides, bounds, fixed)
    degree = bounds["degree"]
    highest = max(degree.values) if isinstance(degree, Values) else DEGREES[-1]
    dropped = {f"{side.slope}_{index}" for side in sides for index in range(highest, DEGREES[-1])}
    for side in set(listed.values()):
        dropped |= {f"{side.slope}_{index}" for index in range(highest)} | ({"offset"} if side is sides[0] else set())
    if set(listed.values()) == set(sides):
        dropped.add("degree")
    elif sides is RELATIVE and (fixed.get("gate") or 0.0) > -DOMAINS["relative"][0]:
        raise SpaceError(
            f"gate must be at most {-DOMAINS['relative'][0]:g} where slope_0, slope_1 ... are searched, "
            f"got {fixed['gate']}; lower the gate, search scale, margin and shape, or list the coefficients"
        )
    return {name: bound for name, bound in bounds.items() if name not in dropped}


def _check_listed(sides: Sequence[Polynomial], bounds: Bounds, fixed: Mapping[str, Any]) -> None:
    """Refuse listed coefficients that are constants, or some of whose combinations pull the wrong way."""
    listed = [side for side in sides if side.listed(bounds)]
    check_slope(sides, {side.name: side.assemble(dict.fromkeys(side.listed(bounds), 0.0)) for side in listed})
    for side in sides:
        lists: list[tuple[Any, ...]] = []
        for name in side.listed(bounds):
            bound = bounds[name]
            if not isinstance(bound, Values):
                raise SpaceError(
                    f"{name} must list its values, e.g. {{values: [{bound.low}]}}, since not every combination of a "
                    f"range pulls the right way; ranges are searched by scale, margin and shape"
                )
            lists.append(bound.values)
        for values in itertools.product(*lists) if lists else ():
            point = dict(zip(side.listed(bounds), values, strict=True))
            check(sides, {**fixed, side.name: side.assemble(point)})


def _bounds(sides: Sequence[Polynomial]) -> dict[str, Range | Values]:
    slopes = {f"{side.slope}_{index}": Range(0.0, 2.0) for side in sides for index in range(DEGREES[-1])}
    return {"offset": Range(0.0, 0.5), "degree": Values((2,)), **slopes}


def _constant(sides: Sequence[Polynomial], slope: float, offset: float) -> tuple[Mapping[str, Any], ...]:
    """Return one loss, with constant slopes, as a point of each degree."""
    return tuple(
        {"offset": offset, "degree": degree, **{f"{side.slope}_{i}": slope for side in sides for i in range(degree)}}
        for degree in DEGREES
    )


def _listed(sides: Sequence[Polynomial], listed: Mapping[str, float]) -> Mapping[str, Any]:
    """Return a loss as listed coefficients; missing coefficients are 0."""
    return {**{f"{side.letter}{power}": 0.0 for side in sides for power in POWERS}, **listed}


def twins(
    sides: Sequence[Polynomial], asked: Asked, loss: str, parameters: Mapping[str, Any]
) -> tuple[Mapping[str, Any], ...]:
    """Return the points that are the hardest-negative triplet loss of a margin, see ``LossSpace.twins``."""
    if not can_be_triplet(loss, parameters, asked.fixed):
        return ()
    scale = float(asked.pairs)
    slopes = _constant(sides, scale, scale * parameters["margin"])
    listed = {f"{sides[0].letter}0": scale * parameters["margin"]}
    for side in sides:
        listed[f"{side.letter}1"] = -scale if side.kind == "positive" else scale
    return (*slopes, _listed(sides, listed))


def searched_parameters(sides: Sequence[Polynomial]) -> dict[str, Domain]:
    """Return the names of this parametrisation with their domains; today's default shares ``degree``."""
    slopes = {f"{side.slope}_{index}": NOT_NEGATIVE for side in sides for index in range(DEGREES[-1])}
    listed = {f"{side.letter}{power}": NUMBER for side in sides for power in POWERS}
    return {"offset": NUMBER, "degree": DEGREE, **slopes, **listed}


# The numbers of the published code [PolyLoss], which has two hinges and a gate of 0.2.
PUBLISHED_CODE = {"a0": 0.5, "a1": -0.7, "a2": 0.2, "b0": 0.03, "b1": -0.4, "b2": 0.9}


def _space(
    sides: Sequence[Polynomial], parameters: Mapping[str, Domain], listed: Mapping[str, float], *more: Mapping[str, Any]
) -> LossSpace:
    """Return the space of a loss, whose default is a constant slope of 1, in each degree and as listed coefficients."""
    return LossSpace(
        assemble=partial(suggest_by_slopes, sides),
        bounds=_bounds(sides),
        published=(*_constant(sides, 1.0, 0.2), _listed(sides, listed), *more),
        searched=searched_parameters(sides),
        parameters=parameters,
        relevant=partial(_relevant, sides),
        check=partial(check, sides),
        switches=("degree",),
    )


BERNSTEIN_SELF = _space(SELF, SELF_PARAMETERS, {"a0": 0.2, "a1": -1.0, "b1": 1.0}, PUBLISHED_CODE)
BERNSTEIN_RELATIVE = _space(RELATIVE, RELATIVE_PARAMETERS, {"e0": 0.2, "e1": 1.0})
