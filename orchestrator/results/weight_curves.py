"""How hard a loss pulls at a pair: the weight curves of a polynomial loss beside those of the others.

The weight of one query with one positive s+ and one negative ŝ, Δ = ŝ - s+, is the derivative of its loss; it is what
the pair's gradient is multiplied by:

    triplet, triplet_sh, warp    G(Δ) = 1 where Δ > -margin, else 0
    nt_xent                      G(Δ) = σ(Δ/τ) / τ
    smooth_ap                    G(Δ) = σ(Δ/τ) (1 - σ(Δ/τ)) / (τ (1 + σ(Δ/τ))²)
    polynomial_relative          G(Δ) = Σ p e_p Δ^(p-1) where Σ e_p Δ^p > 0 and Δ > -gate, else 0
    polynomial_self              G⁺(s) = -Σ p a_p s^(p-1) for the positive, G⁻(s) = Σ q b_q s^(q-1) for the negative

The polynomials' are the derivatives of [Wei2021] eqs. 10 and 13. Where a hinge is separate, the weights of
``polynomial_self`` are 0 wherever their polynomial is; a joint hinge, like its gate, depends on both similarities, and
the curves show the weights while it is active. A weight below 0 pulls the wrong way.

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
}
"""What the losses' constructors take where a config leaves it out; repeated here because they need torch."""

Curve = Callable[[np.ndarray, Mapping[str, Any]], np.ndarray]


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
    """Return the curves of a loss: one over Δ, or two of ``polynomial_self``; none of a loss that is not known here.

    Args:
        loss: Its name.
        parameters: Of its constructor; those left out have their defaults.
    """
    given = {**DEFAULTS.get(loss, {}), **parameters}
    if loss == "polynomial_self":
        separate = given["hinge"] == "separate"
        positive = -_polynomial(given["positive_coefficients"], separate)
        negative = _polynomial(given["negative_coefficients"], separate)
        return [_normalised("positive", positive), _normalised("negative", negative)]
    curve = _CURVES.get(loss)
    return [_normalised("difference", curve(POINTS, given))] if curve else []


def _hinge(delta: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    return (delta > -parameters["margin"]).astype(float)


def _nt_xent(delta: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    return _sigmoid(delta / parameters["temperature"]) / parameters["temperature"]


def _smooth_ap(delta: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    rank = _sigmoid(delta / parameters["temperature"])
    return rank * (1 - rank) / parameters["temperature"] / (1 + rank) ** 2


def _relative(delta: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    gate = parameters["gate"]
    weights = _polynomial(parameters["coefficients"], hinge=True)
    return weights if gate is None else np.where(delta > -gate, weights, 0.0)


def _polynomial(coefficients: Sequence[float], hinge: bool) -> np.ndarray:
    """Return the derivative at ``POINTS``, 0 where a hinge cuts the polynomial off; coefficients by ascending power."""
    polynomial = np.polynomial.Polynomial(np.asarray(coefficients, dtype=float))
    slope = polynomial.deriv()(POINTS)
    return np.where(polynomial(POINTS) > 0, slope, 0.0) if hinge else slope


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
}
