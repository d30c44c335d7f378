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
from trainables.micro_batches import MicroBatches
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
    """The latest embeddings of one side, (B, E), without gradient, and their groups, (B,), see ``Batch``.

    Full, they keep their place in memory, also in later epochs.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: tuple[Tensor, Tensor] | None = None
        self._full: tuple[Tensor, Tensor] | None = None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Embeddings and groups of a side that is full; empty before."""
        return () if self._kept is None or self._kept is not self._full else self._full

    def clear(self) -> None:
        self._kept = None

    def exchange(self, vectors: Tensor, groups: Tensor, of_queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return a batch's embeddings and then those kept, and which of those kept are of another group than a query.

        Afterwards the batch is kept too, instead of the oldest embeddings where there is no room. Vectors are (N, E),
        groups (N,), groups of queries (Q,); the results are (N + B, E), without gradient, and (Q, B), bool.
        """
        own = vectors.detach()
        kept, kept_groups = self._kept or (own[:0], groups[:0])
        candidates, are_others = torch.cat([own, kept]), of_queries[:, None] != kept_groups
        joined = torch.cat([kept, own]), torch.cat([kept_groups, groups])
        self._keep(joined[0][-self._size :], joined[1][-self._size :])
        return candidates, are_others

    def _keep(self, vectors: Tensor, groups: Tensor) -> None:
        self._kept = vectors, groups
        if len(vectors) == self._size:
            if self._full is None:
                self._full = vectors.clone(), groups.clone()
            for place, values in zip(self._full, self._kept, strict=True):
                place.copy_(values)
            self._kept = self._full


class Bank:
    """The latest embeddings of images and of captions from an epoch's earlier batches, as negatives of the next batch.

    An image whose captions come in several batches is in the bank once for each such batch.
    """

    def __init__(self, size: int) -> None:
        """Make an empty bank of at most ``size`` >= 1 images and as many captions."""
        self._images, self._captions = _Latest(size), _Latest(size)

    @property
    def tensors(self) -> list[Tensor]:
        """What a full bank holds, in tensors that keep their place; empty before the bank is full."""
        sides = self._images.tensors, self._captions.tensors
        return [tensor for side in sides for tensor in side] if all(sides) else []

    def clear(self) -> None:
        """Forget all embeddings."""
        self._images.clear()
        self._captions.clear()

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


class TrainingStep:
    """A step of a training: similarities, loss, gradients, clipping, optimiser, constraints.

    Attributes:
        bank: The embeddings of earlier batches; ``None`` where the loss asks for none.
    """

    def __init__(
        self,
        model: RetrievalModel,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        gradient_clip: float | None,
        learned: LearnedParameters,
        *,
        micro_batch: int | None = None,
        keeps_gradients: bool = False,
    ) -> None:
        """Take the parts of a training, with the model in training mode; see ``train_epoch``.

        With ``keeps_gradients`` gradients keep their place in memory: they are set to 0 before a step, not dropped.

        Raises:
            ConfigError: If the loss asks for a bank, and the model has none, see ``make_bank``; or if the model is not
                trained in parts of a batch, see ``MicroBatches``.
        """
        self._model, self._loss, self._optimizer, self._clip = model, loss, optimizer, gradient_clip
        self._learned, self._keeps_gradients = learned, keeps_gradients
        self.bank = make_bank(loss, model)
        self._parts = None if micro_batch is None else MicroBatches(model, micro_batch)

    def take(self, batch: Batch, watch: Callable[[Tensor, Batch], None] | None = None) -> Tensor:
        """Take the step of a batch, and return its loss, shape (), before the step.

        Raises:
            NotANumberError: If a similarity is NaN, see ``trainables.losses.directions``.
        """
        model, learned = self._model, self._learned
        images, captions = encode(model, batch) if self._parts is None else self._parts.encode(batch)
        similarity = model.compare(images, captions)
        if watch is not None:
            watch(similarity, batch)
        constant = () if self.bank is None else (self.bank.candidates(model, images, captions, batch),)
        compute: Callable[..., Tensor] = learned.in_force(self._loss)
        value = compute(similarity, batch.positives, batch.ignore, *constant)
        self._optimizer.zero_grad(set_to_none=not self._keeps_gradients)
        learned.zero_grad(set_to_none=not self._keeps_gradients)
        if value.requires_grad:
            # The loss requires no gradient where neither the model nor the loss has parameters to learn.
            value.backward()
            if self._parts is not None:
                self._parts.backward()
        if self._clip is not None:
            torch.nn.utils.clip_grad_norm_(list(model.parameters()), self._clip)
        self._optimizer.step()
        learned.step()
        model.constrain()
        return value.detach()


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
    micro_batch: int | None = None,
) -> float:
    """Take one step for each batch and return the mean loss over the steps.

    ``learned`` holds the hyper-parameters that the loss learns, which are also updated. ``watch`` is called before each
    step with the similarities and the batch. ``average`` is moved after each step. ``micro_batch`` images, and
    captions, are encoded at a time; ``None`` encodes all at once.

    Raises:
        ConfigError: If the loss asks for a bank, and the model has none, see ``make_bank``; or if the model is not
            trained in parts of a batch, see ``MicroBatches``.
        DivergedError: If a loss is not finite; the error names the first such step.
    """
    model.train()
    learned = learned or LearnedParameters(torch.device("cpu"))
    step = TrainingStep(model, loss, optimizer, gradient_clip, learned, micro_batch=micro_batch)
    losses = StepLosses(epoch, place=place_of_loss(loss))
    for number, batch in enumerate(batches, start=1):
        try:
            value = step.take(batch, watch)
        except NotANumberError as error:
            raise DivergedError("train/similarity", math.nan, epoch, number) from error
        losses.add(value)
        if average is not None:
            average.step()
    return losses.mean()
