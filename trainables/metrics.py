"""Retrieval metrics of both directions, from similarities or from embeddings.

The rank of a query is its best positive's rank:  rank = 1 + #{negatives n: s_n >= max_p s_p}. Ties rank against the
query, so that a model that maps all inputs to one point never scores above chance. All metrics of ``metric_table``
follow from the numbers of negatives at or above each of a query's best positives. These counts are summed over blocks
of the similarity matrix, so the whole matrix need not exist.

Where images retrieve images, a query looks for another image of its class among all other images:

    rank = 1 + #{images n of other classes: s_n >= max over the other images p of its class of s_p}
    R@K  = 100 * mean(rank <= K)

The query itself is no candidate. There is only one direction, so every ``t2i_`` number equals the ``i2t_`` number, and
``rsum`` is twice the sum of R@1, R@5 and R@10. AP@K and NMI are left out.

References:
    [Faghri2018] Faghri et al., VSE++, section 4: recall and the COCO 1K and 5K protocols. arXiv:1707.05612
    [OhSong2016] Oh Song et al., Deep Metric Learning via Lifted Structured Feature Embedding, section 5: Recall@K of
        CUB-200-2011 (K = 1, 2, 4, 8), CARS196 and Stanford Online Products. arXiv:1511.06452
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.metric_table import DIRECTIONS, METRICS, Metric, depth_of, keys_of, parts_of
from trainables.metric_values import Queries, queries_of, single_queries
from trainables.positive_ranks import (
    CHUNK,
    BlockScores,
    Scores,
    check_embeddings,
    check_finite,
    count_reaching,
    rank_by_scores,
    require_positives,
)
from trainables.representations import Gallery

QUERIES_AT_A_TIME = 512
"""Rows of a similarity matrix that are masked and compared at a time; limits memory and changes no result."""


def retrieval_metrics(similarity: Tensor, positives: Tensor) -> dict[str, float]:
    """Return the metrics of a similarity matrix.

    Args:
        similarity: Shape (I, C), floating, finite; rows are images, columns captions, larger is closer.
        positives: Shape (I, C), bool; every row and every column has at least one True.

    Returns:
        Name without split -> value, of the metrics of ``metric_table`` that are measured of captions: ``i2t_r1`` ...
        ``i2t_map5`` ..., the same for ``t2i_``, ``rsum`` and so on.

    Raises:
        ValueError: If a shape or dtype is wrong, a row or column has no positive, or a similarity is not finite.
        PluginError: If the function of a plug-in's metric fails.

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
    sides = {"i2t": (similarity, positives), "t2i": (similarity.mT, positives.mT)}
    of_similarities = {
        f"{way}_{measure}": _values(entry.of_similarities(*side))
        for measure, entry in _of_captions()
        if entry.of_similarities is not None
        for way, side in sides.items()
    }
    return _metrics({way: _harder_negatives(*side) for way, side in sides.items()}, of_similarities)


def embedding_metrics(
    images: Tensor, captions: Tensor, image_of_caption: Tensor, *, folds: int = 1, chunk: int = CHUNK
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
        chunk: Rows and columns of a block, >= 1.

    Returns:
        The keys of ``retrieval_metrics``.

    Raises:
        ValueError: If a shape, index or number is out of the ranges above.
    """
    check_embeddings(images, captions, image_of_caption)
    # Detached: counts have no gradient, and autograd does not allow blocks to be overwritten.
    return metrics_in_folds(BlockScores, images.detach(), captions.detach(), image_of_caption, folds=folds, chunk=chunk)


def metrics_in_folds(
    make_scores: Callable[[Any, Any], Scores],
    images: Gallery,
    captions: Gallery,
    image_of_caption: Tensor,
    *,
    folds: int = 1,
    chunk: int = CHUNK,
) -> dict[str, float]:
    """Return the metrics of scores that are computed a block at a time, without their I x C matrix.

    ``make_scores`` makes the scores of images and captions, each vectors or sets of vectors. For the other arguments
    see ``embedding_metrics``.

    Raises:
        ValueError: If ``folds`` does not divide I, or ``chunk`` is below 1.
        PluginError: If the function of a plug-in's metric fails.
    """
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    if folds < 1 or len(images) % folds:
        raise ValueError(f"folds must divide the number of images, {len(images)}, got {folds}")
    depth = depth_of(entry for _, entry in _of_captions())

    def measure(images: Gallery, captions: Gallery, owners: Tensor) -> dict[str, float]:
        scores = make_scores(images, captions)
        ranks = rank_by_scores(scores, owners, chunk=chunk, depth=depth)
        return metrics_of_ranks(*ranks, owners, of_similarities=values_of_similarities(scores, owners))

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
    i2t: Tensor, t2i: Tensor, image_of_caption: Tensor, *, of_similarities: dict[str, np.ndarray] | None = None
) -> dict[str, float]:
    """Return the metrics of ``retrieval_metrics`` from the ranks of ``rank_positives``.

    They are computed on the CPU wherever the ranks are, so that equal ranks give equal metrics to the last bit.
    ``of_similarities`` are those of ``values_of_similarities``, without which such metrics are left out.

    Example:
        >>> metrics_of_ranks(torch.tensor([1, 1, 3]), torch.tensor([1, 2, 1]), torch.tensor([0, 0, 1]))["i2t_r1"]
        50.0
    """
    depth = depth_of(entry for _, entry in _of_captions())
    of_images = queries_of(i2t.cpu().numpy(), image_of_caption.cpu().numpy(), depth)
    return _metrics({"i2t": of_images, "t2i": single_queries(t2i.cpu().numpy())}, of_similarities or {})


def values_of_similarities(scores: Scores, image_of_caption: Tensor) -> dict[str, np.ndarray]:
    """Return metric of one direction -> value of each query, (Q,), of the metrics that are functions of similarities.

    ``image_of_caption`` is on the device of the scores.

    Raises:
        PluginError: If a function fails.
    """
    functions = {measure: of for measure, entry in _of_captions() if (of := entry.of_similarities) is not None}
    if not functions:
        return {}
    captions = torch.arange(len(image_of_caption), device=scores.device)
    images = torch.arange(int(image_of_caption.max()) + 1, device=scores.device)
    parts: dict[str, list[np.ndarray]] = {}
    for way, queries in (("i2t", images), ("t2i", captions)):
        for part in queries.split(QUERIES_AT_A_TIME):
            block = scores.between(part, captions) if way == "i2t" else scores.between(images, part).T
            own = part[:, None] == image_of_caption if way == "i2t" else image_of_caption[part][:, None] == images
            for measure, function in functions.items():
                parts.setdefault(f"{way}_{measure}", []).append(_values(function(block, own)))
    return {name: np.concatenate(values) for name, values in parts.items()}


def _values(values: Any) -> np.ndarray:
    """Return the values of queries as float64, on the CPU."""
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, dtype=np.float64)


def _of_captions() -> Iterator[tuple[str, Metric]]:
    return ((measure, entry) for measure, entry in METRICS.items() if entry.of_captions)


def _harder_negatives(scores: Tensor, positives: Tensor) -> Queries:
    """Return the positives of the queries that are rows of scores, as many as metrics depend on."""
    counts = positives.sum(1)
    depth = depth_of(entry for _, entry in _of_captions())
    depth = int(counts.max()) if depth is None else min(depth, int(counts.max()))
    parts = []
    for rows, own in zip(scores.split(QUERIES_AT_A_TIME), positives.split(QUERIES_AT_A_TIME), strict=True):
        best = rows.masked_fill(~own, -torch.inf).topk(depth).values
        negatives = rows.masked_fill(own, -torch.inf)
        # Queries with fewer positives are padded with -inf, at or above which no negative may be counted.
        best = best.masked_fill(best == -torch.inf, torch.inf)
        parts.append(count_reaching(negatives, best))
    place = torch.arange(1, depth + 1, device=scores.device)
    positions = (torch.cat(parts) + place).double().masked_fill(place > counts[:, None], torch.inf)
    return Queries(positions.cpu().numpy(), counts.cpu().numpy())


def _metrics(
    queries: dict[str, Queries], of_similarities: dict[str, np.ndarray], *, of_classes: bool = False
) -> dict[str, float]:
    """Return all metrics of captions, or of classes, by names without a split."""
    metrics: dict[str, float] = {}
    measured = [
        (measure, entry)
        for measure, entry in METRICS.items()
        if (entry.of_classes if of_classes else entry.of_captions)
    ]
    for way in DIRECTIONS:
        for measure, entry in measured:
            name = f"{way}_{measure}"
            if entry.of_queries is not None:
                metrics[name] = _summary(_values(entry.of_queries(*queries[way])), median=entry.median)
            elif name in of_similarities:
                metrics[name] = _summary(of_similarities[name], median=entry.median)
            elif entry.directed and entry.parts:
                metrics[name] = _sum(metrics, name)
    for measure, entry in measured:
        if measure in keys_of(measure, entry) and parts_of(measure)[0][0] in metrics:
            metrics[measure] = _sum(metrics, measure)
    return metrics


def _sum(metrics: dict[str, float], name: str) -> float:
    parts, divisor = parts_of(name)
    # By torch, whose sums of numbers of a split have been in journals since version 0.2.
    return float(torch.tensor([metrics[part] for part in parts], dtype=torch.float64).sum()) / divisor


def _summary(values: np.ndarray, *, median: bool) -> float:
    """Return the mean over queries, or the floor of the median, as is usual in the field."""
    if not median:
        return float(torch.from_numpy(values).mean())
    ordered, last = np.sort(values), len(values) - 1
    return float((ordered[last // 2] + ordered[(last + 1) // 2]) // 2)


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


def rank_labels(scores: Scores, image_of_caption: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ranks of ``rank_positives`` where captions are labels that images share, each one candidate.

    A pair of an image and one of its labels has the rank of the label among the labels that the image lacks, and the
    rank of the image among the images without the label.

    Args:
        scores: Similarities of I images and L labels.
        image_of_caption: Image of each pair, shape (C,), integers in [0, I).
        labels: Label of each pair, shape (C,), integers in [0, L).

    Returns:
        Ranks from 1, image to label and label to image, each of shape (C,), int64, on the device of the scores.

    Example:
        >>> from trainables.positive_ranks import BlockScores
        >>> scores = BlockScores(torch.eye(2), torch.tensor([[1.0, 0.5], [0.4, 0.9], [0.8, 0.1]]))
        >>> [ranks.tolist() for ranks in rank_labels(scores, torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2]))]
        [[1, 2, 3], [1, 2, 2]]
    """
    owners, labels = image_of_caption.to(scores.device), labels.to(scores.device)
    images, columns = (torch.arange(int(numbers.max()) + 1, device=scores.device) for numbers in (owners, labels))
    i2t, t2i = torch.zeros_like(owners), torch.zeros_like(owners)
    for ranks, rows, others, of_images in ((i2t, owners, labels, True), (t2i, labels, owners, False)):
        for queries in (images if of_images else columns).split(QUERIES_AT_A_TIME):
            block = scores.between(queries, columns) if of_images else scores.between(images, queries).mT
            inside = ((rows >= queries[0]) & (rows <= queries[-1])).nonzero().flatten()
            row, own = rows[inside] - queries[0], others[inside]
            thresholds = block[row, own] - scores.tolerance
            block = block.clone()
            block[row, own] = -torch.inf
            ranks[inside] = 1 + (block.index_select(0, row) >= thresholds[:, None]).sum(1)
    return i2t, t2i


def class_metrics(ranks: Tensor) -> dict[str, float]:
    """Return the metrics of classes, R@2, R@4 and R@8 among them and no AP, of ranks of ``rank_classmates``.

    Ranks are from 1, shape (I,), int64.
    """
    queries = single_queries(ranks.cpu().numpy())
    return _metrics(dict.fromkeys(DIRECTIONS, queries), {}, of_classes=True)
