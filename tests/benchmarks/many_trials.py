"""Trials that sleep for a second, sixteen at a time: how long they take, and what the driver takes beside them.

    python -m tests.benchmarks many_trials --trials 10000 --only ours      # twelve minutes on an idle machine
    python -m tests.benchmarks many_trials --trials 10000                  # plain Ray Tune as well

The test that Ray sets itself: 10,000 such trials on 16 CPUs, which take 625 s at best, are to end in under 800 s. The
trials sleep, so that two cores do. ``throughput`` says what is measured, of which processes; the orchestrator has TPE,
the journal, checkpoints and MLflow, and plain Ray Tune has OptunaSearch alone. Seconds of the processors hold on a
busy machine, too; seconds of the clock do not.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.rows import Row
from tests.benchmarks.throughput import BEHIND, MODES, Measurement, growth_rows, measure

LONGER = 700 / 625
"""How many times as long as the trials' own sleep, shared among the workers, a search may take."""

PROCESSOR = 0.05
"""Seconds of the processors that the driver may take a trial."""

STEEPEST = 10.0
"""Kilobytes by which the driver may grow a trial."""

COMPARED = ("ours", "class")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=1.0, help="for which a trial sleeps")
    parser.add_argument("--only", choices=COMPARED)
    parser.add_argument("--tracking-uri", help="MLflow's store, PostgreSQL say; by default SQLite")


def run(options: argparse.Namespace) -> Iterator[Row]:
    size = f"{options.trials} trials"
    ideal = options.trials * options.seconds / options.workers
    for mode in COMPARED if options.only is None else [options.only]:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            uri = options.tracking_uri if mode == "ours" else None
            found = measure(mode, options.trials, options.workers, place, 1, options.seconds, uri)
            behind = (place / BEHIND).read_text() if mode == "ours" else ""
        yield from rows(f"{MODES[mode]}: ", found, ideal, behind or size)


def rows(name: str, found: Measurement, ideal: float, note: str) -> Iterator[Row]:
    """Return what a run came to, beside the seconds that the trials take alone on all workers."""
    began, ended = found.processor_a_trial(0.1, 0.3), found.processor_a_trial(0.8, 1.0)
    yield Row(f"{name}all trials", "s", found.seconds_a_trial * found.trials, ideal * LONGER, "the limit", 1.0)
    yield Row(f"{name}driver a trial", "s", found.processor_a_trial(), PROCESSOR, "the limit", 1.0, "processor")
    yield Row(f"{name}its last fifth of them", "s", ended, began, "from a tenth on, a fifth", None, "processor")
    if found.delivering_a_trial:
        note_on = "its start included; processor"
        yield Row(f"{name}process that delivers, a trial", "s", found.delivering_a_trial, None, "", None, note_on)
    yield from growth_rows(name, found, STEEPEST)
    yield Row(f"{name}after the last trial", "s", found.seconds_after, None, "", None, note)
