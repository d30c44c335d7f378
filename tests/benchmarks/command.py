"""Runs benchmarks by name: one in this process, or all of them, each in a process of its own.

A benchmark is a module here with two functions: ``add_options(parser)`` and ``run(options) -> Iterator[Row]``; of the
options, ``json`` is everyone's, and ``device`` of those that run on a GPU as well. Its docstring is its manual.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.benchmarks.rows import COLUMNS, load, write_json
from trainables.errors import ConfigError

BENCHMARKS = {
    "installed": "what the core and the extras weigh, beside an installation of everything",
    "claims": "how often the engine of certify says holds, on the paper's tables and on simulated pages",
    "cross_attention": "a training step and an evaluation of SCAN beside a loop over captions",
    "epoch": "an epoch of VSE++ beside a plain PyTorch loop of the published kind",
    "evaluation": "evaluation beside an argsort a query, as published",
    "fused": "trials as one stacked model, beside one after another and a process each",
    "gpu": "trainings on a GPU beside its CPU: time, agreement, determinism, bf16, memory",
    "heads": "a step of stacked heads beside a plain matrix product: the share of the machine's peak",
    "many_trials": "trials that sleep for a second, sixteen at a time, beside plain Ray Tune: 10,000 in 700 s",
    "pages": "what it takes to look at an experiment of 5,000 trials, beside json.loads of its journal",
    "prior": "regret of searches that begin from the best settings of other datasets, beside those that do not",
    "questions": "how often an answer says that the winner beats an equal, simulated",
    "race": "leads missed and wrong verdicts of a race, beside a fixed design of equal cost",
    "throughput": "what a search costs a trial beyond its training, beside plain Ray Tune",
    "verdicts": "how often verdicts err, in simulated studies and on halves of Flickr8k",
    "bands": "how often the set of best settings holds the true optimum, beside a box around three best, simulated",
}
"""Each by its module's name, with what it measures, in the order in which all are run."""

ON_GPU = ("epoch", "evaluation", "fused")
"""Those that take ``--device cuda``; the others measure what a GPU has no part in, or the memory of processes."""

GPU_ALONE = ("gpu",)
"""Those that need a GPU."""


def main(arguments: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else list(arguments)
    name = given[0] if given and not given[0].startswith("-") else None
    if name is not None and name not in BENCHMARKS:
        sys.exit(f"error: no benchmark is called {name!r}; there are {', '.join(BENCHMARKS)}")
    listed = "\n".join(f"  {name:20} {about}" for name, about in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.benchmarks {name or '[NAME]'}",
        description=f"Runs all benchmarks, or one: NAME --help tells its options.\n\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if name is None or name in ON_GPU:
        parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write machine, load, versions and rows there")
    if name is None:
        run_all(parser.parse_args(given))
        return
    module = import_module(f"tests.benchmarks.{name}")
    parser.description = module.__doc__
    module.add_options(parser)
    run_one(name, module, parser.parse_args(given[1:]))


def run_one(name: str, module: Any, options: argparse.Namespace) -> None:
    started, before = time.monotonic(), load()
    print(f"{name}: {BENCHMARKS[name]}; load before: {before:.1f}\n{COLUMNS}", flush=True)
    rows = []
    for row in module.run(options):
        rows.append(row.to_dict(name))
        print(row.line(), flush=True)
    seconds, after = time.monotonic() - started, load()
    print(f"{seconds:.0f} s, load after: {after:.1f}\n", flush=True)
    if options.json:
        write_json(options.json, rows, {name: seconds}, [before, after])


def run_all(options: argparse.Namespace) -> None:
    """Run all benchmarks of a device one after the other; exit with an error if one failed, after the others."""
    rows: list[dict[str, Any]] = []
    seconds: dict[str, float] = {}
    loads, failed = [load()], []
    for name in names_on(options.device):
        report = run_apart(name, options.device)
        loads.append(load())
        if report is None:
            failed.append(name)
        else:
            seconds |= report["seconds"]
            rows += report["rows"]
    print(f"{sum(seconds.values()):.0f} s in all")
    if options.json:
        write_json(options.json, rows, seconds, loads)
    if failed:
        sys.exit(f"error: {', '.join(failed)} failed")


def names_on(device: str) -> list[str]:
    """Return the benchmarks that are run on a device: on a GPU those alone in which it has a part."""
    if device == "cpu":
        return [name for name in BENCHMARKS if name not in GPU_ALONE]
    from trainables.seeding import choose_device

    try:
        choose_device(device)
    except ConfigError as error:
        sys.exit(f"error: {error}")
    return [name for name in BENCHMARKS if name in (*GPU_ALONE, *ON_GPU)]


def run_apart(name: str, device: str) -> dict[str, Any] | None:
    """Run a benchmark with its defaults in a process of its own, and return its report; ``None`` if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        on = ["--device", device] if name in ON_GPU else []
        command = [sys.executable, "-m", "tests.benchmarks", name, *on, "--json", str(report)]
        if subprocess.run(command).returncode:
            return None
        found: dict[str, Any] = json.loads(report.read_text())
        return found
