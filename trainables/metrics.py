"""Retrieval metrics: recall, ranks, mAP@5 and rsum in both directions, from similarities or from embeddings.

The rank of a query is its best positive's rank:  rank = 1 + #{negatives n: s_n >= max_p s_p}. Ties rank against the
query, so that a model that maps all inputs to one point never scores above chance. From the ranks:

    R@K = 100 * mean(rank <= K)      medr = floor(median(rank))      meanr = mean(rank)
    AP@5 = (1/z) * sum of r / position_r  over the positives, r-th best first, whose position is at most 5

with z the number of these positives ("published"; one hit at rank 1 gives 1) or min(5, positives of the query)
("standard"). All metrics follow from the numbers of negatives at or above each of a query's five best positives. These
counts are summed over blocks of the similarity matrix, so the whole matrix need not exist.

Where images retrieve images, a query looks for another image of its class among all other images:

    rank = 1 + #{images n of other classes: s_n >= max over the other images p of its class of s_p}
    R@K  = 100 * mean(rank <= K)

The query itself is no candidate. There is only one direction, so every
``t2i_`` number equals the ``i2t_`` number, and ``rsum`` is twice the sum of R@1, R@5 and R@10. AP@5 and NMI are left
out.

References:
    [Faghri2018] Faghri et al., VSE++, section 4: recall and the COCO 1K and 5K protocols. arXiv:1707.05612
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?,
        section 4: average recall, rsum and mAP@5. arXiv:2202.07474
    [OhSong2016] Oh Song et al., Deep Metric Learning via Lifted Structured Feature Embedding, section 5: Recall@K of
        CUB-200-2011 (K = 1, 2, 4, 8), CARS196 and Stanford Online Products. arXiv:1511.06452
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from trainables.positive_ranks import (
    CHUNK,
    BlockScores,
    Scores,
    check_embeddings,
    check_finite,
    count_reaching,
    order_positives,
    rank_by_scores,
    require_positives,
)
from trainables.representations import Gallery

AveragePrecision = Literal["published", "standard"]
"""Divisor of AP@5: the hits in the top 5, or min(5, positives)."""

DEPTH = 5
"""Number of a query's best positives that matter, because AP@5 depends on the first five candidates."""

RECALL_SUMS = {"r1_r5_sum": (1, 5), "rsum": (1, 5, 10)}
"""Metric -> the K of its sum of R@K over both directions; the published code of VSRN selects by ``r1_r5_sum``."""

QUERIES_AT_A_TIME = 512
"""Rows of a similarity matrix that are masked and compared at a time; limits memory and changes no result."""


def retrieval_metrics(similarity: Tensor, positives: Tensor, map5: AveragePrecision = "published") -> dict[str, float]:
    """Return the metrics of a similarity matrix.

    Args:
        similarity: Shape (I, C), floating, finite; rows are images, columns captions, larger is closer.
        positives: Shape (I, C), bool; every row and every column has at least one True.
        map5: Divisor of AP@5.

    Returns:
        ``i2t_r1 i2t_r5 i2t_r10 i2t_average_recall`` in percent, ``i2t_medr i2t_meanr`` from 1, ``i2t_map5`` in [0, 1],
        the ``t2i_`` metrics alike, ``rsum``, the sum of the six recalls, and ``r1_r5_sum``, the sum of R@1 and R@5.

    Raises:
        ValueError: If a shape or dtype is wrong, a row or column has no positive, or a similarity is not finite.

    Example:
        >>> retrieval_metrics(torch.eye(20), torch.eye(20, dtype=torch.bool))["rsum"]
        600.0
        >>> retrieval_metrics(torch.ones(20, 20), torch.eye(20, dtype=torch.bool))["rsum"]
        0.0
    """
    if similarity.dim() != 2 or positives.shape != similarity.shape or positives.dtype != torch.bool:
        raise ValueError(
            f"similarity must have the shape (images, captions) and positives, bool, the same shape, "
            f"got {tuple(similarity.shape)} and {positives.dtype} of shape {tuple(positives.shape)}"
        )
    if positives.numel() == 0:
        raise ValueError(f"similarity needs at least one image and one caption, got {tuple(similarity.shape)}")
    require_positives(positives)
    check_finite("similarity", similarity)
    i2t, t2i = _harder_negatives(similarity, positives), _harder_negatives(similarity.mT, positives.mT)
    return _metrics(i2t, positives.sum(1), t2i, positives.sum(0), map5)


def embedding_metrics(
    images: Tensor,
    captions: Tensor,
    image_of_caption: Tensor,
    *,
    folds: int = 1,
    map5: AveragePrecision = "published",
    chunk: int = CHUNK,
) -> dict[str, float]:
    """Return the metrics of dot products of embeddings, without their I x C matrix.

    Comparisons of scores are exact as in float64 for embeddings of any precision, so the block size changes no metric;
    see ``positive_ranks``. Memory holds the embeddings in float32, and a few blocks.

    Args:
        images: Shape (I, D), floating, finite.
        captions: Shape (C, D), on the same device.
        image_of_caption: Shape (C,), integers in [0, I): the image of each caption; every image has a caption.
        folds: Number of consecutive parts with equally many images, whose metrics are averaged: 5 on the 5,000 images
            of COCO's test split is the 1K protocol, 1 the 5K protocol. Must divide I.
        map5: Divisor of AP@5.
        chunk: Rows and columns of a block, >= 1.

    Returns:
        The keys of ``retrieval_metrics``.

    Raises:
        ValueError: If a shape, index or number is out of the ranges above.
    """
    check_embeddings(images, captions, image_of_caption)
    # Detached: counts have no gradient, and autograd does not allow blocks to be overwritten.
    sides = images.detach(), captions.detach()
    return metrics_in_folds(BlockScores, *sides, image_of_caption, folds=folds, map5=map5, chunk=chunk)


def metrics_in_folds(
    make_scores: Callable[[Any, Any], Scores],
    images: Gallery,
    captions: Gallery,
    image_of_caption: Tensor,
    *,
    folds: int = 1,
    map5: AveragePrecision = "published",
    chunk: int = CHUNK,
) -> dict[str, float]:
    """Return the metrics of scores that are computed a block at a time, without their I x C matrix.

    ``make_scores`` makes the scores of images and captions, each vectors or sets of vectors. For the other arguments
    see ``embedding_metrics``.

    Raises:
        ValueError: If ``folds`` does not divide I, or ``chunk`` is below 1.
    """
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    if folds < 1 or len(images) % folds:
        raise ValueError(f"folds must divide the number of images, {len(images)}, got {folds}")

    def measure(images: Gallery, captions: Gallery, owners: Tensor) -> dict[str, float]:
        ranks = rank_by_scores(make_scores(images, captions), owners, chunk=chunk, depth=DEPTH)
        return metrics_of_ranks(*ranks, owners, map5=map5)

    if folds == 1:
        # Not cut, because a part of a gallery is a copy: a gigabyte for the sets of words of COCO's captions.
        return measure(images, captions, image_of_caption)
    size = len(images) // folds
    results = []
    for start in range(0, len(images), size):
        inside = (image_of_caption >= start) & (image_of_caption < start + size)
        results.append(measure(images[start : start + size], captions[inside], image_of_caption[inside] - start))
    return {name: sum(result[name] for result in results) / folds for name in results[0]}


def metrics_of_ranks(
    i2t: Tensor, t2i: Tensor, image_of_caption: Tensor, *, map5: AveragePrecision = "published"
) -> dict[str, float]:
    """Return the metrics of ``retrieval_metrics`` from the ranks of ``rank_positives``.

    They are computed on the CPU wherever the ranks are, so that equal ranks give equal metrics to the last bit.

    Example:
        >>> metrics_of_ranks(torch.tensor([1, 1, 3]), torch.tensor([1, 2, 1]), torch.tensor([0, 0, 1]))["i2t_r1"]
        50.0
    """
    i2t, t2i, image_of_caption = i2t.cpu(), t2i.cpu(), image_of_caption.cpu()
    image_count = int(image_of_caption.max()) + 1
    # The better of two positives has fewer negatives before it, so sorting by rank is sorting by score.
    order, place, counts = order_positives(-i2t, image_of_caption, image_count)
    harder = i2t.new_zeros(image_count, int(counts.max()))
    harder[image_of_caption[order], place] = i2t[order] - 1
    return _metrics(harder[:, :DEPTH], counts, (t2i - 1)[:, None], torch.ones_like(t2i), map5)


def _harder_negatives(scores: Tensor, positives: Tensor) -> Tensor:
    """Return how many negatives are at or above each query's r-th best positive, shape (Q, <= 5)."""
    depth = min(DEPTH, int(positives.sum(1).max()))
    parts = []
    for rows, own in zip(scores.split(QUERIES_AT_A_TIME), positives.split(QUERIES_AT_A_TIME), strict=True):
        best = rows.masked_fill(~own, -torch.inf).topk(depth).values
        negatives = rows.masked_fill(own, -torch.inf)
        # Queries with fewer positives are padded with -inf, at or above which no negative may be counted.
        best = best.masked_fill(best == -torch.inf, torch.inf)
        parts.append(count_reaching(negatives, best))
    return torch.cat(parts)


def _metrics(
    i2t: Tensor, captions_per_image: Tensor, t2i: Tensor, images_per_caption: Tensor, map5: AveragePrecision
) -> dict[str, float]:
    """Return all metrics from the counts of ``_harder_negatives`` and the numbers of positives of the queries."""
    metrics = _direction("i2t", i2t, captions_per_image, map5) | _direction("t2i", t2i, images_per_caption, map5)
    sums = {
        name: torch.stack([metrics[f"{direction}_r{k}"] for direction in ("i2t", "t2i") for k in depths]).sum(0)
        for name, depths in RECALL_SUMS.items()
    }
    metrics |= sums
    return dict(zip(metrics, torch.stack(list(metrics.values())).tolist(), strict=True))


def _direction(name: str, harder: Tensor, positive_count: Tensor, map5: AveragePrecision) -> dict[str, Tensor]:
    """Return one direction's metrics, each a scalar, float64."""
    rank = harder[:, 0] + 1
    # Sums of integers are exact in any order of the queries.
    recalls = {f"r{k}": 100 * (rank <= k).sum().double() / len(rank) for k in (1, 5, 10)}
    metrics = {
        **recalls,
        "medr": _median(rank),
        "meanr": rank.double().mean(),
        "map5": _average_precision(harder, positive_count, map5).mean(),
        "average_recall": torch.stack(list(recalls.values())).mean(0),
    }
    return {f"{name}_{metric}": value for metric, value in metrics.items()}


def _median(rank: Tensor) -> Tensor:
    """Return the floor of the median, as is usual in the field; an even number has the mean of the middle two ranks."""
    ordered, last = rank.sort().values, len(rank) - 1
    return ((ordered[last // 2] + ordered[(last + 1) // 2]) // 2).double()


def _average_precision(harder: Tensor, positive_count: Tensor, map5: AveragePrecision) -> Tensor:
    """Return AP@5 of each query, shape (Q,)."""
    place = torch.arange(1, harder.shape[-1] + 1, device=harder.device)
    position = harder + place
    hit = (position <= DEPTH) & (place <= positive_count[:, None])
    total = (hit * (place / position.double())).sum(-1)
    if map5 == "published":
        return total / hit.sum(-1).clamp(min=1)
    if map5 == "standard":
        return total / positive_count.clamp(max=DEPTH)
    raise ValueError(f"map5 must be 'published' or 'standard', got {map5!r}")


FINE_PLACES = (2, 4, 8)
"""Further K of the recalls R@K, which are usual in fine-grained retrieval, beside 1, 5 and 10."""


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
        same_class = labels[part][:, None] == labels
        itself = everyone == part[:, None]
        best = block.masked_fill(~same_class | itself, -torch.inf).amax(1, keepdim=True)
        ranks.append(1 + ((block >= best - scores.tolerance) & ~same_class).sum(1))
    return torch.cat(ranks)


def class_metrics(ranks: Tensor) -> dict[str, float]:
    """Return the keys of ``retrieval_metrics`` without AP, and R@2, R@4 and R@8, of ranks of ``rank_classmates``.

    Ranks are from 1, shape (I,), int64.
    """
    ranks = ranks.cpu()
    metrics = metrics_of_ranks(ranks, ranks, torch.arange(len(ranks)))
    kept = {name: value for name, value in metrics.items() if not name.endswith("map5")}
    fine = {k: 100.0 * int((ranks <= k).sum()) / len(ranks) for k in FINE_PLACES}
    return kept | {f"{way}_r{k}": value for way in ("i2t", "t2i") for k, value in fine.items()}
