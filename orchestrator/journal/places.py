"""Where the trials of a running search are: the machine and the process of each, for whoever watches.

The file ``places.json`` lies beside the journal and is no part of the truth: it is written anew when a trial gets
another process, nothing reads it to go on, and without it a page shows no more than the load of the whole machine.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from trainables.json_files import read_state

PLACES_FILE = "places.json"


@dataclass(frozen=True)
class Place:
    """Where a trial runs.

    Attributes:
        host: Name of the machine.
        pid: Of the process that trains it.
    """

    host: str
    pid: int


def write_places(directory: Path, places: dict[str, Place]) -> None:
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
        return {str(trial): Place(str(place["host"]), int(place["pid"])) for trial, place in told.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
