"""How fast a training is: a few of its steps and evaluations on the real data, timed.

Timed are steps and evaluation apart, after a rehearsal that warms up what is compiled, allocated or read from the disk
at first. Steps are the difference of two runs that differ only in their number, without what it takes to begin.
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
"""Enough for captions of different lengths."""

ROUNDS, ENOUGH_SECONDS = 5, 1.0
"""Times that what is timed is done, unless it has taken so long by then."""


@dataclass(frozen=True)
class Pace:
    """What an epoch takes.

    Attributes:
        device: ``cpu`` or ``cuda``.
        steps: Of an epoch, >= 0.
        step_seconds: Of one step, >= 0.
        evaluation_seconds: Of an evaluation on val with COCOS statistics, which not every epoch takes, >= 0.
    """

    device: str
    steps: int
    step_seconds: float
    evaluation_seconds: float

    @property
    def epoch_seconds(self) -> float:
        """Of an epoch, its evaluation included."""
        return self.steps * self.step_seconds + self.evaluation_seconds


def measure_pace(config: TrialConfig, data: Dataset, device: torch.device, steps: int = STEPS) -> Pace:
    """Time a training, of which nothing is left afterwards.

    Args:
        config: Of the training.
        data: Its dataset.
        device: Where it runs.
        steps: So many are timed, >= 1.
    """
    rehearsal = Rehearsal(Trial(config, data, device))
    rehearsal.whole(1)
    step, evaluation = step_seconds(rehearsal.steps, steps), quickest(rehearsal.evaluation)
    return Pace(device.type, count_steps(data.splits["train"], config.training), step, evaluation)


def count_steps(split: Split, training: TrainingConfig) -> int:
    """Return the steps of an epoch: batches of captions, or of images; a last one of a single one is left out."""
    count = len(split.image_rows) if training.batches == "images" else len(split.offsets) - 1
    whole, rest = divmod(count, training.batch_size)
    return whole + (rest > 1)


def step_seconds(take: Callable[[int], object], steps: int = STEPS) -> float:
    """Return the seconds of a step.

    Args:
        take: Takes so many steps.
        steps: So many are timed, >= 1.
    """
    few, many = (quickest(partial(take, count)) for count in (1, 1 + steps))
    # Where it is too noisy to tell, as if nothing but steps took time.
    return (many - few) / steps if many > few else many / (1 + steps)


def quickest(work: Callable[[], object]) -> float:
    """Return the fewest seconds that some work takes: what is short is done again, for others disturb it by as much."""
    taken: list[float] = []
    while len(taken) < ROUNDS and sum(taken) < ENOUGH_SECONDS:
        started = time.monotonic()
        work()
        taken.append(time.monotonic() - started)
    return min(taken)
