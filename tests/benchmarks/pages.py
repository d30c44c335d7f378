"""What it takes to look at an experiment of many trials, beside reading its journal with Python's ``json``.

    python -m tests.benchmarks pages [--trials 12 1000 5000]

The journal is made up (``tests/support/long_journals.py``). Each command is a process of its own, from its start to its
end, as a person starts it; seconds are those of the CPU, user and system, so that what else runs matters little.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.command import main
from tests.benchmarks.rows import Row
from tests.support.long_journals import write_journal

COMMANDS = ("status", "summarise", "report")
JSON = "import json, sys; [json.loads(line) for line in open(sys.argv[1], 'rb')]"


def add_options(parser: argparse.ArgumentParser) -> None:
    """See ``command``."""
    parser.add_argument("--trials", type=int, nargs="+", default=[12, 1000, 5000])
    parser.add_argument("--repeats", type=int, default=2, help="of each command, of which the fastest counts")


def run(options: argparse.Namespace) -> Iterator[Row]:
    """See ``command``."""
    with tempfile.TemporaryDirectory() as folder:
        for trials in options.trials:
            name = f"of-{trials}-trials"
            journal = write_journal(Path(folder) / name, trials)
            epochs = sum(json.loads(line)["kind"] == "epoch" for line in journal.read_bytes().splitlines())
            size = f"journal of {epochs:,} epochs, {journal.stat().st_size / 1e6:.1f} MB"
            other = cpu_seconds([sys.executable, "-c", JSON, str(journal)], options.repeats)
            for command in COMMANDS:
                started = [sys.executable, "-c", START, command, name, "--output", folder]
                ours = cpu_seconds(started, options.repeats)
                yield Row(
                    f"{command}, {trials:,} trials", "s of CPU", ours, other, "json.loads of its lines", note=size
                )
            report = (journal.parent / "report.html").stat().st_size / 1e6
            yield Row(f"report.html, {trials:,} trials", "MB", report, None, "", note="of which plotly is 1.5 MB")


START = "import sys; from orchestrator.cli import main; sys.argv[0] = 'orchestrator'; main()"
"""What the command ``orchestrator`` runs."""


def cpu_seconds(command: Sequence[str], repeats: int) -> float:
    """Return the least CPU time of a command to its end, in seconds."""
    found = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(found)


if __name__ == "__main__":
    main(["pages", *sys.argv[1:]])
