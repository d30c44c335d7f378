"""K trials as one stacked model, beside one after another and beside a process each.

    python -m tests.benchmarks fused [--data-root DATA] [--cases wsabie:16:warp ...] [--trials 1 4 16] [--steps 8]

A case is a model, its embedding size and its loss. What is told is the time that an epoch of one trial takes when K
train at once, evaluation included, which is not fused; on Flickr8k, all trials of one seed. K = 1 is the trial alone.
Of processes there are K, at most as many as the machine has CPUs: more would only take turns. On a GPU, more trials
than CPUs are compared with one after another alone.

The last row is of whole searches, with checkpoints, journal, COCOS and MLflow: an epoch of a trial among as many as
``--search-trials`` that are fused, beside one trial at a time, of which a few are enough; after the first epochs, in
which actors start. Where there is no Flickr8k it is of generated scenes.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

import torch

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.journal import read_journal
from orchestrator.searches.search import run_search
from orchestrator.workload.training import TrainablesWorkload
from tests.benchmarks.flickr8k import NAME, SHARED, add_data_options, begin_trial, load_flickr8k
from tests.benchmarks.rows import Row
from tests.benchmarks.timing import alternate, wait
from trainables.data.batches import count_steps
from trainables.data.dataset import Dataset
from trainables.data.scenes.generate import generate_scenes
from trainables.fused import StackedEpoch
from trainables.model_parameters import FEATURES
from trainables.training_steps import finish, train_epoch
from trainables.trial import Trial

CASES = {
    "cpu": ["wsabie:16:warp", "wsabie:64:warp", "vsepp:256:nt_xent"],
    "cuda": ["wsabie:512:warp", "vsepp:1024:nt_xent", "vsrn:1024:nt_xent"],
}
TRIALS = {
    "cpu": {"wsabie": [1, 4, 16, 64], "vsepp": [1, 4], "vsrn": [1, 4]},
    "cuda": {"wsabie": [1, 4, 16, 64], "vsepp": [1, 4, 16, 32], "vsrn": [1, 4, 16]},
}
SEARCHES = {"cpu": "wsabie:16:warp", "cuda": "vsepp:1024:nt_xent"}
NEEDED = {("wsabie:16:warp", 16, "cpu"): 3.0, ("vsepp:1024:nt_xent", 32, "cuda"): 8.0}
WARM_UP = 3
ALONE = 2
"""Trials of the search with one at a time: they take the time of all, one after the other."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser)
    parser.add_argument("--cases", nargs="+", metavar="MODEL:SIZE:LOSS", help="by default what fits the device")
    parser.add_argument("--trials", type=int, nargs="+", help="numbers that train at once")
    parser.add_argument("--steps", type=int, default=10, help="that are timed, >= 1")
    parser.add_argument("--search-trials", type=int, default=16, help="0 leaves searches out")
    parser.add_argument("--search-epochs", type=int, default=5, help=">= 2")


def run(options: argparse.Namespace) -> Iterator[Row]:
    torch.set_num_threads(1)
    for case in options.cases or CASES[options.device]:
        model = case.split(":")[0]
        data = load_flickr8k(options.data_root, options.images, FEATURES[model])
        bench = Bench(case, data, options.device, options.steps)
        for trials in options.trials or TRIALS[options.device][model]:
            yield from compare(bench, trials, options)
    if options.search_trials:
        yield compare_searches(options)


def compare(bench: "Bench", trials: int, options: argparse.Namespace) -> Iterator[Row]:
    one, stacked = bench.alone(), bench.stacked(trials)
    seconds = alternate({"ours": stacked, "one": one}, 3)
    ours = bench.epoch_seconds(seconds["ours"] / trials)
    needed = NEEDED.get((bench.case, trials, options.device))
    case = f"{bench.case} K={trials}"
    yield Row(case, "s", ours, bench.epoch_seconds(seconds["one"]), "one after another", needed)
    processes = min(trials, os.cpu_count() or 1)
    # On a GPU, fewer processes than stacked trials would be another comparison.
    if processes > 1 and (options.device == "cpu" or processes == trials):
        together = bench.epoch_seconds(processes_step_seconds(bench, processes) / processes, processes)
        note = f"{3600 / ours:.0f} epochs an hour" + ("" if options.device == "cuda" else ", on one CPU")
        yield Row(f"  {case}", "s", ours, together, f"{processes} processes at once", note=note)


def compare_searches(options: argparse.Namespace) -> Row:
    """Return what an epoch takes in a search whose trials are fused, beside one trial at a time."""
    case = SEARCHES[options.device]
    with tempfile.TemporaryDirectory() as folder:
        root, name = options.data_root or SHARED, NAME
        if options.images or not (root / NAME).is_dir():
            root, name = Path(folder), "scenes"
            generate_scenes(root / name, images=options.images or 600, seed=0)
        seconds = {}
        for fuse, trials in ((options.search_trials, options.search_trials), (1, ALONE)):
            experiment = make_search(case, name, fuse, trials, options)
            run_search(
                experiment, TrainablesWorkload(str(root.resolve()), device=options.device), Path(folder), quiet=True
            )
            journal = read_journal(Path(folder) / experiment.name / "journal.jsonl")
            ends = [record.time for record in journal if record.kind == "epoch"]
            seconds[fuse] = float(ends[-1] - ends[fuse - 1]) / (len(ends) - fuse)
    note = f"{3600 / seconds[options.search_trials]:.0f} epochs an hour, everything included"
    fused = f"a search, {case} K={options.search_trials}"
    return Row(fused, "s", seconds[options.search_trials], seconds[1], "max_concurrent: 1", note=note)


def make_search(case: str, dataset: str, fuse: int, trials: int, options: argparse.Namespace) -> Experiment:
    """Return a search of trials that differ in a number of their loss, ``fuse`` of them at a time and as one model."""
    model, size, loss = case.split(":")
    values = {
        "name": f"fuse-{fuse}",
        "datasets": [dataset],
        "models": [model],
        "losses": [loss],
        "training": {"epochs": options.search_epochs, "embedding_size": int(size), "learning_rate": 5e-4},
        "search": {"sampler": "random", "trials": trials},
        "scheduler": {"name": "none"},
        "resources": {"cpus": 1, "gpus": int(options.device == "cuda"), "fuse": fuse, "max_concurrent": fuse},
    }
    return validate(Experiment, values, "fused")


@dataclass(frozen=True)
class Bench:
    """One case, ``MODEL:SIZE:LOSS``, on one device."""

    case: str
    data: Dataset
    device: str
    steps: int

    def trial(self, beside: Trial | None = None) -> Trial:
        return begin_trial(self.case, self.data, self.device, beside, learning_rate=5e-4)

    def alone(self) -> "AloneSteps":
        return AloneSteps(self.trial(), self.steps)

    def stacked(self, trials: int) -> "AloneSteps | StackedSteps":
        first = self.trial()
        if trials == 1:
            return AloneSteps(first, self.steps)
        return StackedSteps([first, *(self.trial(first) for _ in range(trials - 1))], self.steps)

    def epoch_seconds(self, seconds: float, parallel: int = 1) -> float:
        """Return what an epoch takes by the time of the timed steps of one trial, with its evaluation."""
        trial = self.trial()
        trial.evaluate_on_val()
        evaluation = alternate({"val": trial.evaluate_on_val}, 1)["val"] / parallel
        return count_steps(self.data.splits["train"], trial.config.training) * seconds / self.steps + evaluation


class AloneSteps:
    """Some steps of one trial, as the product takes them without fusion."""

    def __init__(self, trial: Trial, steps: int) -> None:
        self._trial, self._steps = trial, steps
        self._batches = list(islice(trial.batches(), max(steps, WARM_UP)))
        self(WARM_UP)

    def __call__(self, steps: int | None = None) -> None:
        trial = self._trial
        batches = self._batches[: steps or self._steps]
        finish(train_epoch(trial.model, trial.loss, trial.optimizer, batches, trial.config.training.gradient_clip, 1))


class StackedSteps:
    def __init__(self, trials: list[Trial], steps: int) -> None:
        self._trials, self._steps = trials, steps
        self._epoch = StackedEpoch(trials)
        self(WARM_UP)

    def __call__(self, steps: int | None = None) -> None:
        for _ in range(steps or self._steps):
            if not self._epoch.step():
                self._epoch = StackedEpoch(self._trials)
                self._epoch.step()


def processes_step_seconds(bench: Bench, processes: int) -> float:
    """Return the seconds that processes take for the timed steps, each those of a trial of its own, begun together."""
    context = get_context("spawn")
    barrier, told = context.Barrier(processes), context.Queue()
    started = [context.Process(target=train_apart, args=(bench, barrier, told)) for _ in range(processes)]
    for process in started:
        process.start()
    seconds = [told.get(timeout=600) for _ in started]
    for process in started:
        process.join()
    return max(seconds)


def train_apart(bench: Bench, barrier: Barrier, told: "object") -> None:
    torch.set_num_threads(1)
    steps = bench.alone()
    barrier.wait()
    started = time.perf_counter()
    steps()
    wait()
    told.put(time.perf_counter() - started)  # type: ignore[attr-defined]
