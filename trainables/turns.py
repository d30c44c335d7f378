"""Trials of one process that take their steps in turns, each as if it were alone.

This needs no code of a model, so that every model can have it. On a GPU each trial has a stream of its own: where steps
are replayed as CUDA graphs, Python only starts a graph a step, and the GPU runs as many at once as it has room for. On
a CPU one step follows the other. Weights, losses and metrics are those of a trial alone, to the last bit.
"""

from collections.abc import Sequence

import torch

from trainables.errors import Blaming, DivergedError, UserError
from trainables.seeding import RandomStream
from trainables.trial import Trial


def train_in_turns(trials: Sequence[Trial], steps: int | None = None) -> list[float | DivergedError | UserError]:
    """Train trials on one device for the epoch that each trial has begun, at most ``steps`` steps of it.

    Returns:
        For each trial the mean loss over its steps, or the error that ended the trial, which takes no further step.
    """
    turns = [_Turns(trial, steps) for trial in trials]
    waiting = turns
    while waiting:
        waiting = [turn for turn in waiting if turn.take()]
    return [turn.outcome for turn in turns]


class _Turns:
    """The steps of a trial's epoch; afterwards ``outcome`` is their mean loss, or an error."""

    def __init__(self, trial: Trial, steps: int | None) -> None:
        self._device = trial.train_split.device
        if self._device.type == "cuda":
            trial.stream = trial.stream or torch.cuda.Stream(self._device)
            trial.stream.wait_stream(torch.cuda.current_stream(self._device))
        self._stream = trial.stream
        self._draws = RandomStream(self._device, trial.config.seed, "epoch", trial.epoch)
        self._steps = trial.in_steps(steps)
        self.outcome: float | DivergedError | UserError = 0.0

    def take(self) -> bool:
        """Take a step; return ``False`` if there was none left."""
        try:
            with Blaming(), torch.cuda.stream(self._stream), self._draws:
                next(self._steps)
        except StopIteration as end:
            self.outcome = end.value
        except (DivergedError, UserError) as error:
            self.outcome = error
        else:
            return True
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
        return False
