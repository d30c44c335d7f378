"""Several trials trained at once in one process: as one stacked model where they have one shape, or in turns.

A trial on features uses a small part of a GPU, and much of its time is spent on launching kernels. K trials whose
models have equal shapes take one forward and one backward pass over parameters of shape (K, ...). Otherwise each trial
is independent. It has its own loss, optimiser, schedule, clipping, metrics and checkpoints. It can diverge, end or be
replaced while the other trials continue. Up to rounding, a trial has the result of training it alone, because its
batches and draws depend only on its own seed and epoch.

Trials may be at different epochs; trials with equal seed and epoch have equal batches, which are gathered once. Trials
that cannot be stacked, such as those with micro-batches, which save the memory that a stack takes, or with a
meta-step, take their steps in turns (``trainables.turns``).

Parameters of the stacked model, and statistics of its batch norms, have the shape (K, ...). The parameters of the
single models become views of these tensors, and nothing is copied. An optimiser or a constraint that changes a single
model also changes the stacked model.
"""

import math
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from trainables.bank import Bank, Drift
from trainables.checkpoint import EpochReport, Outcome
from trainables.config import TrialConfig
from trainables.data.batches import Batch
from trainables.data.dataset import Dataset
from trainables.errors import Blaming, DivergedError, PluginError, UserError
from trainables.losses import Loss, NotANumberError
from trainables.losses.directions import Candidates, ConstantCandidates
from trainables.losses.parameters import loss_shape, stack_losses
from trainables.losses.plugin_loss import place_of_loss
from trainables.models.retrieval_model import RetrievalModel, encode
from trainables.optimizers import StackedParameters, hand_out_gradient, join_optimizers
from trainables.representations import stack_images
from trainables.seeding import RandomStream, choose_device
from trainables.training_steps import steps_unread
from trainables.trial import Trial
from trainables.turns import train_in_turns

T = TypeVar("T")


class FusedTrials:
    """The trials of one process, each with a name that the caller chooses.

    Trials of a dataset and a model that are ``in_turns`` are not stacked.
    """

    def __init__(self, device: str = "auto", in_turns: Collection[tuple[str, str]] = ()) -> None:
        self._device, self._in_turns = choose_device(device), in_turns
        self._trials: dict[str, Trial] = {}

    def add(self, name: str, config: TrialConfig, data: Dataset, resume: Path | None = None) -> EpochReport | None:
        """Add a trial; return the report of its checkpoint if the trial is resumed, see ``run_trial``.

        Raises:
            CheckpointError: If ``resume`` is damaged or belongs to another trial.
        """
        neighbours = [other for other in self._trials.values() if other.data is data and not other.model.reading.view]
        # Those with the same meta split come first, because train is shared with them alone.
        neighbours.sort(key=lambda other: other.config.meta_fraction != config.meta_fraction)
        beside = None if config.training.finetune else next(iter(neighbours), None)
        trial = Trial(config, data, self._device, is_new=resume is None, beside=beside)
        report = None if resume is None else trial.restore(resume)
        self._trials[name] = trial
        return report

    def remove(self, name: str) -> None:
        """Remove a trial if it has not been removed yet."""
        self._trials.pop(name, None)

    def run_epoch(self, names: Iterable[str]) -> dict[str, Outcome]:
        """Train some trials for their next epoch; a trial that diverges, fails in a plug-in or is refused is removed.

        Returns:
            Each trial's report, or the error that ended it; ``time/train_seconds`` is its share of the common time.
        """
        shapes: dict[Hashable, dict[str, Trial]] = {}
        for name in names:
            trial = self._trials[name]
            trial.begin_epoch()
            takes_turns = (trial.config.dataset, trial.config.model) in self._in_turns
            shapes.setdefault(name if takes_turns else stack_shape(trial), {})[name] = trial
        stacks = [trials for trials in shapes.values() if len(trials) > 1]
        others = {name: trial for trials in shapes.values() if len(trials) == 1 for name, trial in trials.items()}
        outcomes: dict[str, Outcome] = {}
        for trials, train in [*((trials, train_stacked) for trials in stacks), (others, train_in_turns)]:
            outcomes |= zip(trials, run_together(list(trials.values()), train), strict=True)
        for name, outcome in outcomes.items():
            if isinstance(outcome, Exception):
                self.remove(name)
        return outcomes


Losses = list[float | DivergedError | UserError]
"""For each trial the mean loss over its steps, or the error that ended it."""


def run_together(trials: list[Trial], train: Callable[[Sequence[Trial]], Losses]) -> list[Outcome]:
    """Train trials for the epoch that they have begun, stacked or in turns, and evaluate them."""
    started = time.monotonic()
    losses = train(trials)
    seconds = (time.monotonic() - started) / max(1, len(trials))
    return [
        loss if isinstance(loss, Exception) else _or_error(partial(trial.end_epoch, loss, seconds))
        for trial, loss in zip(trials, losses, strict=True)
    ]


def _or_error(work: Callable[[], T]) -> T | DivergedError | UserError:
    try:
        with Blaming():
            return work()
    except (DivergedError, UserError) as error:
        return error


def train_stacked(trials: Sequence[Trial], steps: int | None = None) -> Losses:
    """Train trials for the epoch that each trial has begun.

    The trials are of one ``stack_shape``, on one device. At most ``steps`` steps are taken; ``None`` takes all of the
    epoch.

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
    whole = training.micro_batch is None
    ragged = training.batches == "images" and captions.min() != captions.max()
    has_labels = split.labels is not None or split.caption_labels is not None
    return (
        None if model.can_stack and not model.reading.view and whole and trial.meta is None else alone,
        type(model),
        model.precision,
        tuple(parameter.shape for parameter in model.parameters()),
        # As text, because parameters that were read from JSON may be lists, which have no hash.
        repr(sorted(rest.items())),
        id(split),
        (training.batches, training.batch_size, training.captions_per_image, training.length_buckets),
        (training.duplicates, training.augment, training.gradient_clip, training.bank),
        # Where batches differ in size or positives, only trials with equal batches can be stacked.
        own_batches if ragged or training.length_buckets > 1 or has_labels else None,
    )


_Alike = tuple[int, int, tuple[object, ...]]


def _alike(trial: Trial) -> _Alike:
    """Return seed and epoch, which decide a trial's batches within a stack, and the kind of its loss."""
    return trial.config.seed, trial.epoch, loss_shape(trial.loss)


class _Group(NamedTuple):
    """Neighbouring trials of a stack that are alike; one call computes the loss of all of them."""

    trials: list[Trial]
    source: tuple[int, int]
    """Seed and epoch of their batches."""
    loss: Loss
    learned: StackedParameters
    stream: RandomStream
    bank: Bank | None


class StackedEpoch:
    """The steps of one epoch."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.steps = 0
        self._device = trials[0].train_split.device
        self._interval = steps_unread(self._device)
        self._unread: list[Tensor] = []
        self._totals = dict.fromkeys(trials, 0.0)
        self._ended: dict[Trial, DivergedError | UserError] = {}
        self._batches: dict[tuple[int, int], Iterator[Batch]] = {}
        self._streams: dict[_Alike, RandomStream] = {}
        self._banks: dict[_Alike, tuple[list[Trial], Bank]] = {}
        self._drift = Drift()
        neighbours: dict[_Alike, list[Trial]] = {}
        for trial in trials:
            neighbours.setdefault(_alike(trial), []).append(trial)
        size = trials[0].config.at(trials[0].epoch).training.bank
        for (seed, epoch, kind), members in neighbours.items():
            if size:
                self._banks[seed, epoch, kind] = members, Bank(size)
            self._batches.setdefault((seed, epoch), members[0].batches())
            self._streams[seed, epoch, kind] = RandomStream(self._device, seed, "epoch", epoch)
        self._stack([trial for members in neighbours.values() for trial in members])

    def step(self) -> bool:
        """Take one step; return ``False`` if no step or no trial is left."""
        if not self._trials:
            return False
        try:
            # Trials of one shape have equally many batches.
            batches = {source: next(iterator) for source, iterator in self._batches.items()}
        except StopIteration:
            return False
        self.steps += 1
        losses = self._losses(batches)
        self._model.zero_grad()
        for group in self._groups:
            group.learned.zero_grad()
        losses.sum().backward()
        if self._clip is not None:
            clip_gradients(self._model, self._clip)
        self._take_optimizer_steps()
        if any(bank.is_full for _, bank in self._banks.values()):
            self._measure_drift()
        self._unread.append(losses.detach())
        if len(self._unread) == self._interval:
            self._read()
        return True

    def _take_optimizer_steps(self) -> None:
        """Move the weights, and the learned hyper-parameters, by the gradients of the stack."""
        for name, parameter in self._model.named_parameters():
            hand_out_gradient(parameter, [trial.model.get_parameter(name) for trial in self._trials])
        for group in self._groups:
            group.learned.hand_out_gradients()
        for optimizer in self._optimizers:
            optimizer.step()
        for group in self._groups:
            group.learned.put_back()
        self._model.constrain()
        for trial in self._trials:
            if trial.average is not None:
                trial.average.step()

    def finish(self) -> Losses:
        """Return the mean loss or the error of each trial, see ``train_stacked``."""
        self._measure_drift()
        self._read()
        for trial in self._totals:
            trial.optimizer.zero_grad(set_to_none=True)
            trial.learned.zero_grad()
            for module in trial.model.modules():
                if isinstance(module, nn.RNNBase):
                    # cuDNN needs the weights of a single GRU in one piece of memory.
                    module.flatten_parameters()
        return [self._ended.get(trial, total / max(1, self.steps)) for trial, total in self._totals.items()]

    def _stack(self, trials: list[Trial]) -> None:
        """Train these trials from now on, ordered so that trials that are alike are neighbours."""
        self._trials, self._groups = trials, []
        if not trials:
            return
        self._model = stack_models([trial.model for trial in trials]).train()
        of_losses = [optimizer for trial in trials for optimizer in trial.learned.optimizers.values()]
        self._optimizers = join_optimizers([*(trial.optimizer for trial in trials), *of_losses])
        self._clip = trials[0].config.at(trials[0].epoch).training.gradient_clip
        for alike, neighbours in groupby(trials, key=_alike):
            members = list(neighbours)
            loss = stack_losses([trial.loss for trial in members], self._device)
            learned = StackedParameters(loss, [trial.learned for trial in members])
            bank = self._bank_of(alike, members)
            self._groups.append(_Group(members, alike[:2], loss, learned, self._streams[alike], bank))
        self._batches = {group.source: self._batches[group.source] for group in self._groups}

    def _bank_of(self, alike: _Alike, members: list[Trial]) -> Bank | None:
        """Return the bank of trials that are alike, without the embeddings of those that have ended."""
        if alike not in self._banks:
            return None
        former, bank = self._banks[alike]
        if len(members) < len(former):
            bank.select([former.index(trial) for trial in members])
            self._banks[alike] = members, bank
        return bank

    def _measure_drift(self) -> None:
        """Measure the drift of a bank's embeddings, unless that was done, and let each trial have its own."""
        self._drift.measure(self._model)
        for name, values in self._drift.values.items():
            for trial, value in zip(self._trials, values.expand(len(self._trials)).tolist(), strict=True):
                trial.drift[name] = value
        self._drift.values.clear()

    def _losses(self, batches: dict[tuple[int, int], Batch]) -> Tensor:
        """Return the loss of each trial, shape (K,)."""
        laid = self._lay(batches)
        images, captions = encode(self._model, laid)
        if self._banks and self.steps == 1:
            self._drift.note(laid, images, captions)
        sizes, values = [len(group.trials) for group in self._groups], []
        # Split at once: the gradient of each slice would be a matrix of zeros for the whole stack, K of them in all.
        parts = self._model.compare(images, captions).split(sizes)
        sides = [_split(side, sizes) for side in (images, captions)] if self._banks else [[None] * len(sizes)] * 2
        for group, part, some_images, some_captions in zip(self._groups, parts, *sides, strict=True):
            batch, candidates = batches[group.source], None
            if group.bank is not None:
                candidates = group.bank.candidates(self._model, some_images, some_captions, batch)
            with group.stream:
                values.append(self._loss_of(group, part, batch, candidates))
            self._count_step(group, part, batch, candidates)
        return torch.cat(values)

    def _loss_of(self, group: _Group, similarity: Tensor, batch: Batch, candidates: Candidates | None) -> Tensor:
        """Return the losses of a group, shape (K,); a trial that has diverged, or whose plug-in fails, ends."""
        compute: Callable[..., Tensor] = group.learned.in_force(group.loss)
        # A plug-in's loss takes no candidates.
        constant = () if candidates is None else (candidates,)
        try:
            return compute(similarity, batch.positives, batch.ignore, *constant)
        except NotANumberError:
            bad = similarity.isnan().flatten(1).any(1)
            for place in bad.nonzero().flatten().tolist():
                trial = group.trials[place]
                self._ended[trial] = DivergedError("train/similarity", math.nan, trial.epoch, self.steps)
            if candidates is not None:
                candidates = _masked(candidates[0], bad), _masked(candidates[1], bad)
            return self._loss_of(group, similarity.masked_fill(bad[:, None, None], 0.0), batch, candidates)
        except PluginError:
            values = []
        for trial, scores in zip(group.trials, similarity, strict=True):
            try:
                values.append(trial.learned.in_force(trial.loss)(scores, batch.positives, batch.ignore))
            except PluginError as error:
                self._ended[trial] = error
                values.append(0 * scores.sum())
        return torch.stack(values)

    def _count_step(self, group: _Group, similarity: Tensor, batch: Batch, candidates: Candidates | None) -> None:
        """Let the trials that measure COCOS in their first steps do so; a trial whose plug-in fails ends."""
        for number, (trial, scores) in enumerate(zip(group.trials, similarity, strict=True)):
            own = None if candidates is None else (_of_trial(candidates[0], number), _of_trial(candidates[1], number))
            try:
                if trial not in self._ended:
                    trial.count_step(scores, batch, own)
            except PluginError as error:
                self._ended[trial] = error

    def _lay(self, batches: dict[tuple[int, int], Batch]) -> Batch:
        """Return images and captions of each trial; the leading dimension is 1 where all trials share them."""
        longest = max(_tokens(batch).shape[-1] for batch in batches.values())
        batch_of_trial = [batches[group.source] for group in self._groups for _ in group.trials]
        if len(batches) == 1:
            del batch_of_trial[1:]
        return replace(
            batch_of_trial[0],
            images=stack_images([batch.images for batch in batch_of_trial]),
            tokens=torch.stack([pad(part, (0, longest - part.shape[-1])) for part in map(_tokens, batch_of_trial)]),
            lengths=torch.stack([part for batch in batch_of_trial if isinstance(part := batch.lengths, Tensor)]),
        )

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
                self._ended.setdefault(trial, error)
            self._totals[trial] += float(numbers.sum())
        alive = [trial for trial in self._trials if trial not in self._ended]
        if len(alive) < len(self._trials):
            self._drift.select([self._trials.index(trial) for trial in alive])
            self._stack(alive)


def _split(side: Tensor, sizes: list[int]) -> list[Tensor]:
    """Return the embeddings of each group, (k, N, E), of those of a stack, (K, N, E), or of those that all share."""
    return list(side.split(sizes)) if len(side) > 1 else [side] * len(sizes)


def _of_trial(candidates: ConstantCandidates, number: int) -> ConstantCandidates:
    return candidates._replace(scores=candidates.scores[number])


def _masked(candidates: ConstantCandidates, bad: Tensor) -> ConstantCandidates:
    return candidates._replace(scores=candidates.scores.masked_fill(bad[:, None, None], 0.0))


def _tokens(batch: Batch) -> Tensor:
    """Return the captions of a batch; no model that reads more of them can be stacked."""
    assert isinstance(batch.tokens, Tensor)
    return batch.tokens


def stack_models(models: Sequence[RetrievalModel]) -> RetrievalModel:
    """Return the stacked model, on the device of the models; the models' parameters and statistics become its views.

    The models are of one class that ``can_stack``, with parameters of equal shapes. All other attributes except
    statistics and stacked settings are taken from the first model.
    """
    # The first model's parameters are not copied, because they are replaced.
    stacked = deepcopy(models[0], {id(parameter): parameter for parameter in models[0].parameters()})
    singles = [_changing(model) for model in models]
    for name, first in singles[0].items():
        values = torch.stack([single[name].detach() for single in singles])
        owner, _, attribute = name.rpartition(".")
        is_learned = isinstance(first, nn.Parameter)
        setattr(stacked.get_submodule(owner), attribute, nn.Parameter(values) if is_learned else values)
        for single, value in zip(singles, values.unbind(), strict=True):
            single[name].data = value
    for setting in stacked.stacked_settings:
        numbers = torch.tensor([getattr(model, setting) for model in models], device=values.device)
        setattr(stacked, setting, numbers[:, None, None])
    return stacked


def _changing(model: RetrievalModel) -> dict[str, Tensor]:
    """Return name -> tensor that training changes: parameters, and the statistics of batch norms."""
    tensors: dict[str, Tensor] = dict(model.named_parameters())
    for name, module in model.named_modules():
        if isinstance(module, nn.BatchNorm1d):
            tensors |= {f"{name}.{statistic}": values for statistic, values in module.named_buffers()}
    return tensors


@torch.no_grad()
def clip_gradients(stacked: RetrievalModel, limit: float) -> None:
    """Scale the gradients of each model down to a norm of at most ``limit``, like ``clip_grad_norm_``."""
    gradients = [parameter.grad for parameter in stacked.parameters() if parameter.grad is not None]
    norms = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients])
    scales = (limit / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scales.view(-1, *[1] * (gradient.dim() - 1)))
