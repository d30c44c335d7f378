"""What only a GPU can show of a training, beside the same training on the CPU of its machine.

    python -m tests.benchmarks gpu [--cases vsepp:1024:nt_xent ...] [--steps 20] [--json FILE]

For each case: seconds of a step and of an evaluation, both ways; by how much the loss over the first steps differs from
the CPU's, in float32; whether the same steps give the same weights again, to the last bit, as `make_deterministic`
promises; what bf16 saves, and what a training takes of the GPU's memory. No GPU is needed to find a tensor on the wrong
device: `tests/trainables/test_on_gpu.py` does.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from tests.benchmarks.flickr8k import load_flickr8k
from tests.benchmarks.rows import Row
from tests.benchmarks.timing import alternate
from trainables.config import Precision, TrainingConfig, TrialConfig
from trainables.cost import measure_peak
from trainables.data.dataset import Dataset
from trainables.evaluation import evaluate
from trainables.losses import LOSSES
from trainables.model_parameters import FEATURES
from trainables.seeding import choose_device
from trainables.training_steps import train_epoch
from trainables.trial import Trial

CASES = [*(f"vsepp:1024:{loss}" for loss in LOSSES), "vsepp:256:triplet_sh", "vsrn:1024:nt_xent", "wsabie:512:warp"]
"""Model, dimensions of the embedding, loss."""

IMAGES = 1200
"""Enough for 20 steps of 128 pairs; val has a sixth of them."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", nargs="+", default=CASES, metavar="MODEL:SIZE:LOSS")
    parser.add_argument("--images", type=int, default=IMAGES, help="train on so many generated images")
    parser.add_argument("--steps", type=int, default=20)


def run(options: argparse.Namespace) -> Iterator[Row]:
    gpu = choose_device("cuda")
    for case in options.cases:
        model, size, loss = case.split(":")
        data = load_flickr8k(Path(), options.images, FEATURES[model])
        yield from compare(Case(case, model, int(size), loss, options.steps), data, gpu)


@dataclass(frozen=True)
class Case:
    """One training, called ``MODEL:SIZE:LOSS``, of which so many steps are taken at a time."""

    name: str
    model: str
    size: int
    loss: str
    steps: int

    def config(self, precision: Precision = "float32") -> TrialConfig:
        training = TrainingConfig(embedding_size=self.size, precision=precision)
        return TrialConfig(dataset="generated", model=self.model, loss=self.loss, training=training)


def compare(case: Case, data: Dataset, gpu: torch.device) -> Iterator[Row]:
    cpu = torch.device("cpu")
    here, there, again = (first_steps(case, data, device) for device in (cpu, gpu, gpu))
    off = abs(there.loss - here.loss) / abs(here.loss)
    note = f"loss differs by {off:.1e}; twice the same: {'yes' if same_weights(there, again) else 'NO'}"
    runs = {"here": lambda: here.steps(case.steps), "there": lambda: there.steps(case.steps)}
    seconds = {name: value / case.steps for name, value in alternate(runs, 3).items()}
    yield Row(f"{case.name}: a step", "ms", 1000 * seconds["there"], 1000 * seconds["here"], "the CPU", note=note)
    evaluations = alternate({"here": here.evaluate, "there": there.evaluate}, 3)
    off = abs(there.evaluate() - here.evaluate())
    note = f"rsum differs by {off:.2f}"
    yield Row("  an evaluation", "ms", 1000 * evaluations["there"], 1000 * evaluations["here"], "the CPU", note=note)
    low = first_steps(case, data, gpu, "bf16")
    halves = alternate({"bf16": lambda: low.steps(case.steps), "float32": lambda: there.steps(case.steps)}, 3)
    each = {name: 1000 * value / case.steps for name, value in halves.items()}
    note = f"loss differs by {abs(low.loss - there.loss) / abs(there.loss):.1e}"
    yield Row("  a step in bf16", "ms", each["bf16"], each["float32"], "float32", note=note)
    peak = measure_peak(case.config(), data, gpu) / 2**20
    yield Row("  memory of the GPU", "MiB", peak, None, "", note="what trials that share a GPU are counted with")


class Steps:
    """A training, some steps at a time; ``loss`` is the mean over the latest."""

    def __init__(self, case: Case, data: Dataset, device: torch.device, precision: Precision) -> None:
        self.trial = Trial(case.config(precision), data, device)
        self.loss = 0.0

    def steps(self, steps: int) -> None:
        trial = self.trial
        trial.epoch = 0
        trial.begin_epoch()
        clip = trial.config.training.gradient_clip
        batches = islice(trial.batches(), steps)
        self.loss = train_epoch(trial.model, trial.loss, trial.optimizer, batches, clip, 1, trial.learned)

    def evaluate(self) -> float:
        return evaluate(self.trial.model, self.trial.val_split)["rsum"]


def first_steps(case: Case, data: Dataset, device: torch.device, precision: Precision = "float32") -> Steps:
    training = Steps(case, data, device, precision)
    training.steps(case.steps)
    return training


def same_weights(one: Steps, other: Steps) -> bool:
    """Say whether two trainings have the same weights, to the last bit."""
    pairs = zip(one.trial.model.state_dict().values(), other.trial.model.state_dict().values(), strict=True)
    return all(torch.equal(mine.cpu(), theirs.cpu()) for mine, theirs in pairs)
