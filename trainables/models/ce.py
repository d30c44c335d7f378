"""CE: experts on a clip, each compared with its own view of the caption (Collaborative Experts).

An expert is a vector, or a set of vectors that NetVLAD pools, and may be missing. Word embeddings are pooled by NetVLAD
too. It assigns each member x_n of a set to CLUSTERS clusters and ghosts, and sums what is left over the centres c_k,

    a_n = softmax BatchNorm(W x_n)        v_k = sum_n a_nk (x_n - c_k)    without the ghosts

each v_k scaled to unit length, and all of them together. A caption has for each expert m a vector t_m, by a linear map
and a gate x sigmoid(BatchNorm(W x)) scaled to unit length, and a weight w_m by a softmax. A clip has for each expert a
linear map e_m of unit length, which the experts gate together: with g a perceptron of two vectors, over all experts o,

    T_m = sum_o i_m i_o g(e_m, e_o) / sum_o i_m i_o     e_m = unit of e_m sigmoid(BatchNorm(T_m) + BatchNorm(W e_m))

where i_m is 1 if the clip has the expert, else 0. The similarity weighs the experts that are there,

    similarity = sum_m w_m i_m t_m . e_m / sum_m w_m i_m.

With ``gating: published`` an expert is gated by those before it (in the order of their names) as they are after their
gates, as in the code; ``simultaneous`` gates all by what they were. With ``padding: published`` the zeros that pad
words and sets are members too, as in the code, whose mask is not used: a caption of fewer words than ``max_tokens``
then has other vectors than its words give. By default they are no members, so that padding changes no score.

The published code reads frozen vectors of words (GPT). Here the word embeddings are trained.

References:
    [Liu2019] Liu et al., Use What You Have: Video Retrieval Using Representations From Collaborative Experts.
        arXiv:1907.13487; code albanie/collaborative-experts@7eb3b9d, model/model.py and model/net_vlad.py.
    [Arandjelovic2016] Arandjelovic et al., NetVLAD. arXiv:1511.07247
"""

import math
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import mish, normalize, pad

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.model_parameters import MODEL_TABLE
from trainables.models.pair_model import PairModel
from trainables.models.retrieval_model import computing_in_full, in_full
from trainables.representations import Sets

PARAMETERS = MODEL_TABLE["ce"].parameters

GHOSTS = 1
"""Clusters whose members count for nothing."""

EXPERTS = "experts."
"""Beginning of the names of the experts among a clip's inputs."""


class CE(PairModel):
    """Clips as vectors of their experts, captions as vectors and weights of the same experts."""

    def __init__(
        self,
        sizes: Mapping[str, tuple[int, bool]],
        vocabulary_size: int,
        embedding_size: int,
        word_size: int,
        *,
        clusters: int = PARAMETERS["clusters"].default,
        text_clusters: int = PARAMETERS["text_clusters"].default,
        gating: str = PARAMETERS["gating"].default,
        padding: str = PARAMETERS["padding"].default,
        max_tokens: int = PARAMETERS["max_tokens"].default,
    ) -> None:
        """Take the experts, and the sizes.

        Args:
            sizes: Expert -> dimensions of its vectors, and whether it has a set of them.
            vocabulary_size: Number of words, >= 1.
            embedding_size: Dimensions of the vectors of an expert.
            word_size: Dimensions of a word embedding, >= 1.
            clusters: Clusters of an expert with a set, >= 1.
            text_clusters: Clusters of the words, >= 1.
            gating: ``published``: one expert after the other; ``simultaneous``.
            padding: ``masked``, or ``published``: zeros count as members.
            max_tokens: Number of words to which captions are padded or cut with ``padding: published``, >= 1.
        """
        super().__init__()
        self.names = sorted(sizes)
        self.is_simultaneous, self.counts_padding = gating == "simultaneous", padding == "published"
        self.max_tokens = max_tokens
        self.words = nn.Embedding(vocabulary_size, word_size)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)
        self.text_pooling = NetVLAD(word_size, text_clusters)
        self.pooling = nn.ModuleDict(
            {_module_name(name): NetVLAD(size, clusters) for name, (size, is_set) in sizes.items() if is_set}
        )
        pooled, count = word_size * text_clusters, len(self.names)
        self.mixture = nn.Linear(pooled, count)
        self.views = nn.ModuleList(_GatedUnit(pooled, embedding_size) for _ in self.names)
        widths = (size * clusters if is_set else size for size, is_set in (sizes[name] for name in self.names))
        self.reduction = nn.ModuleList(nn.Linear(width, embedding_size) for width in widths)
        self.gates = nn.ModuleList(_CollaborativeGate(embedding_size) for _ in self.names)
        self.relation = _Relation(embedding_size)

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Make an untrained model for the dataset's experts and vocabulary."""
        columns = data.splits["train"].columns
        sizes = {
            key.removeprefix(EXPERTS): (column.values.shape[-1], column.values.ndim == 3)
            for key, column in columns.items()
            if key.startswith(EXPERTS)
        }
        training, parameters = config.training, dict[str, Any](config.model_parameters)
        return cls(sizes, len(data.vocabulary), training.embedding_size, training.word_size, **parameters)

    def encode_images(self, inputs: Mapping[str, Sets]) -> Sets:
        """Map experts, by their keys (``experts.NAME``), to sets (I, M, embedding_size + 1): vectors, and i_m."""
        reduced, there = [], []
        for name, reduction in zip(self.names, self.reduction, strict=True):
            expert = inputs[EXPERTS + name]
            if (module := _module_name(name)) in self.pooling:
                vectors = self.pooling[module](expert.vectors, None if self.counts_padding else expert.inside)
            else:
                vectors = expert.vectors[:, 0]
            reduced.append(normalize(in_full(reduction(vectors)), dim=-1))
            there.append((expert.lengths > 0).to(vectors.device, non_blocking=True))
        exists = torch.stack(there, dim=1).to(reduced[0])
        gated = self._gated(reduced, exists)
        members = torch.cat([torch.stack(gated, dim=1), exists[..., None]], dim=-1)
        return Sets(members, torch.full((len(members),), len(self.names)))

    def encode_captions(self, tokens: Tensor, lengths: Tensor) -> Sets:
        """Map captions (C, T) to sets (C, M, embedding_size + 1): a vector for each expert, and its weight w_m."""
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths.to(tokens.device)[:, None]
        embedded = self.words(tokens) * inside[..., None]
        if self.counts_padding:
            # A negative number of places cuts.
            embedded = pad(embedded, (0, 0, 0, self.max_tokens - tokens.shape[1]))
        return self.views_of(self.text_pooling(embedded, None if self.counts_padding else inside))

    def views_of(self, pooled: Tensor) -> Sets:
        """Return a vector for each expert, and its weight, of pooled words (C, word_size * text_clusters)."""
        weights = in_full(self.mixture(pooled)).softmax(-1)
        views = torch.stack([in_full(view(pooled)) for view in self.views], dim=1)
        return Sets(torch.cat([views, weights[..., None]], dim=-1), torch.full((len(views),), len(self.names)))

    def compare_sets(self, images: Sets, captions: Sets) -> Tensor:
        """Return the similarity of each clip to each caption, (I, C); 0 for a clip without experts."""
        exists, weights = images.vectors[..., -1], captions.vectors[..., -1]
        of_clips = (images.vectors[..., :-1] * exists[..., None]).flatten(1)
        of_captions = (captions.vectors[..., :-1] * weights[..., None]).flatten(1)
        total = exists @ weights.mT
        # Not the least number above 0, by which a gradient divided is infinite, and times 0 is NaN.
        return of_clips @ of_captions.mT / total.masked_fill(total == 0, 1.0)

    def _gated(self, experts: list[Tensor], exists: Tensor) -> list[Tensor]:
        """Return the gated vectors of experts, (I, embedding_size) each; ``exists`` is i, (I, M)."""
        experts = list(experts)
        gated = []
        for place, gate in enumerate(self.gates):
            both = exists[:, place, None] * exists
            relations = self.relation(experts[place], experts)
            summed = (both[..., None] * relations).sum(1) / (both.sum(1, keepdim=True) + 1e-11)
            gated.append(gate(experts[place], summed))
            if not self.is_simultaneous:
                experts[place] = gated[-1]
        return gated


def _module_name(expert: str) -> str:
    """Return the name of an expert's module: torch takes no dots in it, and no name of its own attributes."""
    plain = expert.replace(".", "/")
    return f"{plain}/" if hasattr(nn.ModuleDict(), plain) else plain


class NetVLAD(nn.Module):
    """Pools sets of vectors (N, T, D) to unit vectors (N, D * clusters)."""

    def __init__(self, size: int, clusters: int, ghosts: int = GHOSTS) -> None:
        super().__init__()
        self.assignment = nn.Parameter(torch.randn(size, clusters + ghosts) / math.sqrt(size))
        self.centres = nn.Parameter(torch.randn(size, clusters) / math.sqrt(size))
        self.batch_norm = nn.BatchNorm1d(clusters + ghosts)

    def forward(self, vectors: Tensor, inside: Tensor | None) -> Tensor:
        """Pool sets; members that are not ``inside``, (N, T), are not read; ``None`` reads all."""
        with computing_in_full(vectors.device):
            vectors = in_full(vectors)
            if inside is None:
                inside = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
            # Statistics are those of the members, so that they do not depend on the padding.
            logits = (vectors @ self.assignment)[inside]
            assigned = logits.new_zeros(*vectors.shape[:2], logits.shape[-1])
            # A batch of one member has no statistics; with those so far it is normed as in evaluation.
            normed = self.batch_norm(logits) if len(logits) > 1 else self._as_in_evaluation(logits)
            assigned[inside] = normed.softmax(-1)
            assigned = assigned[..., : self.centres.shape[1]]
            left = vectors.mT @ assigned - assigned.sum(1, keepdim=True) * self.centres
            return normalize(normalize(left, dim=1).flatten(1), dim=-1)

    def _as_in_evaluation(self, logits: Tensor) -> Tensor:
        norm = self.batch_norm
        return nn.functional.batch_norm(logits, norm.running_mean, norm.running_var, norm.weight, norm.bias)


class _GatedUnit(nn.Module):
    """A linear map with a gate of its own numbers, scaled to unit length."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.map, self.gate, self.batch_norm = nn.Linear(inputs, size), nn.Linear(size, size), nn.BatchNorm1d(size)

    def forward(self, inputs: Tensor) -> Tensor:
        mapped = self.map(inputs)
        return normalize(mapped * self.batch_norm(self.gate(mapped)).sigmoid(), dim=-1)


class _Relation(nn.Module):
    """The perceptron g of two experts."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first = nn.Linear(2 * size, size)
        self.rest = nn.ModuleList(nn.Linear(size, size) for _ in range(2))
        self.batch_norms = nn.ModuleList(nn.BatchNorm1d(size) for _ in range(2))

    def forward(self, expert: Tensor, others: list[Tensor]) -> Tensor:
        """Return g of an expert (I, E) and each other, (I, M, E); statistics are those of one pair of experts."""
        return torch.stack([self._of_pair(torch.cat([expert, other], dim=-1)) for other in others], dim=1)

    def _of_pair(self, pair: Tensor) -> Tensor:
        related = self.first(pair)
        for layer, norm in zip(self.rest, self.batch_norms, strict=True):
            related = layer(mish(norm(related)))
        return in_full(related)


class _CollaborativeGate(nn.Module):
    """The gate of an expert by what the experts say of it, and by itself."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.own = nn.Linear(size, size)
        self.batch_norm, self.own_batch_norm = nn.BatchNorm1d(size), nn.BatchNorm1d(size)

    def forward(self, expert: Tensor, summed: Tensor) -> Tensor:
        gate = self.batch_norm(summed) + self.own_batch_norm(in_full(self.own(expert)))
        return normalize(expert * gate.sigmoid(), dim=-1)
