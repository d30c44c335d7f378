"""The losses written out pair by pair from their formulas: slow, plain, and independent of the product's code."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

PairTerm = Callable[..., Tensor]


def triplet(row: Tensor, p: int, positives: list[int], negatives: list[int], margin: float) -> Tensor:
    total = row.new_zeros(())
    for n in negatives:
        total = total + torch.clamp(margin - row[p] + row[n], min=0)
    return total


def triplet_sh(row: Tensor, p: int, positives: list[int], negatives: list[int], margin: float) -> Tensor:
    if not negatives:
        return row.new_zeros(())
    return torch.clamp(margin - row[p] + row[hardest(row, negatives)], min=0)


def nt_xent(row: Tensor, p: int, positives: list[int], negatives: list[int], temperature: float) -> Tensor:
    largest = max(float(row[j].detach()) for j in positives + negatives) / temperature
    denominator = sum(torch.exp(row[j] / temperature - largest) for j in positives + negatives)
    return torch.log(denominator) + largest - row[p] / temperature


def smooth_ap(row: Tensor, p: int, positives: list[int], negatives: list[int], temperature: float) -> Tensor:
    """One positive's part of 1 - AP."""
    rank = rank_in_positives = 1.0
    for j in positives + negatives:
        if j != p:
            above = 1 / (1 + torch.exp(-(row[j] - row[p]) / temperature))
            rank = rank + above
            rank_in_positives = rank_in_positives + (above if j in positives else 0)
    return 1 - torch.as_tensor(rank_in_positives / rank, dtype=row.dtype)


def polynomial_self(
    row: Tensor,
    p: int,
    positives: list[int],
    negatives: list[int],
    positive_coefficients: tuple[float, ...],
    negative_coefficients: tuple[float, ...],
    hinge: str = "joint",
    gate: float | None = None,
) -> Tensor:
    if not negatives or (gate is not None and not row[hardest(row, negatives)] + gate > row[p]):
        return row.new_zeros(())
    first = sum(a * row[p] ** power for power, a in enumerate(positive_coefficients))
    second = sum(b * row[hardest(row, negatives)] ** power for power, b in enumerate(negative_coefficients))
    if hinge == "joint":
        return torch.clamp(first + second, min=0)
    return torch.clamp(first, min=0) + torch.clamp(second, min=0)


def polynomial_relative(
    row: Tensor,
    p: int,
    positives: list[int],
    negatives: list[int],
    coefficients: tuple[float, ...],
    gate: float | None = None,
) -> Tensor:
    if not negatives or (gate is not None and not row[hardest(row, negatives)] + gate > row[p]):
        return row.new_zeros(())
    difference = row[hardest(row, negatives)] - row[p]
    return torch.clamp(sum(e * difference**power for power, e in enumerate(coefficients)), min=0)


def hardest(row: Tensor, negatives: list[int]) -> int:
    return max(negatives, key=lambda n: float(row[n].detach()))


@dataclass(frozen=True)
class Case:
    """A loss of the product, with its term per pair and its reduction over pairs."""

    name: str
    term: PairTerm
    reduction: str
    parameters: dict[str, Any] = field(default_factory=dict)
    weight_scale: str | None = None


CASES = {
    "triplet": Case("triplet", triplet, "sum", {"margin": 0.2}),
    "triplet_sh": Case("triplet_sh", triplet_sh, "sum", {"margin": 0.3}),
    "nt_xent": Case("nt_xent", nt_xent, "means", {"temperature": 0.1}, "temperature"),
    "smooth_ap": Case("smooth_ap", smooth_ap, "means", {"temperature": 0.05}, "temperature"),
    "polynomial_self_joint": Case(
        "polynomial_self",
        polynomial_self,
        "per_pair",
        {"positive_coefficients": (0.5, -0.9, 0.2), "negative_coefficients": (0.1, 0.9, 0.3)},
    ),
    "polynomial_self_published": Case(
        "polynomial_self",
        polynomial_self,
        "per_pair",
        {
            "positive_coefficients": (0.5, -0.7, 0.2),
            "negative_coefficients": (0.03, -0.4, 0.9),
            "hinge": "separate",
            "gate": 0.2,
        },
    ),
    "polynomial_relative": Case(
        "polynomial_relative", polynomial_relative, "per_pair", {"coefficients": (0.2, 1, 0.5)}
    ),
    "polynomial_relative_cubic": Case(
        "polynomial_relative", polynomial_relative, "per_pair", {"coefficients": (0.4, 1.0, 0.3, 0.2), "gate": 0.3}
    ),
}


def pairs(scores: Tensor, positives: Tensor, ignore: Tensor) -> Iterator[tuple[int, int, list[int], list[int]]]:
    """Yield query, positive, all positives and all negatives, of each pair."""
    for query in range(scores.shape[0]):
        own = [j for j in range(scores.shape[1]) if positives[query, j]]
        negatives = [j for j in range(scores.shape[1]) if not positives[query, j] and not ignore[query, j]]
        for p in own:
            yield query, p, own, negatives


def loss(case: Case, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
    """The whole loss of a batch, shape ()."""
    ignore = torch.zeros_like(positives) if ignore is None else ignore
    directions = ((similarity, positives, ignore), (similarity.T, positives.T, ignore.T))
    total = similarity.new_zeros(())
    for scores, own, ignored in directions:
        for query, p, mine, negatives in pairs(scores, own, ignored):
            term = case.term(scores[query], p, mine, negatives, **case.parameters)
            total = total + (term / (2 * len(mine) * len(scores)) if case.reduction == "means" else term)
    return total / positives.sum() if case.reduction == "per_pair" else total


def weights(case: Case, scores: Tensor, positives: Tensor) -> Tensor:
    """|d term / d s| of one direction with one positive per query, shape (Q, M), without 1/temperature."""
    ignored = torch.zeros_like(positives)
    rows = []
    for query, p, mine, negatives in pairs(scores, positives, ignored):
        row = scores[query].detach().clone().requires_grad_()
        term = case.term(row, p, mine, negatives, **case.parameters)
        gradient = torch.autograd.grad(term, row)[0] if term.requires_grad else torch.zeros_like(row)
        rows.append(gradient.abs() * case.parameters.get(case.weight_scale, 1.0))
    return torch.stack(rows)
