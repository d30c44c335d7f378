"""An epoch of VSE++ on Flickr8k beside a plain PyTorch loop of the published kind, with one thread and with two.

    python -m tests.benchmarks epoch [--data-root DATA] [--embedding-size 256] [--steps 40]

Both take the same arithmetic: batches of 128 pairs, hardest negatives, gradients clipped at 2, Adam. Some steps of one
follow some of the other, so that what else the machine does hits both. An epoch is put together of its steps, the
validation and, of ours, the checkpoint: by how much steps take longer while a thread writes it.
"""

import argparse
import tempfile
from collections.abc import Iterator
from itertools import count, islice
from math import ceil
from pathlib import Path
from threading import Thread

import torch

from tests.benchmarks.flickr8k import add_data_options, load_flickr8k
from tests.benchmarks.published import BATCH, CLIP, MARGIN, RATE, PublishedModel, PublishedTraining
from tests.benchmarks.rows import Row
from tests.benchmarks.timing import alternate
from trainables.checkpoint import EpochReport, save_epoch
from trainables.config import TrainingConfig, TrialConfig
from trainables.data.batches import Batch, count_steps, epoch_batches
from trainables.data.dataset import Dataset
from trainables.evaluation import evaluate
from trainables.seeding import generator
from trainables.training_steps import finish, train_epoch
from trainables.trial import Trial

NEEDED = 1.8
WARM_UP = 5
BLOCK = 8
"""Steps of one before those of the other."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser)
    parser.add_argument("--embedding-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])


def run(options: argparse.Namespace) -> Iterator[Row]:
    data = load_flickr8k(options.data_root, options.images)
    ours, published = OurTraining(data, options.embedding_size, options.device), make_published(data, options)
    for threads in options.threads if options.device == "cpu" else options.threads[:1]:
        torch.set_num_threads(threads)
        yield from compare(ours, published, options.steps, f"{data.name}, {threads} threads")


def compare(ours: "OurTraining", published: PublishedTraining, steps: int, where: str) -> Iterator[Row]:
    block = min(BLOCK, steps)
    runs = {"ours": lambda: ours.steps(block), "published": lambda: published.steps(block)}
    ours.steps(WARM_UP)
    published.steps(WARM_UP)
    step = {name: seconds / block for name, seconds in alternate(runs, max(1, steps // block)).items()}
    ours.evaluate()
    evaluation = alternate({"ours": ours.evaluate, "published": published.evaluate}, 3)
    with tempfile.TemporaryDirectory() as folder:
        write = alternate({"ours": lambda: ours.save(Path(folder))}, 3)["ours"]
        some = ceil(2 * write / step["ours"])
        beside = {"alone": lambda: ours.steps(some), "beside": lambda: ours.steps_beside(some, Path(folder))}
        taken = alternate(beside, 5)
        save = max(1e-6, taken["beside"] - taken["alone"])
    other, per_epoch = "plain PyTorch loop", ours.steps_an_epoch
    epoch = {name: per_epoch * step[name] + evaluation[name] for name in step}
    yield Row(f"a step: {where}", "ms", 1000 * step["ours"], 1000 * step["published"], other, NEEDED)
    yield Row("  validation", "ms", 1000 * evaluation["ours"], 1000 * evaluation["published"], "argsort a query")
    alone = f"{save / epoch['ours']:.1%} of an epoch, and {write / epoch['ours']:.1%} where steps wait for it"
    yield Row("  checkpoint beside steps", "ms", 1000 * save, 1000 * write, "before the next step", note=alone)
    yield Row("  epoch", "s", epoch["ours"] + save, epoch["published"], other, NEEDED, note=f"{per_epoch} steps")


class OurTraining:
    """The product's trial, a few steps at a time."""

    def __init__(self, data: Dataset, embedding_size: int, device: str) -> None:
        self.trial = Trial(make_config(embedding_size), data, torch.device(device))
        self._batches = self._endless()
        self.steps_an_epoch = count_steps(data.splits["train"], self.trial.config.training)
        self.loss = 0.0

    def steps(self, steps: int) -> None:
        trial = self.trial
        self.loss = finish(train_epoch(trial.model, trial.loss, trial.optimizer, islice(self._batches, steps), CLIP, 1))

    def evaluate(self) -> dict[str, float]:
        return evaluate(self.trial.model, self.trial.val_split)

    def save(self, folder: Path) -> None:
        save_epoch(folder, self._report())

    def steps_beside(self, steps: int, folder: Path) -> None:
        """Take steps while a thread writes a checkpoint, as ``trainables.checkpoint.run_ahead`` does."""
        writer = Thread(target=save_epoch, args=(folder, self._report()))
        writer.start()
        self.steps(steps)
        writer.join()

    def _report(self) -> EpochReport:
        self.trial.metrics = {"val/rsum": 1.0}
        self.trial._remember_if_best()
        return EpochReport(1, {}, True, self.trial.snapshot())

    def _endless(self) -> Iterator[Batch]:
        for epoch in count():
            yield from epoch_batches(self.trial.train_split, self.trial.config.training, generator(0, "batches", epoch))


def make_config(embedding_size: int) -> TrialConfig:
    training = TrainingConfig(
        batch_size=BATCH, learning_rate=RATE, gradient_clip=CLIP, embedding_size=embedding_size, duplicates="negatives"
    )
    return TrialConfig(dataset="flickr8k", loss_parameters={"margin": MARGIN}, training=training)


def make_published(data: Dataset, options: argparse.Namespace) -> PublishedTraining:
    word_size = TrainingConfig().word_size
    features = data.splits["train"].features.shape[-1]
    model = PublishedModel(features, len(data.vocabulary), word_size, options.embedding_size)
    return PublishedTraining(model, data.splits["train"], data.splits["val"], torch.device(options.device))
