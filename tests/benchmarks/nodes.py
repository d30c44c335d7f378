"""How a search scales over simulated nodes, and what 64 GPUs would make of it.

    python -m tests.benchmarks nodes [--nodes 1 2 4] [--trials 24] [--cpus 2] [--seconds 0.5] [--epochs 4]

Nodes are processes of this machine; trials sleep through their epochs, so that cores do not bound them. Each is the
product's search with everything on. Time runs from the beginning of the first epoch to the last end of a trial. After
that, trials that cost nothing run on the most nodes: what a trial takes then is what the driver needs for it, the one
part that does not grow with the nodes; the first half of them, in which actors start, is left out.

On paper: G GPUs with s trials each, of L seconds, end G s / L trials a second; a driver that needs d seconds for one
keeps up as long as G s d < L. So a trial takes max(L / (G s), d) seconds, and the bottleneck is what that maximum is.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from orchestrator.journal.journal import Record, read_journal
from tests.benchmarks.command import main
from tests.benchmarks.rows import Row
from tests.integration.search_process import command
from tests.support.experiments import make_experiment
from tests.support.simulated_nodes import simulated_nodes

GPUS = 64
LENGTHS = (5.0, 60.0, 600.0)
"""Seconds of a trial on paper: of a bag of words, of VSE++ on Flickr8k for a few epochs, of a long one."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """See ``command``."""
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--cpus", type=int, default=2, help="trials at a time on a node")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.5, help="of an epoch")


def run(options: argparse.Namespace) -> Iterator[Row]:
    """See ``command``."""
    alone = 0.0
    for nodes in options.nodes:
        seconds = seconds_a_trial(search(options, nodes, options.seconds), options.seconds)
        alone = alone or seconds
        ideal = options.seconds * options.epochs / (nodes * options.cpus)
        note = f"{3600 / seconds:,.0f} trials an hour, {ideal / seconds:.0%} of what nodes without a driver would do"
        yield Row(
            f"{nodes} nodes of {options.cpus}, a trial", "s", seconds, alone, f"{options.nodes[0]} nodes", note=note
        )
    yield from on_paper(steady_seconds(search(options, options.nodes[-1], 0.0)))


def on_paper(driver: float) -> Iterator[Row]:
    """Yield what 64 GPUs, a trial each, would do with a driver that needs so many seconds a trial."""
    note = f"trials that cost nothing; shorter ones than {GPUS * driver:.1f} s saturate it with {GPUS} GPUs"
    yield Row("the driver, a trial", "s", driver, None, "", note=note)
    for length in LENGTHS:
        seconds = max(length / GPUS, driver)
        bottleneck = "the driver" if driver > length / GPUS else "the GPUs"
        note = f"on paper; the bottleneck is {bottleneck}"
        yield Row(f"{GPUS} GPUs, trials of {length:g} s", "s", seconds, length, "one GPU", note=note)


def search(options: argparse.Namespace, nodes: int, epoch_seconds: float) -> list[Record]:
    """Return the journal of a search on so many nodes.

    Raises:
        RuntimeError: If it fails.
    """
    experiment = make_experiment(
        losses=["nt_xent"],
        training={"epochs": options.epochs},
        search={"sampler": "tpe", "trials": options.trials},
        scheduler={"name": "none"},
        resources={"cpus": 1, "gpus": 0},
    )
    with tempfile.TemporaryDirectory() as folder, simulated_nodes(nodes, options.cpus) as cluster:
        file = Path(folder) / "experiment.yaml"
        file.write_text(yaml.safe_dump(experiment.to_dict()))
        # A process of its own, as a driver has: the one that made the cluster cannot well join it.
        done = subprocess.run(
            command(Path(folder), file, epoch_seconds, cluster.address), capture_output=True, text=True
        )
        records = list(read_journal(Path(folder) / experiment.name / "journal.jsonl"))
    finished = sum(record.get("state") == "finished" for record in records)
    if done.returncode or finished != options.trials:
        raise RuntimeError(f"{finished} of {options.trials} trials, exit code {done.returncode}: {done.stderr[-2000:]}")
    return records


def steady_seconds(records: list[Record]) -> float:
    """Return the time a trial between the ends of the middle one and the last: all actors have started by then."""
    ends = [record["time"] for record in records if record["kind"] == "epoch" and record["state"] == "finished"]
    middle = (len(ends) - 1) // 2
    return float(ends[-1] - ends[middle]) / (len(ends) - 1 - middle)


def seconds_a_trial(records: list[Record], epoch_seconds: float) -> float:
    """Return the time from the beginning of the first epoch to the last one's end, divided by the trials."""
    epochs = [record for record in records if record["kind"] == "epoch"]
    trials = len({record["trial"] for record in epochs})
    return float(epochs[-1]["time"] - epochs[0]["time"] + epoch_seconds) / trials


if __name__ == "__main__":
    main(["nodes", *sys.argv[1:]])
