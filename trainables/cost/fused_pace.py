"""Measures how many trials are best trained at once on a device, within the device's memory.

The measure is the epochs an hour of all trials, including evaluation, which is not fused. The timed trials share seed
and epoch and so their batches, like most trials of a search.
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
"""Numbers of fused trials that are tried beside 1."""

GAIN = 1.1
"""Least factor on the epochs an hour that justifies the memory and the waiting times of more fused trials."""

ENOUGH = 2
"""How many sizes in a row must bring no gain before the measurement stops."""

MARGIN = 1.25
"""Factor on the measured peak of a GPU's memory, for captions that are longer than the measured captions."""


def measure_rates(
    config: TrialConfig, data: Dataset, device: torch.device, sizes: tuple[int, ...] = SIZES
) -> dict[int, float]:
    """Return number of fused trials -> their epochs an hour, from 1 up to the size at which the measurement stops.

    Args:
        config: Config of the trials.
        data: Dataset of the trials.
        device: Device of the trials.
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
                # Trials that cannot be stacked would be trained one after another.
                return rates
            seconds = _step_seconds(trials)
        except torch.OutOfMemoryError:
            return rates
        # The memory is freed before the next, larger stack is made.
        del trials
        best = max(rates.values())
        rates[size] = 3600 / (steps * seconds / size + pace.evaluation_seconds)
        without_gain = 0 if rates[size] >= GAIN * best else without_gain + 1
        if without_gain == ENOUGH or rates[size] * GAIN < best or _is_full(device):
            return rates
    return rates


def choose_fusion(rates: Mapping[int, float]) -> int:
    """Return how many trials to fuse: from 1 up, each number that gains a factor ``GAIN`` over the last chosen number.

    Args:
        rates: Number of fused trials -> their epochs an hour on one device, or on one trial's CPUs.
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
    """Return the seconds of a step of all trials, after one step to warm up."""
    train_stacked(trials, 1)
    return step_seconds(partial(train_stacked, trials))


def _is_full(device: torch.device) -> bool:
    """Whether the next larger number of trials, four times as many, would not fit the GPU."""
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.max_memory_reserved(device)
    return held * MARGIN > free + torch.cuda.memory_reserved(device)
