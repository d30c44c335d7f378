"""The steps of an epoch: similarities, loss, gradients, clipping, optimiser.

The losses of an epoch's steps are read from the device several at a time, so that no step waits for its loss.
"""

import math
from collections.abc import Callable, Generator, Iterable

import torch
from torch import Tensor

from trainables.bank import Bank
from trainables.data.batches import Batch
from trainables.errors import DivergedError
from trainables.losses import Loss, NotANumberError
from trainables.losses.directions import Candidates
from trainables.losses.plugin_loss import place_of_loss
from trainables.meta_step import MetaStep
from trainables.micro_batches import MicroBatches
from trainables.models.retrieval_model import RetrievalModel, encode
from trainables.optimizers import LearnedParameters, WeightAverage

Watch = Callable[[Tensor, Batch, Candidates | None], None]
"""Called before a step with its similarities, its batch, and the candidates of a bank."""

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


class TrainingStep:
    """A step of a training: similarities, loss, gradients, clipping, optimiser, constraints.

    Attributes:
        bank: The embeddings of earlier batches; ``None`` where there are none.
    """

    def __init__(
        self,
        model: RetrievalModel,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        gradient_clip: float | None,
        learned: LearnedParameters,
        *,
        bank: Bank | None = None,
        micro_batch: int | None = None,
        meta: MetaStep | None = None,
        keeps_gradients: bool = False,
    ) -> None:
        """Take the parts of a training, with the model in training mode; see ``train_epoch``.

        With ``keeps_gradients`` gradients keep their place in memory: they are set to 0 before a step, not dropped.

        Raises:
            ConfigError: If the model is not trained in parts of a batch, see ``MicroBatches``.
        """
        self._model, self._loss, self._optimizer, self._clip = model, loss, optimizer, gradient_clip
        self._learned, self._keeps_gradients = learned, keeps_gradients
        self.bank, self._meta = bank, meta
        self._parts = None if micro_batch is None else MicroBatches(model, micro_batch)

    def take(self, batch: Batch, watch: Watch | None = None) -> Tensor:
        """Take the step of a batch, and return its loss, shape (), before the step.

        Raises:
            NotANumberError: If a similarity is NaN, see ``trainables.losses.directions``.
        """
        model, learned = self._model, self._learned
        images, captions = encode(model, batch) if self._parts is None else self._parts.encode(batch)
        similarity = model.compare(images, captions)
        candidates = None
        if self.bank is not None:
            self.bank.drift.note(batch, images, captions)
            candidates = self.bank.candidates(model, images, captions, batch)
        if watch is not None:
            watch(similarity, batch, candidates)
        # A plug-in's loss takes no candidates.
        constant = () if candidates is None else (candidates,)
        compute: Callable[..., Tensor] = learned.in_force(self._loss)
        if self._meta is not None:
            self._meta.take(self._loss, self._optimizer, similarity, batch)
            compute = self._meta.in_force(self._loss)
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
        if self.bank is not None and self.bank.is_full:
            self.bank.drift.measure(model)
        return value.detach()


Steps = Generator[None, None, float]
"""Takes the steps of an epoch, yields after each, and returns their mean loss."""


def finish(steps: Steps) -> float:
    """Take all steps, and return their mean loss."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return float(end.value)


def train_epoch(
    model: RetrievalModel,
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Batch],
    gradient_clip: float | None,
    epoch: int,
    learned: LearnedParameters | None = None,
    watch: Watch | None = None,
    average: WeightAverage | None = None,
    bank: Bank | None = None,
    micro_batch: int | None = None,
    meta: MetaStep | None = None,
) -> Steps:
    """Take one step for each batch, yield after it, and return the mean loss over the steps.

    ``learned`` holds the hyper-parameters that the loss learns, which are also updated. ``watch`` is called before each
    step with the similarities, the batch and the candidates of a bank. ``average`` is moved after each step. ``bank``
    is empty, and has the drift afterwards. ``micro_batch`` images, and captions, are encoded at a time; ``None``
    encodes all at once. ``meta`` is the meta-step of the loss, for the epoch that it has begun.

    Raises:
        ConfigError: If the model is not trained in parts of a batch, see ``MicroBatches``.
        DivergedError: If a loss is not finite; the error names the first such step.
    """
    model.train()
    learned = learned or LearnedParameters(torch.device("cpu"))
    step = TrainingStep(model, loss, optimizer, gradient_clip, learned, bank=bank, micro_batch=micro_batch, meta=meta)
    losses = StepLosses(epoch, place=place_of_loss(loss))
    for number, batch in enumerate(batches, start=1):
        try:
            value = step.take(batch, watch)
        except NotANumberError as error:
            raise DivergedError("train/similarity", math.nan, epoch, number) from error
        losses.add(value)
        if average is not None:
            average.step()
        yield
    if bank is not None:
        bank.drift.measure(model)
    return losses.mean()
