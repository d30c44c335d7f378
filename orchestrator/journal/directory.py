"""The folder of an experiment: its files, tracebacks of failed trials, places of running trials, links to MLflow.

The journal has the reason of a failure in one sentence; the file of a trial holds the whole text of each attempt.

The driver rewrites the file ``places.json`` beside the journal after reports of trials, at most every second, for live
pages. No search needs the file to resume. Ray's dashboard and ``nvidia-smi`` show the load of machines and processes.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from orchestrator.journal.history import History
from orchestrator.journal.journal import JournalError, read_journal
from orchestrator.journal.trial import Trial
from trainables.files import read_state, write_whole

JOURNAL_FILE = "journal.jsonl"
"""Name of the journal in an experiment's directory."""


LEFT_OUT = ("train", "artifacts")
"""Folders of an output folder that hold trainings and MLflow's files, and no experiments."""

MOST_NAMED = 20
"""Most experiments that a message lists."""


def find_experiments(output: Path) -> list[Path]:
    """Return the folders under an output folder that hold a journal, at any depth, sorted by their paths.

    A search has a folder of the output folder. The reruns of a suite or of claims lie below the folder of the suite. A
    folder with a database of MLflow is an output folder of its own, whose experiments are not those of this one.
    """
    directories: list[Path] = []
    pending = [path for path in _folders(output) if path.name not in LEFT_OUT]
    while pending:
        directory = pending.pop()
        if (directory / JOURNAL_FILE).is_file():
            directories.append(directory)
        elif not directory.is_symlink() and not (directory / "mlflow.db").exists():
            pending += _folders(directory)
    return sorted(directories)


def _folders(directory: Path) -> list[Path]:
    try:
        return [path for path in directory.iterdir() if path.is_dir() and not path.name.startswith(".")]
    except OSError:
        # Not there yet, removed meanwhile, or not readable by this user: no experiment of this user.
        return []


def path_below(directory: Path, output: Path) -> str:
    """Return an experiment's name among those of an output folder: its path below the folder, or its whole path."""
    try:
        return str(directory.resolve().relative_to(output.resolve()))
    except ValueError:
        return str(directory)


def find_directory(experiment: str, output: Path) -> Path:
    """Return an experiment's directory, given as its path or as a name under ``output``.

    Raises:
        JournalError: If neither holds a journal (the message lists the experiments of ``output``), or the journal is
            empty.
    """
    for directory in (output / experiment, Path(experiment)):
        if (directory / JOURNAL_FILE).is_file():
            with (directory / JOURNAL_FILE).open("rb") as file:
                if file.readline().endswith(b"\n"):
                    return directory
            raise JournalError(
                f"{directory / JOURNAL_FILE}: holds no record; start it (again) with `orchestrator search`"
            )
    there = [path_below(path, output) for path in find_experiments(output)]
    more = f" and {len(there) - MOST_NAMED} more" if len(there) > MOST_NAMED else ""
    raise JournalError(
        f"{experiment}: no experiment of that name under {output}, nor a directory with a {JOURNAL_FILE}; "
        f"there are: {', '.join(there[:MOST_NAMED]) or 'none'}{more}. Name another with --output"
    )


def find_directories(experiments: Iterable[str], output: Path) -> list[Path]:
    """Return the directories of experiments, each once, however often and in whatever way it is named.

    Raises:
        JournalError: See ``find_directory``.
    """
    directories: dict[Path, Path] = {}
    for experiment in experiments:
        directory = find_directory(experiment, output)
        directories.setdefault(directory.resolve(), directory)
    return list(directories.values())


def read_history(directory: Path) -> History:
    """Return the state of an experiment according to its journal, which another process may be writing.

    Raises:
        JournalError: If there is no journal, any record but the last is damaged, or a newer version wrote the journal.
    """
    path = directory / JOURNAL_FILE
    return History.of(read_journal(path), str(path))


def checkpoint_root(directory: Path, trial: Trial) -> Path:
    """Return where the checkpoints of a trial lie in an experiment's directory."""
    return directory / "trials" / trial.id


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
    """Return the end of the file of a trial in the journal; ``None`` where there is no file."""
    path = directory / FOLDER / f"{trial}.txt"
    if not path.is_file():
        return None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - KEPT))
        return file.read(KEPT).decode("utf-8", errors="replace")


PLACES_FILE = "places.json"


class Place(msgspec.Struct, frozen=True):
    """Name of the machine, and id of the process, that trains a trial."""

    host: str
    pid: int


def write_places(directory: Path, places: Mapping[str, Place]) -> None:
    """Write trial -> place into an experiment's directory; readers never see half a file."""
    path = directory / PLACES_FILE
    # One name, because the process that holds the directory writes alone: the file of a killed process is replaced.
    partial = path.with_name(f".{PLACES_FILE}")
    try:
        # Not forced to the disk, because places are out of date after a crash.
        partial.write_bytes(msgspec.json.encode(places))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_places(directory: Path) -> dict[str, Place]:
    """Return trial -> place of a running search; empty where the file is missing or damaged."""
    try:
        return msgspec.convert(read_state(directory / PLACES_FILE), dict[str, Place])
    except (OSError, ValueError):
        return {}


RUNS_FILE = "mlflow.json"


class TrackedRuns(msgspec.Struct, frozen=True):
    """The runs of an experiment's trials in MLflow, for links.

    Attributes:
        server: Address of MLflow's pages, without a password.
        note: Condition of the address, such as a command that must run; empty for a server.
        experiment: MLflow's id of the experiment.
        trials: Trial -> id of its run.
    """

    server: str
    note: str
    experiment: str
    trials: dict[str, str]


def write_runs(directory: Path, runs: TrackedRuns) -> None:
    """Write the runs into an experiment's directory, when they have been delivered."""
    write_whole(directory / RUNS_FILE, msgspec.json.encode(runs).decode())


def read_runs(directory: Path) -> TrackedRuns | None:
    """Return the runs; ``None`` where none were delivered, or the file is damaged, which `orchestrator sync` mends."""
    try:
        return msgspec.convert(read_state(directory / RUNS_FILE), TrackedRuns)
    except (OSError, ValueError):
        return None
