"""Two polynomials around a joint hinge that equal similarities never satisfy.

The joint hinge of ``polynomial_self`` costs [a(s+) + b(s^)]+. The hinge does not compare s+ with s^, so that a model
whose similarities are all equal to one s may have a low cost, and ranks nothing. Such a model costs [T(s)]+, where

    T(s) = a(s) + b(s)

and two rules keep a model from staying there:

    the margin holds     T(s) >= scale x margin at every s of [-1, 1], so that equal similarities always cost;
    no drift to an end   T'(-1) <= 0 <= T'(1): where all similarities are 1 the negatives push at least as hard as the
                         positives pull, and where all are -1 the positives pull at least as hard. Then T is lowest
                         between the ends, or T is constant, and at its lowest point push and pull cancel, so that only
                         the difference between s+ and s^ is left.

The val rsum after five epochs of 24 trials of VSE++ on Flickr8k that were suggested without these two rules
(``docs/studies/flickr8k.md``): of the 10 trials that keep both rules, 8 reached 154 to 232, the trial that is the mean
of the triplet loss reached 94, and a trial with a margin of 0.03 reached 20; 2 trials that break the second rule by
0.12 or less reached 37 and 47; the other 12 stayed between 4 and 16, where chance is 3.

Both rules hold by construction, the second except for slopes that are nearly 0 at an end (``FARTHEST``): 0.70 % of
uniform draws of degree 3 and 0.50 % of degree 4 break it, at -1 by less than 0.1 scale, at 1 by at most 6 scale. To
keep it there as well would change what the points of a search mean, and so needs a new space version. With slopes
w_a and w_b of mean 1 and a(s) = scale (margin + lift - W_a(s)), b(s) = scale balance W_b(s), where W is the integral
of w from 0:

    balance   lies between w_a(1) / w_b(1) and w_a(-1) / w_b(-1); ``push`` is the place, on a logarithmic scale;
    lift      is the highest value of W_a - balance W_b on [-1, 1], 0 at least, because both are 0 at 0.

The two ratios are in the right order if the push of the negatives grows with s more than the pull of the positives, as
[Wei2021] asks of weights: of each two shapes, the negatives get the shape that grows more.

References:
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval, eq. 10 and 14 to 17. TPAMI 2021
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from search_spaces import shapes
from trainables.feasibility import lowest_value

DOMAIN = (-1.0, 1.0)
"""Domain of similarities."""

WIDEST = 4.0
"""The balance leaves [1 / 4, 4] only if both of its limits do."""

FARTHEST = 64.0
"""No limit leaves [1 / 64, 64]: a slope that is nearly 0 at -1, or at 1, would ask for any balance."""


def polynomials(
    scale: float, margin: float, degree: int, two_shapes: Sequence[Mapping[str, float]], push: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the polynomials of the positives and of the negatives.

    Args:
        scale: Mean size of the positives' slope, > 0.
        margin: Least cost of a pair whose two similarities are equal, as a multiple of ``scale``, > 0.
        degree: Degree of both polynomials, 1 to 4.
        two_shapes: Two shapes as in ``shapes.CONSTANT``, in either order.
        push: Push of the negatives, from 0, the least that the positives' pull at s = 1 allows, to 1, the most that
            the positives' pull at s = -1 allows.

    Returns:
        Ascending powers of s+ and of s^, two at least each.

    Example:
        >>> polynomials(1.0, 0.2, 1, ({}, {}), 0.5)
        ((0.2, -1.0), (0.0, 1.0))
    """
    pull_shape, push_shape = two_shapes
    if _grows_more(degree, pull_shape, push_shape):
        pull_shape, push_shape = push_shape, pull_shape
    balance = _balance(shapes.ends(degree, pull_shape), shapes.ends(degree, push_shape), push)
    positive = shapes.polynomial(0.0, -scale, degree, pull_shape, DOMAIN)
    negative = shapes.polynomial(0.0, scale * balance, degree, push_shape, DOMAIN)
    alike = [a + b for a, b in zip_longest(positive, negative, fillvalue=0.0)]
    # Terms that cancel on paper leave at most a rounding error.
    lift = max(0.0, -lowest_value(alike, *DOMAIN))
    constant = scale * margin + (lift if lift > scale * ROUNDING else 0.0)
    return (constant, *positive[1:]), negative


ROUNDING = 1e-9
"""Part of the scale below which a lift is a rounding error."""


def _grows_more(degree: int, first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    """Say whether the first slope grows by a larger factor from -1 to 1 than the second."""
    (first_low, first_high), (second_low, second_high) = shapes.ends(degree, first), shapes.ends(degree, second)
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
