"""How hard a loss pulls at a pair: the weight curves of a polynomial loss beside those of the others.

The weight of one query with one positive s+ and one negative ŝ, Δ = ŝ - s+, is the derivative of its loss; it is what
the pair's gradient is multiplied by:

    triplet, triplet_sh, triplet_selhn, warp    G(Δ) = 1 where Δ > -margin, else 0
    nt_xent                      G(Δ) = σ(Δ/τ) / τ
    decoupled                    G(Δ) = 1/τ
    smooth_ap                    G(Δ) = σ(Δ/τ) (1 - σ(Δ/τ)) / (τ (1 + σ(Δ/τ))²)
    polynomial_relative          G(Δ) = Σ p e_p Δ^(p-1) where Σ e_p Δ^p > 0 and Δ > -gate, else 0
    polynomial_self              G⁺(s) = -Σ p a_p s^(p-1) for the positive, G⁻(s) = Σ q b_q s^(q-1) for the negative
    sigmoid                      G⁺(s) = σ(-s/τ - b) / τ, G⁻(s) = σ(s/τ + b) / τ
    multi_similarity             G⁺(s) = σ(-α (s - base)), G⁻(s) = σ(β (s - base))
    circle                       G⁺(s) = scale [1 + margin - s]₊, G⁻(s) = scale [s + margin]₊
    gradient_weights             G⁺(s) = P⁺(s), G⁻(s) = P⁻(s), the pair weights; where these are constants, and the
                                 triplet weight depends on Δ alone, G(Δ) = T(Δ)

The polynomials' are the derivatives of [Wei2021] eqs. 10 and 13. Where a hinge is separate, the weights of
``polynomial_self`` are 0 wherever their polynomial is; a joint hinge, like its gate, depends on both similarities, and
the curves show the weights while it is active, and those of ``multi_similarity`` the weights of a pair that its mining
keeps. The weights of ``circle`` and ``gradient_weights`` have a common factor that depends on both similarities, which
is left out. A weight below 0 pulls the wrong way.

References:
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval. TPAMI 2021.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

POINTS = np.linspace(-1, 1, 201)
"""Where curves are drawn: differences, or similarities, of cosines."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "triplet": {"margin": 0.2},
    "triplet_sh": {"margin": 0.2},
    "warp": {"margin": 1.0},
    "nt_xent": {"temperature": 0.1},
    "smooth_ap": {"temperature": 0.01},
    "polynomial_relative": {"coefficients": (0.2, 1.0), "gate": None},
    "polynomial_self": {
        "positive_coefficients": (0.2, -1.0),
        "negative_coefficients": (0.0, 1.0),
        "hinge": "joint",
    },
    "sigmoid": {"temperature": 0.1, "bias": -10.0},
    "decoupled": {"temperature": 0.1},
    "multi_similarity": {"alpha": 2.0, "beta": 40.0, "base": 0.5},
    "circle": {"margin": 0.4, "scale": 80.0},
    "triplet_selhn": {"margin": 0.2},
    "gradient_weights": {
        "triplet_weight": "softmax",
        "pair_weight": "sigmoid",
        "margin": 0.2,
        "slope": 0.0,
        "temperature": 0.1,
        "positive_tilt": 1.0,
        "negative_tilt": 1.0,
        "balance": 1.0,
        "alpha": 2.0,
        "beta": 10.0,
        "base": 0.5,
    },
}
"""Defaults of the losses' constructors; repeated here because the constructors need torch."""

Curve = Callable[[np.ndarray, Mapping[str, Any]], np.ndarray]
"""The weights at differences."""

Pair = Callable[[np.ndarray, Mapping[str, Any]], tuple[np.ndarray, np.ndarray]]
"""The weights of a positive and of a negative at similarities."""


@dataclass(frozen=True)
class WeightCurve:
    """A curve, divided by its largest absolute value, so that shapes compare; Adam takes care of the size.

    Attributes:
        of: ``difference`` where the weight depends on Δ; ``positive`` or ``negative`` where on one similarity.
        weights: At ``POINTS``, in [-1, 1].
        peak: What they were divided by.
    """

    of: str
    weights: np.ndarray
    peak: float


def weight_curves(loss: str, parameters: Mapping[str, Any]) -> list[WeightCurve]:
    """Return the curves of a loss: one over Δ, or two over similarities; none of a loss that is not known here.

    Args:
        loss: Its name.
        parameters: Arguments of the loss's constructor; arguments that are left out have their defaults.
    """
    given = {**DEFAULTS.get(loss, {}), **parameters}
    constant = loss == "gradient_weights" and given["pair_weight"] == "constant"
    if loss in _PAIRS and not (constant and given["triplet_weight"] != "circle"):
        positive, negative = _PAIRS[loss](POINTS, given)
        return [_normalised("positive", positive), _normalised("negative", negative)]
    curve = _CURVES.get(loss)
    return [_normalised("difference", curve(POINTS, given))] if curve else []


def _hinge(delta: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    return (delta > -parameters["margin"]).astype(float)


def _nt_xent(delta: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    return _sigmoid(delta / parameters["temperature"]) / parameters["temperature"]


def _decoupled(delta: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    return np.full_like(delta, 1 / parameters["temperature"])


def _smooth_ap(delta: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    rank = _sigmoid(delta / parameters["temperature"])
    return rank * (1 - rank) / parameters["temperature"] / (1 + rank) ** 2


def _relative(delta: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    gate = parameters["gate"]
    weights = _polynomial(delta, parameters["coefficients"], hinge=True)
    return weights if gate is None else np.where(delta > -gate, weights, 0.0)


def _self(s: np.ndarray, parameters: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    separate = parameters["hinge"] == "separate"
    positive = -_polynomial(s, parameters["positive_coefficients"], separate)
    return positive, _polynomial(s, parameters["negative_coefficients"], separate)


def _pairwise_sigmoid(s: np.ndarray, parameters: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    temperature, bias = parameters["temperature"], parameters["bias"]
    logits = s / temperature + bias
    return _sigmoid(-logits) / temperature, _sigmoid(logits) / temperature


def _multi_similarity(s: np.ndarray, parameters: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    above = s - parameters["base"]
    return _sigmoid(-parameters["alpha"] * above), _sigmoid(parameters["beta"] * above)


def _circle(s: np.ndarray, parameters: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    margin, scale = parameters["margin"], parameters["scale"]
    return scale * np.maximum(1 + margin - s, 0.0), scale * np.maximum(s + margin, 0.0)


def _pair_weights(s: np.ndarray, parameters: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    balance = parameters["balance"]
    if parameters["pair_weight"] == "constant":
        return np.ones_like(s), np.full_like(s, balance)
    if parameters["pair_weight"] == "linear":
        pull = np.maximum(1 - parameters["positive_tilt"] * s, 0.0)
        return pull, balance * np.maximum(1 - parameters["negative_tilt"] * (1 - s), 0.0)
    above = s - parameters["base"]
    return _sigmoid(-parameters["alpha"] * above), balance * _sigmoid(parameters["beta"] * above)


def _triplet_weight(delta: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    if parameters["triplet_weight"] == "softmax":
        return _sigmoid(delta / parameters["temperature"])
    slope = parameters["slope"] if parameters["triplet_weight"] == "linear" else 0.0
    return _hinge(delta, parameters) * np.maximum(1 + slope * (parameters["margin"] + delta), 0.0)


def _polynomial(points: np.ndarray, coefficients: Sequence[float], hinge: bool) -> np.ndarray:
    """Return the derivative, 0 where a hinge cuts the polynomial off; coefficients by ascending power."""
    polynomial = np.polynomial.Polynomial(np.asarray(coefficients, dtype=float))
    slope = polynomial.deriv()(points)
    return np.where(polynomial(points) > 0, slope, 0.0) if hinge else slope


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # tanh saturates where exp would overflow.
    return 0.5 * (1 + np.tanh(x / 2))


def _normalised(of: str, weights: np.ndarray) -> WeightCurve:
    peak = float(np.abs(weights).max())
    return WeightCurve(of, weights / peak if peak else weights, peak)


_CURVES: dict[str, Curve] = {
    "triplet": _hinge,
    "triplet_sh": _hinge,
    "warp": _hinge,
    "nt_xent": _nt_xent,
    "smooth_ap": _smooth_ap,
    "polynomial_relative": _relative,
    "decoupled": _decoupled,
    "triplet_selhn": _hinge,
    "gradient_weights": _triplet_weight,
}

_PAIRS: dict[str, Pair] = {
    "polynomial_self": _self,
    "sigmoid": _pairwise_sigmoid,
    "multi_similarity": _multi_similarity,
    "circle": _circle,
    "gradient_weights": _pair_weights,
}
