"""Retrieval of images with images: a query looks for another image of its class among all other images.

    rank = 1 + #{images n of other classes: s_n >= max over the other images p of its class of s_p}
    R@K  = 100 * mean(rank <= K)

The query itself is no candidate. Ties rank against the query, as in ``metrics``. There is only one direction, so every
``t2i_`` number equals the ``i2t_`` number, and ``rsum`` is twice the sum of R@1, R@5 and R@10. AP@5 and NMI are left
out.

References:
    [OhSong2016] Oh Song et al., Deep Metric Learning via Lifted Structured Feature Embedding, section 5: Recall@K of
        CUB-200-2011 (K = 1, 2, 4, 8), CARS196 and Stanford Online Products. arXiv:1511.06452
"""

import torch
from torch import Tensor

from trainables.metrics import metrics_of_ranks
from trainables.positive_ranks import Scores

FINE_PLACES = (2, 4, 8)
"""Further K of the recalls R@K, which are usual in fine-grained retrieval, beside 1, 5 and 10."""

QUERIES_AT_A_TIME = 512
"""Number of queries that are compared with all images at a time; limits memory and changes no result."""


def rank_classmates(scores: Scores, labels: Tensor) -> Tensor:
    """Return the rank of the best other image of each image's class among the images of other classes.

    Args:
        scores: Similarities of the I images as queries with the same I images as candidates.
        labels: Class of each image, shape (I,), integers; each class has at least two images.

    Returns:
        Ranks from 1, shape (I,), int64, on the device of the scores.

    Raises:
        ValueError: If a class has only one image.

    Example:
        >>> from trainables.positive_ranks import BlockScores
        >>> vectors = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.8, 0.3]])
        >>> rank_classmates(BlockScores(vectors, vectors), torch.tensor([0, 0, 1, 1])).tolist()
        [1, 1, 1, 3]
    """
    labels = labels.to(scores.device)
    if int(labels.bincount().where(labels.bincount() > 0, 2).min()) < 2:
        raise ValueError("every class needs two images: a query and an image to find")
    everyone = torch.arange(len(labels), device=scores.device)
    ranks = []
    for part in everyone.split(QUERIES_AT_A_TIME):
        block = scores.between(part, everyone)
        same = labels[part][:, None] == labels
        itself = everyone == part[:, None]
        best = block.masked_fill(~same | itself, -torch.inf).amax(1, keepdim=True)
        ranks.append(1 + ((block >= best - scores.tolerance) & ~same).sum(1))
    return torch.cat(ranks)


def class_metrics(ranks: Tensor) -> dict[str, float]:
    """Return the keys of ``retrieval_metrics`` without AP, and R@2, R@4 and R@8, of ranks of ``rank_classmates``.

    Args:
        ranks: Ranks from 1, shape (I,), int64.
    """
    found = metrics_of_ranks(ranks, ranks, torch.arange(len(ranks), device=ranks.device))
    kept = {name: value for name, value in found.items() if not name.endswith("map5")}
    fine = {k: 100.0 * int((ranks <= k).sum()) / len(ranks) for k in FINE_PLACES}
    return kept | {f"{way}_r{k}": value for way in ("i2t", "t2i") for k, value in fine.items()}
