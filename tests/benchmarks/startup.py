"""What it takes to get going, and what a trial costs then, beside plain Ray Tune: the short case of ``throughput``.

    python -m tests.benchmarks startup [--trials 24] [--workers 2]

The start is from the command to the end of the first trial, which costs nothing itself: imports, Ray, and of ours the
journal, checkpoints and MLflow's database as well.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.command import main
from tests.benchmarks.rows import Row
from tests.benchmarks.throughput import MODES, Measurement, measure


def add_options(parser: argparse.ArgumentParser) -> None:
    """See ``command``."""
    parser.add_argument("--trials", type=int, default=24, help="of each; of functions, which start anew, a third")
    parser.add_argument("--workers", type=int, default=2)


def run(options: argparse.Namespace) -> Iterator[Row]:
    """See ``command``."""
    found: dict[str, Measurement] = {}
    for mode in MODES:
        with tempfile.TemporaryDirectory() as folder:
            trials = max(2, options.trials // 3) if mode == "function" else options.trials
            found[mode] = measure(mode, trials, options.workers, Path(folder))
    ours = found.pop("ours")
    for mode, other in found.items():
        yield Row("start, to the end of the first trial", "s", ours.start_seconds, other.start_seconds, MODES[mode])
        yield Row("a trial after that", "s", ours.seconds_a_trial, other.seconds_a_trial, MODES[mode])


if __name__ == "__main__":
    main(["startup", *sys.argv[1:]])
