"""Where the trials of a running search are, for live pages.

The driver rewrites the file ``places.json`` beside the journal after reports of trials, at most every second. No search
needs the file to resume. Ray's dashboard and ``nvidia-smi`` show the load of machines and processes.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from trainables.json_files import read_state

PLACES_FILE = "places.json"


@dataclass(frozen=True)
class Place:
    """Name of the machine, and id of the process, that trains a trial."""

    host: str
    pid: int


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
        places = read_state(directory / PLACES_FILE)
        return {str(trial): Place(str(place["host"]), int(place["pid"])) for trial, place in places.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
