"""The folder of an experiment, and the places of its files."""

from pathlib import Path

from orchestrator.journal.journal import JournalError
from orchestrator.journal.trial import Trial

JOURNAL_FILE = "journal.jsonl"
"""Name of the journal in an experiment's directory."""


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
    there = sorted(path.parent.name for path in output.glob(f"*/{JOURNAL_FILE}"))
    raise JournalError(
        f"{experiment}: no experiment of that name under {output}, nor a directory with a {JOURNAL_FILE}; "
        f"there are: {', '.join(there) or 'none'}. Name another with --output"
    )


def checkpoint_root(directory: Path, trial: Trial) -> Path:
    """Return where the checkpoints of a trial lie in an experiment's directory."""
    return directory / "trials" / trial.id
