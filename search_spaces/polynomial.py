"""The coefficients of the polynomial losses as scale x (margin + shape), so that every suggestion pulls the right way.

    relative:  f(Delta) = scale (margin + integral from 0 to Delta of w(x) dx)
    self:      a(s+) = scale (margin + lift - integral from 0 to s+ of w_a(x) dx)
               b(s^) = scale (negative_margin + balance integral from 0 to s^ of w_b(x) dx)

w is a slope that is nowhere negative on the domain and has the mean 1 there. ``search_spaces.shapes`` has every such
slope of degree 0 to 3, and no other slope. ``trainables.parameter_values`` gives the domains: [-gate, 2] for Delta, or
[-1, 2] without a gate; [-1, 1] for similarities. For a joint hinge only the sum of the two constants matters, so
``negative_margin`` is 0. ``lift`` and ``balance`` follow from two rules about similarities that are all equal
(``search_spaces.shapes``). With separate hinges, or where a study names ``balance``, ``lift`` is 0 and ``balance`` is
searched.

The scale matters because gradients are clipped by their norm. A loss that is a mean over the P positive pairs of a
batch has gradients P times as short as the sum. With a scale of P, a constant slope and a margin the loss is
``triplet_sh`` with this margin. With a scale of 1 it is the loss as published. The space contains both, and a study
tries both first.

``hinge: separate`` takes any coefficients. The domain of the negatives' slope begins at 2/9, where the parabola of the
published code has its vertex, so that the space contains the published numbers. Below 2/9 a suggestion may push
negatives up, as the published numbers do below 0.0955.

References:
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval, eq. 10 to 17. TPAMI 2021
    [PolyLoss] https://github.com/wayne980/PolyLoss/blob/05da003/model.py#L337-L401
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from search_spaces import bernstein, shapes
from search_spaces.bernstein import (
    BERNSTEIN_RELATIVE,
    BERNSTEIN_SELF,
    DEGREES,
    RELATIVE,
    SELF,
    Polynomial,
    are_fixed,
    can_be_triplet,
    check,
)
from search_spaces.space import Asked, Bounds, Choose, LossSpace, Range, SpaceError, Values, with_negatives
from trainables.parameter_values import NUMBER, POSITIVE, Domain, domain_of, is_number

USUAL_PAIRS = 128
"""Pairs of a batch for which the bounds of the scale are 1 to 512."""

SMALLEST, LARGEST = 1 / USUAL_PAIRS, 4.0
"""Bounds of the scale as multiples of the pairs of a batch: from the mean to four times the sum."""

SHARE_OF_RANGE = Range(0.0, 1.0)

SHARE = Domain("a number in [0, 1]", lambda value: is_number(value) and 0 <= value <= 1)

BESIDE = ("negative_margin", "balance", "push")
"""Parameters of two polynomials beside their shapes: the first two for separate hinges, the third for a joint hinge."""

VERTEX = 2 / 9
"""Similarity at which the slope of the published code's negatives, -0.4 + 1.8 s^, is 0 [PolyLoss]."""

PUBLISHED_GATE = 0.2

# (0.5, -0.7, 0.2) and (0.03, -0.4, 0.9) [PolyLoss]: both have a slope of mean 0.7, the negatives from 2/9 to 1.
PUBLISHED_CODE = {
    "scale": 0.7,
    "margin": 5 / 7,
    "negative_margin": 3 / 70,
    "balance": 1.0,
    "degree": 2,
    "positive_shape2": 3 / 14,
    "negative_shape2": 1.0,
}


def suggest_by_shapes(
    sides: Sequence[Polynomial], domains: Mapping[str, tuple[float, float]], choose: Choose, bounds: Bounds
) -> dict[str, Any]:
    """Suggest the coefficients of each polynomial of a loss.

    ``domains`` maps the name of each polynomial's coefficients to the interval on which its slope has its sign. Without
    bounds the coefficients are fixed.
    """
    if "scale" not in bounds:
        return {}
    scale, margin, degree = choose("scale"), choose("margin"), int(choose("degree"))
    beside = {name: choose(name) for name in BESIDE if name in bounds}
    found_shapes = [{name: choose(f"{side.prefix}{name}") for name in shapes.CONSTANT[degree]} for side in sides]
    if "push" in beside:
        pair = shapes.balanced_polynomials(scale, margin, degree, found_shapes, beside["push"])
        return dict(zip([side.name for side in sides], pair, strict=True))
    polynomials: dict[str, Any] = {}
    for side, shape in zip(sides, found_shapes, strict=True):
        is_first = side is sides[0]
        constant = scale * (margin if is_first else beside.get("negative_margin", 0.0))
        size = -scale if side.kind == "positive" else scale * (1.0 if is_first else beside["balance"])
        polynomials[side.name] = shapes.polynomial(constant, size, degree, shape, domains[side.name])
    return polynomials


def _shapes(sides: Sequence[Polynomial], degree: int) -> dict[str, float]:
    """Return the parameters of a constant slope of each polynomial."""
    return {f"{side.prefix}{name}": value for side in sides for name, value in shapes.CONSTANT[degree].items()}


def _relevant(sides: Sequence[Polynomial], bounds: Bounds, fixed: Mapping[str, Any]) -> Bounds:
    """Drop shapes of other degrees, for a joint hinge the second constant, and all bounds if coefficients are fixed."""
    if are_fixed(sides, bounds, fixed):
        return {}
    degree = bounds["degree"]
    listed = degree.values if isinstance(degree, Values) else DEGREES
    dropped = {name for other in DEGREES if other not in listed for name in _shapes(sides, other)}
    if fixed.get("hinge") != "separate":
        dropped.add("negative_margin")
    return {name: bound for name, bound in bounds.items() if name not in dropped}


def _bounds(sides: Sequence[Polynomial], pairs: int, *, separate: bool, balanced: bool) -> dict[str, Range | Values]:
    """Return the default bounds; the mean and the published numbers are inside for a batch of any size.

    ``separate``: each polynomial has a hinge of its own. ``balanced``: the balance follows from the shapes and
    ``push``.
    """
    lowest = min(1.0, SMALLEST * pairs) * (0.5 if separate else 1.0)
    bounds: dict[str, Range | Values] = {"scale": Range(lowest, LARGEST * pairs, log=True), "margin": Range(0.05, 1.0)}
    if sides is SELF and balanced:
        bounds["push"] = SHARE_OF_RANGE
    elif sides is SELF:
        bounds |= {"negative_margin": Range(-0.8, 0.2), "balance": Range(0.25, 4.0, log=True)}
    bounds["degree"] = Values((2,))
    return bounds | {name: SHARE_OF_RANGE for degree in DEGREES for name in _shapes(sides, degree)}


def _constant(
    sides: Sequence[Polynomial], scale: float, margin: float, *, balanced: bool
) -> tuple[Mapping[str, Any], ...]:
    """Return one loss, with constant slopes, as a point of each degree."""
    balance = {} if sides is not SELF else {"push": 0.5} if balanced else {"balance": 1.0}
    return tuple(
        {"scale": scale, "margin": margin, **balance, "degree": degree, **_shapes(sides, degree)} for degree in DEGREES
    )


def _searched(sides: Sequence[Polynomial]) -> dict[str, Domain]:
    own = {"scale": POSITIVE, "margin": NUMBER}
    if sides is SELF:
        own |= {"negative_margin": NUMBER, "balance": POSITIVE, "push": SHARE}
    own |= {name: SHARE for degree in DEGREES for name in _shapes(sides, degree)}
    return {**own, **bernstein.searched_parameters(sides)}


def _adapted(sides: Sequence[Polynomial], slopes: LossSpace, space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space of a study: of today's parameters, or of slopes if the study names slopes or coefficients.

    ``slopes`` is the space of slopes and listed coefficients, ``space`` that of today's parameters.
    """
    named = sorted(asked.names & (slopes.searched.keys() - {"degree"}))
    own = sorted(asked.names & (space.searched.keys() - slopes.searched.keys()))
    if own and named:
        raise SpaceError(
            f"{', '.join(own)} and {', '.join(named)} are of two parametrisations; "
            f"search either scale, margin and shape, or slopes or coefficients"
        )
    if named:
        return with_negatives(replace(slopes, twins=partial(bernstein.twins, sides, asked)), asked, 1)
    return with_negatives(_space(sides, space, asked), asked, 1)


def _space(sides: Sequence[Polynomial], space: LossSpace, asked: Asked) -> LossSpace:
    """Return a space with the domains, bounds and first points for the fixed parameters and the batch."""
    separate = asked.fixed.get("hinge") == "separate"
    balanced = _is_balanced(sides, asked)
    domains = {side.name: domain_of(side.kind, asked.fixed.get("gate")) for side in sides}
    if separate:
        domains["negative_coefficients"] = (VERTEX, 1.0)
    published, starts = (_constant(sides, scale, 0.2, balanced=balanced) for scale in (1.0, float(asked.pairs)))
    if separate:
        known = asked.fixed.get("gate") == PUBLISHED_GATE
        published = (PUBLISHED_CODE,) if known else ()
        starts = ({**PUBLISHED_CODE, "scale": PUBLISHED_CODE["scale"] * asked.pairs},)
    return replace(
        space,
        assemble=partial(suggest_by_shapes, sides, domains),
        bounds=_bounds(sides, asked.pairs, separate=separate, balanced=balanced),
        published=published,
        starts=starts,
        twins=partial(_twins, sides, asked),
    )


def _is_balanced(sides: Sequence[Polynomial], asked: Asked) -> bool:
    """Say whether the balance of two polynomials follows from their shapes and ``push``.

    The balance is searched with separate hinges, and if a study names it; there ``push`` is refused (``SpaceError``).
    """
    if {"push", "balance"} <= asked.names:
        raise SpaceError("push and balance are of two parametrisations; search, or fix, one of the two")
    joint = sides is SELF and asked.fixed.get("hinge") != "separate"
    balanced = joint and "balance" not in asked.names
    if "push" in asked.names and not balanced:
        raise SpaceError("push needs a joint hinge; search balance instead")
    return balanced


def _twins(
    sides: Sequence[Polynomial], asked: Asked, loss: str, parameters: Mapping[str, Any]
) -> tuple[Mapping[str, Any], ...]:
    """Return the points that are the hardest-negative triplet loss of a margin, see ``LossSpace.twins``."""
    if not can_be_triplet(loss, parameters, asked.fixed):
        return ()
    return _constant(sides, float(asked.pairs), parameters["margin"], balanced=_is_balanced(sides, asked))


def _default(sides: Sequence[Polynomial], slopes: LossSpace) -> LossSpace:
    """Return the space of a loss for a batch of the usual size."""
    bare = LossSpace(
        assemble=slopes.assemble,
        bounds={},
        published=(),
        parameters=slopes.parameters,
        searched=_searched(sides),
        relevant=partial(_relevant, sides),
        check=partial(check, sides),
        adapt=partial(_adapted, sides, slopes),
        switches=("degree",),
    )
    return _space(sides, bare, Asked(pairs=USUAL_PAIRS))


POLYNOMIAL_SELF = _default(SELF, BERNSTEIN_SELF)
POLYNOMIAL_RELATIVE = _default(RELATIVE, BERNSTEIN_RELATIVE)
