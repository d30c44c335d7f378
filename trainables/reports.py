"""The report of a trial to its listener at the end of each epoch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainables.errors import DivergedError, PluginError


@dataclass(frozen=True)
class EpochReport:
    """One finished epoch.

    Attributes:
        epoch: Number of epochs trained so far, from 1.
        metrics: Finite numbers under the names of the glossary: ``train/loss``, ``val/i2t_r1`` ... ``val/rsum``,
            ``val/rsum_best``, ``time/epoch_seconds``, and ``cocos/...`` where due.
        is_best: Whether this epoch has the highest selection metric so far (the first of equals).
        save: Writes ``state.pt`` (to resume after this epoch) and ``best.pt`` (the model of the best epoch, to
            evaluate) into a directory that exists. Must be called before the next report is requested.
    """

    epoch: int
    metrics: Mapping[str, float]
    is_best: bool
    save: Callable[[Path], None]


Outcome = EpochReport | DivergedError | PluginError
"""Result of one of several trials after an epoch: its report, or the error that ended it."""
