"""Trials as a table in a file (CSV, Parquet, JSON lines), and as runs for TensorBoard and Weights & Biases.

A folder of such runs is written whole, and replaced only if an export wrote all its files.
"""

import io
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial
from orchestrator.results.confirmation import metrics_of
from orchestrator.text.values import guarded
from trainables.errors import ConfigError
from trainables.files import whole_directory
from trainables.metric_table import TEST, is_in

if TYPE_CHECKING:
    from pandas import DataFrame


def _as_csv(frame: "DataFrame") -> bytes:
    # The other two forms hold texts as texts, which no program takes for a formula.
    texts = frame.select_dtypes(exclude="number").columns
    safe = {name: frame[name].map(lambda cell: guarded(cell) if isinstance(cell, str) else cell) for name in texts}
    return bytes(frame.assign(**safe).to_csv(index=False).encode())


def _as_parquet(frame: "DataFrame") -> bytes:
    buffer = io.BytesIO()
    # A parameter may be a number in one loss and a word or a list in another loss; a column has one type.
    mixed = [name for name in frame if frame[name].dtype == object and frame[name].dropna().map(type).nunique() > 1]
    frame.assign(**{name: frame[name].map(str, na_action="ignore") for name in mixed}).to_parquet(buffer, index=False)
    return buffer.getvalue()


def _as_lines(frame: "DataFrame") -> bytes:
    # Not by pandas, which rounds numbers to ten decimals.
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


WRITERS: dict[str, Callable[["DataFrame"], bytes]] = {".csv": _as_csv, ".parquet": _as_parquet, ".jsonl": _as_lines}
"""Ending of a file -> function that makes its content."""


BEST = "best/"
"""Prefix of a metric at the epoch with the highest value of the study's metric."""


@dataclass(frozen=True)
class TrialRun:
    """A trial with its settings and numbers as plain values.

    Attributes:
        settings: Dataset, model, loss, stage and state, then the searched parameters; numbers, truth values and words.
        best: Metrics at the best epoch as ``best/NAME``, and metrics on the test split as ``test/NAME``.
    """

    trial: Trial
    settings: Mapping[str, float | bool | str]
    best: Mapping[str, float]

    @property
    def group(self) -> str:
        """The name that all trainings of one setting share; trainings of a confirmation have a name of their own."""
        name = self.trial.candidate or self.trial.id
        return f"{name} confirmed" if self.trial.stage is Stage.CONFIRM else name

    @property
    def moment(self) -> float:
        """The date of the newest epoch, or of the trial's creation, in seconds since the Unix epoch."""
        return max(self.trial.times.values(), default=self.trial.created)


def trial_runs(history: History) -> Iterator[TrialRun]:
    """Yield the trials of an experiment and of its confirmation, in the order of the journal."""
    for trial in history.trials.values():
        status = {"stage": str(trial.stage), "state": history.standing(trial)}
        # Every program can show these types; coefficients and ``None`` become text.
        searched = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in trial.parameters.items()
            if name != "loss"
        }
        best = {
            name if is_in(name, TEST) else f"{BEST}{name}": value for name, value in metrics_of(trial, history).items()
        }
        yield TrialRun(trial, {**trial.combination, **status, **searched}, best)


@contextmanager
def replaced_folder(folder: Path, holds: str) -> Iterator[Path]:
    """Give a temporary folder that takes the place of ``folder`` when the block ends well.

    An export writes paths of the pattern ``holds`` within the folder.

    Raises:
        ConfigError: If a file has the folder's name, or the folder holds files that no export wrote.
    """
    others = [
        path for path in folder.rglob("*") if path.is_file() and not fnmatch(f"{path.relative_to(folder)}", holds)
    ]
    if folder.is_file() or others:
        raise ConfigError(f"{folder}: holds {(others or [folder])[0].name}, which no export wrote; choose another name")
    with whole_directory(folder) as partial:
        yield partial
        if folder.exists():
            shutil.rmtree(folder)
