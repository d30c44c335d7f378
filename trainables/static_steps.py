"""The steps of an epoch as one function of buffers that keep their place, replayed as a CUDA graph where there is one.

Python starts hundreds of kernels a step, for which a GPU waits. A CUDA graph starts all of them at once. Its operations
have fixed shapes and addresses: batches come from ``StaticBatches``, gradients are set to 0 and not dropped, and rates
lie in tensors. Random numbers are those of the device's generator, which a replay advances as the step itself does.

A graph proves itself. Before it is used, ``PROOF`` steps from one state are taken by the step itself and by replay, and
all weights, moments and losses must agree to the last bit. One step of each later epoch is checked again. Where a graph
cannot be captured, or differs, the training continues with the step itself, and ``problem`` says why.

The same function takes steps that no graph can: of a batch that is no static batch, of a step that is watched, and
while a bank of embeddings fills. On a CPU all steps are taken so.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from trainables.bank import Bank, make_bank
from trainables.config import TrainingConfig
from trainables.data.batches import Batch, Indices, ResidentSplit, gather_batch
from trainables.data.static_batches import SPARE, StaticBatches
from trainables.errors import DivergedError
from trainables.losses import Loss, NotANumberError
from trainables.losses.plugin_loss import place_of_loss
from trainables.models.retrieval_model import RetrievalModel
from trainables.optimizers import HeldRates, LearnedParameters, WeightAverage
from trainables.seeding import random_state, set_random_state
from trainables.training_steps import StepLosses, Steps, TrainingStep, Watch

PROOF = 3
"""Steps that a graph must repeat to the last bit before it is used; at most ``SPARE``."""

UNEQUAL = "replayed steps differ from the step itself in the last bits"


class Graph(Protocol):
    """Repeats what a function did on a device."""

    def capture(self, work: Callable[[], None]) -> None:
        """Record the operations of ``work`` without taking them (``RuntimeError`` if that is impossible)."""

    def replay(self) -> None:
        """Take the recorded operations."""


_POOLS: dict[tuple[torch.device, int], Any] = {}
"""Device and stream -> the memory that all graphs of the stream share."""


class CudaGraph:
    """A CUDA graph; all graphs of a stream share a pool of memory, since no two of them run at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._graph = torch.cuda.CUDAGraph()

    def capture(self, work: Callable[[], None]) -> None:
        """See ``Graph``; other threads may use the GPU meanwhile."""
        with torch.cuda.device(self._device):
            place = self._device, torch.cuda.current_stream().cuda_stream
            pool = _POOLS.setdefault(place, torch.cuda.graph_pool_handle())
            with torch.cuda.graph(
                self._graph, pool=pool, stream=torch.cuda.Stream(), capture_error_mode="thread_local"
            ):
                work()

    def replay(self) -> None:
        """See ``Graph``; on the present stream."""
        self._graph.replay()


class EpochSteps(NamedTuple):
    """What decides the steps of an epoch.

    Attributes:
        batches: Indices of all batches, in their order.
        draw: Seed of the views of the images, see ``trainables.data.batches``.
        epoch: Number of the epoch, from 1.
        watch: Called before each of the first ``watched`` steps, see ``train_epoch``.
        on_step: Called after each step with its number, from 1.
    """

    training: TrainingConfig
    loss: Loss
    optimizer: torch.optim.Optimizer
    learned: LearnedParameters
    average: WeightAverage | None
    batches: Sequence[Indices]
    draw: int | None
    epoch: int
    watch: Watch
    watched: int
    on_step: Callable[[int], None]


class StaticSteps:
    """The static steps of one training.

    Attributes:
        problem: Why the steps are not replayed; ``None`` while they are, or where no graph is wanted.
        replays: How many steps were replayed so far.
    """

    def __init__(self, model: RetrievalModel, split: ResidentSplit, make_graph: Callable[[], Graph] | None) -> None:
        """Take a model and the split that it is trained on; without ``make_graph`` no step is replayed."""
        self.problem: str | None = None
        self.replays = 0
        self._model, self._split, self._make_graph = model, split, make_graph
        self._value = torch.zeros((), device=split.device)
        self._rates = HeldRates()
        self._settings: object = None
        self._graph: Graph | None = None
        self._addresses: list[int] = []
        self._is_checked = False

    def train_epoch(self, steps: EpochSteps) -> Steps:
        """Take the steps of an epoch, and return their mean loss (``DivergedError`` if a loss is not finite)."""
        self._model.train()
        self._prepare(steps)
        losses = StepLosses(steps.epoch, place=place_of_loss(steps.loss))
        is_static = [self._batches.is_static(part) for part in steps.batches]
        chosen = [part for part, static in zip(steps.batches, is_static, strict=True) if static]
        self._batches.fill(chosen, steps.draw)
        with self._rates.in_force(self._optimizers):
            for number, (part, static) in enumerate(zip(steps.batches, is_static, strict=True), start=1):
                watch = steps.watch if number <= steps.watched else None
                try:
                    value = self._take_static(watch) if static else self._step.take(self._gathered(part, steps), watch)
                except NotANumberError as error:
                    raise DivergedError("train/similarity", math.nan, steps.epoch, number) from error
                losses.add(value)
                if steps.average is not None:
                    steps.average.step()
                steps.on_step(number)
                yield
        if self._step.bank is not None:
            self._step.bank.drift.measure(self._model)
        return losses.mean()

    @property
    def bank(self) -> Bank | None:
        """The bank of the last epoch, with its drift; ``None`` where there is none."""
        return self._step.bank

    def _gathered(self, part: Indices, steps: EpochSteps) -> Batch:
        return gather_batch(self._split, part, steps.training, steps.draw)

    def _prepare(self, steps: EpochSteps) -> None:
        """Keep step, buffers and graph of the former epoch, unless settings that they contain have changed."""
        training = steps.training
        groups = [{**group, "params": None, "lr": None} for group in steps.optimizer.param_groups]
        settings = (steps.loss, training, groups, list(steps.learned.optimizers))
        self._is_checked = False
        if settings != self._settings:
            self._settings, self._graph = settings, None
            clip = training.gradient_clip
            parts = self._model, steps.loss, steps.optimizer, clip, steps.learned
            self._step = TrainingStep(*parts, bank=make_bank(training.bank, self._model), keeps_gradients=True)
            self._batches = StaticBatches(self._split, training)
            self._raw = steps.learned.raw
            self._optimizers = [steps.optimizer, *steps.learned.optimizers.values()]
            self._has_state = False
        if self._step.bank is not None:
            self._step.bank.clear()

    def _take_static(self, watch: Watch | None) -> Tensor:
        """Take the step of the next static batch, and return its loss in a tensor of its own."""
        bank = self._step.bank
        may_replay = watch is None and self._has_state and (bank is None or bool(bank.tensors))
        graph = self._checked_graph() if may_replay else None
        if graph is None or not self._is_replayed(graph):
            self._work(watch)
        # An optimiser makes its state in its first step, which a graph must not repeat.
        self._has_state = True
        return self._value.clone()

    def _work(self, watch: Watch | None = None) -> None:
        """The static step: a function of buffers alone, which a graph captures."""
        self._value.copy_(self._step.take(self._batches.current(), watch))
        self._batches.advance()

    def _is_replayed(self, graph: Graph) -> bool:
        """Replay a step; where CUDA refuses to start it, ``problem`` says why, and nothing was done."""
        try:
            graph.replay()
        except RuntimeError as error:
            self._graph, self.problem = None, f"a step could not be replayed: {_first_line(error)}"
            return False
        self.replays += 1
        return True

    def _checked_graph(self) -> Graph | None:
        """Return a graph that agrees with the step itself, or ``None``; ``problem`` then says why there is none."""
        if self._make_graph is None or self.problem is not None:
            return None
        graph, self._graph = self._graph, None
        if self._addresses != [tensor.data_ptr() for tensor in self._changing()]:
            graph = None
        steps = PROOF if graph is None else 0 if self._is_checked else 1
        self._is_checked = True
        try:
            graph = graph or self._captured(self._make_graph)
            if steps and not self._agrees(graph, steps):
                self.problem = UNEQUAL
        except RuntimeError as error:
            # Any error of CUDA is one, and so is a lack of memory.
            self.problem = f"a step could not be {'captured' if steps == PROOF else 'checked'}: {_first_line(error)}"
        self._graph = graph if self.problem is None else None
        return self._graph

    def _captured(self, make_graph: Callable[[], Graph]) -> Graph:
        """Capture the static step."""
        self._addresses = [tensor.data_ptr() for tensor in self._changing()]
        with self._tried():
            graph = make_graph()
            graph.capture(self._work)
        return graph

    def _agrees(self, graph: Graph, steps: int) -> bool:
        """Say whether replayed steps from the present state agree with the step itself; the state stays as it is."""
        with self._tried():
            values = [self._after(self._work) for _ in range(steps)]
            expected = [tensor.clone() for tensor in self._changing()]
        with self._tried():
            again = [self._after(graph.replay) for _ in range(steps)]
            found = [*self._changing(), *again]
            return all(_same_bits(one, other) for one, other in zip(found, [*expected, *values], strict=True))

    def _after(self, step: Callable[[], None]) -> Tensor:
        step()
        return self._value.clone()

    @contextmanager
    def _tried(self) -> Iterator[None]:
        """Undo all steps of a ``with`` block, and what they drew."""
        tensors, state = self._changing(), random_state(self._split.device)
        before = [tensor.detach().clone() for tensor in tensors]
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, values in zip(tensors, before, strict=True):
                    tensor.copy_(values)
            set_random_state(self._split.device, state)

    def _changing(self) -> list[Tensor]:
        """Return all tensors that a static step changes, but for gradients."""
        moments = [
            value
            for optimizer in self._optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
            for value in optimizer.state[parameter].values()
            if isinstance(value, Tensor)
        ]
        bank = [] if self._step.bank is None else self._step.bank.tensors
        of_model = [*self._model.parameters(), *self._model.buffers()]
        return [*of_model, *self._raw.values(), *moments, *bank, self._batches.counter, self._value]


assert PROOF <= SPARE


def _same_bits(one: Tensor, other: Tensor) -> bool:
    """Say whether two tensors of one dtype have the same bits; a NaN equals itself."""
    whole = {4: torch.int32, 8: torch.int64}.get(one.element_size())
    one, other = one.detach(), other.detach()
    if whole is None or not one.is_floating_point():
        return torch.equal(one, other)
    return torch.equal(one.contiguous().view(whole), other.contiguous().view(whole))


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
