"""Time and peak memory of every loss (forward and backward) and of the metrics, beside the naive versions.

    python -m tests.benchmarks losses [--sizes 128 640 2048] [--only smooth_ap metrics]

A size B is B image-caption pairs; for ``smooth_ap`` and the metrics B images with five captions each. Every measurement
runs in a fresh process that has torch imported: seconds are those of its quickest run, since others at work on the
machine only add to them; memory is what the process grew to at its highest above what it held with the inputs made. A
naive version whose tensors would not fit in ``--memory``, or whose run would take minutes, is not run, with the reason.
"""

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tests.benchmarks import naive
from tests.benchmarks.command import main
from tests.benchmarks.rows import Row
from trainables.cocos import count_contributions
from trainables.losses import build_loss
from trainables.metrics import embedding_metrics

CAPTIONS = 5
EMBEDDING_SIZE = 1024
ENOUGH_SECONDS, ENOUGH_RUNS = 1.0, 20
LARGEST_LOOP = 2e9
"""Numbers that a loop may compute before it takes minutes."""


@dataclass(frozen=True)
class Measurement:
    """One version of one task at one size; ``skipped`` says why there are no numbers."""

    task: str
    version: str
    size: int
    seconds: float | None = None
    peak_mib: float | None = None
    skipped: str | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """See ``command``."""
    tasks = [*naive.LOSSES, "metrics"]
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 640])
    parser.add_argument("--metrics-size", type=int, default=5000, help="images on which the metrics alone are run")
    parser.add_argument("--only", nargs="+", choices=tasks, default=tasks)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--memory", type=float, default=8.0, help="GiB that a naive version may take")


def run(options: argparse.Namespace) -> Iterator[Row]:
    """See ``command``."""
    multiprocessing.set_forkserver_preload(
        ["torch", "tests.benchmarks.naive", "trainables.cocos", "trainables.metrics"]
    )
    for size in options.sizes:
        for task in options.only:
            product, *others = (measure_apart(task, version, size, options) for version in versions_of(task))
            for other in others:
                yield from compare(product, other)
    if "metrics" in options.only and options.metrics_size:
        yield from compare(measure_apart("metrics", "product", options.metrics_size, options), None)


def compare(product: Measurement, other: Measurement | None) -> Iterator[Row]:
    """Yield time and memory of two versions of one task; of COCOS, those of counting beside those of the loss."""
    assert product.seconds is not None and product.peak_mib is not None
    case, against = f"{product.task} {product.size}", other.version if other else ""
    if other is None or other.skipped:
        note = other.skipped or "" if other else "too large for the naive version"
        yield Row(case, "ms", 1000 * product.seconds, None, against, note=note)
        yield Row(f"{case} memory", "MiB", product.peak_mib, None, against, note=note)
        return
    assert other.seconds is not None and other.peak_mib is not None
    mine, theirs = (other, product) if other.version == "cocos" else (product, other)
    case, against = (f"{case} COCOS", "the loss itself") if other.version == "cocos" else (case, against)
    yield Row(case, "ms", 1000 * float(mine.seconds or 0), 1000 * float(theirs.seconds or 0), against)
    # Less than what the system measures by is nothing.
    yield Row(f"{case} memory", "MiB", max(float(mine.peak_mib or 0), 1.0), float(theirs.peak_mib or 0), against)


def versions_of(task: str) -> list[str]:
    if task == "metrics":
        return ["product", "loop"]
    return ["product", "cocos", *naive.LOSSES[task]]


def measure_apart(task: str, version: str, size: int, arguments: argparse.Namespace) -> Measurement:
    """Measure in a process of its own, so that peaks do not mix."""
    reason = reason_to_skip(task, version, size, arguments.memory)
    if reason:
        return Measurement(task, version, size, skipped=reason)
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(measure, task, version, size, arguments.threads).result()


def reason_to_skip(task: str, version: str, size: int, memory: float) -> str | None:
    if task != "smooth_ap" or version in ("product", "cocos"):
        return None
    numbers = size * (CAPTIONS * size) ** 2
    # Differences, sigmoids, and the two gradients of them are alive at once.
    needed = 4 * numbers * 4 / 2**30
    if version == "full_tensor" and needed > memory:
        return f"needs about {needed:,.0f} GiB"
    if version == "loop" and numbers > LARGEST_LOOP:
        return f"computes {numbers:.0e} numbers"
    return None


def measure(task: str, version: str, size: int, threads: int) -> Measurement:
    """Run one version until enough time has passed; the first run warms up and counts for memory alone."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    run = metrics_run(version, size) if task == "metrics" else loss_run(task, version, size)
    before = resident_bytes()
    run()
    seconds: list[float] = []
    while len(seconds) < ENOUGH_RUNS and sum(seconds) < ENOUGH_SECONDS:
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Measurement(task, version, size, min(seconds), max(peak - before, 0) / 2**20)


def loss_run(task: str, version: str, size: int) -> Callable[[], object]:
    captions = CAPTIONS if task == "smooth_ap" else 1
    positives = torch.eye(size, dtype=torch.bool).repeat_interleave(captions, 1)
    images, texts, _ = embeddings(size, captions)
    similarity = (images @ texts.T).requires_grad_()
    if version == "cocos":
        return lambda: count_contributions(build_loss(task), similarity, positives)
    loss = build_loss(task) if version == "product" else naive.LOSSES[task][version]

    def forward_and_backward() -> Tensor:
        similarity.grad = None
        loss(similarity, positives).backward()
        assert similarity.grad is not None
        return similarity.grad

    return forward_and_backward


def metrics_run(version: str, size: int) -> Callable[[], object]:
    images, captions, owner = embeddings(size, CAPTIONS)
    function = embedding_metrics if version == "product" else naive.metrics
    return lambda: function(images, captions, owner)


def embeddings(images: int, captions_each: int, size: int = EMBEDDING_SIZE) -> tuple[Tensor, Tensor, Tensor]:
    """Unit vectors of images, of captions near their image, and the image of each caption."""
    vectors = torch.nn.functional.normalize(torch.randn(images, size), dim=1)
    owner = torch.arange(images).repeat_interleave(captions_each)
    noise = torch.randn(len(owner), size) / size**0.5
    return vectors, torch.nn.functional.normalize(vectors[owner] + 4 * noise, dim=1), owner


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main(["losses", *sys.argv[1:]])
