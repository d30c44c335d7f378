"""How often other searches of an output folder opened the test split of the same data.

A split that several searches have chosen winners on flatters the last of them, whatever the names of the searches. The
journals are searched for two kinds of records, and a damaged journal counts as far as its lines can be read.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.journal.directory import JOURNAL_FILE
from trainables.files import parse_state

STARTED, OPENED = b'"kind":"experiment_started"', b'"kind":"test_opened"'


def openings_elsewhere(directory: Path, dataset: str, data: Mapping[str, str]) -> dict[str, int]:
    """Return other experiment -> how often it opened the test split of a dataset; no entry for one that never did.

    Args:
        directory: Folder of the experiment that asks; the others lie beside it.
        dataset: Name of the dataset in the experiment that asks. The others may call the same data by another name.
        data: Key of the data of a model -> digest, as a journal has it.
    """
    digests = {digest for key, digest in data.items() if key.rpartition(":")[0] == dataset}
    counts: dict[str, int] = {}
    for path in sorted(directory.resolve().parent.glob(f"*/{JOURNAL_FILE}")):
        if path.parent != directory.resolve():
            names: set[str] = set()
            for record in _records(path):
                if record.get("kind") == "experiment_started":
                    known = dict(record.get("data") or {})
                    names |= {key.rpartition(":")[0] for key, digest in known.items() if digest in digests}
                elif record.get("dataset") in names:
                    counts[path.parent.name] = counts.get(path.parent.name, 0) + 1
    return counts


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the starts and the openings of a journal that can be read."""
    with suppress(OSError), path.open("rb") as file:
        for line in file:
            if STARTED in line or OPENED in line:
                with suppress(ValueError, TypeError):
                    yield dict(parse_state(line))
