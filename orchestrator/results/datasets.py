"""Losses over several datasets: does their order differ between the datasets, and which are best on average?

The mean of loss l on dataset d is m_dl, over its seeds and the images. P_n is the projection that subtracts the mean of
n numbers. T = P_D x P_L (Kronecker) keeps of all means the interaction alone: how far the differences between losses
are not the same on all datasets. The statistic of [Brunner1997], the ANOVA-type statistic,

    F = m' T m / tr(T V),   compared with F(f, f0),   f = tr(T V)^2 / tr(T V T V)

needs no inverse of the covariance V of the means, which two or three seeds a cell do not determine. V is that of the
crossed random model (``crossed``):

    V = diag(A) + B - diag(C)
    A = variance of a cell's run means / S              the effect of its seeds, each cell with its own
    B = covariance of the cells' values per image / I   the cells of a dataset have the same images, so they are paired
    C = mean square of the residuals / (S I)            the part that A and B both hold, of each cell

Datasets of translated captions have the same images as well. Where all datasets have equally many images, B pairs them
in their order. Where the images differ in truth, pairing them does no harm, because the estimated covariance between
the datasets is unbiased for its true value 0. Where the numbers differ, the images are independent, and B has blocks of
0 between the datasets.

and f0 has Satterthwaite's form, with the traces' parts of each A, on S - 1 degrees, and of the images, on I - 1. In
cases of 600 simulated experiments without an interaction, a test at 5 % found one in 0.5 to 5 %. So it is safe and,
with 2 seeds, weak. The cases had 2 to 5 seeds of 2 to 13 losses on 2 to 5 datasets, with equal and very unequal seed
variances.

On each dataset losses are ranked (1 is best, ties share). Two losses differ where their mean ranks differ by more than
Nemenyi's critical difference [Demsar2006]

    CD = q sqrt(L (L + 1) / (6 D)),   q = 95 % point of the studentised range of L means / sqrt(2)

References:
    [Brunner1997] Brunner, Dette and Munk, Box-type approximations in nonparametric factorial designs, J. Am. Stat.
        Assoc. 92, 1494-1502, theorem 2.2.
    [Demsar2006] Demsar, Statistical Comparisons of Classifiers over Multiple Data Sets, J. Mach. Learn. Res. 7, 1-30.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.crossed import ImageRows, own_parts

FEW = 10
"""Datasets below which a critical difference finds hardly anything; [Demsar2006] advises more than 10."""

LEVEL = 0.05
"""Level of the critical difference."""


class Interaction(NamedTuple):
    """p, F (>= 0, near 1 without interaction), its degrees of freedom f and f0, and the effects, see below."""

    p: float
    statistic: float
    freedoms: tuple[float, float]
    effects: NDArray[np.float64]


def interaction_test(values: Mapping[str, Mapping[str, ImageRows]]) -> Interaction | None:
    """Test whether the differences between losses are the same on all datasets.

    Args:
        values: Dataset -> loss -> values of its runs, shape (S, I), see ``crossed``: a row a seed, S >= 1, and a
            column an image. The images of a dataset are the same, in the same order, for all its losses.

    Returns:
        The test over the ``common_losses``. p is the probability of so large an F if the differences were the same on
        all datasets. The effects, shape (D, L), in the metric's unit, say how much better a loss is on a dataset than
        its mean and the dataset's mean say. Rows and columns add up to 0. ``None`` where there are fewer than two
        datasets, losses or images of a dataset, or where nothing varies.

    Raises:
        ValueError: If losses of one dataset have different numbers of images.
    """
    datasets, losses = tuple(values), common_losses(values)
    if len(datasets) < 2 or len(losses) < 2:
        return None
    cells = [np.asarray(values[dataset][loss], dtype=np.float64) for dataset in datasets for loss in losses]
    blocks = [cells[first : first + len(losses)] for first in range(0, len(cells), len(losses))]
    images = [block[0].shape[1] for block in blocks]
    if any(cell.shape[1] != count for block, count in zip(blocks, images, strict=True) for cell in block):
        raise ValueError("the losses of a dataset must have the same images, in the same order")
    if min(images) < 2:
        return None
    seeds, joint = np.array([own_parts(cell) for cell in cells]).T
    centred = (np.eye(count) - 1 / count for count in (len(datasets), len(losses)))
    kept = np.asarray(np.kron(*centred), dtype=np.float64)
    weights = np.diag(kept)
    spread = kept @ (_of_images(blocks) + np.diag(_of_seeds_alone(seeds, joint, weights)))
    trace = max(float(np.trace(spread)), float(weights @ seeds))
    means = np.array([cell.mean() for cell in cells])
    if trace <= (1e-12 * max(1.0, float(np.abs(means).max()))) ** 2:
        return None
    statistic = float(means @ kept @ means) / trace
    freedom = float(np.trace(spread)) ** 2 / float(np.trace(spread @ spread))
    # As in ``crossed``: the variance of few seeds is often far too small by chance, which would leave the images' many
    # degrees of freedom.
    freedoms, parts = np.array([max(1, len(cell) - 1) for cell in cells]), weights * seeds
    squares = float((parts**2 / freedoms).sum()) + max(0.0, trace - float(parts.sum())) ** 2 / (min(images) - 1)
    error_freedom = trace**2 / squares
    effects = (kept @ means).reshape(len(datasets), len(losses))
    from scipy.stats import f

    p = float(f.sf(statistic, freedom, error_freedom))
    return Interaction(p, statistic, (freedom, error_freedom), effects)


def common_losses(values: Mapping[str, Mapping[str, object]]) -> tuple[str, ...]:
    """Return the losses that all datasets have, in the order of the first dataset."""
    first, *others = values.values() if values else ({},)
    return tuple(loss for loss in first if all(loss in other for other in others))


def mean_ranks(scores: Mapping[str, Mapping[str, float]]) -> tuple[dict[str, float], float] | None:
    """Rank the losses on each dataset, and say by how much mean ranks must differ.

    Args:
        scores: Dataset -> loss -> score; larger is better.

    Returns:
        Loss -> mean rank, from 1 (best), of the losses that all datasets have, the best first. The second value is the
        least difference of two mean ranks that is significant at ``LEVEL``. ``None`` for fewer than two datasets or
        losses.

    Example:
        >>> ranks, difference = mean_ranks({"en": {"a": 3.0, "b": 2.0}, "zh": {"a": 5.0, "b": 5.0}})
        >>> ranks, round(difference, 3)
        ({'a': 1.25, 'b': 1.75}, 1.386)
    """
    losses = common_losses(scores)
    if len(scores) < 2 or len(losses) < 2:
        return None
    from scipy.stats import rankdata, studentized_range

    ranks = np.mean([rankdata([-of_losses[loss] for loss in losses]) for of_losses in scores.values()], axis=0)
    quantile = float(studentized_range.ppf(1 - LEVEL, len(losses), np.inf)) / math.sqrt(2)
    difference = quantile * math.sqrt(len(losses) * (len(losses) + 1) / (6 * len(scores)))
    ordered = sorted(zip(losses, map(float, ranks), strict=True), key=lambda pair: pair[1])
    return dict(ordered), difference


def _of_images(blocks: Sequence[Sequence[ImageRows]]) -> NDArray[np.float64]:
    """Return B, the covariance of all means over the images, shape (cells, cells)."""
    per_image = [np.stack([cell.mean(0) for cell in block]) for block in blocks]
    if len({values.shape[1] for values in per_image}) == 1:
        per_image = [np.concatenate(per_image)]
    size = sum(map(len, per_image))
    covariance, first = np.zeros((size, size)), 0
    for values in per_image:
        own = slice(first, first := first + len(values))
        covariance[own, own] = np.cov(values) / values.shape[1]
    return covariance


def _of_seeds_alone(
    seeds: NDArray[np.float64], joint: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return A - C of each cell, with no variance below 0 and their weighted sum as it is, or 0.

    Cells below 0 are set to 0, and the others shrunk, because setting them to 0 alone would add up chance over cells.
    """
    alone, total = np.maximum(seeds - joint, 0.0), float(weights @ (seeds - joint))
    if total <= 0:
        return np.zeros_like(alone)
    return alone * total / float(weights @ alone)
