"""COCOS: counting the samples that contribute to the gradient of a loss.

The counters of a batch are taken per direction (``i2t``: images query captions; ``t2i``: captions query images). A
candidate is counted where its weight in the gradient of its query's term exceeds epsilon:

    negatives_per_query       C^q   counted candidates of a query; mean over the queries with a counted candidate, for
                                    NT-Xent over all queries, as in the papers' tables. NaN without such a query.
    negatives_per_batch       C^B   counted candidates, summed over the queries
    queries_without_gradient  C^0   queries without a counted candidate
    negative_weight           W-    weights of a query's counted candidates, summed; mean over all queries
    positive_weight           W+    weight of a query's positive; mean over all queries

Without epsilon, with p_n the share of negative n in the weights of its query's negatives, sum over n of p_n = 1:

    effective_negatives_entropy     exp(- sum over n of p_n log p_n)  mean over the queries with a gradient
    effective_negatives_squares     1 / (sum over n of p_n^2)         likewise
    gradient_share_hardest1         share of the hardest negative     likewise
    gradient_share_hardest5         share of the five hardest         likewise

The first two are the diversities of order 1 and 2 [Hill1973]. They are n for n equal weights, and for other weights
between 1 and the number of negatives. Without a query with a gradient they are NaN.

A query with several positives counts the mean over its positives. Each loss defines its weights in ``contributions``;
``docs/cocos.md`` lists all definitions. For any loss, computed by autograd without a formula:

    gradient_negatives, gradient_positives   negative (positive) pairs whose |dL/ds| exceeds epsilon

Weights are taken from one query's term, without the reduction over queries and without 1/temperature, so that one
epsilon suits all batch sizes. |dL/ds| is the whole gradient, with both factors. All gradients are taken with respect to
the similarities; the normalisation of embeddings plays no part.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?,
        section 5, tables 2 to 4. arXiv:2202.07474
    [Hill1973] Hill, Diversity and Evenness: A Unifying Notation and Its Consequences. Ecology 54
    [Code2022] https://github.com/MauritsBleeker/ecir-2022-reproducibility-bleeker/blob/9800594/shared/losses.py
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from trainables.errors import ConfigError
from trainables.losses.contrastive import NTXent
from trainables.losses.directions import (
    Candidates,
    ConstantCandidates,
    Contributions,
    Direction,
    directions,
    with_hardest,
)
from trainables.losses.ranking import SmoothAP
from trainables.losses.triplet import Triplet, TripletHardest
from trainables.seeding import seed_torch

Convention = Literal["paper", "published"]
"""``paper``: the papers' definitions; ``published``: the published code's computation."""

CODED_POSITIVES = 5
"""Positives per query in the published SmoothAP counter: candidates 5q to 5q + 4 of query q, in either direction."""


def count_contributions(
    loss: Callable[..., Tensor],
    similarity: Tensor,
    positives: Tensor,
    ignore: Tensor | None = None,
    candidates: Candidates | None = None,
    *,
    epsilon: float = 0.01,
    convention: Convention = "paper",
    curve: Sequence[float] = (),
) -> dict[str, Tensor]:
    """Count the contributing samples of a batch, without gradients and without touching the random state.

    ``published`` reproduces the published code with its defects, which the printed tables have. ``ignore`` is left out,
    because that code counts another caption of a query's image as a negative. For ``triplet`` the t2i counts per query
    are sums over captions per image [Code2022, line 79]. For ``smooth_ap`` query q has its positives at 5q to 5q + 4 in
    both directions. A query's count is divided by 5 (i2t) or 1 (t2i) [lines 263 to 271]. A batch without counted
    queries gives 0. The other counters of the published code are right, and both conventions give these counters. The
    published code requires one positive per query, and for SmoothAP five captions per image in the images' order.

    Args:
        loss: Any differentiable loss with the losses' signature; losses of ``trainables.losses`` get every counter,
            other losses only the general counters.
        similarity: Shape (..., I, C), floating.
        positives: Shape (I, C), bool.
        ignore: Shape (I, C), bool; ``published`` leaves it out.
        candidates: Those of a bank (``trainables.bank``), which are counted too; of losses that ship.
        epsilon: Least weight that counts, > 0. In units of weight: probabilities for NT-Xent, slopes for polynomials.
        convention: Definitions of the counters, see ``Convention``.
        curve: Further values of epsilon, which cost no further pass: each counter that depends on epsilon is returned
            a second time as ``NAME@EPSILON``.

    Returns:
        Each counter's name, such as ``i2t_negatives_per_query``, with a float64 tensor of shape (...).

    Raises:
        ConfigError: If epsilon is out of its range, or no published counters exist for the loss, or for images with
            other than one or five captions.
        ValueError: If the batch is refused (see ``trainables.losses.directions``).

    Example:
        >>> from trainables.losses import build_loss
        >>> similarity = torch.tensor([[0.9, 0.8], [0.1, 0.4]])
        >>> counts = count_contributions(build_loss("triplet"), similarity, torch.eye(2, dtype=torch.bool))
        >>> float(counts["i2t_negatives_per_batch"]), float(counts["t2i_negatives_per_batch"])
        (1.0, 1.0)
    """
    for value in (epsilon, *curve):
        _check(loss, value, convention, candidates)
    if convention == "published" and isinstance(loss, SmoothAP):
        _check_coded_positives(positives)
    ignore = None if convention == "published" else ignore
    own, beyond = _gradients(loss, similarity, positives, ignore, candidates)
    general = _large(own, beyond, positives, epsilon) | _named_by(
        {value: _large(own, beyond, positives, value) for value in curve}
    )
    if not hasattr(loss, "contributions"):
        return general
    counts: dict[str, Tensor] = {}
    with torch.no_grad():
        for direction in directions(similarity, positives, ignore, candidates):
            weights: Contributions = loss.contributions(direction)
            counters = _count(loss, direction, weights, epsilon, convention) | _without_epsilon(weights, direction)
            counters |= _named_by({value: _count(loss, direction, weights, value, convention) for value in curve})
            counts |= {f"{direction.name}_{name}": value for name, value in counters.items()}
    return counts | general


def _named_by(counters: Mapping[float, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the counters of several values of epsilon in one mapping, each with its epsilon in its name."""
    return {f"{name}@{epsilon:g}": value for epsilon, counts in counters.items() for name, value in counts.items()}


def _large(own: Tensor, beyond: Sequence[Tensor], positives: Tensor, epsilon: float) -> dict[str, Tensor]:
    """Count the negative and the positive pairs whose gradient is above epsilon, see ``_gradients``."""
    counted = own.abs() > epsilon
    of_bank = [(gradient.abs() > epsilon).sum((-2, -1)) for gradient in beyond]
    return {
        "gradient_negatives": ((counted & ~positives).sum((-2, -1)) + sum(of_bank)).double(),
        "gradient_positives": (counted & positives).sum((-2, -1)).double(),
    }


class Spread(NamedTuple):
    """Mean and standard deviation (ddof 0) over batches."""

    mean: float
    std: float


def spreads(batches: Sequence[Mapping[str, Tensor]]) -> dict[str, Spread]:
    """Return each counter's spread over the batches in which it is computable; all batches have equal weight.

    A counter that is computable in no batch is left out, because its value is unknown, not 0.

    Args:
        batches: The counters of each batch, scalars under the same names; a device is waited for here alone.
    """
    if not batches:
        return {}
    names = list(batches[0])
    table = torch.stack([torch.stack([counts[name] for name in names]) for counts in batches]).cpu()
    columns = {name: column[~column.isnan()] for name, column in zip(names, table.T, strict=True)}
    return {
        name: Spread(float(column.mean()), float(column.std(correction=0)))
        for name, column in columns.items()
        if len(column) > 0
    }


def _check(loss: Callable[..., Tensor], epsilon: float, convention: Convention, candidates: Candidates | None) -> None:
    if not 0 < epsilon < math.inf:
        raise ConfigError(f"epsilon must be a finite number above 0, got {epsilon}")
    if convention not in ("paper", "published"):
        raise ConfigError(f"convention must be 'paper' or 'published', got {convention!r}")
    is_published = (
        isinstance(loss, TripletHardest | SmoothAP)
        or (isinstance(loss, Triplet) and isinstance(loss.negatives, str))
        or (isinstance(loss, NTXent) and not isinstance(loss.hardness, Tensor) and loss.hardness == 0)
    )
    if convention == "published" and candidates is not None:
        raise ConfigError("published counters exist for trainings without a bank; use convention 'paper'")
    if convention == "published" and not is_published:
        raise ConfigError(
            "published counters exist for triplet over all negatives, triplet_sh, nt_xent without hardness, and "
            f"smooth_ap, got {loss}; use convention 'paper'"
        )


def _check_coded_positives(positives: Tensor) -> None:
    """Refuse images of several captions that are not five: the published code would count captions of other images."""
    counts = positives.sum(1)
    if int(counts.max()) > 1 and not bool((counts == CODED_POSITIVES).all()):
        raise ConfigError(
            f"published counters of smooth_ap exist for {CODED_POSITIVES} captions an image, got {int(counts.min())} "
            f"to {int(counts.max())}; use convention 'paper'"
        )


def _count(
    loss: Callable[..., Tensor],
    direction: Direction,
    contributions: Contributions,
    epsilon: float,
    convention: Convention,
) -> dict[str, Tensor]:
    """Return the counters of one direction."""
    counted = contributions.counted(epsilon)
    counters = {
        **_summarise(_per_query(counted.sum(-1), direction), over_all=isinstance(loss, NTXent)),
        "negative_weight": _per_query((contributions.candidates * counted).sum(-1), direction).mean(-1),
        "positive_weight": _per_query(contributions.positive, direction).mean(-1),
    }
    if convention == "published" and isinstance(loss, SmoothAP):
        counters |= _published_smooth_ap(loss, direction, epsilon)
    elif convention == "published" and isinstance(loss, Triplet) and direction.name == "t2i":
        # The published code sums along the captions, although the candidates of a caption are along the other axis.
        counters |= _summarise(counted.sum(-2).double())
    return counters


def _without_epsilon(contributions: Contributions, direction: Direction) -> dict[str, Tensor]:
    """Return the counters that have no threshold, from each query's weights, summed over its positives."""
    weights = contributions.candidates.double()
    total = direction.sum_per_query(weights.sum(-1))
    by_query = direction.sum_per_query(weights.mT).mT
    with_gradient = total > 0
    shares = by_query / total.masked_fill(~with_gradient, 1.0)[..., None]
    measures = {
        "effective_negatives_entropy": torch.special.entr(shares).sum(-1).exp(),
        "effective_negatives_squares": 1 / shares.square().sum(-1).masked_fill(~with_gradient, 1.0),
    }
    for count in (1, 5):
        # A loss with one candidate per query has the hardest negative alone.
        is_whole = shares.shape[-1] == 1
        hardest = with_gradient[..., None] if is_whole else with_hardest(direction, count).negatives
        measures[f"gradient_share_hardest{count}"] = (shares * hardest).sum(-1)
    queries = with_gradient.sum(-1)
    return {name: (values * with_gradient).sum(-1) / queries for name, values in measures.items()}


def _summarise(counts: Tensor, *, over_all: bool = False) -> dict[str, Tensor]:
    """Return C^q, C^B and C^0 from the count of each query, shape (..., Q)."""
    total, without = counts.sum(-1), (counts == 0).sum(-1).double()
    queries = counts.shape[-1] if over_all else counts.shape[-1] - without
    return {"negatives_per_query": total / queries, "negatives_per_batch": total, "queries_without_gradient": without}


def _per_query(values: Tensor, direction: Direction) -> Tensor:
    """Return the mean over each query's positives, shape (..., Q), float64, of values of pairs, shape (..., P)."""
    return direction.sum_per_query(values.double()) / direction.positives.sum(-1)


def _published_smooth_ap(loss: SmoothAP, direction: Direction, epsilon: float) -> dict[str, Tensor]:
    as_coded = _with_coded_positives(direction)
    counted = loss.contributions(as_coded).counted(epsilon)
    divisor = CODED_POSITIVES if direction.name == "i2t" else 1
    summary = _summarise(as_coded.sum_per_query(counted.sum(-1).double()) / divisor)
    summary["negatives_per_query"] = summary["negatives_per_query"].nan_to_num(0.0)
    return summary


def _with_coded_positives(direction: Direction) -> Direction:
    """Return the direction with candidates 5q to 5q + 4, where they exist, as the positives of query q."""
    queries, candidates = direction.positives.shape
    device = direction.scores.device
    owner = torch.arange(candidates, device=device) // CODED_POSITIVES
    positives = owner == torch.arange(queries, device=device)[:, None]
    query, candidate = positives.nonzero(as_tuple=True)
    return direction._replace(
        positives=positives,
        negatives=(direction.positives | direction.negatives) & ~positives,
        query=query,
        candidate=candidate,
        positive=direction.scores[..., query, candidate],
        pairs_are_queries=False,
    )


def _gradients(
    loss: Callable[..., Tensor],
    similarity: Tensor,
    positives: Tensor,
    ignore: Tensor | None,
    candidates: Candidates | None,
) -> tuple[Tensor, list[Tensor]]:
    """Return dL/ds of each trial's loss with respect to its own similarities.

    Returns:
        The gradient of the batch's pairs, shape (..., I, C), the sum over both directions, and of each direction's
        pairs with the bank, (..., Q, B).
    """
    device = similarity.device
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.random.fork_rng([device] if device.type == "cuda" else [], device_type="cuda"),
    ):
        positives = _saveable(positives)
        ignore = None if ignore is None else _saveable(ignore)
        negatives = [_saveable(side.negatives) for side in candidates or ()]

        def compute(leaves: Sequence[Tensor]) -> Tensor:
            # So that a loss that draws counts alike alone, in a stack and after a resume, whatever was drawn before.
            seed_torch(0, "cocos")
            if not negatives:
                return loss(*leaves, positives, ignore)
            return loss(leaves[0], positives, ignore, tuple(map(ConstantCandidates, leaves[1:], negatives)))

        scores = [similarity, *(side.scores for side in candidates or ())]
        leaves = [part.detach().clone().requires_grad_() for part in scores]
        value = compute(leaves)
        if value.dim() > similarity.dim() - 2:
            # The hyper-parameters are of several trials, and the gradient of each trial needs its own similarities.
            leaves = [leaf.detach().expand(*value.shape, *leaf.shape[-2:]).clone().requires_grad_() for leaf in leaves]
            value = compute(leaves)
        gradients = [torch.zeros_like(leaf) for leaf in leaves]
        if value.requires_grad:
            found = torch.autograd.grad(value.sum(), leaves, allow_unused=True)
            gradients = [zeros if part is None else part for zeros, part in zip(gradients, found, strict=True)]
    own, *of_sides = gradients
    images, captions = positives.shape
    if of_sides:
        own = own + of_sides[0][..., :captions] + of_sides[1][..., :images].mT
    return own, [part[..., size:] for part, size in zip(of_sides, (captions, images), strict=False)]


def _saveable(mask: Tensor) -> Tensor:
    """Return a tensor that autograd may save for the backward pass; tensors of inference mode may not be saved."""
    return mask.clone() if mask.is_inference() else mask
