"""A bank of embeddings: images and captions of earlier batches, as negatives of the next batch.

A loss with a bank compares the queries of a batch with the embeddings of earlier batches of the same epoch too. WSABIE
draws its negatives from the whole train split [Weston2011]. To encode the whole split in every step would take too
long, so the bank keeps the embeddings that the earlier steps computed [Wang2020, section 3]. They are a few steps old.
They are constants, and so are the batch's own candidates where there is a bank. With e the vectors of the batch, b
those of the bank and sg the stopped gradient, a query q has the scores

    s_qj = e_q . sg(e_j)  of the batch's candidates j,      s_qk = e_q . sg(b_k)  of the bank's candidates k

and its loss is that of all of them: the gradient moves the query alone, and each embedding is a query. If positives
moved as well, and the bank's negatives could not, each pair would attract twice and repel once, and all embeddings
would drift together. With linear heads on Flickr8k and a bank of 512, the mean cosine then rose to 0.48 in an epoch,
and not to 0.02. The bank is empty when an epoch begins, so that a trial resumed after any epoch has the numbers of an
undisturbed trial.

Old embeddings drift: the model that made them has moved on. The drift of an epoch is 1 - cos(old, new), the mean over
its first batch, encoded again when the bank is first full, or when the epoch ends before.

References:
    [Wang2020] Wang et al., Cross-Batch Memory for Embedding Learning. arXiv:1912.06798
    [Weston2011] Weston et al., WSABIE: Scaling Up to Large Vocabulary Image Annotation, section 3.1. IJCAI 2011.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from trainables.config import NO_BANK
from trainables.data.batches import Batch
from trainables.errors import ConfigError
from trainables.losses.directions import Candidates, ConstantCandidates
from trainables.models.pair_model import PairModel
from trainables.models.retrieval_model import RetrievalModel, encode
from trainables.representations import Sets
from trainables.seeding import random_state, set_random_state


class _Latest:
    """The latest embeddings of one side, (..., B, E), without gradient, and their groups, (B,), see ``Batch``.

    Full, they keep their place in memory, also in later epochs.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: tuple[Tensor, Tensor] | None = None
        self._full: tuple[Tensor, Tensor] | None = None

    @property
    def is_full(self) -> bool:
        """Whether there is no room left."""
        return self._kept is not None and len(self._kept[1]) == self._size

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Embeddings and groups of a side that is full; empty before."""
        return () if self._kept is None or self._kept is not self._full else self._full

    def select(self, trials: list[int]) -> None:
        """Keep the embeddings of some of the stacked trials."""
        if self._kept is not None:
            self._kept, self._full = (_selected(self._kept[0], trials), self._kept[1]), None

    def clear(self) -> None:
        self._kept = None

    def exchange(self, vectors: Tensor, groups: Tensor, of_queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return a batch's embeddings and then those kept, and which of those kept are of another group than a query.

        Afterwards the batch is kept too, instead of the oldest embeddings where there is no room. Vectors are
        (..., N, E), groups (N,), groups of queries (Q,); the results are (..., N + B, E), without gradient, and (Q, B),
        bool.
        """
        own = vectors.detach()
        kept, kept_groups = self._kept or (own[..., :0, :], groups[:0])
        candidates, are_others = torch.cat([own, kept], -2), of_queries[:, None] != kept_groups
        joined = torch.cat([kept, own], -2), torch.cat([kept_groups, groups])
        self._keep(joined[0][..., -self._size :, :], joined[1][-self._size :])
        return candidates, are_others

    def _keep(self, vectors: Tensor, groups: Tensor) -> None:
        self._kept = vectors, groups
        if len(groups) == self._size:
            if self._full is None:
                self._full = vectors.clone(), groups.clone()
            for place, values in zip(self._full, self._kept, strict=True):
                place.copy_(values)
            self._kept = self._full


class Drift:
    """How far the embeddings of an epoch's first batch move, see the head of this module.

    Attributes:
        values: ``image_drift`` and ``caption_drift``, shape (...), in [0, 2]; empty before they are measured.
    """

    def __init__(self) -> None:
        self.values: dict[str, Tensor] = {}
        self._first: tuple[Batch, Tensor, Tensor] | None = None

    def clear(self) -> None:
        """Forget the batch and the values."""
        self.values, self._first = {}, None

    def note(self, batch: Batch, images: Tensor, captions: Tensor) -> None:
        """Take the encoded images and captions of a batch, of which the first counts."""
        if self._first is None and not self.values:
            self._first = batch, images.detach(), captions.detach()

    def select(self, trials: list[int]) -> None:
        """Keep the batch of some of the stacked trials, by their places in the stack."""
        if self._first is not None:
            batch, images, captions = self._first
            inputs = {name: _selected(getattr(batch, name), trials) for name in ("images", "tokens", "lengths")}
            self._first = replace(batch, **inputs), _selected(images, trials), _selected(captions, trials)

    @torch.no_grad()
    def measure(self, model: RetrievalModel) -> None:
        """Encode the first batch again, unless that was done; the model and its random numbers are as before."""
        if self._first is None:
            return
        batch, *before = self._first
        state, buffers = random_state(before[0].device), [buffer.clone() for buffer in model.buffers()]
        now = encode(model, batch)
        for buffer, values in zip(model.buffers(), buffers, strict=True):
            buffer.copy_(values)
        set_random_state(before[0].device, state)
        sides = zip(("image_drift", "caption_drift"), before, now, strict=True)
        self.values = {name: 1 - cosine_similarity(old, new, dim=-1).mean(-1) for name, old, new in sides}
        self._first = None


def _selected(part: Any, trials: list[int]) -> Any:
    """Return a part of a stack, (K, ...), for some of its trials; all trials share one of (1, ...)."""
    if isinstance(part, Sets):
        return Sets(_selected(part.vectors, trials), _selected(part.lengths, trials))
    return part if len(part) == 1 else part[trials]


class Bank:
    """The latest embeddings of images and of captions from an epoch's earlier batches, as negatives of the next batch.

    An image whose captions come in several batches is in the bank once for each such batch.

    Attributes:
        drift: The drift of the embeddings of this epoch.
    """

    def __init__(self, size: int) -> None:
        """Make an empty bank of at most ``size`` >= 1 images and as many captions."""
        self._images, self._captions = _Latest(size), _Latest(size)
        self.drift = Drift()

    @property
    def tensors(self) -> list[Tensor]:
        """What a full bank holds, in tensors that keep their place; empty before the bank is full."""
        sides = self._images.tensors, self._captions.tensors
        return [tensor for side in sides for tensor in side] if all(sides) else []

    @property
    def is_full(self) -> bool:
        """Whether both sides have as many embeddings as there is room for."""
        return self._images.is_full and self._captions.is_full

    def clear(self) -> None:
        """Forget all embeddings."""
        self._images.clear()
        self._captions.clear()
        self.drift.clear()

    def select(self, trials: list[int]) -> None:
        """Keep the embeddings of some of the stacked trials, by their places in the stack."""
        self._images.select(trials)
        self._captions.select(trials)

    def candidates(self, model: RetrievalModel, images: Tensor, captions: Tensor, batch: Batch) -> Candidates:
        """Return the candidates of the images, and of the captions, of a batch: the batch's own, then the bank's.

        Images (..., I, E) and captions (..., C, E) are the encoded batch. No query has a negative of its own group. The
        batch joins the bank for the next batch; where the bank is full, the oldest embeddings leave it.
        """
        image_groups, caption_groups = (
            groups.to(images.device, non_blocking=True) for groups in (batch.image_groups, batch.caption_groups)
        )
        all_captions, are_negative_captions = self._captions.exchange(captions, caption_groups, image_groups)
        all_images, are_negative_images = self._images.exchange(images, image_groups, caption_groups)
        return (
            ConstantCandidates(model.compare(images, all_captions), are_negative_captions),
            ConstantCandidates(model.compare(all_images, captions).mT, are_negative_images),
        )


def make_bank(size: int, model: RetrievalModel) -> Bank | None:
    """Return an empty bank, or ``None`` for a size of 0; no bank is kept of sets (``ConfigError``)."""
    if size and isinstance(model, PairModel):
        raise ConfigError(NO_BANK.format(type(model).__name__))
    return Bank(size) if size else None
