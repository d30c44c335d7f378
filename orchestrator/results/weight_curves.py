"""The weight that each loss gives a pair, as a curve over similarities, so that losses can be compared.

One query has a positive of similarity s+ and a negative of similarity ŝ, with Δ = ŝ - s+. The weight is the derivative
of the loss, which multiplies the gradient of the pair:

    G(Δ)            of a loss whose weight depends on Δ alone
    G⁺(s), G⁻(s)    of other losses: for the positive, and for the negative

The weights of the polynomial losses are the derivatives of [Wei2021] eqs. 10 and 13. With a separate hinge, a weight of
``polynomial_self`` is 0 wherever the hinged polynomial is 0. A joint hinge, like its gate, depends on both
similarities; the curves show the weights while the hinge is active. The curves of ``multi_similarity`` show the weights
of a pair that its mining keeps. A common factor of the weights of ``circle`` and ``gradient_weights``, which depends on
both similarities, is left out. A weight below 0 moves the pair in the wrong direction.

References:
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval. TPAMI 2021.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

POINTS = np.linspace(-1, 1, 201)
"""Points at which curves are drawn: cosine similarities, or differences of cosine similarities, in [-1, 1]."""

Weights = tuple[np.ndarray, ...]
"""One array of weights over differences, or two arrays over similarities: of a positive, and of a negative."""


def weight_curves(loss: str, parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the curves of a loss: one curve over Δ, or two over similarities; none for a loss not in ``CURVES``.

    ``parameters`` are arguments of the loss's constructor; left-out arguments have their defaults.

    Returns:
        ``difference`` where the weight depends on Δ, or else ``positive`` and ``negative`` -> weights at ``POINTS``.
    """
    if loss not in CURVES:
        return {}
    curve = CURVES[loss]
    # Parameters of the loss on which its weights do not depend are dropped.
    settings = {name: value for name, value in parameters.items() if name in signature(curve).parameters}
    weights = curve(POINTS, **settings)
    names = ("difference",) if len(weights) == 1 else ("positive", "negative")
    return dict(zip(names, weights, strict=True))


def of_peak(weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return weights divided by their largest absolute value, and this value; zeros stay zeros.

    Curves are compared so, because Adam's steps do not depend on the scale of a gradient.
    """
    peak = float(np.abs(weights).max())
    return weights / peak if peak else weights, peak


def _hinge(delta: np.ndarray, *, margin: float = 0.2) -> Weights:
    return ((delta > -margin).astype(float),)


def _smooth_ap(delta: np.ndarray, *, temperature: float = 0.01) -> Weights:
    rank = _sigmoid(delta / temperature)
    return (rank * (1 - rank) / temperature / (1 + rank) ** 2,)


def _relative(delta: np.ndarray, *, coefficients: Sequence[float] = (0.2, 1.0), gate: float | None = None) -> Weights:
    weights = _polynomial(delta, coefficients, hinge=True)
    return (weights if gate is None else np.where(delta > -gate, weights, 0.0),)


def _self(
    s: np.ndarray,
    *,
    positive_coefficients: Sequence[float] = (0.2, -1.0),
    negative_coefficients: Sequence[float] = (0.0, 1.0),
    hinge: str = "joint",
) -> Weights:
    separate = hinge == "separate"
    return -_polynomial(s, positive_coefficients, separate), _polynomial(s, negative_coefficients, separate)


def _multi_similarity(s: np.ndarray, *, alpha: float = 2.0, beta: float = 40.0, base: float = 0.5) -> Weights:
    return _sigmoid(-alpha * (s - base)), _sigmoid(beta * (s - base))


def _gradient_weights(
    points: np.ndarray,
    *,
    triplet_weight: str = "softmax",
    pair_weight: str = "sigmoid",
    margin: float = 0.2,
    slope: float = 0.0,
    temperature: float = 0.1,
    positive_tilt: float = 1.0,
    negative_tilt: float = 1.0,
    balance: float = 1.0,
    alpha: float = 2.0,
    beta: float = 10.0,
    base: float = 0.5,
) -> Weights:
    if pair_weight == "linear":
        pull = np.maximum(1 - positive_tilt * points, 0.0)
        return pull, balance * np.maximum(1 - negative_tilt * (1 - points), 0.0)
    if pair_weight != "constant":
        positive, negative = _multi_similarity(points, alpha=alpha, beta=beta, base=base)
        return positive, balance * negative
    if triplet_weight == "circle":
        return np.ones_like(points), np.full_like(points, balance)
    if triplet_weight == "softmax":
        return (_sigmoid(points / temperature),)
    (kept,) = _hinge(points, margin=margin)
    return (kept * np.maximum(1 + (slope if triplet_weight == "linear" else 0.0) * (margin + points), 0.0),)


def _polynomial(points: np.ndarray, coefficients: Sequence[float], hinge: bool) -> np.ndarray:
    """Return the derivative, 0 where a hinge cuts the polynomial off; coefficients by ascending power."""
    polynomial = np.polynomial.Polynomial(np.asarray(coefficients, dtype=float))
    slope = polynomial.deriv()(points)
    return np.where(polynomial(points) > 0, slope, 0.0) if hinge else slope


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # tanh saturates where exp would overflow.
    return 0.5 * (1 + np.tanh(x / 2))


CURVES: dict[str, Callable[..., Weights]] = {
    **dict.fromkeys(("triplet", "triplet_sh", "triplet_selhn"), _hinge),
    "warp": lambda delta, *, margin=1.0: _hinge(delta, margin=margin),
    "nt_xent": lambda delta, *, temperature=0.1: (_sigmoid(delta / temperature) / temperature,),
    "smooth_ap": _smooth_ap,
    "polynomial_relative": _relative,
    "polynomial_self": _self,
    "sigmoid": lambda s, *, temperature=0.1, bias=-10.0: (
        _sigmoid(-s / temperature - bias) / temperature,
        _sigmoid(s / temperature + bias) / temperature,
    ),
    "decoupled": lambda delta, *, temperature=0.1: (np.full_like(delta, 1 / temperature),),
    "multi_similarity": _multi_similarity,
    "circle": lambda s, *, margin=0.4, scale=80.0: (
        scale * np.maximum(1 + margin - s, 0.0),
        scale * np.maximum(s + margin, 0.0),
    ),
    "gradient_weights": _gradient_weights,
}
"""Loss -> its weights at points, by the arguments of the loss on which the weights depend.

The defaults of these arguments repeat the defaults of the losses, because the losses need torch.
"""
