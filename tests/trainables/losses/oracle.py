"""The losses written out pair by pair from their formulas: slow, plain, and independent of the product's code."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Pair(NamedTuple):
    """The scores of a query, its positive ``p``, and the places of all its positives and negatives."""

    row: Tensor
    p: int
    positives: list[int]
    negatives: list[int]

    @property
    def nothing(self) -> Tensor:
        return self.row.new_zeros(())


def triplet(pair: Pair, margin: float, negatives: int | str = "all") -> Tensor:
    row, p = pair[:2]
    costs = (torch.relu(margin + row[n] - row[p]) for n in hardest_of(row, pair.negatives, negatives))
    return sum(costs, pair.nothing)


def triplet_sh(pair: Pair, margin: float) -> Tensor:
    return triplet(pair, margin, negatives=1)


def hardness_weights(pair: Pair, hardness: float, hardness_mode: str) -> dict[int, float]:
    """The factor of each candidate's exponential: exp(alpha s) of the negatives that are weighed, as a plain number."""
    weighed = hardest_of(pair.row, pair.negatives, 1 if hardness_mode == "hardest" else "all")
    own = {j: 1.0 for j in pair.positives + pair.negatives}
    return own | {n: math.exp(hardness * float(pair.row[n].detach())) for n in weighed}


def nt_xent(pair: Pair, temperature: float, hardness: float = 0.0, hardness_mode: str = "all") -> Tensor:
    row, p, positives, negatives = pair
    factors = hardness_weights(pair, hardness, hardness_mode)
    largest = max(float(row[j].detach()) for j in positives + negatives) / temperature
    denominator = sum(factors[j] * torch.exp(row[j] / temperature - largest) for j in positives + negatives)
    return torch.log(denominator) + largest - row[p] / temperature


def smooth_ap(pair: Pair, temperature: float) -> Tensor:
    """One positive's part of 1 - AP."""
    row, p, positives, negatives = pair
    rank = rank_in_positives = 1.0
    for j in positives + negatives:
        if j != p:
            # Its derivative G (1 - G) is 0 where G rounds to 1, which decides whether a query has a gradient at all.
            above = torch.sigmoid((row[j] - row[p]) / temperature)
            rank = rank + above
            rank_in_positives = rank_in_positives + (above if j in positives else 0)
    return 1 - torch.as_tensor(rank_in_positives / rank, dtype=row.dtype)


def within(pair: Pair, gate: float | None, count: int | str) -> list[int]:
    """The negatives that count, without those that the gate shuts out."""
    row, p, _, negatives = pair
    return [n for n in hardest_of(row, negatives, count) if gate is None or row[n] + gate > row[p]]


def power_series(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    return sum(number * x**power for power, number in enumerate(coefficients))


def polynomial_self(
    pair: Pair,
    positive_coefficients: tuple[float, ...],
    negative_coefficients: tuple[float, ...],
    hinge: str = "joint",
    gate: float | None = None,
    negatives: int | str = 1,
) -> Tensor:
    total, first = pair.nothing, power_series(positive_coefficients, pair.row[pair.p])
    for n in within(pair, gate, negatives):
        second = power_series(negative_coefficients, pair.row[n])
        separate = torch.relu(first) + torch.relu(second)
        total = total + (torch.relu(first + second) if hinge == "joint" else separate)
    return total


def polynomial_relative(
    pair: Pair, coefficients: tuple[float, ...], gate: float | None = None, negatives: int | str = 1
) -> Tensor:
    row, p = pair[:2]
    costs = (torch.relu(power_series(coefficients, row[n] - row[p])) for n in within(pair, gate, negatives))
    return sum(costs, pair.nothing)


RANK_ALPHAS: dict[str, Callable[[int, int, int], float]] = {
    "harmonic": lambda j, top, total: 1 / j,
    "constant": lambda j, top, total: 1 / total,
    "top_k": lambda j, top, total: 1 / top if j <= top else 0.0,
}


def warp(pair: Pair, margin: float, rank_weight: str = "harmonic", top: int = 10) -> Tensor:
    """The expected term: draws 1, 2 ... miss until one violates, and each violator is as likely as the others."""
    row, p, _, negatives = pair
    violators, total_count = [n for n in negatives if row[n] > row[p] - margin], len(negatives)
    expected, missed = 0.0, 1.0
    for draws in range(1, len(negatives) + 1):
        chance = len(violators) / len(negatives)
        ranks = range(1, total_count // draws + 1)
        expected += missed * chance * sum(RANK_ALPHAS[rank_weight](j, top, total_count) for j in ranks)
        missed *= 1 - chance
    costs = (expected / len(violators) * torch.relu(margin - row[p] + row[n]) for n in violators)
    return sum(costs, pair.nothing)


def sigmoid(pair: Pair, temperature: float, bias: float, hardness: float = 0.0) -> Tensor:
    """One positive's decision, k times, and those of all negatives: their mean over k positives is the query's term."""
    row, p, positives, negatives = pair
    total = len(positives) * torch.log1p(torch.exp(-(row[p] / temperature + bias)))
    factors = hardness_weights(pair, hardness, "all")
    return total + sum(torch.log1p(factors[n] * torch.exp(row[n] / temperature + bias)) for n in negatives)


def decoupled(pair: Pair, temperature: float, hardness: float = 0.0, hardness_mode: str = "all") -> Tensor:
    row, p, _, negatives = pair
    if not negatives:
        return pair.nothing
    factors = hardness_weights(pair, hardness, hardness_mode)
    return torch.log(sum(factors[n] * torch.exp(row[n] / temperature) for n in negatives)) - row[p] / temperature


def multi_similarity(pair: Pair, alpha: float, beta: float, base: float, epsilon: float | None) -> Tensor:
    """The whole query's term, the same for each of its positives."""
    row, _, pulled, pushed = pair
    if epsilon is not None:
        top = max((float(row[n].detach()) for n in pair.negatives), default=-math.inf)
        low = min(float(row[i].detach()) for i in pair.positives)
        pulled = [i for i in pair.positives if float(row[i].detach()) - epsilon < top]
        pushed = [n for n in pair.negatives if float(row[n].detach()) + epsilon > low]
    pull = 1 + sum(torch.exp(-alpha * (row[i] - base)) for i in pulled)
    push = 1 + sum(torch.exp(beta * (row[n] - base)) for n in pushed)
    return torch.log(torch.as_tensor(pull)) / alpha + torch.log(torch.as_tensor(push)) / beta


def circle(pair: Pair, margin: float, scale: float) -> Tensor:
    """The whole query's term, the same for each of its positives; the weights of pairs are constants."""
    row, _, positives, negatives = pair
    if not negatives:
        return pair.nothing
    pull, push = 0.0, 0.0
    for i in positives:
        weight = max(0.0, 1 + margin - float(row[i].detach()))
        pull = pull + torch.exp(-scale * weight * (row[i] - (1 - margin)))
    for n in negatives:
        weight = max(0.0, margin + float(row[n].detach()))
        push = push + torch.exp(scale * weight * (row[n] - margin))
    return torch.log1p(pull * push)


def triplet_selhn(pair: Pair, margin: float, epsilon: float) -> Tensor:
    row, p, _, negatives = pair
    if negatives and abs(float((row[p] - row[hardest(row, negatives)]).detach())) < epsilon:
        return triplet(pair, margin) / len(negatives)
    return triplet_sh(pair, margin)


def meta_weights(pair: Pair, margin: float, negatives: int | str = 1) -> Tensor:
    """Without a network all weights are 1/2."""
    return triplet(pair, margin, negatives) / 2


def gradient_weights(pair: Pair, /, **asked: Any) -> Tensor:
    """The weights one by one in plain floats, and the linear function that has them for its gradient."""
    row, p, _, negatives = pair
    given = {"margin": 0.2, "temperature": 0.1, "triplet_weight": "softmax", "pair_weight": "sigmoid", **asked}
    own, total = float(row[p].detach()), pair.nothing
    if not negatives:
        return total
    count = given.get("negatives", "hardest")
    counted = hardest_of(row, negatives, 1 if count == "hardest" else count)
    below = 1 + sum(math.exp((float(row[n].detach()) - own) / given["temperature"]) for n in counted)
    for n in counted:
        other = float(row[n].detach())
        excess = given["margin"] + other - own
        triplet = {
            "linear": (excess > 0) * max(0.0, 1 + given.get("slope", 0.0) * excess),
            "softmax": math.exp((other - own) / given["temperature"]) / below,
            "circle": 1 / (1 + math.exp((own * (2 - own) - other**2 - 0.5) / given["temperature"])),
        }[given["triplet_weight"]]
        pull = push = 1.0
        if given["pair_weight"] == "linear":
            pull = max(0.0, 1 - given.get("positive_tilt", 1.0) * own)
            push = max(0.0, 1 - given.get("negative_tilt", 1.0) * (1 - other))
        if given["pair_weight"] == "sigmoid":
            pull = 1 / (1 + math.exp(given["alpha"] * (own - given["base"])))
            push = 1 / (1 + math.exp(-given["beta"] * (other - given["base"])))
        total = total + given["scale"] * triplet * (given.get("balance", 1.0) * push * row[n] - pull * row[p])
    return total


def hardest(row: Tensor, negatives: list[int]) -> int:
    return max(negatives, key=lambda n: float(row[n].detach()))


def hardest_of(row: Tensor, negatives: list[int], count: int | str) -> list[int]:
    """The hardest negative, then the hardest of the rest, and so on; of equal ones the first."""
    if isinstance(count, str):
        return negatives
    left, chosen = list(negatives), []
    while left and len(chosen) < count:
        chosen.append(hardest(row, left))
        left.remove(chosen[-1])
    return chosen


TERMS: dict[str, Callable[..., Tensor]] = {
    term.__name__: term
    for term in (
        *(triplet, triplet_sh, nt_xent, smooth_ap, polynomial_self, polynomial_relative, warp, sigmoid),
        *(decoupled, multi_similarity, circle, triplet_selhn, gradient_weights, meta_weights),
    )
}
"""Loss of the product -> its term per pair."""


@dataclass(frozen=True)
class Case:
    """A loss of the product with its reduction over pairs."""

    name: str
    reduction: str
    parameters: dict[str, Any] = field(default_factory=dict)
    weight_scale: str | None = None
    """The parameter by which weights are multiplied, or with a slash before it divided."""

    def term(self, pair: Pair) -> Tensor:
        return TERMS[self.name](pair, **self.parameters)


SELF = {"positive_coefficients": (0.5, -0.9, 0.2), "negative_coefficients": (0.1, 0.9, 0.3)}
SQUARE = {"coefficients": (0.2, 1, 0.5)}
CUBIC = {"coefficients": (0.4, 1.0, 0.3, 0.2), "gate": 0.3}
PUBLISHED_SELF = {
    "positive_coefficients": (0.5, -0.7, 0.2),
    "negative_coefficients": (0.03, -0.4, 0.9),
    "hinge": "separate",
    "gate": 0.2,
}
MILD = {"alpha": 5.0, "beta": 3.0}
BOTH_LINEAR = {"triplet_weight": "linear", "pair_weight": "linear", "scale": 2.0, "margin": 0.3, "slope": 1.5}
CIRCLES = {**BOTH_LINEAR, "triplet_weight": "circle", "reduction": "mean"}
CONSTANT_OF_ALL = {"pair_weight": "constant", "negatives": "all", "reduction": "mean"}
HARDEST = {"hardness": 5.0, "hardness_mode": "hardest"}
LINEAR_OF_TWO = {"pair_weight": "linear", "negatives": 2}

CASES = {
    "triplet": Case("triplet", "sum", {"margin": 0.2}),
    "triplet_of_two": Case("triplet", "sum", {"margin": 0.4, "negatives": 2}),
    "triplet_sh": Case("triplet_sh", "sum", {"margin": 0.3}),
    "nt_xent": Case("nt_xent", "means", {"temperature": 0.1}, "temperature"),
    "smooth_ap": Case("smooth_ap", "means", {"temperature": 0.05}, "temperature"),
    "polynomial_self_joint": Case("polynomial_self", "per_pair", SELF),
    "polynomial_self_published": Case("polynomial_self", "per_pair", PUBLISHED_SELF),
    "polynomial_relative": Case("polynomial_relative", "per_pair", SQUARE),
    "polynomial_relative_cubic": Case("polynomial_relative", "per_pair", CUBIC),
    "polynomial_self_of_two": Case("polynomial_self", "per_pair", {**SELF, "negatives": 2}),
    "polynomial_self_published_of_three": Case("polynomial_self", "per_pair", {**PUBLISHED_SELF, "negatives": 3}),
    "polynomial_relative_of_two": Case("polynomial_relative", "per_pair", {**SQUARE, "negatives": 2}),
    "polynomial_relative_of_all": Case("polynomial_relative", "per_pair", {**CUBIC, "negatives": "all"}),
    "sigmoid": Case("sigmoid", "means", {"temperature": 0.2, "bias": -1.5}, "temperature"),
    "decoupled": Case("decoupled", "means", {"temperature": 0.2}, "temperature"),
    "nt_xent_hardness": Case("nt_xent", "means", {"temperature": 0.1, "hardness": 9.0}, "temperature"),
    "nt_xent_hardest": Case("nt_xent", "means", {"temperature": 0.2, **HARDEST}, "temperature"),
    "sigmoid_hardness": Case("sigmoid", "means", {"temperature": 0.2, "bias": -1.5, "hardness": 3.0}, "temperature"),
    "decoupled_hardness": Case("decoupled", "means", {"temperature": 0.2, "hardness": 4.0}, "temperature"),
    "decoupled_hardest": Case("decoupled", "means", {"temperature": 0.3, **HARDEST}, "temperature"),
    "multi_similarity": Case("multi_similarity", "means", {"alpha": 2.0, "beta": 10.0, "base": 0.3, "epsilon": 0.1}),
    "multi_similarity_of_all": Case("multi_similarity", "means", {**MILD, "base": -0.2, "epsilon": None}),
    "circle": Case("circle", "means", {"margin": 0.25, "scale": 5.0}, "/scale"),
    "triplet_selhn": Case("triplet_selhn", "sum", {"margin": 0.3, "epsilon": 0.4}),
    "meta_weights": Case("meta_weights", "per_pair", {"margin": 0.3}),
    "meta_weights_of_two": Case("meta_weights", "per_pair", {"margin": 0.5, "negatives": 2}),
    **{
        f"gradient_weights{name}": Case("gradient_weights", reduction, parameters, "/scale")
        for name, reduction, parameters in [
            ("", "sum", {"scale": 0.5, "temperature": 0.2, "alpha": 3.0, "beta": 7.0, "base": 0.1}),
            ("_linear", "sum", {**BOTH_LINEAR, "positive_tilt": 0.8, "negative_tilt": 1.2, "balance": 0.7}),
            ("_of_all", "means", {**CONSTANT_OF_ALL, "scale": 5.0, "temperature": 0.2}),
            ("_of_two", "sum", {**LINEAR_OF_TWO, "scale": 2.0, "temperature": 0.3, "negative_tilt": 0.6}),
            ("_circle", "means", {**CIRCLES, "scale": 3.0, "temperature": 0.5}),
        ]
    },
}

EXPECTED_WARP = {
    "warp": Case("warp", "sum", {"margin": 0.5}),
    "warp_of_mean_rank": Case("warp", "sum", {"margin": 0.5, "rank_weight": "constant"}),
    "warp_of_two": Case("warp", "sum", {"margin": 0.5, "rank_weight": "top_k", "top": 2}),
}
"""WARP draws at random; these are the means over its draws."""


def queries(scores: Tensor, positives: Tensor, ignore: Tensor) -> Iterator[list[Pair]]:
    """Yield the pairs of each query that has a positive."""
    for row, positive, ignored in zip(scores, positives.tolist(), ignore.tolist(), strict=True):
        own = [j for j, is_own in enumerate(positive) if is_own]
        negatives = [j for j in range(len(positive)) if not positive[j] and not ignored[j]]
        if own:
            yield [Pair(row, p, own, negatives) for p in own]


def loss(case: Case, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
    """The whole loss of a batch, shape ()."""
    ignore = torch.zeros_like(positives) if ignore is None else ignore
    total = similarity.new_zeros(())
    for scores, own, ignored in ((similarity, positives, ignore), (similarity.T, positives.T, ignore.T)):
        asked = list(queries(scores, own, ignored))
        for pairs in asked:
            of_query = sum(case.term(pair) for pair in pairs)
            total = total + (of_query / (2 * len(pairs) * len(asked)) if case.reduction == "means" else of_query)
    return total / positives.sum() if case.reduction == "per_pair" else total


def counters(case: Case, scores: Tensor, positives: Tensor, ignore: Tensor, epsilon: float) -> dict[str, float]:
    """The papers' counters of one direction, from the derivative of each query's term by each of its scores."""
    counts, pushes, pulls = [], [], []
    without_epsilon: list[tuple[float, float, float, float]] = []
    for pairs in queries(scores.detach(), positives, ignore):
        row = pairs[0].row.clone().requires_grad_()
        pairs = [pair._replace(row=row) for pair in pairs]
        own, negatives = pairs[0].positives, pairs[0].negatives
        gradients = [_derivative(case.term(pair), row) * _scale(case) for pair in pairs]
        criteria = [_criterion(case, pair, gradient) for pair, gradient in zip(pairs, gradients, strict=True)]
        counted = [
            (g, n) for g, compared in zip(gradients, criteria, strict=True) for n in negatives if compared[n] > epsilon
        ]
        of_query = torch.stack(gradients).mean(0) if case.reduction == "means" else torch.stack(gradients).sum(0)
        counts.append(sum(value > epsilon for compared in criteria for value in compared.values()) / len(own))
        pushes.append(sum(abs(float(gradient[n])) for gradient, n in counted) / len(own))
        pulls.append(sum(abs(float(of_query[p])) for p in own) / len(own))
        weights = {n: sum(abs(float(gradient[n])) for gradient in gradients) for n in negatives}
        if (total := sum(weights.values())) > 0:
            shares = {n: weight / total for n, weight in weights.items()}
            entropy = -sum(share * math.log(share) for share in shares.values() if share > 0)
            one, five = (sum(shares[n] for n in hardest_of(row, negatives, count)) for count in (1, 5))
            without_epsilon.append((math.exp(entropy), 1 / sum(share**2 for share in shares.values()), one, five))
    means = [sum(column) / len(column) for column in zip(*without_epsilon, strict=True)] or [math.nan] * 4
    active = len(counts) if case.name == "nt_xent" else sum(count > 0 for count in counts)
    return {
        "negatives_per_query": sum(counts) / active if active else math.nan,
        "negatives_per_batch": sum(counts),
        "queries_without_gradient": sum(count == 0 for count in counts),
        "negative_weight": sum(pushes) / len(pushes),
        "positive_weight": sum(pulls) / len(pulls),
        "effective_negatives_entropy": means[0],
        "effective_negatives_squares": means[1],
        "gradient_share_hardest1": means[2],
        "gradient_share_hardest5": means[3],
    }


def _scale(case: Case) -> float:
    if case.weight_scale is None:
        return 1.0
    value = float(case.parameters[case.weight_scale.removeprefix("/")])
    return 1 / value if case.weight_scale.startswith("/") else value


def _derivative(term: Tensor, row: Tensor) -> Tensor:
    return torch.autograd.grad(term, row, retain_graph=True)[0] if term.requires_grad else torch.zeros_like(row)


def _criterion(case: Case, pair: Pair, gradient: Tensor) -> dict[int, float]:
    """What is compared with epsilon: the derivative by each negative; for SmoothAP the number of eq. 13."""
    row, p, own, negatives = pair
    if case.name != "smooth_ap":
        return {n: abs(float(gradient[n])) for n in negatives}
    scaled = row.detach() / case.parameters["temperature"]
    above = {j: float(torch.sigmoid(scaled[j] - scaled[p])) for j in own + negatives}
    rank = 1 + sum(value for j, value in above.items() if j != p)
    return {j: value * (1 - value) / rank**2 for j, value in above.items() if j != p}
