"""Runs benchmarks by name: one in this process, or all of them, each in a process of its own.

A benchmark is a module here with two functions: ``add_options(parser)`` and ``run(options) -> Iterator[Row]``; of the
options, ``json`` is everyone's, and ``device`` of those that run on a GPU as well. Its docstring is its manual.
"""

import argparse
import ast
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

BENCHMARKS = (
    *("installed", "claims", "cross_attention", "epoch", "evaluation", "gpu", "fused", "heads", "many_trials", "pages"),
    *("prior", "questions", "race", "throughput", "verdicts", "bands", "gate", "judge", "regress", "repeats"),
    *("twins", "graphs", "collapse", "needed", "driver"),
)
"""Each by its module's name, in the order in which all are run."""

ON_GPU = ("epoch", "evaluation", "fused")
"""Those that take ``--device cuda``; the others measure what a GPU has no part in, or the memory of processes."""

GPU_ALONE = ("gpu",)
"""Those that need a GPU."""


def main(arguments: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else list(arguments)
    name = given[0] if given and not given[0].startswith("-") else None
    if name is not None and name not in BENCHMARKS:
        sys.exit(f"error: no benchmark is called {name!r}; there are {', '.join(BENCHMARKS)}")
    listed = "\n".join(f"  {name:20} {about(name)}" for name in BENCHMARKS)
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


def about(name: str) -> str:
    """Return the first line of what a benchmark says about itself."""
    code = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(code)) or "").partition("\n")[0]


def run_one(name: str, module: Any, options: argparse.Namespace) -> None:
    started, before = time.monotonic(), load()
    print(f"{name}: {about(name)} Load before: {before:.1f}\n{COLUMNS}", flush=True)
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
