"""Measures the device memory that a training takes, by a few of its steps and an evaluation.

The measure is the memory that the allocator reserves, not the memory that tensors use, because the allocators of two
trials on one GPU compete for its memory.
"""

from typing import Protocol

import torch

from trainables.config import TrialConfig
from trainables.cost.rehearsal import Rehearsal
from trainables.data.dataset import Dataset
from trainables.trial import Trial

STEPS = 8
"""Number of measured steps, enough for the optimiser's state and for captions of different lengths."""


class Meter(Protocol):
    """Measures the memory that this process takes of a device."""

    def reset(self) -> None:
        """Begin a new measurement."""
        ...

    def peak(self) -> int:
        """Return the most bytes that were held at a time since the last ``reset``."""
        ...


class GpuMeter:
    """Reads the statistics of PyTorch's allocator.

    Args:
        device: A GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reset(self) -> None:
        """Begin a new measurement."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self._device)

    def peak(self) -> int:
        """Return the most bytes that were reserved at a time since the last ``reset``."""
        return torch.cuda.max_memory_reserved(self._device)


def measure_peak(config: TrialConfig, data: Dataset, device: torch.device, meter: Meter, steps: int = STEPS) -> int:
    """Return the most bytes of device memory that a training takes at a time.

    Args:
        config: Config of the training.
        data: Dataset of the training.
        device: Device of the training.
        meter: Meter of the device.
        steps: Number of steps that are taken, >= 1.
    """
    meter.reset()
    Rehearsal(Trial(config, data, device)).whole(steps)
    return meter.peak()
