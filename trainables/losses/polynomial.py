"""Polynomial losses of universal weighting: on the similarities themselves, or on their difference.

With s+ a positive of a query, s^ = max_n s_qn its hardest negative, Delta = s^ - s+, N the number of positive pairs:

    self, joint:     L = (1/N) sum over both directions  [sum_p a_p s+^p + sum_q b_q s^^q]+           (eq. 10)
    self, separate:  L = (1/N) sum over both directions  [sum_p a_p s+^p]+ + [sum_q b_q s^^q]+        (published code)
    relative:        L = (1/N) sum over both directions  [sum_p e_p Delta^p]+                         (eq. 13)

s^^q is a power of the maximum, not the maximum of powers. With a gate, a pair contributes only if Delta > -gate; pairs
of a query without negatives never contribute. With ``negatives`` above 1 the loss is the sum of these terms over the
triplets of a pair and each of its query's hardest negatives, each in the place of s^. With a = (margin, -1), b = (0, 1)
or e = (margin, 1) these losses are ``triplet`` with as many negatives / N: ``triplet_sh`` / N with the default of 1.

References:
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval, eq. 10 to 17. TPAMI 2021
    [PolyLoss] https://github.com/wayne980/PolyLoss/blob/05da003/model.py#L337-L401: two hinges, gate 0.2, coefficients
        (0.5, -0.7, 0.2) and (0.03, -0.4, 0.9); the second pushes negatives up where s^ is below 0.0955.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from trainables.errors import ConfigError
from trainables.hyper_parameters import Entries
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.losses.directions import Candidates, Contributions, Direction, Negatives, counted_negatives, directions
from trainables.losses.parameters import Parameter, check_parameters, numbers_of, per_score
from trainables.parameter_values import Kind, constant_problem, domain_of, require_finite, sign_problem

Coefficients = Sequence[float] | Tensor
"""Coefficients, index = power: numbers, or a tensor of shape (..., powers) with a vector per stacked trial."""


class MeanOverPairs(ABC):
    """A loss that is the sum of the costs of all pairs in both directions, over the number of positive pairs."""

    def __call__(
        self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None, candidates: Candidates | None = None
    ) -> Tensor:
        """Return the loss, shape (...), >= 0; arguments and errors as in ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore, candidates)
        return (self._costs(i2t).sum(-1) + self._costs(t2i).sum(-1)) / i2t.query.shape[0]

    @abstractmethod
    def _costs(self, direction: Direction) -> Tensor:
        """Return the cost of each pair, shape (..., P)."""


@dataclass(frozen=True)
class PolynomialSelf(MeanOverPairs):
    """Polynomial loss of self-similarities [Wei2021, eq. 10].

    Attributes:
        positive_coefficients: Coefficients of s+; makes the term fall with s+ (see ``trainables.parameter_values``).
        negative_coefficients: Coefficients of s^; must make the term rise with s^. One of the two polynomials may be a
            constant.
        hinge: ``joint`` is the paper's hinge. ``separate`` is the published code's hinge and accepts any coefficients,
            because the published coefficients are infeasible.
        gate: Only pairs with s^ + gate > s+ contribute, >= 0, a number or shape (...); ``None`` is no gate.
        allow_infeasible: Whether to accept coefficients whose gradient has the wrong sign on part of the domain.
        negatives: The number of hardest negatives of a query that count, >= 1, a number or shape (...); or ``all``.
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["polynomial_self"]
    positive_coefficients: Coefficients = parameters["positive_coefficients"].default
    negative_coefficients: Coefficients = parameters["negative_coefficients"].default
    hinge: Literal["joint", "separate"] = parameters["hinge"].default
    gate: Parameter | None = parameters["gate"].default
    allow_infeasible: bool = parameters["allow_infeasible"].default
    negatives: Negatives = parameters["negatives"].default

    def __post_init__(self) -> None:
        kinds: dict[str, Kind] = {"positive_coefficients": "positive", "negative_coefficients": "negative"}
        check_parameters(self, self.parameters, but=kinds)
        unchecked = self.allow_infeasible or self.hinge == "separate"
        for name, kind in kinds.items():
            checked = _checked(name, getattr(self, name), kind, domain_of(kind), unchecked)
            object.__setattr__(self, name, checked)
        _require_slope({name: getattr(self, name) for name in kinds})

    def contributions(self, direction: Direction) -> Contributions:
        """The weights are the slopes: |sum_p p a_p s+^(p-1)| and |sum_q q b_q s^^(q-1)| where the hinge is active.

        Differentiate the pair's term: the hinge passes the slope of its argument where the argument is above 0, and 0
        elsewhere, so the sign constraints, eq. 14 to 17, apply to these slopes. ``joint`` has one hinge for both sums,
        ``separate`` one hinge for each sum. A positive has its slope once for each negative that counts.
        """
        scores, kept = _triplets(direction, self.gate, self.negatives)
        positive_term, negative_term = self._terms(direction, scores)
        if self.hinge == "joint":
            positive_term = negative_term = positive_term + negative_term
        pull = _evaluate(_derivative(self.positive_coefficients), direction.positive[..., None]).abs()
        push = _evaluate(_derivative(self.negative_coefficients), scores).abs()
        return Contributions(push * (kept & (negative_term > 0)), (pull * (kept & (positive_term > 0))).sum(-1))

    def _costs(self, direction: Direction) -> Tensor:
        scores, kept = _triplets(direction, self.gate, self.negatives)
        positive_term, negative_term = self._terms(direction, scores)
        if self.hinge == "joint":
            costs = (positive_term + negative_term).relu()
        else:
            costs = positive_term.relu() + negative_term.relu()
        return costs.masked_fill(~kept, 0.0).sum(-1)

    def _terms(self, direction: Direction, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return both polynomials, of shapes (..., P, 1) and (..., P, N)."""
        return (
            _evaluate(self.positive_coefficients, direction.positive[..., None]),
            _evaluate(self.negative_coefficients, scores),
        )


@dataclass(frozen=True)
class PolynomialRelative(MeanOverPairs):
    """Polynomial loss of relative similarities [Wei2021, eq. 13].

    A parabola that opens upwards has a falling part below its vertex, where the gradient has the wrong sign. A gate
    with -gate at or above the vertex removes this part.

    Attributes:
        coefficients: At least two coefficients of Delta; must make the term rise with Delta down to -gate, or to -1
            without a gate.
        gate: Only pairs with Delta > -gate contribute, >= 0, a number or shape (...); ``None`` is no gate.
        allow_infeasible: Whether to accept coefficients whose gradient has the wrong sign on part of the domain.
        negatives: The number of hardest negatives of a query that count, >= 1, a number or shape (...); or ``all``.

    Example:
        >>> similarity = torch.tensor([[0.9, 0.8], [0.1, 0.4]])
        >>> round(float(PolynomialRelative((0.2, 1.0))(similarity, torch.eye(2, dtype=torch.bool))), 4)
        0.35
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["polynomial_relative"]
    coefficients: Coefficients = parameters["coefficients"].default
    gate: Parameter | None = parameters["gate"].default
    allow_infeasible: bool = parameters["allow_infeasible"].default
    negatives: Negatives = parameters["negatives"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters, but=["coefficients"])
        gate = None if self.gate is None else max(numbers_of("gate", self.gate))
        domain = domain_of("relative", gate)
        checked = _checked("coefficients", self.coefficients, "relative", domain, self.allow_infeasible)
        object.__setattr__(self, "coefficients", checked)
        _require_slope({"coefficients": checked})

    def contributions(self, direction: Direction) -> Contributions:
        """Both weights are the slope |sum_p p e_p Delta^(p-1)| where the hinge is active: dDelta is ds^ - ds+."""
        scores, kept = _triplets(direction, self.gate, self.negatives)
        difference = scores - direction.positive[..., None]
        slope = _evaluate(_derivative(self.coefficients), difference).abs()
        weights = slope * (kept & (_evaluate(self.coefficients, difference) > 0))
        return Contributions(weights, weights.sum(-1))

    def _costs(self, direction: Direction) -> Tensor:
        scores, kept = _triplets(direction, self.gate, self.negatives)
        costs = _evaluate(self.coefficients, scores - direction.positive[..., None]).relu()
        return costs.masked_fill(~kept, 0.0).sum(-1)


def _triplets(direction: Direction, gate: Parameter | None, negatives: Negatives) -> tuple[Tensor, Tensor]:
    """Return similarities of each pair's query, shape (..., P, N), and which triplets of pair and negative contribute.

    N is 1, the hardest negative, or the number of candidates.
    """
    scores, kept = counted_negatives(direction, negatives)
    if gate is not None:
        # "not below" rather than "above": a pair with NaN must be kept, so that the loss is NaN.
        kept = kept & ~(scores + per_score(gate, scores) <= direction.positive[..., None])
    return scores, kept


def _evaluate(coefficients: Coefficients, x: Tensor) -> Tensor:
    """Return sum_p c_p x^p of each x, shape (..., P, N), by Horner's rule."""
    if isinstance(coefficients, Tensor):
        columns: list[Any] = list(coefficients.to(x.dtype)[..., None, None, :].unbind(-1))
    else:
        columns = list(coefficients)
    value = torch.zeros_like(x) + columns[-1]
    for number in reversed(columns[:-1]):
        value = value * x + number
    return value


def _require_slope(polynomials: Mapping[str, Coefficients]) -> None:
    """Raise ConfigError if all polynomials of a loss are constant."""
    counts = {name: len(c) if isinstance(c, Sequence) else c.shape[-1] for name, c in polynomials.items()}
    if problem := constant_problem(counts):
        raise ConfigError(problem)


def _derivative(coefficients: Coefficients) -> Coefficients:
    """Return p c_p for p >= 1; a constant has the derivative (0,)."""
    if isinstance(coefficients, Tensor):
        powers = torch.arange(coefficients.shape[-1], device=coefficients.device)
        return (coefficients * powers)[..., 1:] if coefficients.shape[-1] > 1 else torch.zeros_like(coefficients)
    return tuple(power * number for power, number in enumerate(coefficients))[1:] or (0.0,)


def _checked(
    name: str, value: Coefficients, kind: Kind, domain: tuple[float, float], allow_infeasible: bool
) -> Coefficients:
    """Return the coefficients, as a tensor or a tuple of floats, or raise ConfigError."""
    if isinstance(value, Tensor) and value.dim() > 0:
        vectors = value.detach().double().reshape(-1, value.shape[-1]).tolist()
    elif isinstance(value, Sequence) and not isinstance(value, str):
        value = tuple(number for entry in value for number in numbers_of(name, entry))
        vectors = [list(value)]
    else:
        raise ConfigError(f"{name} must be a sequence of numbers or a tensor, got {value!r}")
    for vector in vectors:
        require_finite(name, vector)
        if not allow_infeasible and (problem := sign_problem(vector, kind, domain)):
            raise ConfigError(f"{name} {problem}, or set allow_infeasible")
    return value
