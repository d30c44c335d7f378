"""Many trials at once that each report every second: what the driver of a search takes, and how long they wait for it.

    python -m tests.benchmarks driver                       # 64 actors for a minute, and 1,000 by their events
    python -m tests.benchmarks driver --actors 0            # events alone: a minute of one core

The actors are Ray's, and train nothing: they sleep for a second. How long a result waits is what an actor sees between
its report and the next call: checkpoint, scheduler, journal and Ray. As many actors as a cluster has fit on no machine
like this. So the results of 1,000 trials are handed to scheduler, searcher and journal here, all at once each second,
while the process that delivers to MLflow reads the journal. The last of them waits for all others.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import TrialStarted
from orchestrator.studies.study import Studies
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.tracker import TrackingProcess
from orchestrator.tuner.actor import Step
from orchestrator.tuner.scheduler import StudyScheduler
from tests.benchmarks.rows import Row
from tests.support import fake_workload
from tests.support.experiments import make_experiment, start
from tests.support.fake_workload import FakeWorkload
from tests.support.long_journals import epoch_metrics
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig

SHARE, WAIT = 0.2, 1.0
"""Of a core, that the driver may take; seconds that a result may wait for its answer."""

WAITS = "waits"
"""Folder with a file of each actor: a line for each of its waits."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--actors", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60, help="for which they are watched once all have reported")
    parser.add_argument("--replayed", type=int, default=1000, help="trials that are there by their events alone")
    parser.add_argument("--reports", type=int, default=30, help="of each of these trials")


def run(options: argparse.Namespace) -> Iterator[Row]:
    if options.actors:
        with tempfile.TemporaryDirectory() as folder:
            yield from rows(f"{options.actors} actors", watch_actors(options.actors, options.seconds, Path(folder)))
    if options.replayed:
        with tempfile.TemporaryDirectory() as folder:
            yield from rows(f"{options.replayed} by events", replay(options.replayed, options.reports, Path(folder)))


@dataclass(frozen=True)
class Found:
    """What a driver took: parts of a core, seconds of the longest and of the usual wait, kilobytes a report."""

    share: float
    longest: float
    median: float
    kilobytes: float
    reports: int
    note: str = ""


def rows(name: str, found: Found) -> Iterator[Row]:
    count = f"{found.reports} reports; {found.note}" if found.note else f"{found.reports} reports"
    yield Row(f"{name}: driver", "cores", found.share, SHARE, "the limit", 1.0, count)
    yield Row("  longest wait", "s", found.longest, WAIT, "the limit", 1.0, f"half wait {found.median:.3f} s at most")
    yield Row("  memory a report", "KB", found.kilobytes, None, "")


class Reporting(FakeWorkload):
    """Sleeps for a second an epoch, and notes how long each report waits for the next call."""

    def train(self, config: TrialConfig, resume: Path | None) -> Generator[EpochReport, None, None]:
        with (Path(self.digest) / str(time.monotonic_ns())).open("w") as file:
            for report in super().train(config, resume):
                reported = time.monotonic()
                yield report
                file.write(f"{time.monotonic()} {time.monotonic() - reported}\n")
                file.flush()


def drive(actors: int, epochs: int, folder: str) -> None:
    """Search in this process, until somebody ends it."""
    from ray import cloudpickle

    import tests.benchmarks.driver as this
    from orchestrator.searches.search import run_search

    cloudpickle.register_pickle_by_value(fake_workload)
    cloudpickle.register_pickle_by_value(this)
    experiment = make_experiment(
        losses=["nt_xent"],
        training={"epochs": epochs},
        search={"sampler": "random", "trials": actors},
        scheduler={"name": "none"},
        resources={"cpus": 1 / actors, "gpus": 0, "max_concurrent": actors},
    )
    run_search(experiment, Reporting(1.0, digest=f"{folder}/{WAITS}"), Path(folder), quiet=True)


def watch_actors(actors: int, seconds: float, folder: Path) -> Found:
    """Watch a search for some seconds from the moment at which all of its trials have reported."""
    (folder / WAITS).mkdir()
    # It is ended long before its last epoch.
    program = f"from tests.benchmarks.driver import *; drive({actors}, {10 * int(seconds) + 3600}, {str(folder)!r})"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", program], stdout=log, stderr=log)
        try:
            driver = psutil.Process(process.pid)
            while len(epochs_of(folder)) < actors:
                if process.poll() is not None:
                    raise RuntimeError(f"the search has ended: {(folder / 'log').read_text()[-2000:]}")
                time.sleep(0.5)
            before, began, used, held = epochs_of(folder).total(), time.monotonic(), taken(driver), kilobytes(driver)
            time.sleep(seconds)
            ended, share, grown = time.monotonic(), taken(driver) - used, kilobytes(driver) - held
            reports = epochs_of(folder).total() - before
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    lines = [line.split() for file in (folder / WAITS).iterdir() for line in file.read_text().splitlines()]
    waits = [float(wait) for moment, wait in lines if began <= float(moment) <= ended]
    return Found(share / (ended - began), max(waits), float(np.median(waits)), max(0.0, grown / reports), reports)


def epochs_of(folder: Path) -> "Counter[str]":
    """Return trial -> its epochs in the journal of a search."""
    journal = folder / "tiny" / "journal.jsonl"
    lines = journal.read_bytes().splitlines() if journal.exists() else []
    return Counter(
        str(json.loads(line)["trial"]) for line in lines if b'"kind":"epoch"' in line and line.endswith(b"}")
    )


def replay(trials: int, reports: int, folder: Path) -> Found:
    """Hand the results of trials to scheduler, searcher and journal of this process, all trials' at once each time."""
    experiment = make_experiment(
        losses=["nt_xent"],
        training={"epochs": 10 * reports},
        search={"sampler": "random", "trials": trials},
        scheduler={"name": "none"},
    )
    directory, random = folder / experiment.name, np.random.default_rng(0)
    directory.mkdir()
    delivering = TrackingProcess(default_uri(folder), folder, directory)
    with closing(Ledger(directory / "journal.jsonl")) as ledger:
        start(ledger, experiment)
        studies, scheduler = Studies(experiment, ledger), StudyScheduler(experiment, ledger)
        created = [trial for _ in range(trials) if (trial := studies.next()) is not None]
        for trial in created:
            ledger.append(TrialStarted(trial=trial.id, gpus=0.0))
        delivering.start()
        driver, processor, waits, held = psutil.Process(), 0.0, [], [0.0]
        for epoch in range(1, reports + 1):
            rsums = random.normal(200 + epoch, 5, trials)
            results = [Step(epoch, epoch_metrics(float(rsum), random)) for rsum in rsums]
            began, used = time.monotonic(), time.thread_time()
            for trial, result in zip(created, results, strict=True):
                scheduler.judge(trial, result)
                studies.observe(trial)
            processor += time.thread_time() - used
            waits.append(time.monotonic() - began)
            del results
            held.append(kilobytes(driver))
            time.sleep(max(0.0, WAIT - waits[-1]))
        delivering.close(0.0)
    growth = float(np.polyfit(np.arange(reports) * trials, held[1:], 1)[0]) if reports > 1 else 0.0
    note = f"{1000 * processor / (trials * reports):.3f} ms of a processor each"
    return Found(processor / reports, max(waits), float(np.median(waits)), max(0.0, growth), trials * reports, note)


def taken(process: psutil.Process) -> float:
    """Return the seconds that a process has taken of the processors."""
    return float(sum(process.cpu_times()[:2]))


def kilobytes(process: psutil.Process) -> float:
    """Return the memory that belongs to a process alone."""
    return float(process.memory_full_info().uss) / 1024
