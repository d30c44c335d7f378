"""Time and peak memory of every loss (forward and backward) and of the metrics, beside the naive versions.

    python -m tests.benchmarks.losses [--sizes 128 640 2048] [--only smooth_ap metrics] [--out losses.json]

A size B is B image-caption pairs; for ``smooth_ap`` and the metrics B images with five captions each. Every measurement
runs in a fresh process that has torch imported: seconds are those of its quickest run, since others at work on the
machine only add to them; memory is what the process grew to at its highest above what it held with the inputs made. A
naive version whose tensors would not fit in ``--memory``, or whose run would take minutes, is not run, with the reason.
"""

import argparse
import json
import multiprocessing
import os
import platform
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from tests.benchmarks import naive
from trainables.cocos import count_contributions
from trainables.losses import build_loss
from trainables.metrics import embedding_metrics

CAPTIONS = 5
EMBEDDING_SIZE = 1024
METRICS_AT_TEST_SIZE = 5000
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


def main() -> None:
    """Measure, print a table with ratios, and write JSON where asked."""
    arguments = parse()
    multiprocessing.set_forkserver_preload(
        ["torch", "tests.benchmarks.naive", "trainables.cocos", "trainables.metrics"]
    )
    measurements = []
    for size in arguments.sizes:
        for task in arguments.only:
            versions = [measure_apart(task, version, size, arguments) for version in versions_of(task)]
            measurements += versions
            print_rows(versions)
    if "metrics" in arguments.only:
        full = measure_apart("metrics", "product", METRICS_AT_TEST_SIZE, arguments)
        measurements.append(full)
        print_rows([full])
    if arguments.out:
        report = {"machine": machine(arguments.threads), "measurements": [asdict(entry) for entry in measurements]}
        arguments.out.write_text(json.dumps(report, indent=2) + "\n")


def parse() -> argparse.Namespace:
    tasks = [*naive.LOSSES, "metrics"]
    parser = argparse.ArgumentParser(description="Losses and metrics: time and memory beside naive versions.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 640, 2048])
    parser.add_argument("--only", nargs="+", choices=tasks, default=tasks)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--memory", type=float, default=8.0, help="GiB that a naive version may take")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


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


def embeddings(images: int, captions_each: int) -> tuple[Tensor, Tensor, Tensor]:
    """Unit vectors of images, of captions near their image, and the image of each caption."""
    vectors = torch.nn.functional.normalize(torch.randn(images, EMBEDDING_SIZE), dim=1)
    owner = torch.arange(images).repeat_interleave(captions_each)
    noise = torch.randn(len(owner), EMBEDDING_SIZE) / EMBEDDING_SIZE**0.5
    return vectors, torch.nn.functional.normalize(vectors[owner] + 4 * noise, dim=1), owner


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def machine(threads: int) -> dict[str, object]:
    return {
        "platform": platform.platform(),
        "processor": platform.machine(),
        "threads": threads,
        "torch": torch.__version__,
    }


def print_rows(versions: list[Measurement]) -> None:
    product = versions[0]
    for entry in versions:
        name = f"{entry.task:20s} {entry.size:5d} {entry.version:12s}"
        if entry.skipped or entry.seconds is None or entry.peak_mib is None:
            print(f"{name} not run: {entry.skipped}", flush=True)
            continue
        ratios = ""
        if entry.version not in ("product", "cocos") and product.seconds and product.peak_mib is not None:
            memory = entry.peak_mib / max(product.peak_mib, 1.0)
            ratios = f"   {entry.seconds / product.seconds:8.1f} x the time, {memory:6.1f} x the memory of the product"
        print(f"{name} {1000 * entry.seconds:10.2f} ms {entry.peak_mib:9.1f} MiB{ratios}", flush=True)


if __name__ == "__main__":
    main()
