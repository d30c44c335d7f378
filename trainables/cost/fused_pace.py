"""How many trials are best trained at once on a device: timed, as far as its memory allows.

What is compared is trials' epochs an hour, evaluation included, which is not fused. Trials of a search mostly share
seed and epoch and so their batches, and that is what is timed.
"""

from collections.abc import Mapping
from functools import partial

import torch

from trainables.config import TrialConfig
from trainables.cost.pace import count_steps, measure_pace, step_seconds
from trainables.data.dataset import Dataset
from trainables.fused.stacked_epoch import stack_shape, train_stacked
from trainables.trial import Trial

SIZES = (4, 16, 64)
"""Numbers of trials that are tried beside 1."""

GAIN = 1.1
"""So many times the epochs an hour are worth the memory, and the wait for each other, of more trials in one model."""

ENOUGH = 2
"""Numbers of trials in a row that gain nothing, after which no higher one is tried."""

MARGIN = 1.25
"""Times the measured peak of a GPU's memory: captions that are longer than those measured."""


def measure_rates(
    config: TrialConfig, data: Dataset, device: torch.device, sizes: tuple[int, ...] = SIZES
) -> dict[int, float]:
    """Return epochs of trials an hour by the number of trials that train at once, from 1 up to where it ends to pay.

    Args:
        config: Of the trials.
        data: Their dataset.
        device: Where they run.
        sizes: Numbers to try beside 1, ascending.
    """
    pace = measure_pace(config, data, device)
    rates = {1: 3600 / pace.epoch_seconds}
    steps = count_steps(data.splits["train"], config.training)
    without_gain = 0
    for size in sizes:
        try:
            trials = _begin(config, data, device, size)
            if len({stack_shape(trial) for trial in trials}) > 1:
                # They would be trained one after another.
                return rates
            seconds = _step_seconds(trials)
        except torch.OutOfMemoryError:
            return rates
        # So that they do not lie beside the next, which are more.
        del trials
        best = max(rates.values())
        rates[size] = 3600 / (steps * seconds / size + pace.evaluation_seconds)
        without_gain = 0 if rates[size] >= GAIN * best else without_gain + 1
        if without_gain == ENOUGH or rates[size] * GAIN < best or _is_full(device):
            return rates
    return rates


def choose_fusion(rates: Mapping[int, float]) -> int:
    """Return how many trials to train as one: more as long as each step up gains, 1 where none does.

    Args:
        rates: Epochs of trials an hour on one device, or one trial's CPUs, by the number that train at once.
    """
    chosen = 1
    for trials in sorted(rates):
        if rates[trials] >= GAIN * rates[chosen]:
            chosen = trials
    return chosen


def _begin(config: TrialConfig, data: Dataset, device: torch.device, size: int) -> list[Trial]:
    first = Trial(config, data, device)
    trials = [first, *(Trial(config, data, device, beside=first) for _ in range(size - 1))]
    for trial in trials:
        trial.begin_epoch()
    return trials


def _step_seconds(trials: list[Trial]) -> float:
    """Return what a step of all of them takes, after one to warm up."""
    train_stacked(trials, 1)
    return step_seconds(partial(train_stacked, trials))


def _is_full(device: torch.device) -> bool:
    """Whether more trials than were measured would not fit the GPU: four times as many are tried next."""
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.max_memory_reserved(device)
    return held * MARGIN > free + torch.cuda.memory_reserved(device)
