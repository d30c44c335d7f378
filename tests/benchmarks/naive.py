"""The losses and metrics as one would first write them: a loop over queries, and SmoothAP on its full tensor.

They are what the product's versions are measured against, and are checked to give the same numbers.
"""

import random
from collections.abc import Callable

import torch
from torch import Tensor

Naive = Callable[[Tensor, Tensor], Tensor]


def directions(similarity: Tensor, positives: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
    return (similarity, positives), (similarity.T, positives.T)


def triplet(similarity: Tensor, positives: Tensor) -> Tensor:
    total = similarity.new_zeros(())
    for scores, own in directions(similarity, positives):
        for row, mine in zip(scores, own, strict=True):
            total = total + (0.2 - row[mine][:, None] + row[~mine]).clamp(min=0).sum()
    return total


def triplet_sh(similarity: Tensor, positives: Tensor) -> Tensor:
    total = similarity.new_zeros(())
    for scores, own in directions(similarity, positives):
        for row, mine in zip(scores, own, strict=True):
            total = total + (0.2 - row[mine] + row[~mine].max()).clamp(min=0).sum()
    return total


def nt_xent(similarity: Tensor, positives: Tensor) -> Tensor:
    total = similarity.new_zeros(())
    for scores, own in directions(similarity, positives):
        for row, mine in zip(scores, own, strict=True):
            total = total - (row / 0.1).log_softmax(0)[mine].mean() / (2 * len(scores))
    return total


def smooth_ap(similarity: Tensor, positives: Tensor) -> Tensor:
    """The M x M differences of one query after another."""
    total = similarity.new_zeros(())
    for scores, own in directions(similarity, positives):
        others = 1 - torch.eye(scores.shape[1], dtype=scores.dtype)
        for row, mine in zip(scores, own, strict=True):
            above = ((row[None] - row[:, None]) / 0.01).sigmoid() * others
            precision = (1 + (above * mine).sum(1)) / (1 + above.sum(1))
            total = total + (1 - precision[mine].mean()) / (2 * len(scores))
    return total


def smooth_ap_full_tensor(similarity: Tensor, positives: Tensor) -> Tensor:
    """The Q x M x M differences of all queries at once."""
    total = similarity.new_zeros(())
    for scores, own in directions(similarity, positives):
        others = 1 - torch.eye(scores.shape[1], dtype=scores.dtype)
        above = ((scores[:, None, :] - scores[:, :, None]) / 0.01).sigmoid() * others
        precision = (1 + (above * own[:, None, :]).sum(2)) / (1 + above.sum(2))
        total = total + (1 - (precision * own).sum(1) / own.sum(1)).mean() / 2
    return total


def polynomial_self(similarity: Tensor, positives: Tensor) -> Tensor:
    return _polynomial(similarity, positives, lambda positive, hardest: 0.2 - positive + hardest)


def polynomial_relative(similarity: Tensor, positives: Tensor) -> Tensor:
    return _polynomial(similarity, positives, lambda positive, hardest: 0.2 + (hardest - positive))


def _polynomial(similarity: Tensor, positives: Tensor, cost: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    total = similarity.new_zeros(())
    for scores, own in directions(similarity, positives):
        for row, mine in zip(scores, own, strict=True):
            total = total + cost(row[mine], row[~mine].max()).clamp(min=0).sum()
    return total / positives.sum()


def warp(similarity: Tensor, positives: Tensor) -> Tensor:
    """Draw one negative after another until one violates."""
    total = similarity.new_zeros(())
    rng = random.Random(0)
    for scores, own in directions(similarity, positives):
        for row, mine in zip(scores, own, strict=True):
            numbers = row.tolist()
            negatives = (~mine).nonzero().flatten().tolist()
            for p in mine.nonzero().flatten().tolist():
                for draws in range(1, len(negatives) + 1):
                    candidate = rng.choice(negatives)
                    if numbers[candidate] > numbers[p] - 1:
                        weight = sum(1 / j for j in range(1, len(negatives) // draws + 1))
                        total = total + weight * (1 - row[p] + row[candidate])
                        break
    return total / positives.sum()


def metrics(images: Tensor, captions: Tensor, image_of_caption: Tensor) -> dict[str, float]:
    """Sort the candidates of one query after another, on the full matrix."""
    similarity = images @ captions.T
    positives = image_of_caption == torch.arange(len(images))[:, None]
    recalls = {}
    for name, (scores, own) in zip(("i2t", "t2i"), directions(similarity, positives), strict=True):
        ranks = [int(mine[row.argsort(descending=True)].int().argmax()) for row, mine in zip(scores, own, strict=True)]
        recalls |= {f"{name}_r{k}": 100 * sum(rank < k for rank in ranks) / len(ranks) for k in (1, 5, 10)}
    return {**recalls, "rsum": sum(recalls.values())}


LOSSES: dict[str, dict[str, Naive]] = {
    "triplet": {"loop": triplet},
    "triplet_sh": {"loop": triplet_sh},
    "nt_xent": {"loop": nt_xent},
    "smooth_ap": {"loop": smooth_ap, "full_tensor": smooth_ap_full_tensor},
    "polynomial_self": {"loop": polynomial_self},
    "polynomial_relative": {"loop": polynomial_relative},
    "warp": {"loop": warp},
}
"""By the product's name, the naive versions with its default hyper-parameters."""
