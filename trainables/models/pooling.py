"""A set of vectors to one vector: the mean, the maximum, or the generalised pooling operator (GPO) of VSE-infinity.

With max_k the k-th largest value of a dimension over the n vectors of a set, GPO is

    v_d = sum_k theta_k max_k({x_d}),    theta = softmax(w^T h / 0.1),    h_k = (forward_k + backward_k) / 2

with h the states of a two-directional GRU that reads the positional encodings p_1 ... p_n,

    p_k[2j] = sin(k / 10000^(2j / P)),    p_k[2j + 1] = cos(k / 10000^(2j / P)),    k = 0 ... n - 1.

So the weights depend on n alone, are positive and sum to 1: theta = (1, 0, ...) is the maximum, theta = 1/n the mean.
Positions from 0, the sizes of 32, the mean of both directions and the division by 0.1 are not in the paper and come
from the published code. Here the GRU reads one sequence for each n in a batch, not for each set.

References:
    [Chen2021] Chen et al., Learning the Best Pooling Strategy for Visual Semantic Embedding, eq. 2-6.
        arXiv:2011.04305; code woodfrog/vse_infty@4ccad17, lib/modules/aggr/gpo.py.
"""

import math

import torch
from torch import Tensor, nn

from trainables.models.gru import all_states
from trainables.models.layers import computing_in_full, in_full

POSITION_SIZE = 32
"""Dimensions of a positional encoding, and of the GRU that reads it [Chen2021, code]."""

TEMPERATURE = 0.1
"""Divisor of the scores of positions before the softmax [Chen2021, code]."""


class MeanPooling(nn.Module):
    """The mean over the vectors of each set."""

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """See ``GeneralizedPooling.forward``."""
        there = _inside(vectors, lengths)
        return vectors.masked_fill(~there, 0.0).sum(-2) / there.sum(-2)


class MaxPooling(nn.Module):
    """The maximum of each dimension over the vectors of each set."""

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """See ``GeneralizedPooling.forward``."""
        return vectors.masked_fill(~_inside(vectors, lengths), -math.inf).amax(-2)


class GeneralizedPooling(nn.Module):
    """GPO [Chen2021]: sorted values of each dimension, weighted by position with learned weights."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(POSITION_SIZE, POSITION_SIZE, batch_first=True, bidirectional=True)
        self.score = nn.Linear(POSITION_SIZE, 1, bias=False)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Pool sets of vectors.

        Args:
            vectors: Shape (N, T, E), floating; (K, N, T, E) with stacked parameters. Vectors after the end of a set are
                not read.
            lengths: Number of vectors of each set, int64 on the CPU, in [1, T], shape (N,); with stacked parameters
                (K, N), or (1, N) where all models share the sets.

        Returns:
            One vector for each set, shape (N, E) or (K, N, E), of the dtype of ``vectors``.
        """
        there = _inside(vectors, lengths)
        ordered = vectors.masked_fill(~there, -math.inf).sort(dim=-2, descending=True).values
        # Places after a set's end hold -inf, and 0 times infinity would be NaN.
        return (ordered.masked_fill(~there, 0.0) * self.weights(lengths, vectors)[..., None]).sum(-2)

    def weights(self, lengths: Tensor, vectors: Tensor) -> Tensor:
        """Return theta of each set, shape (N, T) or (K, N, T), on the device and of the dtype of ``vectors``."""
        longest, device = vectors.shape[-2], vectors.device
        sizes, set_of = lengths.unique(return_inverse=True)
        with computing_in_full(device):
            # The table has one sequence for each size of a set, and an axis of models where the GRU has this axis.
            models = self.score.weight.shape[:-2]
            table = positional_encoding(longest, POSITION_SIZE).to(self.score.weight).expand(*models, -1, -1)
            places, ends = torch.arange(longest, device=device).expand(len(sizes), -1), sizes
            if models:
                places, ends = places[None], sizes[None]
            states = all_states(table, self.gru, places, ends)
            scores = (states @ self.score.weight.unsqueeze(-3).mT)[..., 0] / TEMPERATURE
            inside = torch.arange(longest, device=device) < sizes.to(device)[:, None]
            theta = scores.masked_fill(~inside, -math.inf).softmax(-1).to(vectors.dtype)
        if not models:
            return theta[set_of.to(device)]
        model = torch.arange(models[0], device=device)[:, None]
        return theta[model, set_of.to(device)]


POOLINGS: dict[str, type[MeanPooling] | type[MaxPooling] | type[GeneralizedPooling]] = {
    "mean": MeanPooling,
    "max": MaxPooling,
    "gpo": GeneralizedPooling,
}
"""Name in ``model_parameters.pooling`` -> pooling."""


class PooledRegions(nn.Module):
    """Pooling of linearly mapped regions to one vector [Chen2021], without the paper's residual perceptron."""

    def __init__(self, pooling: str) -> None:
        super().__init__()
        self.pooling = POOLINGS[pooling]()

    def forward(self, regions: Tensor) -> Tensor:
        """Pool mapped regions (I, R, E) to unit vectors (I, E), or (K, I, R, E) of stacked models to (K, I, E)."""
        lengths = torch.full(regions.shape[:-2], regions.shape[-2])
        return _unit(self.pooling(in_full(regions), lengths))


def positional_encoding(length: int, size: int) -> Tensor:
    """Return the encodings of positions 0 to ``length`` - 1, shape (length, size), float32; ``size`` is even."""
    positions = torch.arange(length, dtype=torch.float32)[:, None]
    frequencies = 10_000.0 ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    angles = positions * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def _inside(vectors: Tensor, lengths: Tensor) -> Tensor:
    """Return which places of vectors (..., N, T, E) belong to a set, shape (..., N, T, 1), bool, on their device."""
    places = torch.arange(vectors.shape[-2], device=vectors.device)
    return (places < lengths.to(vectors.device)[..., None])[..., None]


def _unit(vectors: Tensor) -> Tensor:
    return nn.functional.normalize(vectors, dim=-1, eps=1e-12)
