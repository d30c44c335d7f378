"""Where the trials of a running search are and what is done there, for whoever watches.

The file ``places.json`` lies beside the journal and is no part of the truth: the driver writes it anew when trials have
reported, at most every second. Nothing reads it to go on, and without it a page shows no more than the load of the
machine that serves the page.
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
        pid: Of the process that trains it.
        load: What process and machine did at the trial's newest report, as plain values, see
            ``machines.own_load.OwnLoad``; ``None`` where the process could not measure.
        reported: Date of this report by the driver's clock, in seconds since the Unix epoch.
    """

    host: str
    pid: int
    load: Mapping[str, Any] | None = None
    reported: float | None = None


def write_places(directory: Path, places: Mapping[str, Place]) -> None:
    """Put where each trial runs into an experiment's directory; the file is whole whenever it is read."""
    path = directory / PLACES_FILE
    partial = path.with_name(f".{PLACES_FILE}.{os.getpid()}")
    # Without forcing it to the disk: after a crash nobody asks where trials ran.
    partial.write_text(json.dumps({trial: asdict(place) for trial, place in places.items()}), encoding="utf-8")
    partial.replace(path)


def read_places(directory: Path) -> dict[str, Place]:
    """Return where each trial of a running search is; empty where nothing, or nothing readable, says so."""
    try:
        told = read_state(directory / PLACES_FILE)
        return {str(trial): _place(place) for trial, place in told.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _place(values: Mapping[str, Any]) -> Place:
    # Without what processes do where an older version wrote the file.
    load, reported = values.get("load"), values.get("reported")
    return Place(
        host=str(values["host"]),
        pid=int(values["pid"]),
        load=load if isinstance(load, dict) else None,
        reported=None if reported is None else float(reported),
    )
