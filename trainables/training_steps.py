"""The steps of an epoch, and a bank of embeddings: negatives from the batches before.

A loss with a bank compares the queries of a batch with the embeddings of earlier batches of the same epoch too. WSABIE
draws its negatives from the whole train split [Weston2011]. To encode the whole split in every step would take too
long, so the bank keeps the embeddings that the earlier steps computed [Wang2020, section 3]. They are a few steps old.
They are constants, and so are the batch's own candidates where there is a bank: the gradient moves the query alone. If
positives moved as well, and the bank's negatives could not, each triplet would attract twice and repel once, and all
embeddings would drift together. With linear heads on Flickr8k and a bank of 512, the mean cosine then rose to 0.48 in
an epoch, and not to 0.02. The bank is empty when an epoch begins, so that a trial resumed after any epoch has the
numbers of an undisturbed trial.

The losses of an epoch's steps are read from the device several at a time, so that no step waits for its loss.

References:
    [Wang2020] Wang et al., Cross-Batch Memory for Embedding Learning. arXiv:1912.06798
    [Weston2011] Weston et al., WSABIE: Scaling Up to Large Vocabulary Image Annotation, section 3.1. IJCAI 2011.
"""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from trainables.config import NO_BANK
from trainables.data.batches import Batch
from trainables.errors import ConfigError, DivergedError
from trainables.evaluation import encode
from trainables.losses import Loss, NotANumberError, bank_size
from trainables.losses.directions import ConstantCandidates
from trainables.losses.plugin_loss import place_of_loss
from trainables.models.pair_model import PairModel
from trainables.models.retrieval_model import RetrievalModel
from trainables.optimizers import LearnedParameters, WeightAverage

UNREAD = 32
"""Number of steps on an accelerator between two readings of losses, because reading makes the accelerator wait."""


def steps_unread(device: torch.device) -> int:
    """Return how many steps' losses are read at once: 1 on a CPU, where reading does not wait."""
    return 1 if device.type == "cpu" else UNREAD


class StepLosses:
    """Sums losses and finds the first loss that is not finite.

    ``unread`` losses are read at once, by default ``steps_unread``; steps after a loss that is not finite are lost with
    the trial. ``place`` is the ``FILE:LINE`` of a plug-in's loss, for the message.
    """

    def __init__(self, epoch: int, unread: int | None = None, place: str = "") -> None:
        self._epoch, self._most, self._place = epoch, unread, place
        self._unread: list[Tensor] = []
        self._total, self._steps = 0.0, 0

    def add(self, value: Tensor) -> None:
        """Add the loss of the next step, a scalar (``DivergedError`` names the first that was read and not finite)."""
        self._unread.append(value.detach())
        if len(self._unread) >= (self._most or steps_unread(value.device)):
            self._read()

    def mean(self) -> float:
        """Return the mean over all steps, one at least (``DivergedError`` names the first that is not finite)."""
        self._read()
        return self._total / self._steps

    def _read(self) -> None:
        numbers = torch.stack(self._unread).tolist() if self._unread else []
        self._unread.clear()
        for number in numbers:
            self._steps += 1
            if not math.isfinite(number):
                raise DivergedError("train/loss", number, self._epoch, self._steps, self._place)
            self._total += number


class _Latest:
    """The latest embeddings of one side, (B, E), without gradient, and their groups, (B,), see ``Batch``."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: Tensor | None = None

    def exchange(self, vectors: Tensor, groups: Tensor, of_queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return a batch's embeddings and then those kept, and which of those kept are of another group than a query.

        Afterwards the batch is kept too, instead of the oldest embeddings where there is no room. Vectors are (N, E),
        groups (N,), groups of queries (Q,); the results are (N + B, E), without gradient, and (Q, B), bool.
        """
        if self._vectors is None:
            self._vectors, self._groups = vectors.detach()[:0], groups[:0]
        candidates, are_others = torch.cat([vectors.detach(), self._vectors]), of_queries[:, None] != self._groups
        kept = torch.cat([self._vectors, vectors.detach()]), torch.cat([self._groups, groups])
        self._vectors, self._groups = (part[-self._size :] for part in kept)
        return candidates, are_others


class Bank:
    """The latest embeddings of images and of captions from an epoch's earlier batches, as negatives of the next batch.

    An image whose captions come in several batches is in the bank once for each such batch.
    """

    def __init__(self, size: int) -> None:
        """Make an empty bank of at most ``size`` >= 1 images and as many captions."""
        self._images, self._captions = _Latest(size), _Latest(size)

    def candidates(
        self, model: RetrievalModel, images: Tensor, captions: Tensor, batch: Batch
    ) -> tuple[ConstantCandidates, ConstantCandidates]:
        """Return the candidates of the images, and of the captions, of a batch: the batch's own, then the bank's.

        Images (I, E) and captions (C, E) are the encoded batch. No query has a negative of its own group. The batch
        joins the bank for the next batch; where the bank is full, the oldest embeddings leave it.
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


def make_bank(loss: Loss, model: RetrievalModel) -> Bank | None:
    """Return an empty bank of the size that a loss asks for, or ``None``; no bank is kept of sets (``ConfigError``)."""
    size = bank_size(loss)
    if size and isinstance(model, PairModel):
        raise ConfigError(NO_BANK.format(type(model).__name__))
    return Bank(size) if size else None


def train_epoch(
    model: RetrievalModel,
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Batch],
    gradient_clip: float | None,
    epoch: int,
    learned: LearnedParameters | None = None,
    watch: Callable[[Tensor, Batch], None] | None = None,
    average: WeightAverage | None = None,
) -> float:
    """Take one step for each batch and return the mean loss over the steps.

    ``learned`` holds the hyper-parameters that the loss learns, which are also updated. ``watch`` is called before each
    step with the similarities and the batch. ``average`` is moved after each step.

    Raises:
        ConfigError: If the loss asks for a bank, and the model has none, see ``make_bank``.
        DivergedError: If a loss is not finite; the error names the first such step.
    """
    model.train()
    learned = learned or LearnedParameters(torch.device("cpu"))
    losses, bank = StepLosses(epoch, place=place_of_loss(loss)), make_bank(loss, model)
    for steps, batch in enumerate(batches, start=1):
        try:
            images, captions = encode(model, batch)
            similarity = model.compare(images, captions)
            if watch is not None:
                watch(similarity, batch)
            constant = () if bank is None else (bank.candidates(model, images, captions, batch),)
            compute: Callable[..., Tensor] = learned.in_force(loss)
            value = compute(similarity, batch.positives, batch.ignore, *constant)
        except NotANumberError as error:
            raise DivergedError("train/similarity", math.nan, epoch, steps) from error
        losses.add(value)
        optimizer.zero_grad(set_to_none=True)
        learned.zero_grad()
        if value.requires_grad:
            # The loss requires no gradient where neither the model nor the loss has parameters to learn.
            value.backward()
        if gradient_clip is not None:
            torch.nn.utils.clip_grad_norm_(list(model.parameters()), gradient_clip)
        optimizer.step()
        learned.step()
        model.constrain()
        if average is not None:
            average.step()
    return losses.mean()
