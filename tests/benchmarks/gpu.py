"""What only a GPU can show of a training, beside the same training on the CPU of its machine.

    python -m tests.benchmarks gpu [--cases vsepp:1024:nt_xent ...] [--steps 10] [--json FILE]
    python -m tests.benchmarks gpu --graphs      # steps as a CUDA graph, see `graph_steps`
    python -m tests.benchmarks gpu --towers      # fine-tuning a CLIP, see `towers`

For each case: seconds of a step and of an evaluation, both ways; by how much the loss over the first steps differs from
the CPU's, in float32, where WARP draws other negatives; whether the same steps give the same weights again, to the last
bit, as `make_deterministic` promises; what bf16 saves, and what a training takes of the GPU's memory. No GPU is needed
to find a tensor on the wrong device: `tests/trainables/test_on_gpu.py` does.
"""

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from tests.benchmarks import graph_steps, towers
from tests.benchmarks.flickr8k import begin_trial, load_flickr8k
from tests.benchmarks.rows import Row
from tests.benchmarks.timing import alternate
from tests.trainables.tiny import PLAIN_LOSSES
from trainables.config import Precision
from trainables.cost import measure_peak
from trainables.data.dataset import Dataset
from trainables.evaluation import evaluate
from trainables.model_parameters import FEATURES
from trainables.seeding import choose_device
from trainables.training_steps import finish, train_epoch

CASES = [
    *(f"vsepp:1024:{loss}" for loss in PLAIN_LOSSES),
    "vsepp:256:triplet_sh",
    "vsrn:1024:nt_xent",
    "wsabie:512:warp",
]
"""Model, dimensions of the embedding, loss."""

IMAGES = 600
"""Enough for 10 steps of 128 pairs; val has a sixth of them."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", nargs="+", default=CASES, metavar="MODEL:SIZE:LOSS")
    parser.add_argument("--images", type=int, default=IMAGES, help="train on so many generated images")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--graphs", action="store_true", help="steps replayed as a CUDA graph instead, in five minutes")
    parser.add_argument("--towers", action="store_true", help="fine-tuning a CLIP instead, with micro-batches")
    parser.add_argument("--smoke", action="store_true", help="take every way of these at tiny sizes on a CPU")


def run(options: argparse.Namespace) -> Iterator[Row]:
    if options.graphs:
        yield from graph_steps.run(options)
        return
    if options.towers:
        yield from towers.run(options)
        return
    gpu = choose_device("cuda")
    for case in options.cases:
        data = load_flickr8k(Path(), options.images, FEATURES[case.split(":")[0]])
        yield from compare(case, data, options.steps, gpu)


def compare(case: str, data: Dataset, steps: int, gpu: torch.device) -> Iterator[Row]:
    here, there, again = (Steps(case, data, steps, device) for device in (torch.device("cpu"), gpu, gpu))
    same = "yes" if same_weights(there, again) else "NO"
    note = f"loss differs by {off(there.first, here.first):.1e}; twice the same: {same}"
    rsum = abs(there.evaluate() - here.evaluate())
    on_gpu = alternate({"steps": there.take, "evaluation": there.evaluate}, 3)
    # The CPU takes by far the most time, and no ratio here needs it to the percent.
    on_cpu = alternate({"steps": here.take, "evaluation": here.evaluate}, 1)
    step, other = (1000 * seconds["steps"] / steps for seconds in (on_gpu, on_cpu))
    yield Row(f"{case}: a step", "ms", step, other, "the CPU", note=note)
    evaluation, other = (1000 * seconds["evaluation"] for seconds in (on_gpu, on_cpu))
    yield Row("  an evaluation", "ms", evaluation, other, "the CPU", note=f"rsum differs by {rsum:.2f}")
    low = Steps(case, data, steps, gpu, "bf16")
    halves = alternate({"bf16": low.take, "float32": there.take}, 3)
    each = {name: 1000 * value / steps for name, value in halves.items()}
    note = f"loss differs by {off(low.first, there.first):.1e}"
    yield Row("  a step in bf16", "ms", each["bf16"], each["float32"], "float32", note=note)
    config = there.trial.config
    del here, there, again, low
    peak = measure_peak(config, data, gpu) / 2**20
    yield Row("  memory of the GPU", "MiB", peak, None, "", note="what trials that share a GPU are counted with")


def off(value: float, reference: float) -> float:
    return abs(value - reference) / abs(reference)


class Steps:
    """A training, ``MODEL:SIZE:LOSS``, after its first steps; ``first`` is the mean loss over these."""

    def __init__(
        self, case: str, data: Dataset, steps: int, device: torch.device, precision: Precision = "float32"
    ) -> None:
        self.trial, self.steps = begin_trial(case, data, device, precision=precision), steps
        self.first = self.take()

    def take(self) -> float:
        trial = self.trial
        trial.epoch = 0
        trial.begin_epoch()
        clip, batches = trial.config.training.gradient_clip, islice(trial.batches(), self.steps)
        return finish(train_epoch(trial.model, trial.loss, trial.optimizer, batches, clip, 1, trial.learned))

    def evaluate(self) -> float:
        return evaluate(self.trial.model, self.trial.val_split)["rsum"]


def same_weights(one: Steps, other: Steps) -> bool:
    """Say whether two trainings have the same weights, to the last bit."""
    pairs = zip(one.trial.model.state_dict().values(), other.trial.model.state_dict().values(), strict=True)
    return all(torch.equal(mine.cpu(), theirs.cpu()) for mine, theirs in pairs)
