"""How much memory of its device a training takes: a few of its steps and an evaluation, measured.

What the allocator holds is counted, not what tensors use: it is the former that two trials on one GPU compete for.
"""

from typing import Protocol

import torch

from trainables.config import TrialConfig
from trainables.cost.rehearsal import Rehearsal
from trainables.data.dataset import Dataset
from trainables.trial import Trial

STEPS = 8
"""Enough for the optimiser's state and for the lengths of captions that come along."""


class Meter(Protocol):
    """Measures the memory that this process takes of a device."""

    def reset(self) -> None:
        """Begin anew."""
        ...

    def peak(self) -> int:
        """Return the most bytes that were held at a time since."""
        ...


class GpuMeter:
    """Asks PyTorch's allocator.

    Args:
        device: A GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reset(self) -> None:
        """See ``Meter``."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self._device)

    def peak(self) -> int:
        """See ``Meter``."""
        return torch.cuda.max_memory_reserved(self._device)


def measure_peak(config: TrialConfig, data: Dataset, device: torch.device, meter: Meter, steps: int = STEPS) -> int:
    """Return the bytes of the device that a training takes at most.

    Args:
        config: Of the training.
        data: Its dataset.
        device: Where it runs.
        meter: Of that device.
        steps: So many are taken, >= 1.
    """
    meter.reset()
    Rehearsal(Trial(config, data, device)).whole(steps)
    return meter.peak()
