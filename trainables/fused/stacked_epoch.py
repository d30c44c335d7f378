"""One epoch of K trials on one stacked model: the steps that ``train_epoch`` takes for one trial."""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby

import torch
from torch import Tensor
from torch.nn.functional import pad

from trainables.data.batches import Batch
from trainables.errors import DivergedError, PluginError
from trainables.evaluation import similarities
from trainables.losses import Loss
from trainables.losses.parameters import loss_shape, stack_losses
from trainables.losses.plugin_loss import place_of_loss
from trainables.models.stack import clip_gradients, gather_weights, hand_out_gradients, stack_models
from trainables.optimizers import StackedParameters, join_optimizers
from trainables.seeding import RandomStream
from trainables.step_losses import steps_unread
from trainables.trial import Trial


def train_stacked(trials: Sequence[Trial], steps: int | None = None) -> list[float | DivergedError | PluginError]:
    """Train trials for the epoch that each trial has begun.

    Args:
        trials: Trials of one ``stack_shape``, on one device.
        steps: Most steps to take; ``None`` takes all steps of the epoch.

    Returns:
        For each trial the mean loss over its steps, or the error that ended the trial: it diverged, or its plug-in
        failed. An ended trial takes no part in further steps.
    """
    epoch = StackedEpoch(trials)
    while steps is None or epoch.steps < steps:
        if not epoch.step():
            break
    return epoch.finish()


def stack_shape(trial: Trial) -> Hashable:
    """Return the properties that trials must share to be stacked for the epoch that they have begun."""
    model, split = trial.model, trial.train_split
    training = trial.config.at(trial.epoch).training
    alone = id(trial)
    own_batches = (trial.config.seed, trial.epoch)
    captions = split.image_of_caption.bincount(minlength=split.image_count).clamp(max=training.captions_per_image)
    rest = {key: value for key, value in trial.config.model_parameters.items() if key not in model.stacked_settings}
    ragged = training.batches == "images" and captions.min() != captions.max()
    return (
        None if model.can_stack and not model.crop_size else alone,
        type(model),
        model.precision,
        tuple(parameter.shape for parameter in model.parameters()),
        tuple(sorted(rest.items())),
        id(split),
        (training.batches, training.batch_size, training.captions_per_image, training.length_buckets),
        (training.duplicates, training.augment, training.gradient_clip),
        # Where batches differ in size or positives, only trials with equal batches can be stacked.
        own_batches if ragged or training.length_buckets > 1 or split.labels is not None else None,
    )


@dataclass(frozen=True)
class _Group:
    """Neighbouring trials of a stack with equal batches and kind of loss; one call computes the loss of all of them.

    Attributes:
        part: Places of the trials in the stack.
        source: Index of the trials' batch among the stack's batches.
        loss: Stacked loss of the trials.
        learned: Learned hyper-parameters of each trial.
        stream: Random numbers of the loss.
    """

    part: slice
    source: int
    loss: Loss
    learned: StackedParameters
    stream: RandomStream


class StackedEpoch:
    """The steps of one epoch.

    Attributes:
        steps: Number of steps taken so far.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.steps = 0
        self._all = list(trials)
        self._device = trials[0].train_split.device
        self._interval = steps_unread(self._device)
        self._unread: list[Tensor] = []
        self._totals = dict.fromkeys(map(id, trials), 0.0)
        self._diverged: dict[int, DivergedError | PluginError] = {}
        ordered = sorted(trials, key=lambda trial: (*_batches_of(trial), *map(str, loss_shape(trial.loss))))
        self._batches: dict[Hashable, Iterator[Batch]] = {}
        self._streams: dict[Hashable, RandomStream] = {}
        for trial in ordered:
            key = _batches_of(trial)
            self._batches.setdefault(key, trial.batches())
            stream = RandomStream(self._device, trial.config.seed, "epoch", trial.epoch)
            self._streams.setdefault((key, loss_shape(trial.loss)), stream)
        self._stack(ordered)

    def step(self) -> bool:
        """Take one step; return ``False`` if no step or no trial is left."""
        if not self._trials:
            return False
        batches = [next(batches, None) for batches in self._batches.values()]
        present = [batch for batch in batches if batch is not None]
        if not present:
            return False
        self.steps += 1
        losses = self._losses(present)
        for parameter in self._model.parameters():
            parameter.grad = None
        for group in self._groups:
            group.learned.zero_grad()
        losses.sum().backward()
        if self._clip is not None:
            clip_gradients(self._model, self._clip)
        hand_out_gradients(self._model, [trial.model for trial in self._trials])
        for group in self._groups:
            group.learned.hand_out_gradients()
        for optimizer in self._optimizers:
            optimizer.step()
        for group in self._groups:
            group.learned.put_back()
        self._model.constrain()
        self._unread.append(losses.detach())
        if len(self._unread) == self._interval:
            self._read()
        return True

    def finish(self) -> list[float | DivergedError | PluginError]:
        """Return the mean loss or the error of each trial, see ``train_stacked``."""
        self._read()
        for trial in self._all:
            trial.optimizer.zero_grad(set_to_none=True)
            trial.learned.zero_grad()
            gather_weights(trial.model)
        return [self._diverged.get(id(trial), self._totals[id(trial)] / max(1, self.steps)) for trial in self._all]

    def _stack(self, trials: list[Trial]) -> None:
        """Train these trials from now on, ordered so that trials with equal batches and kind of loss are neighbours."""
        self._trials, self._groups = trials, []
        if not trials:
            return
        self._model = stack_models([trial.model for trial in trials]).train()
        of_losses = [one.optimizer for trial in trials for one in trial.learned.each.values()]
        self._optimizers = join_optimizers([*(trial.optimizer for trial in trials), *of_losses])
        self._clip = trials[0].config.at(trials[0].epoch).training.gradient_clip
        sources, places = list(self._batches), count()
        for key, members in groupby(trials, key=lambda trial: (_batches_of(trial), loss_shape(trial.loss))):
            neighbours = {next(places): trial for trial in members}
            part = slice(min(neighbours), max(neighbours) + 1)
            loss = stack_losses([trial.loss for trial in neighbours.values()], self._device)
            learned = StackedParameters(loss, [trial.learned for trial in neighbours.values()])
            self._groups.append(_Group(part, sources.index(key[0]), loss, learned, self._streams[key]))
        self._sources = [group.source for group in self._groups for _ in range(group.part.start, group.part.stop)]

    def _losses(self, batches: list[Batch]) -> Tensor:
        """Return the loss of each trial, shape (K,)."""
        similarity = self._without_nan(similarities(self._model, self._lay(batches)))
        values = []
        # Split at once: the gradient of each slice would be a matrix of zeros for the whole stack, K of them in all.
        parts = similarity.split([group.part.stop - group.part.start for group in self._groups])
        for group, part in zip(self._groups, parts, strict=True):
            self._count_step(group, part, batches[group.source])
            with group.stream:
                values.append(self._loss_of(group, part, batches[group.source]))
        return torch.cat(values)

    def _loss_of(self, group: _Group, similarity: Tensor, batch: Batch) -> Tensor:
        """Return the losses of a group, shape (K,); a trial whose plug-in fails ends, and its neighbours continue."""
        try:
            return group.learned.in_force(group.loss)(similarity, batch.positives, batch.ignore)
        except PluginError:
            members = self._trials[group.part]
        values = []
        for trial, scores in zip(members, similarity, strict=True):
            try:
                values.append(trial.learned.in_force(trial.loss)(scores, batch.positives, batch.ignore))
            except PluginError as error:
                self._diverged[id(trial)] = error
                values.append(0 * scores.sum())
        return torch.stack(values)

    def _count_step(self, group: _Group, similarity: Tensor, batch: Batch) -> None:
        """Let the trials that measure COCOS in their first steps do so; a trial whose plug-in fails ends."""
        for trial, scores in zip(self._trials[group.part], similarity, strict=True):
            try:
                trial.count_step(scores, batch)
            except PluginError as error:
                self._diverged[id(trial)] = error

    def _lay(self, batches: list[Batch]) -> Batch:
        """Return images and captions of each trial; the leading dimension is 1 where all trials share them."""
        longest = max(batch.tokens.shape[-1] for batch in batches)
        batch_of_trial = batches if len(batches) == 1 else [batches[source] for source in self._sources]
        return replace(
            batches[0],
            images=torch.stack([batch.images for batch in batch_of_trial]),
            tokens=torch.stack([pad(batch.tokens, (0, longest - batch.tokens.shape[-1])) for batch in batch_of_trial]),
            lengths=torch.stack([batch.lengths for batch in batch_of_trial]),
        )

    def _without_nan(self, similarity: Tensor) -> Tensor:
        """Replace the similarities of trials that have diverged by 0, because losses on a CPU refuse NaN."""
        if self._device.type != "cpu":
            return similarity
        scores = similarity.detach()
        # A sum with a NaN is NaN, and checking one sum is ten times as fast as checking each number.
        if not bool(scores.sum().isnan()):
            return similarity
        bad = scores.isnan().flatten(1).any(1)
        for place in bad.nonzero().flatten().tolist():
            trial = self._trials[place]
            self._diverged[id(trial)] = DivergedError("train/similarity", math.nan, trial.epoch, self.steps)
        return similarity.masked_fill(bad[:, None, None], 0.0)

    def _read(self) -> None:
        """Sum the losses of the latest steps, and drop the trials with a loss that is not finite."""
        if not self._unread:
            return
        losses = torch.stack(self._unread).cpu().double()
        before = self.steps - len(losses)
        self._unread.clear()
        for trial, numbers in zip(self._trials, losses.unbind(1), strict=True):
            wrong = (~numbers.isfinite()).nonzero().flatten().tolist()
            if wrong:
                place = place_of_loss(trial.loss)
                error = DivergedError("train/loss", float(numbers[wrong[0]]), trial.epoch, before + wrong[0] + 1, place)
                self._diverged.setdefault(id(trial), error)
            self._totals[id(trial)] += float(numbers.sum())
        alive = [trial for trial in self._trials if id(trial) not in self._diverged]
        if len(alive) < len(self._trials):
            self._stack(alive)


def _batches_of(trial: Trial) -> tuple[int, int]:
    """Return seed and epoch, which decide a trial's batches within a stack."""
    return trial.config.seed, trial.epoch
