"""Steps that are replayed as a CUDA graph: bits, times, memory, kill -9 and resume, lack of memory, trials at once.

``python -m tests.benchmarks gpu --graphs`` runs it in some five minutes on a GPU. ``other`` is the aim, so that a ratio
of 1 and more reaches it. ``--smoke`` takes every way at tiny sizes on a CPU, where a function stands in for the graph:
its numbers say nothing.
"""

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from unittest.mock import patch

import torch

from tests.benchmarks.epoch import make_published
from tests.benchmarks.flickr8k import load_flickr8k
from tests.benchmarks.fused import Bench
from tests.benchmarks.rows import Row
from tests.benchmarks.timing import alternate, wait
from tests.support.simulated_gpu import RepeatedStep
from trainables import trial as of_trial
from trainables.checkpoint import find_latest, save_epoch
from trainables.config import GraphUse, TrainingConfig, TrialConfig
from trainables.cost import count_steps
from trainables.data.dataset import Dataset
from trainables.seeding import choose_device, seed_torch
from trainables.static_steps import StaticSteps
from trainables.trial import Trial, run_trial
from trainables.turns import train_in_turns

AIMS = {"vsepp:256:triplet_sh": 2.5, "vsepp:1024:triplet_sh": 4.5, "wsabie:512:warp": 1.2, "head:256:nt_xent": 1.2}
"""Case -> milliseconds that a step is to take at most."""

GRAPHS: tuple[GraphUse, ...] = ("on", "off")

PUBLISHED, TOGETHER, CHECKPOINT = 4.0, 8.0, 0.02
"""Factor on the published loop; on trials one after another; share of an epoch of a checkpoint."""


@dataclass(frozen=True)
class Sizes:
    """How much is done: on a GPU, or to see that every way can be taken."""

    images: int
    steps: int
    rounds: int
    dimensions: int | None
    stacked: tuple[int, ...]
    at_once: int
    epochs: int
    batch: int

    def case(self, case: str) -> str:
        model, size, loss = case.split(":")
        return f"{model}:{self.dimensions or size}:{loss}"


ON_GPU = Sizes(6000, 40, 3, None, (16, 32), 8, 3, 128)
SMOKE = Sizes(12, 2, 1, 4, (2,), 2, 2, 8)


def run(options: argparse.Namespace) -> Iterator[Row]:
    sizes = SMOKE if options.smoke else ON_GPU
    device = torch.device("cpu") if options.smoke else choose_device("cuda")
    data = {kind: generated(kind, sizes) for kind in ("vsepp", "head")}
    for case, aim in AIMS.items():
        yield from times(sizes.case(case), aim, data["head" if case.startswith("head") else "vsepp"], sizes, device)
    yield published(data["vsepp"], sizes, device)
    yield from stacked(data["vsepp"], sizes, device)
    yield from disturbed(sizes, device)


def generated(model: str, sizes: Sizes) -> Dataset:
    """Return numbers of the shape of Flickr8k; heads read features of captions too."""
    data = load_flickr8k(Path(), sizes.images)
    if model != "head":
        return data
    splits = {}
    for name, split in data.splits.items():
        random = torch.Generator().manual_seed(len(splits))
        rows = torch.randn(len(split.image_of_caption), 256, generator=random).half().numpy()
        order = torch.arange(len(rows)).numpy()
        splits[name] = replace(split, caption_features=rows, caption_rows=order)
    return replace(data, splits=splits)


def make_config(case: str, sizes: Sizes, graph: GraphUse, seed: int = 0) -> TrialConfig:
    model, size, loss = case.split(":")
    training = TrainingConfig(
        epochs=sizes.epochs,
        embedding_size=int(size),
        batch_size=sizes.batch,
        graph=graph,
        word_size=sizes.dimensions or 300,
    )
    return TrialConfig(dataset="generated", model=model, loss=loss, training=training, seed=seed)


def make_trial(case: str, data: Dataset, sizes: Sizes, device: torch.device, graph: GraphUse, seed: int = 0) -> Trial:
    trial = Trial(make_config(case, sizes, graph, seed), data, device)
    if device.type == "cpu" and graph == "on":
        trial.static_steps = StaticSteps(trial.model, trial.train_split, partial(RepeatedStep, device))
    return trial


class Steps:
    """Some steps of an epoch, again and again, after the graph has proved itself."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self(8)

    def __call__(self, steps: int) -> None:
        self.trial.epoch = 0
        self.trial.begin_epoch()
        self.trial.train(steps)


class InTurns:
    """Some steps of an epoch of several trials in turns, again and again."""

    def __init__(self, case: str, data: Dataset, sizes: Sizes, device: torch.device, count: int) -> None:
        self._trials = [make_trial(case, data, sizes, device, "on", seed) for seed in range(count)]
        self(8)

    def __call__(self, steps: int) -> None:
        for trial in self._trials:
            trial.epoch = 0
            trial.begin_epoch()
        train_in_turns(self._trials, steps)


def step_seconds(runs: Mapping[str, Callable[[int], object]], sizes: Sizes) -> dict[str, float]:
    """Return the seconds of a step of each, in turns; what an epoch takes once, such as a check, is left out."""
    counts = {(name, count): partial(take, count) for name, take in runs.items() for count in (1, 1 + sizes.steps)}
    took = alternate(counts, sizes.rounds)
    pairs = {name: (took[name, 1], took[name, 1 + sizes.steps]) for name in runs}
    # Where noise is larger than the steps, the longer run's time is divided by all of its steps.
    return {
        name: (many - few) / sizes.steps if many > few else many / (1 + sizes.steps)
        for name, (few, many) in pairs.items()
    }


def times(case: str, aim: float, data: Dataset, sizes: Sizes, device: torch.device) -> Iterator[Row]:
    """Compare steps with and without the graph; the last row says whether an epoch has the same bits."""
    reset_peak(device)
    without = Steps(make_trial(case, data, sizes, device, "off"))
    plain = peak(device)
    reset_peak(device)
    replayed = Steps(make_trial(case, data, sizes, device, "on"))
    held = peak(device)
    took = step_seconds({"graph": replayed, "off": without}, sizes)
    own, other = (1000 * seconds for seconds in took.values())
    steps, why = replayed.trial.static_steps, replayed.trial.not_replayed
    note = f"off: {other:.2f} ms, {other / own:.2f} times; " + (why or f"{steps.replays if steps else 0} replays")
    yield Row(f"{case}: a step", "ms", own, aim, "the aim", 1.0, note)
    epoch = count_steps(data.splits["train"], replayed.trial.config.training) * own / 1000
    save(replayed.trial, lambda: None)
    saved = alternate({"save": lambda: save(replayed.trial, lambda: None)}, 3)["save"]
    some = partial(replayed, min(1000 * sizes.steps, ceil(2000 * saved / own)))
    beside = alternate({"alone": some, "beside": lambda: save(replayed.trial, some)}, sizes.rounds)
    delay = max(1e-6, beside["beside"] - beside["alone"])
    note = f"{delay / epoch:.1%} of an epoch; {saved / epoch:.1%} where steps wait for it"
    yield Row("  a checkpoint beside steps", "s", delay, CHECKPOINT * epoch, "2 % of an epoch's steps", 1.0, note)
    yield Row("  memory of the GPU", "MiB", held / 2**20, plain / 2**20, "without a graph")
    differing = different_tensors(case, data, sizes, device)
    yield Row("  an epoch, bits that differ", "tensors", differing, 0.0, "none", note="replayed beside uncaptured")


def different_tensors(case: str, data: Dataset, sizes: Sizes, device: torch.device) -> float:
    """Return how many tensors of the weights differ after an epoch with the graph and one without its replay."""
    one, other = (make_trial(case, data, sizes, device, "on") for _ in range(2))
    other.static_steps = StaticSteps(other.model, other.train_split, None)
    for trial in (one, other):
        trial.begin_epoch()
        trial.train()
    pairs = zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True)
    return float(sum(not torch.equal(mine, theirs) for mine, theirs in pairs))


def save(trial: Trial, meanwhile: Callable[[], object]) -> None:
    """Write a checkpoint in a thread, while something else is done."""
    trial.metrics = {trial.config.metric: 1.0}
    trial._remember_if_best()
    report = replace(trial._report(), save=trial.snapshot())
    with tempfile.TemporaryDirectory() as folder:
        writer = Thread(target=save_epoch, args=(Path(folder), report))
        writer.start()
        meanwhile()
        writer.join()


def published(data: Dataset, sizes: Sizes, device: torch.device) -> Row:
    case = sizes.case("vsepp:1024:triplet_sh")
    ours = Steps(make_trial(case, data, sizes, device, "on"))
    loop = make_published(data, argparse.Namespace(embedding_size=int(case.split(":")[1]), device=str(device)))
    step = step_seconds({"ours": ours, "other": loop.steps}, sizes)
    took = {name: 1000 * seconds for name, seconds in step.items()}
    return Row(f"{case}: beside the loop", "ms", took["ours"], took["other"], "the published loop", PUBLISHED)


def stacked(data: Dataset, sizes: Sizes, device: torch.device) -> Iterator[Row]:
    """Compare K trials as one stack, or as graphs in turns, with K plain ones, in seconds of a step of all."""
    case = sizes.case("vsepp:1024:nt_xent")
    bench = Bench(case, data, str(device), sizes.steps)
    runs = {name: Steps(make_trial(case, data, sizes, device, name)) for name in GRAPHS}
    one = step_seconds(runs, sizes)
    for trials in sizes.stacked:
        together = alternate({"": bench.stacked(trials)}, sizes.rounds)[""] / sizes.steps
        in_turns = step_seconds({"": InTurns(case, data, sizes, device, trials)}, sizes)[""]
        note = f"as one stack {together:.4f} s, in turns {in_turns:.4f} s, a graph alone {one['on']:.4f} s"
        best = min(together, in_turns)
        yield Row(f"{case} K={trials}", "s", best, trials * one["off"], "one after another", TOGETHER, note)


def disturbed(sizes: Sizes, device: torch.device) -> Iterator[Row]:
    """Trainings that are killed, lack memory, or share the GPU, beside those that are alone."""
    case = sizes.case("vsepp:256:triplet_sh")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = [digest_of(start(case, sizes, device, folder / f"alone{seed}", seed)) for seed in range(sizes.at_once)]
        killed = start(case, sizes, device, folder / "killed", 0)
        while find_latest(folder / "killed") is None and killed.process.is_alive():
            time.sleep(0.05)
        os.kill(killed.process.pid or 0, signal.SIGKILL)
        killed.process.join()
        resumed = digest_of(start(case, sizes, device, folder / "killed", 0))
        yield Row("killed and resumed, other weights", "trials", float(resumed != alone[0]), 0.0, "none")
        began = time.monotonic()
        children = [start(case, sizes, device, folder / f"at_once{seed}", seed) for seed in range(sizes.at_once)]
        differing = sum(digest_of(child) != own for child, own in zip(children, alone, strict=True))
        note = f"{sizes.at_once} processes, {time.monotonic() - began:.0f} s"
        yield Row("trials at once, other weights", "trials", float(differing), 0.0, "none", note=note)
        said = digest_of(start(case, sizes, device, folder / "full", 0, full=True), of="said")
        yield Row(
            "lack of memory, trials that failed", "trials", float(said.startswith("failed")), 0.0, "none", note=said
        )


@dataclass(frozen=True)
class Child:
    process: BaseProcess
    folder: Path


def start(case: str, sizes: Sizes, device: torch.device, folder: Path, seed: int, *, full: bool = False) -> Child:
    arguments = (case, sizes, str(device), str(folder), seed, full)
    process = get_context("spawn").Process(target=train_apart, args=arguments)
    process.start()
    return Child(process, folder)


def digest_of(child: Child, of: str = "weights") -> str:
    child.process.join()
    file = child.folder / of
    return file.read_text() if file.exists() else f"failed: exit code {child.process.exitcode}"


class Refusing(RepeatedStep):
    """Has no memory for a capture, as a full GPU."""

    def capture(self, work: Callable[[], None]) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")


def train_apart(case: str, sizes: Sizes, device: str, folder: str, seed: int, full: bool) -> None:
    """Train to the end, from a checkpoint where there is one; write what the weights are."""
    torch.set_num_threads(1)
    data, config, root = generated(case.split(":")[0], sizes), make_config(case, sizes, "on", seed), Path(folder)
    filler = None
    seed_torch(seed)
    said = ""
    with patch.object(of_trial, "StaticSteps", partial_steps(full)) if device == "cpu" else nullcontext():
        for report in run_trial(config, data, find_latest(root), device=device):
            if full and filler is None and device != "cpu":
                # All that is left but a little, from the second epoch on: the graph of the first is forgotten.
                filler = torch.empty(int(0.98 * torch.cuda.mem_get_info()[0]), dtype=torch.uint8, device=device)
            save_epoch(root, report)
            said = report.not_replayed or "replayed to the end"
    state = torch.load(find_latest(root) / "state.pt", weights_only=True)["model"]  # type: ignore[operator]
    (root / "weights").write_text(str([float(tensor.double().sum()).hex() for tensor in state.values()]))
    (root / "said").write_text(said)
    del filler
    wait()


def partial_steps(full: bool) -> Callable[..., StaticSteps]:
    kind = Refusing if full else RepeatedStep
    return lambda model, split, _: StaticSteps(model, split, partial(kind, torch.device("cpu")))


def reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak(device: torch.device) -> float:
    return float(torch.cuda.max_memory_reserved(device)) if device.type == "cuda" else 2.0**20
