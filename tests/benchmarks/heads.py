"""A step of K stacked heads beside a plain matrix product: the share of the machine's peak that training reaches.

    python -m tests.benchmarks heads [--trials 64] [--batch-sizes 128 512] [--inputs 1024 256] [--rounds 7]

Trials of linear heads on both sides, on generated features, train as one stacked model: forward and backward pass,
clipping, Adam. ``other`` is what the step's products alone, K (4 N (D_i + D_c) E + 6 N^2 E) floating-point operations,
would take as ``torch.mm`` of (N, D) by (D, K E): the ratio is the share of the peak, measured in the same run and in
turns. Trials in the same epoch share their batches; the trials of a search are in different epochs, and each has
batches of its own: both are measured. The process keeps the memory that it frees, as that of an engine does. Times are
of the process, not of the clock, so that other processes count as little as they can.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import torch

from orchestrator.machines.gpu_share import KEEP_FREED_MEMORY
from tests.benchmarks.flickr8k import generate
from tests.benchmarks.fused import StackedSteps
from tests.benchmarks.rows import Row
from tests.benchmarks.timing import alternate, apart
from trainables.config import TrainingConfig, TrialConfig
from trainables.data.dataset import Dataset, Split
from trainables.trial import Trial

NEEDED = {True: 0.65, False: 0.55}
"""Whether batches are shared -> the least share of the peak with 64 trials and batches of 128."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=64, help="that train at once, >= 2")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--inputs", type=int, nargs=2, default=[1024, 256], help="features of an image, of a caption")
    parser.add_argument("--embedding-size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7, help="that are timed, >= 1")


def run(options: argparse.Namespace) -> Iterator[Row]:
    # The C library of a process reads the variables when the process starts.
    with patch.dict(os.environ, KEEP_FREED_MEMORY):
        yield from apart(measure, options)


def measure(options: argparse.Namespace) -> list[Row]:
    torch.set_num_threads(1)
    rows = []
    for batch_size in options.batch_sizes:
        data = make_data(batch_size, *options.inputs)
        steps = {shared: stacked_step(data, batch_size, options, shared=shared) for shared in (True, False)}
        product, operations = plain_product(batch_size, options)
        seconds = alternate({**steps, "product": product}, options.rounds, time.process_time)
        inside = operations_of_step(batch_size, options)
        peak = operations / seconds["product"]
        for shared in steps:
            needed = NEEDED[shared] if (options.trials, batch_size) == (64, 128) else None
            case = f"heads K={options.trials}, {'shared' if shared else 'own'} batches of {batch_size}"
            note = f"{inside / seconds[shared] / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s, 1 thread"
            rows.append(Row(case, "s", seconds[shared], inside / peak, "its products as one torch.mm", needed, note))
    return rows


def make_data(batch_size: int, image_size: int, caption_size: int) -> Dataset:
    """Return a dataset of random features of both sides, a few batches large."""
    made = generate({"train": max(10, batch_size), "val": 10, "test": 10})
    random = np.random.default_rng(1)

    def features(count: int, size: int) -> np.ndarray:
        return random.standard_normal((count, size)).astype(np.float16)

    def with_features(split: Split) -> Split:
        captions = len(split.image_of_caption)
        sides = features(len(split.features), image_size), features(captions, caption_size)
        return replace(split, features=sides[0], caption_features=sides[1], caption_rows=np.arange(captions))

    return replace(made, splits={name: with_features(split) for name, split in made.splits.items()})


def stacked_step(data: Dataset, batch_size: int, options: argparse.Namespace, *, shared: bool) -> Callable[[], None]:
    """Return a function that takes the next step of all trials, which differ in their temperatures; warm."""
    training = TrainingConfig(batch_size=batch_size, embedding_size=options.embedding_size, learning_rate=1e-4)
    trials: list[Trial] = []
    for place in range(options.trials):
        loss = {"loss": "nt_xent", "loss_parameters": {"temperature": 0.05 * 1.02**place}}
        config = TrialConfig(dataset="generated", model="head", training=training, seed=0 if shared else place, **loss)
        trials.append(Trial(config, data, torch.device("cpu"), beside=trials[0] if trials else None))
        trials[-1].begin_epoch()
    return StackedSteps(trials, 1)


def plain_product(batch_size: int, options: argparse.Namespace) -> tuple[Callable[[], object], int]:
    """Return a product of the shape of all image heads together, and its floating-point operations."""
    size, width = options.inputs[0], options.trials * options.embedding_size
    inputs, weights = torch.randn(batch_size, size), torch.randn(size, width)
    torch.mm(inputs, weights)
    return lambda: torch.mm(inputs, weights), 2 * batch_size * size * width


def operations_of_step(batch_size: int, options: argparse.Namespace) -> int:
    """Return the floating-point operations of a step's products; features need no gradient."""
    heads = 4 * batch_size * sum(options.inputs) * options.embedding_size
    return options.trials * (heads + 6 * batch_size**2 * options.embedding_size)
