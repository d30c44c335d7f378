"""A trial from beginning to end: seed, build, then train, evaluate and report each epoch.

A trial yields reports and does not know their reader: a test, the command ``train``, or an actor of a cluster.
"""

import json
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainables.bank import Bank, make_bank
from trainables.capturable import Parts, find_obstacle
from trainables.checkpoint import BEST, STATE, EpochReport, read_file, write_file
from trainables.cocos import Spread, count_contributions, spreads
from trainables.config import TrainingConfig, TrialConfig, check_metric, derive_seed
from trainables.data.batches import Batch, ResidentSplit, draw_batches, epoch_batches
from trainables.data.dataset import Dataset
from trainables.data.meta_split import set_aside
from trainables.data.tokenizers import ENGLISH
from trainables.errors import Blaming, CheckpointError, DivergedError
from trainables.evaluation import check_encoder_of, check_tokenizer_of, evaluate, measure_contributions
from trainables.files import parse_state
from trainables.losses import Loss, NotANumberError, build_loss
from trainables.losses.directions import Candidates
from trainables.losses.meta_weights import NETWORK, MetaWeights
from trainables.meta_step import MetaStep
from trainables.models import build_model
from trainables.optimizers import LearnedParameters, WeightAverage, adjust_optimizer, build_optimizer
from trainables.parameter_values import LEARNED
from trainables.seeding import choose_device, generator, make_deterministic, reading_beside, seed_torch
from trainables.static_steps import CudaGraph, EpochSteps, StaticSteps
from trainables.training_steps import Steps, finish, train_epoch

COCOS_BATCHES = 8
"""Number of batches on which COCOS is measured in training; ``orchestrator cocos`` takes the whole train split."""

OTHER_EPSILONS = {0.005: "half_epsilon", 0.02: "twice_epsilon"}
"""Further values of epsilon -> how counters at them are called, in trainings with ``training.cocos_steps``."""


def run_trial(
    config: TrialConfig,
    data: Dataset,
    resume: Path | None = None,
    *,
    device: str = "auto",
    on_step: Callable[[int], None] = lambda step: None,
) -> Generator[EpochReport, None, None]:
    """Train one model and yield a report after each epoch, which can be saved at any time.

    Args:
        config: Data, model, loss and settings.
        data: The dataset that the config names.
        resume: A checkpoint directory of this trial. The report of its epoch is yielded again first, so that a caller
            that died between checkpoint and report misses no report. Training resumes after this epoch.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        on_step: Called after each training step with the number of the step in its epoch, from 1.

    Yields:
        A report for each epoch, when not resumed ``config.training.total_epochs`` in all, or fewer with a patience.

    Raises:
        ConfigError: If no metric has the name of that which selects the best epoch.
        DivergedError: At the step at which the loss, or the epoch at which a metric, is not finite.
        CheckpointError: If ``resume`` is damaged or belongs to another trial.
        PluginError: If the code of a plug-in fails.
    """
    trial = Trial(config, data, choose_device(device), is_new=resume is None)
    trial.on_step = on_step
    if resume is not None:
        yield replace(trial.restore(resume), save=trial.snapshot())
    while not config.training.is_over(trial.epoch, trial.best_epoch):
        with Blaming():
            report = trial.run_epoch()
        yield replace(report, save=trial.snapshot())


class Trial:
    """A model with its loss and optimiser, trained epoch by epoch.

    Attributes:
        epoch: Number of epochs trained so far.
        loss: The config's loss, with the word ``learned`` for each learned hyper-parameter.
        learned: The values of the learned hyper-parameters.
        average: The average of the weights, which is evaluated in their place; ``None`` where none is taken.
        meta: The meta-step of the loss; ``None`` for a loss without one.
        meta_split: The part of train that it reads and that is not trained on; ``None`` likewise.
        drift: The drift of the bank's embeddings in the last epoch, see ``bank``; empty without a bank.
        on_step: See ``run_trial``.
        static_steps: The static steps of the trial; ``None`` where it has none.
        stream: The stream of a GPU on which the trial takes its steps among others, see ``trainables.turns``.
        not_replayed: Why no graph replays the steps, where ``training.graph`` asks for one; ``None`` otherwise.
    """

    def __init__(
        self,
        config: TrialConfig,
        data: Dataset,
        device: torch.device,
        *,
        is_new: bool = True,
        beside: "Trial | None" = None,
    ) -> None:
        """Build model, loss and optimiser of a new trial, or of one that gets a backbone's weights from a checkpoint.

        ``beside`` is a trial with this dataset and device, whose tensors of the data are shared.
        """
        check_metric(config.metric)
        make_deterministic(device)
        seed_torch(config.seed, "initialisation")
        self.config, self.data, self.epoch = config, data, 0
        self.model = build_model(config, data, pretrained=is_new).to(device)
        self.train_split, self.meta_split = self._train_splits(device, beside)
        if beside is None:
            self.val_split = ResidentSplit(data.splits["val"], device, self.model.reading)
        else:
            self.val_split = beside.val_split
        self.loss = build_loss(config.loss, **config.loss_parameters)
        self.meta: MetaStep | None = None
        if self.meta_split is not None and isinstance(self.loss, MetaWeights):
            self.meta = MetaStep(self.model, self.loss, self.meta_split)
        self.optimizer = build_optimizer(self.model.parameters(), config.training, self.model.backbone_parameters())
        decay = config.training.weight_average
        self.average = WeightAverage(self.model, decay) if decay > 0 else None
        self.learned = LearnedParameters(device, self.model.initial_values)
        self.metrics: dict[str, float] = {}
        self.best_epoch, self.best_value = 0, -math.inf
        self.best_weights: dict[str, Tensor] = {}
        self.best_learned: dict[str, float] = {}
        self.best_network: dict[str, Tensor] = {}
        self.on_step: Callable[[int], None] = lambda step: None
        self.static_steps: StaticSteps | None = None
        self.stream: torch.cuda.Stream | None = None
        self.not_replayed: str | None = None
        self.drift: dict[str, float] = {}
        self._first_steps: list[dict[str, Tensor]] = []

    def _train_splits(self, device: torch.device, beside: "Trial | None") -> tuple[ResidentSplit, ResidentSplit | None]:
        """Return what is trained on, and what a meta-step reads."""
        if beside is not None and beside.config.meta_fraction == self.config.meta_fraction:
            return beside.train_split, beside.meta_split
        if not self.config.meta_fraction:
            return ResidentSplit(self.data.splits["train"], device, self.model.reading), None
        train, meta = set_aside(self.config, self.data)
        return ResidentSplit(train, device, self.model.reading), ResidentSplit(meta, device, self.model.reading)

    def run_epoch(self) -> EpochReport:
        """Train for one epoch, evaluate on val, and remember the model if it is the best so far."""
        started = time.monotonic()
        self.begin_epoch()
        train_loss = self.train()
        return self.end_epoch(train_loss, time.monotonic() - started)

    def begin_epoch(self) -> None:
        """Set loss, optimiser and backbone for the next epoch."""
        self.epoch += 1
        self.drift = {}
        present = self.config.at(self.epoch)
        # The schedule may change hyper-parameters from this epoch on.
        self.loss = build_loss(present.loss, **present.loss_parameters)
        adjust_optimizer(self.optimizer, present.training, self.epoch)
        self.learned.begin_epoch(self.loss, present.training, self.epoch)
        self.model.train_backbone(present.training.trains_backbone(self.epoch))

    def train(self, steps: int | None = None) -> float:
        """Take the steps of the epoch that has begun, and return their mean loss (``DivergedError`` if not finite).

        At most ``steps`` >= 1 are taken, the first ones; ``None`` takes all.
        """
        return finish(self.in_steps(steps))

    def in_steps(self, steps: int | None = None) -> Steps:
        """Take the same steps, and yield after each, so that other trials may take theirs in between."""
        seed_torch(self.config.seed, "epoch", self.epoch)
        training = self.config.at(self.epoch).training
        if self._has_static_steps(training):
            return (yield from self._train_statically(training, steps))
        clip = training.gradient_clip
        if self.config.encoder is not None and next(self.model.parameters(), None) is None:
            # Zero-shot: nothing is trained, and the loss of a batch is enough.
            steps = 1
        batches = _counted(islice(self.batches(), steps), self.on_step)
        bank = self._new_bank(training)
        if self.meta is not None:
            self.meta.begin_epoch(training, self.config.seed, self.epoch)
        loss = yield from train_epoch(
            *(self.model, self.loss, self.optimizer, batches, clip, self.epoch),
            *(self.learned, self.count_step, self.average, bank, training.micro_batch, self.meta),
        )
        self.note_drift(bank)
        return loss

    def _has_static_steps(self, training: TrainingConfig) -> bool:
        """Whether the epoch is trained by static steps; otherwise ``not_replayed`` says why, where they were wanted."""
        device = self.train_split.device
        if training.graph == "off" or (training.graph == "auto" and device.type == "cpu"):
            return False
        self.not_replayed = find_obstacle(Parts(self.model, self.loss, self.train_split, training))
        if self.static_steps is None and self.not_replayed is None:
            make_graph = None if device.type == "cpu" else partial(CudaGraph, device)
            self.static_steps = StaticSteps(self.model, self.train_split, make_graph)
        if self.static_steps is not None:
            self.not_replayed = self.not_replayed or self.static_steps.problem
        return self.not_replayed is None

    def _train_statically(self, training: TrainingConfig, count: int | None) -> Steps:
        assert self.static_steps is not None
        watched = max(0, training.cocos_steps - len(self._first_steps)) if self.epoch == 1 else 0
        steps = EpochSteps(
            training=training,
            loss=self.loss,
            optimizer=self.optimizer,
            learned=self.learned,
            average=self.average,
            batches=draw_batches(self.train_split, training, self._order())[:count],
            draw=self._draw(training),
            epoch=self.epoch,
            watch=self.count_step,
            watched=watched,
            on_step=self.on_step,
        )
        loss = yield from self.static_steps.train_epoch(steps)
        self.note_drift(self.static_steps.bank)
        self.not_replayed = self.static_steps.problem
        return loss

    def _loss_in_force(self) -> Loss:
        """Return the loss with what it has learned so far."""
        loss: Loss = self.learned.in_force(self.loss)
        return loss if self.meta is None else self.meta.in_force(loss)

    def _new_bank(self, training: TrainingConfig) -> Bank | None:
        return make_bank(training.bank, self.model) if training.bank else None

    def note_drift(self, bank: Bank | None) -> None:
        """Take the drift of a bank's embeddings in the epoch for the epoch's metrics."""
        self.drift = {} if bank is None else {name: float(value) for name, value in bank.drift.values.items()}

    def count_step(self, similarity: Tensor, batch: Batch, candidates: Candidates | None = None) -> None:
        """Measure COCOS on the similarities of a step, shape (I, C), before the step, if it is one of the first steps.

        ``candidates`` are those of a bank. The model and its random numbers are as without the measurement.
        """
        if self.epoch == 1 and len(self._first_steps) < self.config.training.cocos_steps:
            loss = self._loss_in_force()
            counts = count_contributions(loss, similarity.detach(), batch.positives, batch.ignore, candidates)
            self._first_steps.append(counts)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the epoch that has begun; seed, epoch, split and settings decide the batches."""
        training = self.config.at(self.epoch).training
        return epoch_batches(self.train_split, training, self._order(), self._draw(training))

    def _order(self) -> torch.Generator:
        return generator(self.config.seed, "batches", self.epoch)

    def _draw(self, training: TrainingConfig) -> int | None:
        return derive_seed(self.config.seed, "views", self.epoch) if training.augment else None

    def end_epoch(self, train_loss: float, train_seconds: float) -> EpochReport:
        """Evaluate the epoch, whose training took ``train_seconds``, and return its report."""
        started = time.monotonic()
        with nullcontext() if self.average is None else self.average.in_force():
            learned = self._learned_values() | {f"bank/{name}": value for name, value in self.drift.items()}
            self.metrics = {"train/loss": train_loss, **learned, **self.evaluate_on_val()}
            self._remember_if_best()
        every = self.config.training.cocos_every
        if self.best_epoch == self.epoch or (every and self.epoch % every == 0):
            self.metrics |= self.count_contributions()
        if self.epoch == 1:
            self.metrics |= _named("cocos_start", spreads(self._first_steps))
        self.metrics |= {
            f"{self.config.metric}_best": self.best_value,
            "time/train_seconds": train_seconds,
            "time/epoch_seconds": train_seconds + time.monotonic() - started,
        }
        return self._report()

    def evaluate_on_val(self) -> dict[str, float]:
        """Return the metrics on val under ``val/...`` (``DivergedError`` if a similarity is not a number)."""
        try:
            metrics = evaluate(self.model, self.val_split)
        except NotANumberError as error:
            raise DivergedError("val/similarity", math.nan, self.epoch, 0) from error
        return {f"val/{name}": value for name, value in metrics.items()}

    def count_contributions(self) -> dict[str, float]:
        """Return COCOS statistics under ``cocos/...`` of a few batches, which are equal for all epochs and seeds.

        Raises:
            DivergedError: If a similarity is not a number.
        """
        # The schedule may have changed the batch size, on which every count depends.
        training = self.config.at(self.epoch).training
        order = epoch_batches(self.train_split, training, generator(0, "cocos"))
        try:
            loss = self._loss_in_force()
            curve = tuple(OTHER_EPSILONS) if training.cocos_steps else ()
            bank = self._new_bank(training)
            measured = measure_contributions(self.model, loss, order, count=COCOS_BATCHES, bank=bank, curve=curve)
        except NotANumberError as error:
            raise DivergedError("train/similarity", math.nan, self.epoch, 0) from error
        return _named("cocos", _at_other_epsilons(measured))

    def restore(self, directory: Path) -> EpochReport:
        """Restore the state after a checkpoint's epoch, and return the epoch's report again."""
        state = read_file(directory, STATE)
        self._check_origin(directory, state)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        # Checkpoints of older versions, and of losses without learned hyper-parameters, lack this key.
        self.learned.load_state_dict(state.get(LEARNED, {}), self.loss, self.config.training)
        self.epoch, self.metrics = state["epoch"], state["metrics"]
        if self.meta is not None:
            self.meta.load_state_dict(state["meta"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        best = read_file(directory, BEST)
        self.best_epoch, self.best_value, self.best_weights = best["epoch"], best["value"], best["model"]
        self.best_learned, self.best_network = best.get(LEARNED, {}), best.get(NETWORK, {})
        return self._report()

    def save(self, directory: Path) -> None:
        """Write ``state.pt`` and ``best.pt`` of the present state into a directory that exists."""
        self.snapshot()(directory)

    def snapshot(self) -> Callable[[Path], None]:
        """Return a function that writes the present state as ``save`` does, in any thread, while the trial trains on.

        The state lies on the device until the function is dropped.
        """
        origin = {"config": self.config.to_dict(), "digest": self.data.digest}
        if (tokenizer := self.data.vocabulary.tokenizer) != ENGLISH:
            origin["tokenizer"] = tokenizer.identity
        if self.model.origin_digest:
            origin["encoder"] = self.model.origin_digest
        # The weights of the best epoch are a copy, which is never changed.
        is_copied = self.best_epoch == self.epoch and self.average is None
        state = {"model": {} if is_copied else self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        if self.learned.raw:
            state[LEARNED] = self.learned.state_dict()
        if self.average is not None:
            state["average"] = self.average.state_dict()
        if self.meta is not None:
            state["meta"] = self.meta.state_dict()
        state = _copied({**origin, "epoch": self.epoch, "metrics": self.metrics, **state})
        best = {"epoch": self.best_epoch, "value": self.best_value, "model": self.best_weights}
        if is_copied:
            state["model"] = self.best_weights
        if self.best_learned:
            best[LEARNED] = self.best_learned
        if self.best_network:
            best[NETWORK] = self.best_network
        beside = reading_beside(self.train_split.device)

        def write(directory: Path) -> None:
            with beside():
                write_file(directory / STATE, state)
                write_file(directory / BEST, {**origin, **best})

        return write

    def _learned_numbers(self) -> dict[str, float]:
        curve = {} if self.meta is None else self.meta.network.values()
        return self.learned.numbers(self.loss) | curve

    def _learned_values(self) -> dict[str, float]:
        numbers = self._learned_numbers()
        for name, number in numbers.items():
            if not math.isfinite(number):
                raise DivergedError(f"loss/{name}", number, self.epoch, 0)
        return {f"loss/{name}": number for name, number in numbers.items()}

    def _remember_if_best(self) -> None:
        value = self.metrics[self.config.metric]
        if value > self.best_value:
            self.best_epoch, self.best_value = self.epoch, value
            self.best_weights = _copied(self.model.state_dict())
            self.best_learned = self._learned_numbers()
            if self.meta is not None:
                self.best_network = _copied(self.meta.network.state_dict())

    def _report(self) -> EpochReport:
        return EpochReport(self.epoch, dict(self.metrics), self.best_epoch == self.epoch, self.save, self.not_replayed)

    def _check_origin(self, directory: Path, state: dict[str, Any]) -> None:
        # Both read as from JSON: there coefficients are lists, and in a config made in Python tuples.
        written, here = (_from_json(values) for values in (state["config"], self.config.to_dict()))
        # A config with another end is the same trial, unless its rates depend on the end. Later changes of the schedule
        # have no effect yet.
        now = self.config.training
        epochs = written.training.epochs if now.learning_rate_schedule == "cosine" else now.epochs
        longer = replace(written, training=replace(written.training, epochs=epochs, patience=now.patience))
        if longer.until(state["epoch"]) != here.until(state["epoch"]):
            raise CheckpointError(f"{directory}: written by a trial with another config; resume it with its own")
        check_tokenizer_of(directory, state, self.data)
        check_encoder_of(directory, state, self.model)
        if state["digest"] != self.data.digest:
            raise CheckpointError(f"{directory}: trained on other data than {self.data.name} here holds")


def _copied(value: Any) -> Any:
    """Return dicts and lists with copies of their tensors, each in a storage of its own.

    A tensor of a stacked trial is a view, and saving a view saves the whole tensor behind it.
    """
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _from_json(values: Mapping[str, Any]) -> TrialConfig:
    return TrialConfig.from_dict(parse_state(json.dumps(values)))


def _named(section: str, counters: Mapping[str, Spread]) -> dict[str, float]:
    """Return the mean of each counter as ``SECTION/NAME``, and its standard deviation as ``SECTION/NAME_std``."""
    means = {f"{section}/{name}": spread.mean for name, spread in counters.items()}
    return means | {f"{section}/{name}_std": spread.std for name, spread in counters.items()}


def _at_other_epsilons(measured: Mapping[str, Spread]) -> dict[str, Spread]:
    """Return the counters by the names of metrics; at other values of epsilon the negatives of a query alone."""
    counters = {}
    for name, spread in measured.items():
        counter, _, epsilon = name.partition("@")
        if not epsilon:
            counters[name] = spread
        elif counter.endswith("negatives_per_query"):
            counters[f"{counter}_{OTHER_EPSILONS[float(epsilon)]}"] = spread
    return counters


def _counted(batches: Iterable[Batch], on_step: Callable[[int], None]) -> Iterator[Batch]:
    """Yield batches, and report a step when the next batch is requested, because the step has then been taken."""
    for step, batch in enumerate(batches, start=1):
        yield batch
        on_step(step)
