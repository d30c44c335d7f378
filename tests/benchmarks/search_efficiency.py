"""Epochs that TPE with ASHA spends until it has what a grid finds: the best val rsum of 4 x 4 relative polynomials.

    python -m tests.benchmarks search_efficiency                      # generated scenes, small, a minute
    python -m tests.benchmarks search_efficiency --dataset flickr8k --data-root DATA --embedding-size 256 --epochs 9 \\
        --seeds 0 1 2 --output runs/efficiency                        # resumes where it was interrupted

Both are searches of the product, over e0 + Delta + e2 Delta^2: the grid trains all 16 points for all epochs, TPE with
ASHA as many trials over the slopes and offsets between these (``--space slopes``), or over the same points (``--space
listed``). ``--space scale`` has 4 scales x 4 shapes instead, and TPE the whole of both. The epochs of TPE with ASHA
are counted over all of its trials, in the order of its journal, and only as far as half of the grid's. The best of 16
flatters itself, so what comes within a hundredth of it, which seeds differ by, is counted as well.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.journal import read_journal
from orchestrator.workload.training import TrainablesWorkload
from tests.benchmarks.command import main
from tests.benchmarks.roots import roots_of
from tests.benchmarks.rows import Row

OFFSETS, BENDS = (0.05, 0.1, 0.2, 0.4), (0.0, 0.08, 0.16, 0.24)
LOSS, METRIC = "polynomial_relative", "val/rsum"
SPACES: dict[str, dict[str, Any]] = {
    "listed": {"e0": {"values": OFFSETS}, "e1": {"values": (1.0,)}, "e2": {"values": BENDS}},
    # The slopes of 1 + 2 e2 Delta at Delta = -2 and 2.
    "slopes": {"offset": (OFFSETS[0], OFFSETS[-1]), "slope_0": (0.04, 1.0), "slope_1": (1.0, 1.96)},
    "scale": {"scale": (1.0, 512.0), "margin": {"values": (0.2,)}},
}
GRIDS: dict[str, dict[str, Any]] = {
    "listed": SPACES["listed"],
    "slopes": SPACES["listed"],
    # The hardest-negative triplet loss, which TPE tries first, lies between these points.
    "scale": {
        "scale": {"values": (1.0, 8.0, 64.0, 512.0)},
        "margin": {"values": (0.2,)},
        "shape2": {"values": (0.2, 0.4, 0.6, 0.8)},
    },
}
"""The grid beside each space."""

TRAINING: dict[str, dict[str, Any]] = {"vsepp": {"learning_rate": 5e-4}, "wsabie": {"learning_rate": 1e-3}}
TRAINING_ON_SCENES = {"learning_rate": 1e-3, "batch_size": 32, "word_size": 64}
"""The hardest of 128 near-twins is too hard to begin with."""

NEAR = 0.99
NEEDED = 2.0
"""Half of the grid's epochs."""


@dataclass(frozen=True)
class Trace:
    """How a search came to its best value.

    Attributes:
        values: ``METRIC`` of each epoch of all trials, in the order in which they were trained.
    """

    values: Sequence[float]

    @property
    def best(self) -> float:
        """The highest value."""
        return max(self.values)

    def epochs_to(self, value: float) -> int | None:
        """Return how many epochs it took to a value at least so high; ``None`` where it did not come to that."""
        return next((count for count, found in enumerate(self.values, start=1) if found >= value), None)


def add_options(parser: argparse.ArgumentParser) -> None:
    """See ``command``."""
    parser.add_argument("--dataset", default="scenes", help="scenes is generated where no --data-root is given")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--model", choices=TRAINING, default="wsabie")
    parser.add_argument("--images", type=int, default=300, help="of the generated scenes")
    parser.add_argument("--embedding-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--space", choices=SPACES, default="slopes", help="of TPE")
    parser.add_argument("--trials", type=int, default=16, help="of TPE with ASHA")
    parser.add_argument("--grace-epochs", type=int, default=1, help="of ASHA")
    parser.add_argument("--concurrent", type=int, default=1, help="trials at a time, each on one core")
    parser.add_argument("--output", type=Path, help="keep the searches there, and resume them")


def run(options: argparse.Namespace) -> Iterator[Row]:
    """See ``command``."""
    with roots_of(options) as (root, output):
        workload = TrainablesWorkload(str(root.resolve()), device=options.device)
        found = []
        for seed in options.seeds:
            grid = follow(make_experiment(options, seed, "grid"), workload, output)
            tpe = follow(make_experiment(options, seed, "tpe"), workload, output)
            row = compare(f"{options.dataset}, {options.model}, seed {seed}", grid, tpe)
            found.append(row)
            yield row
            yield compare("  within 1 %", grid, tpe, NEAR)
    if len(found) > 1 and all(row.ratio is not None for row in found):
        middle = [float(median(values)) for values in ([row.ours for row in found], [row.other or 0 for row in found])]
        yield Row(f"{options.dataset}, {options.model}, median", "epochs", *middle, "the whole grid", NEEDED)


def compare(case: str, grid: Trace, tpe: Trace, share: float = 1.0) -> Row:
    """Return the epochs that both took to the best value of the grid, or to a share of it."""
    allowed = Trace(tpe.values[: len(grid.values) // 2])
    needed = allowed.epochs_to(share * grid.best)
    met = grid.epochs_to(share * grid.best)
    told = f"grid best {grid.best:.2f}, met there in epoch {met}; TPE and ASHA {allowed.best:.2f}"
    if needed is None:
        note = f"NOT REACHED in half of the grid's {len(grid.values)} epochs; {told}"
        return Row(case, "epochs", len(allowed.values), None, "the whole grid", NEEDED, note)
    return Row(case, "epochs", needed, len(grid.values), "the whole grid", NEEDED, told)


def follow(experiment: Experiment, workload: TrainablesWorkload, output: Path) -> Trace:
    """Run a search, or what is left of it, and return how it came to its best value."""
    from orchestrator.search.search import run_search

    run_search(experiment, workload, output, quiet=True)
    records = read_journal(output / experiment.name / "journal.jsonl")
    return Trace([record["metrics"][METRIC] for record in records if record["kind"] == "epoch"])


def make_experiment(options: argparse.Namespace, seed: int, sampler: str) -> Experiment:
    """Return the search with a grid, or with TPE and ASHA."""
    is_grid = sampler == "grid"
    space = GRIDS[options.space] if is_grid else SPACES[options.space]
    named = f"-{options.space}" if not is_grid or options.space == "scale" else ""
    asha = {"name": "asha", "grace_epochs": options.grace_epochs, "reduction_factor": 3}
    training = TRAINING_ON_SCENES if options.dataset == "scenes" else TRAINING[options.model]
    values = {
        "name": f"{options.dataset}-{options.model}-{sampler}{named}-seed{seed}",
        "datasets": [options.dataset],
        "models": [options.model],
        "losses": [LOSS],
        "training": {"epochs": options.epochs, "embedding_size": options.embedding_size, **training},
        "search": {
            "sampler": sampler,
            "trials": len(OFFSETS) * len(BENDS) if is_grid else options.trials,
            "seed": seed,
            "metric": METRIC,
            "space": {LOSS: space},
        },
        "scheduler": {"name": "none"} if is_grid else asha,
        "resources": {
            "cpus": 1,
            "gpus": 0 if options.device == "cpu" else 1 / options.concurrent,
            "max_concurrent": options.concurrent,
        },
    }
    return validate(Experiment, values, "search_efficiency")


if __name__ == "__main__":
    main(["search_efficiency", *sys.argv[1:]])
