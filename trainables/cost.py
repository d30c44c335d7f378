"""Time and memory of a training, and the number of trials that are best trained at once, by a few real steps.

Steps and evaluation are timed separately, after an untimed rehearsal, so that compilation, allocation and first
readings from the disk do not count. The time of steps is the difference of two runs with different numbers of steps, so
that the start of a run does not count. Memory is what the allocator reserves, not what tensors use, because the
allocators of two trials on one GPU compete for its memory. The speed of fused trials is the epochs an hour of all of
them, including evaluation, which is not fused. They share seed and epoch and so their batches, like most trials of a
search. A model that compares pairs is evaluated on the first images of val, and the time is scaled by the pairs: a
forecast of GSMN on Flickr8k would otherwise compare five million pairs twice.
"""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch

from trainables.config import TrialConfig
from trainables.data.batches import ResidentSplit, count_steps
from trainables.data.dataset import Dataset
from trainables.data.meta_split import trained_split
from trainables.errors import DivergedError
from trainables.fused import stack_shape, train_stacked
from trainables.losses import NotANumberError
from trainables.trial import Trial
from trainables.turns import train_in_turns


def take_steps(trial: Trial, steps: int) -> None:
    """Take the first ``steps`` >= 1 steps of an epoch, with a trained backbone if any epoch trains the backbone.

    The trial is only measured, and must not be trained further.
    """
    training = trial.config.training
    # The steps of a graph too: its memory counts, and ``step_seconds`` leaves out what capturing takes.
    trial.epoch = 0
    trial.begin_epoch()
    trial.model.train_backbone(training.trains_backbone(1) or training.trains_backbone(training.total_epochs))
    # A trial that diverges has already taken its memory.
    with suppress(DivergedError, NotANumberError):
        trial.train(steps)


def evaluate(trial: Trial) -> None:
    """Evaluate on val."""
    with suppress(DivergedError, NotANumberError):
        trial.evaluate_on_val()


def count(trial: Trial) -> None:
    """Count COCOS statistics."""
    with suppress(DivergedError, NotANumberError):
        trial.count_contributions()


def shorten_val(trial: Trial) -> float:
    """Let a trial evaluate on the images of val that are compared quickly, and return val's pairs over theirs, >= 1."""
    val, quick = trial.data.splits["val"], trial.model.quick_pairs
    pairs = len(val.image_rows) * len(val.captions)
    if pairs <= quick:
        return 1.0
    part = val.head(max(2, int(len(val.image_rows) * math.sqrt(quick / pairs))))
    trial.val_split = ResidentSplit(part, trial.val_split.device, trial.model.reading)
    return pairs / (len(part.image_rows) * len(part.captions))


STEPS = 8
"""Number of measured steps, enough for the optimiser's state and for captions of different lengths."""

WARM_UP = 3
"""Steps before the measured ones: the first makes the optimiser's state, the next is captured."""

ROUNDS, ENOUGH_SECONDS, LONG_SECONDS = 5, 1.0, 2.0
"""Most repeats of timed work, the seconds after which it is not repeated again, and those of steps that are enough."""


@dataclass(frozen=True)
class Pace:
    """The duration of an epoch.

    An evaluation on val includes COCOS statistics, which not every epoch has. Seconds are >= 0.
    """

    device: str
    steps: int
    step_seconds: float
    evaluation_seconds: float

    @property
    def epoch_seconds(self) -> float:
        """Seconds of an epoch with its evaluation."""
        return self.steps * self.step_seconds + self.evaluation_seconds


def measure_pace(config: TrialConfig, data: Dataset, device: torch.device, steps: int = STEPS) -> Pace:
    """Time ``steps`` >= 1 steps and an evaluation; the trained model is discarded."""
    trial = Trial(config, data, device)
    times = shorten_val(trial)
    take_steps(trial, 1)
    step = step_seconds(partial(take_steps, trial), steps)
    evaluation = times * rehearsed(partial(evaluate, trial)) + rehearsed(partial(count, trial))
    return Pace(device.type, count_steps(trained_split(config, data), config.training, config.seed), step, evaluation)


def step_seconds(take: Callable[[int], object], steps: int = STEPS) -> float:
    """Return the seconds of a step, from ``steps`` >= 1, or fewer long ones, of a function that takes some steps."""
    few = quickest(partial(take, 1))
    steps = min(steps, max(2, int(LONG_SECONDS / few))) if few else steps
    many = quickest(partial(take, 1 + steps))
    # If noise makes the difference negative, the longer run's time is divided by all of its steps.
    return (many - few) / steps if many > few else many / (1 + steps)


def quickest(work: Callable[[], object]) -> float:
    """Return the least seconds that a work takes; short work is repeated, because other processes disturb timings."""
    taken: list[float] = []
    while len(taken) < ROUNDS and sum(taken) < ENOUGH_SECONDS:
        started = time.monotonic()
        work()
        taken.append(time.monotonic() - started)
    return min(taken)


def rehearsed(work: Callable[[], object]) -> float:
    """Return the least seconds of a work after a rehearsal, or those of the rehearsal where it is long."""
    started = time.monotonic()
    work()
    first = time.monotonic() - started
    return first if first >= ENOUGH_SECONDS else quickest(work)


def measure_peak(config: TrialConfig, data: Dataset, device: torch.device) -> int:
    """Return the most bytes that the allocator of a GPU reserves at a time for a training."""
    _forget_memory(device)
    trial = Trial(config, data, device)
    take_steps(trial, STEPS)
    with suppress(DivergedError, NotANumberError):
        trial.end_epoch(0.0, 0.0)
    # As many as a training holds at a time, see ``trainables.checkpoint.run_ahead``.
    snapshots = [trial.snapshot(), trial.snapshot()]
    del snapshots
    return torch.cuda.max_memory_reserved(device)


SIZES = (4, 16, 64)
"""Numbers of fused trials that are tried beside 1."""

GAIN = 1.1
"""Least factor on the epochs an hour that justifies the memory and the waiting times of more fused trials."""

ENOUGH = 2
"""How many sizes in a row must bring no gain before the measurement stops."""

MARGIN = 1.25
"""Factor on the measured peak of a GPU's memory, for captions that are longer than the measured captions."""


def measure_rates(
    config: TrialConfig, data: Dataset, device: torch.device, sizes: tuple[int, ...] = SIZES, *, in_turns: bool = False
) -> dict[int, float]:
    """Return number of fused trials -> their epochs an hour, from 1 up to the size at which the measurement stops.

    ``sizes`` are the numbers that are tried beside 1, ascending. It stops before the first that a GPU has no room for.
    The trials are stacked, or take their steps ``in_turns``, which pays on a GPU alone.
    """
    if device.type == "cuda":
        _forget_memory(device)
    pace = measure_pace(config, data, device)
    rates = {1: 3600 / pace.epoch_seconds}
    steps = count_steps(trained_split(config, data), config.training, config.seed)
    without_gain = 0
    for size in sizes:
        try:
            first = Trial(config, data, device)
            trials = [first, *(Trial(config, data, device, beside=first) for _ in range(size - 1))]
            for trial in trials:
                trial.begin_epoch()
            if not in_turns and len({stack_shape(trial) for trial in trials}) > 1:
                # Trials that cannot be stacked would take turns.
                return rates
            seconds = _common_step_seconds(trials, train_in_turns if in_turns else train_stacked)
        except torch.OutOfMemoryError:
            return rates
        # The memory is freed before the next, larger group is made.
        del first, trials, trial
        if device.type == "cuda" and not _has_room(device):
            return rates
        best = max(rates.values())
        rates[size] = 3600 / (steps * seconds / size + pace.evaluation_seconds)
        without_gain = 0 if rates[size] >= GAIN * best else without_gain + 1
        if without_gain == ENOUGH or rates[size] * GAIN < best:
            return rates
    return rates


def choose_fusion(rates: Mapping[int, float]) -> int:
    """Return how many trials to fuse: from 1 up, each number that gains a factor ``GAIN`` over the last chosen number.

    ``rates`` maps a number of fused trials to their epochs an hour on one device, or on one trial's CPUs.
    """
    chosen = 1
    for trials in sorted(rates):
        if rates[trials] >= GAIN * rates[chosen]:
            chosen = trials
    return chosen


class Fusion(NamedTuple):
    """How many trials are fused, >= 1, whether they take turns, and what was measured of that way."""

    trials: int
    in_turns: bool
    rates: Mapping[int, float]


def choose_way(stacked: Mapping[int, float], in_turns: Mapping[int, float]) -> Fusion:
    """Return the faster way, each at its own number of trials; ``in_turns`` may be empty.

    Example:
        >>> choose_way({1: 10.0, 4: 30.0}, {1: 10.0, 4: 40.0, 16: 90.0})[:2]
        (16, True)
        >>> choose_way({1: 10.0, 4: 30.0}, {})[:2]
        (4, False)
    """
    ways = [
        Fusion(choose_fusion(rates), turns, rates) for turns, rates in ((False, stacked), (True, in_turns)) if rates
    ]
    return max(ways, key=lambda way: way.rates[way.trials])


def _common_step_seconds(trials: list[Trial], train: Callable[[list[Trial], int], object]) -> float:
    """Return the seconds of a step of all trials, after steps to warm up, in which a graph is captured."""
    train(trials, WARM_UP)
    return step_seconds(partial(train, trials))


def _forget_memory(device: torch.device) -> None:
    """Give back what this process holds of a GPU for later, and measure its peak from now on."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)


def _has_room(device: torch.device) -> bool:
    """Whether a GPU has room for what was measured on it, where captions are longer than the measured captions."""
    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.max_memory_reserved(device)
    return held * MARGIN <= free + torch.cuda.memory_reserved(device)
