"""What a search costs beyond its training: trials a second, and the driver's memory, beside plain Ray Tune.

    python -m tests.benchmarks throughput [--trials 1000] [--workers 2] [--plain-trials 200] [--only ours]

The trials cost nothing (a closed-form learning curve), so that what is left is searcher, scheduler, journal, tracking
and checkpoints of ours; of plain Ray Tune, OptunaSearch and ASHA with the same curve, without checkpoints, journal and
tracking: once as a class whose actors are reused, once as a function, which is how most people write it. Each runs in
a process of its own, which is watched from outside. Starting Ray is left out: the clock begins with the first trial
that has ended.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil

from orchestrator.tracking.tracker import COMMAND
from tests.benchmarks.rows import Row
from tests.support.experiments import make_experiment
from tests.support.fake_workload import FakeWorkload, curve

EPOCHS = 9
GRACE = 1
REDUCTION = 3
LONGEST = 0.3
"""Seconds a trial that a search may cost, and 1,000 trials in five minutes."""

STEEPEST = 20.0
"""Kilobytes by which the driver may grow a trial."""

WARM_UP = 0.2
"""Part of the trials before the memory is looked at: imports and pools are not growth."""

SECONDS = 0.5
"""Between two looks at a driver."""

ENDS = (b'"state":"finished"', b'"state":"stopped_early"', b'"state":"diverged"', b'"state":"failed"')
BEHIND = "behind"
"""File of the folder of a driver of ours: what of its search is not in MLflow in the end, empty where all is."""

MODES = {"ours": "orchestrator", "class": "Ray Tune, class, actors reused", "function": "Ray Tune, function"}


@dataclass(frozen=True)
class Sample:
    """How far a driver was at a moment of a clock that does not jump.

    Attributes:
        kilobytes: Of memory that belongs to the driver alone.
        processor: Seconds that the driver's threads have taken of the processors.
        delivering: Seconds that the driver's process which delivers to MLflow has taken of them; 0 where there is none.
    """

    seconds: float
    ended: int
    kilobytes: float
    processor: float = 0.0
    delivering: float = 0.0


@dataclass(frozen=True)
class Measurement:
    """What a run of a driver came to: a sample a second or so, the last when all trials had ended."""

    mode: str
    samples: tuple[Sample, ...]

    @property
    def trials(self) -> int:
        return self.samples[-1].ended

    @property
    def seconds_a_trial(self) -> float:
        """Wall-clock time a trial, from the first sample with an ended trial on."""
        first = next(sample for sample in self.samples if sample.ended)
        last = next(sample for sample in self.samples if sample.ended == self.trials)
        return (last.seconds - first.seconds) / max(1, last.ended - first.ended)

    @property
    def seconds_after(self) -> float:
        """From the end of the last trial to the end of the process: what is left is delivered and summarised."""
        return self.samples[-1].seconds - next(one.seconds for one in self.samples if one.ended == self.trials)

    def processor_a_trial(self, begin: float = 0.0, end: float = 1.0) -> float:
        """Seconds of the processors that the driver took a trial, between two parts of the trials in [0, 1]."""
        first = next(one for one in self.samples if one.ended >= max(1.0, begin * self.trials))
        last = next(one for one in self.samples if one.ended >= end * self.trials)
        return (last.processor - first.processor) / max(1, last.ended - first.ended)

    @property
    def delivering_a_trial(self) -> float:
        """Seconds of the processors that the process which delivers to MLflow took a trial, its start included."""
        return max(sample.delivering for sample in self.samples) / self.trials

    @property
    def kilobytes(self) -> float:
        return max(sample.kilobytes for sample in self.samples)

    @property
    def kilobytes_a_trial(self) -> float | None:
        """Slope of the memory over the trials, from the warm-up to the last, by least squares.

        ``None`` where the samples between show fewer than two counts of ended trials: the run was too short.
        """
        used = [sample for sample in self.samples if WARM_UP * self.trials <= sample.ended < self.trials]
        if len({sample.ended for sample in used}) < 2:
            return None
        ended = np.array([sample.ended for sample in used], dtype=float)
        return float(np.polyfit(ended, [sample.kilobytes for sample in used], 1)[0])


def measure(
    mode: str,
    trials: int,
    workers: int,
    folder: Path,
    epochs: int = EPOCHS,
    seconds: float = 0.0,
    tracking_uri: str | None = None,
) -> Measurement:
    """Run a driver in a process of its own and watch it.

    An epoch sleeps for ``seconds``. The empty ``folder`` is for what the driver writes; ``tracking_uri`` is the store
    of ``ours``, by default SQLite there. Where there are fewer CPUs than workers, each takes a part of one.

    Raises:
        RuntimeError: If it fails.
    """
    counted = folder / "tiny" / "journal.jsonl" if mode == "ours" else folder / "ended"
    load = Load(trials, workers, epochs, seconds)
    program = f"from tests.benchmarks.throughput import *; drive({mode!r}, {load!r}, {str(folder)!r}, {tracking_uri!r})"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", program], stdout=log, stderr=log)
        try:
            samples = watch(process, counted)
        finally:
            process.kill()
            process.wait()
    if process.returncode or not samples or samples[-1].ended != trials:
        ended = samples[-1].ended if samples else 0
        log_text = (folder / "log").read_text()[-2000:]
        raise RuntimeError(f"{mode}: {ended} of {trials} trials, exit code {process.returncode}: {log_text}")
    return Measurement(mode, tuple(samples))


def drive(mode: str, load: "Load", folder: str, tracking_uri: str | None) -> None:
    """Run trials in this process, and exit without the rest of its end, which is nobody's trial."""
    # The actors are to find the tests' modules as values, not as files.
    from ray import cloudpickle

    import tests.benchmarks.throughput as this
    from tests.support import fake_workload

    cloudpickle.register_pickle_by_value(fake_workload)
    cloudpickle.register_pickle_by_value(this)
    if mode == "ours":
        _drive_ours(load, Path(folder), tracking_uri)
    else:
        _drive_plain(mode, load, Path(folder))


@dataclass(frozen=True)
class Load:
    trials: int
    workers: int
    epochs: int
    seconds: float

    @property
    def cpus(self) -> float:
        """The CPUs that a trial asks for, so that all workers find room on this machine."""
        return min(1.0, (os.cpu_count() or 1) / self.workers)


def _drive_ours(load: Load, folder: Path, tracking_uri: str | None) -> None:
    from orchestrator.searches.search import run_search

    experiment = make_experiment(
        losses=["nt_xent"],
        training={"epochs": load.epochs},
        search={"sampler": "tpe", "trials": load.trials},
        scheduler={"name": "asha", "grace_epochs": GRACE, "reduction_factor": REDUCTION},
        resources={"cpus": load.cpus, "gpus": 0, "max_concurrent": load.workers},
    )
    result = run_search(experiment, FakeWorkload(load.seconds), folder, tracking_uri=tracking_uri, quiet=True)
    (folder / BEHIND).write_text(result.tracking_problem or "")


def _drive_plain(mode: str, load: Load, folder: Path) -> None:
    from orchestrator.journal.lock import make_scratch
    from orchestrator.tuner.runtime import ray_runtime

    with make_scratch() as scratch, ray_runtime(scratch):
        from ray import tune
        from ray.tune.schedulers import ASHAScheduler
        from ray.tune.search.optuna import OptunaSearch

        trainable = _class(load) if mode == "class" else _function(load)
        tune.Tuner(
            tune.with_resources(trainable, {"cpu": load.cpus}),
            param_space={"temperature": tune.loguniform(0.005, 0.5)},
            tune_config=tune.TuneConfig(
                metric="rsum",
                mode="max",
                search_alg=OptunaSearch(),
                scheduler=ASHAScheduler(max_t=load.epochs, grace_period=GRACE, reduction_factor=REDUCTION),
                num_samples=load.trials,
                max_concurrent_trials=load.workers,
                reuse_actors=mode == "class",
            ),
            run_config=tune.RunConfig(storage_path=str(folder), verbose=0, callbacks=[_counter(folder / "ended")]),
        ).fit()


def _class(load: Load) -> type:
    from ray import tune

    class Trainable(tune.Trainable):
        def setup(self, config: dict[str, float]) -> None:
            self.reset_config(config)

        def reset_config(self, new_config: dict[str, float]) -> bool:
            self.temperature, self.epoch = new_config["temperature"], 0
            return True

        def step(self) -> Mapping[str, object]:
            time.sleep(load.seconds)
            self.epoch += 1
            return {"rsum": curve(self.temperature, self.epoch), "done": self.epoch >= load.epochs}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, int]:
            return {"epoch": self.epoch}

        def load_checkpoint(self, checkpoint: dict[str, int]) -> None:
            self.epoch = checkpoint["epoch"]

    return Trainable


def _function(load: Load) -> object:
    from ray import tune

    def train(config: dict[str, float]) -> None:
        for epoch in range(1, load.epochs + 1):
            time.sleep(load.seconds)
            tune.report({"rsum": curve(config["temperature"], epoch)})

    return train


def _counter(path: Path) -> object:
    from ray import tune

    class Counter(tune.Callback):
        def on_trial_complete(self, iteration: int, trials: object, trial: object, **info: object) -> None:
            with path.open("a") as file:
                file.write("ended\n")

    return Counter()


def watch(process: "subprocess.Popen[bytes]", counted: Path) -> list[Sample]:
    """Look at a driver again and again until it has ended; the file ``counted`` has a line for each trial's end."""
    samples: list[Sample] = []
    place, ended, is_over = 0, 0, False
    driver, delivering = psutil.Process(process.pid), None
    while not is_over:
        is_over = process.poll() is not None
        if counted.exists():
            with counted.open("rb") as file:
                file.seek(place)
                new = file.read()
            new = new[: new.rfind(b"\n") + 1]
            place += len(new)
            ended += sum(new.count(end) for end in ENDS) + new.count(b"ended\n")
        if is_over and samples:
            # What ended between the last look and the end of the process counts, too.
            samples.append(replace(samples[-1], seconds=time.monotonic(), ended=ended))
        with suppress(psutil.Error):
            kilobytes = driver.memory_full_info().uss / 1024
            children = () if delivering else driver.children()
            delivering = delivering or next((one for one in children if COMMAND[-1] in one.cmdline()), None)
            samples.append(Sample(time.monotonic(), ended, kilobytes, _processor(driver), _processor(delivering)))
        if not is_over:
            time.sleep(SECONDS)
    return samples


def _processor(process: psutil.Process | None) -> float:
    """Return the seconds that a process has taken of the processors, without its children; 0 if it has just ended."""
    with suppress(psutil.Error):
        return 0.0 if process is None else sum(process.cpu_times()[:2])
    return 0.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=150)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--plain-trials", type=int, default=60, help="of plain Ray Tune; a sixth of it as a function")
    parser.add_argument("--only", choices=MODES)


def run(options: argparse.Namespace) -> Iterator[Row]:
    trials = {"ours": options.trials, "class": options.plain_trials, "function": max(10, options.plain_trials // 6)}
    found: dict[str, Measurement] = {}
    for mode in MODES if options.only is None else [options.only]:
        with tempfile.TemporaryDirectory() as folder:
            found[mode] = measure(mode, trials[mode], options.workers, Path(folder))
    first, *others = found.values()
    pace, growth = f"{options.workers} at a time, a trial", "memory that the driver gains a trial"
    for other in others:
        size = f"of {first.trials} and {other.trials} trials"
        yield Row(pace, "s", first.seconds_a_trial, other.seconds_a_trial, MODES[other.mode], note=size)
        if first.kilobytes_a_trial is not None:
            yield Row(growth, "KB", first.kilobytes_a_trial, other.kilobytes_a_trial, MODES[other.mode], note=size)
    yield Row(f"{MODES[first.mode]}: {pace}", "s", first.seconds_a_trial, LONGEST, "the limit", 1.0)
    yield from growth_rows(f"{MODES[first.mode]}: ", first, STEEPEST)
    yield Row(f"{MODES[first.mode]}: driver", "MB", first.kilobytes / 1024, None, "", note="the most that it had")


def growth_rows(name: str, found: Measurement, limit: float) -> Iterator[Row]:
    """Return the row of the memory that a driver gains a trial; none where the run was too short to tell."""
    if found.kilobytes_a_trial is not None:
        yield Row(f"{name}KB a trial", "KB", found.kilobytes_a_trial, limit, "the limit", 1.0)
