"""HGR: clips and captions compared at three levels: the event, its actions, and the entities in it.

A clip is a set of frames. Three linear maps of the frames are its levels. The event's vector is an attention pooling of
its frames; actions and entities stay sets. A caption is a graph (``trainables.data.role_graphs``): its event, at most
``VERBS`` verbs and ``PHRASES`` phrases. Words are the states of a bidirectional GRU, whose directions are averaged. The
event pools them with attention, a verb or phrase is their maximum over its words, times the embedding of its role. One
layer of graph attention passes messages over the edges: verbs read the event, verbs and phrases read each other,

    alpha_ij = softmax over neighbours j of q_i . k_j / sqrt(E / 2)
    x_i      = LayerNorm(x_i + dropout(W sum_j alpha_ij x_j))

The similarity is the mean of three cosines. That of the event is of two vectors. Those of actions and entities are
means over the caption's verbs or phrases of the cosine between a phrase and the frames that it attends to: SCAN's t2i
with a mean, over frames with cosines clipped at 0, and lambda ``lambda_softmax``. As in ``scan``, no attended vector is
computed. A level without phrases has the similarity 0.

The published code writes -1e10 for a missing phrase and masks it at the end, which float16 and bfloat16 do not survive.
Here a place without a node is 0 throughout, and no score reads it.

References:
    [Chen2020] Chen et al., Fine-grained Video-Text Retrieval with Hierarchical Graph Reasoning. arXiv:2003.00392; code
        cshizhe/hgr_v2t@6727703, encoders/{mlvideo,mlsent,graph}.py and models/mlmatch.py.
"""

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, normalize

from trainables.data.role_graphs import PHRASES, ROLES, VERBS
from trainables.model_parameters import MODEL_TABLE
from trainables.models.gru import all_states
from trainables.models.pair_model import PairModel
from trainables.models.retrieval_model import computing_in_full, in_full
from trainables.representations import CaptionInputs, Captions, Sets, as_sets

PARAMETERS = MODEL_TABLE["hgr"].parameters

NODES = VERBS + PHRASES

EMPTY = 1e-10
"""Least length of a frame's cosines over which they are normed [Chen2020, code]."""


class HGR(PairModel):
    """Clips as a vector of the event and vectors of frames, captions as the event, verbs and phrases."""

    def __init__(
        self,
        frame_size: int,
        vocabulary_size: int,
        embedding_size: int,
        word_size: int,
        *,
        lambda_softmax: float = PARAMETERS["lambda_softmax"].default,
        dropout: float = PARAMETERS["dropout"].default,
        graph_dropout: float = PARAMETERS["graph_dropout"].default,
    ) -> None:
        """Take the sizes, of which ``embedding_size`` is even.

        Args:
            frame_size: Number of stored features of a frame, >= 1.
            vocabulary_size: Number of words, >= 1.
            embedding_size: Dimensions of events, frames, verbs and phrases.
            word_size: Dimensions of a word embedding, >= 1.
            lambda_softmax: Inverse temperature of the attention of phrases on frames, > 0.
            dropout: Share of the numbers of frames and words that training drops, in [0, 1).
            graph_dropout: The same of the messages in the graph.
        """
        super().__init__()
        self.levels = nn.ModuleList(nn.Linear(frame_size, embedding_size) for _ in range(3))
        self.frame_attention, self.word_attention = (nn.Linear(embedding_size, 1) for _ in range(2))
        self.words = nn.Embedding(vocabulary_size, word_size)
        self.gru = nn.GRU(word_size, embedding_size, batch_first=True, bidirectional=True)
        self.roles = nn.Embedding(len(ROLES), embedding_size)
        self.query, self.key = (nn.Linear(embedding_size, embedding_size // 2) for _ in range(2))
        self.message = nn.Linear(embedding_size, embedding_size, bias=False)
        self.norm = nn.LayerNorm(embedding_size)
        self.lambda_softmax, self.dropout, self.graph_dropout = lambda_softmax, dropout, graph_dropout
        nn.init.uniform_(self.words.weight, -1 / math.sqrt(word_size), 1 / math.sqrt(word_size))
        for name, parameter in self.gru.named_parameters():
            (nn.init.orthogonal_ if name.startswith("weight") else nn.init.zeros_)(parameter)

    def encode_images(self, features: Tensor | Sets) -> Sets:
        """Map frames (I, F, D) to sets (I, 1 + F, 2 embedding_size): event, then action and entity of each frame."""
        frames = as_sets(features)
        levels = [self._dropped(level(frames.vectors)) for level in self.levels]
        with computing_in_full(frames.vectors.device):
            event, action, entity = map(in_full, levels)
            event = self._pooled(self.frame_attention, event, frames.inside)
            there = torch.cat([action, entity], dim=-1) * frames.inside[..., None]
            first = torch.cat([event, torch.zeros_like(event)], dim=-1)
            return Sets(torch.cat([first[:, None], there], dim=1), frames.lengths + 1)

    def encode_captions(self, captions: CaptionInputs, lengths: Tensor) -> Sets:
        """Map captions (C, T) with their role graphs to sets (C, 1 + NODES, embedding_size + 1).

        The members are the event, the verbs and the phrases; the last number of a member is 1 if it exists, else 0.
        """
        graphs = cast("Captions", captions)
        tokens, roles = graphs.tokens, graphs.of_captions["roles"]
        with computing_in_full(tokens.device):
            table = self._dropped(self.words.weight)
            states = all_states(table, self.gru, tokens, lengths)
            inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths.to(tokens.device)[:, None]
            event = self._pooled(self.word_attention, states, inside)
            is_part = (graphs.of_tokens["phrases"][:, None] >> torch.arange(NODES, device=tokens.device)[:, None]) & 1
            nodes = self._nodes(states, is_part.bool() & inside[:, None], roles)
            exists = roles >= 0
            members = torch.cat([event[:, None], nodes], dim=1)
            members = self._reasoned(members, _edges(exists, graphs.of_captions["links"]))
            exists = torch.cat([torch.ones_like(exists[:, :1]), exists], dim=1)[..., None]
            members = torch.cat([members * exists, exists.to(members)], dim=-1)
        return Sets(members, torch.full((len(members),), 1 + NODES))

    def compare_sets(self, images: Sets, captions: Sets) -> Tensor:
        """Return the similarity of each clip to each caption, (I, C)."""
        return torch.stack(self.levels_of(images, captions)).mean(0)

    def levels_of(self, images: Sets, captions: Sets) -> tuple[Tensor, Tensor, Tensor]:
        """Return the similarities of the levels event, action and entity, (I, C) each."""
        size = captions.vectors.shape[-1] - 1
        members, exists = captions.vectors[..., :size], captions.vectors[..., size] > 0
        events = _unit(images.vectors[:, 0, :size]) @ _unit(members[:, 0]).mT
        frames, inside = images.vectors[:, 1:], images.inside[:, 1:]
        parts = (slice(1, 1 + VERBS), slice(1 + VERBS, None))
        action, entity = (
            self._of_level(level, inside, members[:, part], exists[:, part])
            for level, part in zip(frames.split(size, dim=-1), parts, strict=True)
        )
        return events, action, entity

    def _of_level(self, frames: Tensor, inside: Tensor, phrases: Tensor, exists: Tensor) -> Tensor:
        """Return the similarity (I, C) of frames (I, F, E) to phrases (C, P, E), of which some exist."""
        flat = frames.flatten(0, 1) @ _unit(phrases).flatten(0, 1).mT
        products = flat.view(*frames.shape[:2], *phrases.shape[:2])
        lengths = (frames.square().sum(-1) + 1e-18).sqrt()[..., None, None]
        clipped = normalize((products / lengths).clamp(min=0), dim=1, eps=EMPTY) * self.lambda_softmax
        weights = clipped.masked_fill(~inside[..., None, None], -torch.inf).softmax(1)
        attended = (weights * (frames @ frames.mT @ weights.flatten(2)).view_as(weights)).sum(1)
        cosines = (weights * products).sum(1) / attended.clamp(min=EMPTY**2).sqrt()
        return (cosines * exists).sum(-1) / exists.sum(-1).clamp(min=1)

    def _nodes(self, states: Tensor, is_part: Tensor, roles: Tensor) -> Tensor:
        """Return verbs and phrases, (C, NODES, E): the maximum over their words times their roles, 0 for none."""
        highest = [
            states.masked_fill(~mask[..., None], -torch.inf).amax(1).masked_fill(~mask.any(1)[:, None], 0.0)
            for mask in is_part.unbind(1)
        ]
        of_roles: Tensor = self.roles(roles.clamp(min=0))
        return torch.stack(highest, dim=1) * of_roles * (roles >= 0)[..., None]

    def _reasoned(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """Pass messages between nodes (C, N, E) over edges (C, N, N), which say whose message each node reads."""
        scores = self.query(nodes) @ self.key(nodes).mT / math.sqrt(self.query.out_features)
        # The lowest number and not -inf, so that a node without edges has no NaN, nor its gradient.
        scores = scores.masked_fill(~edges, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(~edges, 0.0)
        messages = self.message(scores @ nodes)
        dropped = dropout(messages, self.graph_dropout, self.training)
        reasoned: Tensor = self.norm(nodes + dropped)
        return reasoned

    def _dropped(self, values: Tensor) -> Tensor:
        return dropout(values, self.dropout, self.training)

    @staticmethod
    def _pooled(attention: nn.Linear, vectors: Tensor, inside: Tensor) -> Tensor:
        """Return the mean of vectors (N, T, E) by attention, over those inside."""
        weights = attention(vectors)[..., 0].masked_fill(~inside, -torch.inf).softmax(-1)
        return (weights[..., None] * vectors.masked_fill(~inside[..., None], 0.0)).sum(1)


def _unit(vectors: Tensor) -> Tensor:
    """Return vectors divided by their length, as the published code does: sqrt(|x|^2 + 1e-18)."""
    return vectors / (vectors.square().sum(-1, keepdim=True) + 1e-18).sqrt()


def _edges(exists: Tensor, links: Tensor) -> Tensor:
    """Return whose messages each member reads, (C, 1 + NODES, 1 + NODES), bool; the event reads none."""
    joined = ((links[..., None] >> torch.arange(PHRASES, device=links.device)) & 1).bool()
    edges = torch.zeros(len(exists), 1 + NODES, 1 + NODES, dtype=torch.bool, device=exists.device)
    edges[:, 1 : 1 + VERBS, 0] = exists[:, :VERBS]
    edges[:, 1 : 1 + VERBS, 1 + VERBS :] = joined
    edges[:, 1 + VERBS :, 1 : 1 + VERBS] = joined.mT
    return edges
