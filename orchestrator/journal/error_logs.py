"""Tracebacks of failed trials, in files beside the journal.

The journal has the reason of a failure in one sentence; the file of a trial holds the whole text of each attempt.
"""

from pathlib import Path

FOLDER = "errors"

KEPT = 64 * 1024
"""Bytes at the end of a file that are shown; the end has the newest attempt."""


def keep_error(directory: Path, trial: str, attempt: int, text: str) -> None:
    """Append the text of a failure to the file of its trial, in an experiment's directory."""
    folder = directory / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / f"{trial}.txt").open("a", encoding="utf-8", errors="replace") as file:
        file.write(f"--- attempt {attempt}\n{text.rstrip()}\n")


def read_error(directory: Path, trial: str) -> str | None:
    """Return the end of a trial's file; ``None`` where there is no file.

    Args:
        directory: The experiment's directory.
        trial: Id of a trial in the journal; files of other names are never opened.
    """
    path = directory / FOLDER / f"{trial}.txt"
    if not path.is_file():
        return None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - KEPT))
        return file.read(KEPT).decode("utf-8", errors="replace")
