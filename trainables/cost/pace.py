"""Measures the speed of a training by a few of its steps and evaluations on the real data.

Steps and evaluation are timed separately, after an untimed rehearsal, so that compilation, allocation and first
readings from the disk do not count. The time of steps is the difference of two runs with different numbers of steps, so
that the start of a run does not count.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from trainables.config import TrainingConfig, TrialConfig
from trainables.cost.rehearsal import Rehearsal
from trainables.data.dataset import Dataset, Split
from trainables.trial import Trial

STEPS = 8
"""Number of timed steps, enough for captions of different lengths."""

ROUNDS, ENOUGH_SECONDS = 5, 1.0
"""Most repeats of timed work, and the seconds after which the work is not repeated again."""


@dataclass(frozen=True)
class Pace:
    """The duration of an epoch.

    Attributes:
        device: ``cpu`` or ``cuda``.
        steps: Number of steps of an epoch, >= 0.
        step_seconds: Seconds of one step, >= 0.
        evaluation_seconds: Seconds of an evaluation on val with COCOS statistics, which not every epoch has, >= 0.
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
    """Time a training; the trained model is discarded.

    Args:
        config: Config of the training.
        data: Dataset of the training.
        device: Device of the training.
        steps: Number of timed steps, >= 1.
    """
    rehearsal = Rehearsal(Trial(config, data, device))
    rehearsal.whole(1)
    step, evaluation = step_seconds(rehearsal.steps, steps), quickest(rehearsal.evaluation)
    return Pace(device.type, count_steps(data.splits["train"], config.training), step, evaluation)


def count_steps(split: Split, training: TrainingConfig) -> int:
    """Return the steps of an epoch: batches of captions, or of images, without a last batch of a single item."""
    count = len(split.image_rows) if training.batches == "images" else len(split.offsets) - 1
    whole, rest = divmod(count, training.batch_size)
    return whole + (rest > 1)


def step_seconds(take: Callable[[int], object], steps: int = STEPS) -> float:
    """Return the seconds of a step.

    Args:
        take: Function that takes the given number of steps.
        steps: Number of timed steps, >= 1.
    """
    few, many = (quickest(partial(take, count)) for count in (1, 1 + steps))
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
