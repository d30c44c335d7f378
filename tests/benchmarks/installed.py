"""What the core and the extras weigh, beside an installation of everything, and how long the losses take to import.

    python -m tests.benchmarks installed [--times 5]

Sizes are those of the files of the packages that are installed here. The imports run in environments of the core and of
everything, made of hard links, in turns; the seconds are those of the processor, which say less about what else runs.
"""

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution
from pathlib import Path
from statistics import median

from tests.benchmarks.rows import Row
from tests.benchmarks.timing import cpu_seconds
from tests.support.installed import asked, closure, make_environment
from trainables.extras import EXTRAS

ON_GPUS = ("nvidia-", "cuda-", "triton")
"""How the names of the packages begin that torch's build for the CPU alone does not ask for."""

EVERYTHING = "everything"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=5, help="imports in each environment; the median counts")


def run(options: argparse.Namespace) -> Iterator[Row]:
    packages = {extra: closure(asked(extra)) for extra in ("", *EXTRAS, "all")}
    everything = packages["all"]
    for extra, found in packages.items():
        name = f"[{extra}]" if extra else "core"
        yield Row(f"{name}: packages", "packages", len(found), len(everything), EVERYTHING)
        yield Row(f"{name}: size", "MB", megabytes(found.values()), megabytes(everything.values()), EVERYTHING)
    for name, extra in (("core", ""), ("train", "train"), (EVERYTHING, "all")):
        light = [one for called, one in packages[extra].items() if not called.startswith(ON_GPUS)]
        yield Row(f"{name}: size without CUDA's packages", "MB", megabytes(light), None, "")
    seconds = import_seconds(("train", "all"), options.times)
    yield Row("import trainables.losses", "s", seconds["train"], seconds["all"], "where everything is installed")


def megabytes(packages: Iterable[Distribution]) -> float:
    """Return what the files of packages take, in 10^6 bytes."""
    files = {Path(str(package.locate_file(file))) for package in packages for file in package.files or ()}
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def import_seconds(extras: tuple[str, ...], times: int) -> dict[str, float]:
    """Return the median of the processor seconds of an import of the losses, in an environment of each extra."""
    found: dict[str, list[float]] = {extra: [] for extra in extras}
    with tempfile.TemporaryDirectory() as folder:
        pythons = {extra: make_environment(Path(folder) / (extra or "core"), extra) for extra in extras}
        # The first import of each compiles.
        for turn in range(times + 1):
            for extra, python in pythons.items():
                seconds = cpu_seconds([python, "-c", "import trainables.losses"], Path(folder))
                if turn:
                    found[extra].append(seconds)
    return {extra: median(seconds) for extra, seconds in found.items()}
