"""Where the trials of a running search are, and what their processes are doing, for live pages.

The driver rewrites the file ``places.json`` beside the journal after reports of trials, at most every second. No search
needs the file to resume; without the file a page shows only the load of its own machine.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainables.json_files import read_state

PLACES_FILE = "places.json"


@dataclass(frozen=True)
class Place:
    """Where a trial runs.

    Attributes:
        host: Name of the machine.
        pid: Id of the process that trains the trial.
        load: Load of process and machine at the trial's newest report, as plain values, see
            ``machines.own_load.OwnLoad``; ``None`` where the process could not measure.
        reported: Date of the newest report by the driver's clock, in seconds since the Unix epoch.
    """

    host: str
    pid: int
    load: Mapping[str, Any] | None = None
    reported: float | None = None


def write_places(directory: Path, places: Mapping[str, Place]) -> None:
    """Write trial -> place into an experiment's directory; readers never see half a file."""
    path = directory / PLACES_FILE
    partial = path.with_name(f".{PLACES_FILE}.{os.getpid()}")
    # Not forced to the disk, because places are out of date after a crash.
    partial.write_text(json.dumps({trial: asdict(place) for trial, place in places.items()}), encoding="utf-8")
    partial.replace(path)


def read_places(directory: Path) -> dict[str, Place]:
    """Return trial -> place of a running search; empty where the file is missing or damaged."""
    try:
        told = read_state(directory / PLACES_FILE)
        return {str(trial): _place(place) for trial, place in told.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _place(values: Mapping[str, Any]) -> Place:
    # Older versions wrote no load.
    load, reported = values.get("load"), values.get("reported")
    return Place(
        host=str(values["host"]),
        pid=int(values["pid"]),
        load=load if isinstance(load, dict) else None,
        reported=None if reported is None else float(reported),
    )
