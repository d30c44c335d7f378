"""Files in an experiment's directory that its journal does not know, and the folder to which they are moved.

A journal that was cut, or restored from an older backup, does not know the newest trials. Their models are results, so
no command deletes them: a person who restores the whole journal moves them back.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.journal.history import History
from orchestrator.storage.bucket import is_bucket
from trainables.checkpoint import list_epochs
from trainables.files import read_state

FOLDER = "set_aside"
"""Folder in an experiment's directory, or beside the trials in a bucket, for files that the journal does not know."""

SUMMARY = "summary.json"

NAMED = 3
"""Most trials that a sentence names."""


@dataclass(frozen=True)
class Unknown:
    """Results that an experiment's journal does not know, each kind in a sentence; ``None`` where there are none.

    Attributes:
        lost: Which trials have checkpoints on a disk of this machine, or a row in ``summary.json``, but no record.
        behind: Which trials of the journal have not ended, and have checkpoints of later epochs.
        moved: Where earlier files lie that the journal did not know.
        summarised: How many trials of ``summary.json`` the journal does not have, >= 0.
    """

    lost: str | None = None
    behind: str | None = None
    moved: str | None = None
    summarised: int = 0


def name_occasion() -> str:
    """Return the name of the folder for everything that is moved at one time; names sort by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def move_aside(path: Path, directory: Path, occasion: str) -> Path:
    """Move a file or folder of an experiment's directory to its path below ``FOLDER / occasion``; return the new path.

    Raises:
        OSError: If it cannot be moved.
    """
    target = directory / FOLDER / occasion / path.relative_to(directory)
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    return target


def find_unknown(directory: Path, history: History) -> Unknown:
    """Find results that the journal does not know; no process may be running the experiment.

    Only folders of trials that the journal lacks, and of trials that have not ended, are looked into.
    """
    root = trials_folder(directory, history)
    names = () if root is None else sorted(path.name for path in root.glob("*/"))
    beyond = [name for name in names if root is not None and _is_beyond(root / name, history)]
    ahead = [name for name in beyond if name in history.trials]
    summarised = [name for name in trials_of_summary(directory) if name not in history.trials]
    missing = {"trials/": [name for name in beyond if name not in history.trials], SUMMARY: summarised}
    places = [f"{len(trials)} of {place} ({some(trials)})" for place, trials in missing.items() if trials]
    # With ``--storage FOLDER`` the checkpoints lie apart from the journal, and are moved where they lie.
    homes = dict.fromkeys((directory.resolve(), *(() if root is None else (root.parent.resolve(),))))
    aside = sorted((path for home in homes for path in (home / FOLDER).glob("*/")), key=lambda path: path.name)
    more = f" and {len(aside) - 1} earlier" if len(aside) > 1 else ""
    return Unknown(
        lost=f"the journal lacks trials: {', '.join(places)}" if places else None,
        behind=f"the journal lacks epochs of {len(ahead)} trials ({some(ahead)})" if ahead else None,
        moved=f"{aside[-1]}{more}: results that the journal did not know" if aside else None,
        summarised=len(summarised),
    )


def trials_folder(directory: Path, history: History) -> Path | None:
    """Return the folder of an experiment's checkpoints; ``None`` where they are in a bucket."""
    if history.storage is not None and is_bucket(history.storage):
        return None
    root = directory if history.storage is None else Path(history.storage) / directory.resolve().name
    return root / "trials"


def trials_of_summary(directory: Path) -> list[str]:
    """Return the trials of ``summary.json``; none where the file is missing or damaged."""
    try:
        return [str(row["trial"]) for row in read_state(directory / SUMMARY)["trials"]]
    except (OSError, ValueError, TypeError, LookupError):
        return []


def set_summary_aside(directory: Path, history: History) -> Path | None:
    """Move a ``summary.json`` away that has trials which the journal lacks; return where it lies then."""
    if all(name in history.trials for name in trials_of_summary(directory)):
        return None
    return move_aside(directory / SUMMARY, directory, name_occasion())


def _is_beyond(folder: Path, history: History) -> bool:
    trial = history.trials.get(folder.name)
    if trial is not None and trial.has_ended:
        return False
    known = -1 if trial is None else trial.last_epoch
    return any(int(path.name.removeprefix("epoch_")) > known + 1 for path in list_epochs(folder))


def some(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - NAMED} more" if len(listed) > NAMED else ""
    return ", ".join(listed[:NAMED]) + more
