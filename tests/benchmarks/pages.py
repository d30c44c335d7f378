"""What it takes to look at an experiment of many trials, beside reading its journal with Python's ``json``.

    python -m tests.benchmarks pages [--trials 12 1000 5000]

The journal is made up (``tests/support/long_journals.py``). Each command is a process of its own, from its start to its
end, as a person starts it; seconds are those of the CPU, user and system, so that what else runs matters little.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.rows import Row
from tests.benchmarks.timing import cpu_seconds
from tests.support.long_journals import write_journal

COMMANDS = ("status", "summarise", "report")
JSON = "import json, sys; [json.loads(line) for line in open(sys.argv[1], 'rb')]"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, nargs="+", default=[12, 1000, 5000])
    parser.add_argument("--repeats", type=int, default=2, help="of each command, of which the fastest counts")


def run(options: argparse.Namespace) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        for trials in options.trials:
            name = f"of-{trials}-trials"
            journal = write_journal(Path(folder) / name, trials)
            epochs = sum(json.loads(line)["kind"] == "epoch" for line in journal.read_bytes().splitlines())
            size = f"journal of {epochs:,} epochs, {journal.stat().st_size / 1e6:.1f} MB"
            other = min(cpu_seconds([sys.executable, "-c", JSON, journal]) for _ in range(options.repeats))
            for command in COMMANDS:
                started = [sys.executable, "-c", START, command, name, "--output", folder]
                ours = min(cpu_seconds(started) for _ in range(options.repeats))
                yield Row(
                    f"{command}, {trials:,} trials", "s of CPU", ours, other, "json.loads of its lines", note=size
                )
            report = (journal.parent / "report.html").stat().st_size / 1e6
            yield Row(f"report.html, {trials:,} trials", "MB", report, None, "", note="of which plotly is 1.5 MB")


START = "import sys; from orchestrator.cli import main; sys.argv[0] = 'orchestrator'; main()"
"""What the command ``orchestrator`` runs."""
