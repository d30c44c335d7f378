"""The losses of an epoch's steps, read from the device several at a time, so that no step waits for its loss."""

import math

import torch
from torch import Tensor

from trainables.errors import DivergedError

UNREAD = 32
"""Number of steps on an accelerator between two readings of losses, because reading makes the accelerator wait."""


def steps_unread(device: torch.device) -> int:
    """Return how many steps' losses are read at once: 1 on a CPU, where reading does not wait."""
    return 1 if device.type == "cpu" else UNREAD


class StepLosses:
    """Sums losses and finds the first loss that is not finite.

    Args:
        epoch: Number of the epoch, from 1.
        unread: Number of losses that are read at once; ``None`` is ``steps_unread``. Steps after a loss that is not
            finite are lost with the trial.
        place: ``FILE:LINE`` of a plug-in's loss, for the message.
    """

    def __init__(self, epoch: int, unread: int | None = None, place: str = "") -> None:
        self._epoch, self._most, self._place = epoch, unread, place
        self._unread: list[Tensor] = []
        self._total, self._steps = 0.0, 0

    def add(self, value: Tensor) -> None:
        """Add the loss of the next step, a scalar.

        Raises:
            DivergedError: If a loss that was read is not finite; the error names the first such step.
        """
        self._unread.append(value.detach())
        if len(self._unread) >= (self._most or steps_unread(value.device)):
            self._read()

    def mean(self) -> float:
        """Return the mean over all steps; at least one step is needed.

        Raises:
            DivergedError: If a loss is not finite; the error names the first such step.
        """
        self._read()
        return self._total / self._steps

    def _read(self) -> None:
        numbers = torch.stack(self._unread).tolist() if self._unread else []
        self._unread.clear()
        for number in numbers:
            self._steps += 1
            if not math.isfinite(number):
                raise DivergedError("train/loss", number, self._epoch, self._steps, self._place)
            self._total += number
