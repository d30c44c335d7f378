"""One loss under two names, searched repeatedly and trained for real: how often a twin is called better than the other.

    python -m tests.benchmarks twins [--runs FOLDER ...] [--searches 2 3 5]

A folder holds the journal of an experiment with two losses of one definition and many searches of each
(``search.repeats``). Its searches are divided into groups, a pair of twins each, and each pair is judged like an
experiment of its own. A row is the share of pairs with a verdict other than *tie*, beside the 4 % that may have one.
The other rows judge settings, a search of each name with several seeds, where ``confirm.seeds`` is above one. Without
folders, two names of NT-Xent are trained here on a few generated pictures, which only shows how it is done.
"""

import argparse
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.plugins import with_plugins
from orchestrator.experiment.yaml_files import Document, validate
from orchestrator.journal.directory import read_history
from orchestrator.results.confirmation import confirmations
from orchestrator.results.question import Verdict
from orchestrator.results.runs import RunId, Runs
from orchestrator.results.verdict import LEVEL, LEVELS_OF_SEARCHES, judge
from orchestrator.searches.begin import make_workload
from orchestrator.searches.search import run_search
from tests.benchmarks.rows import Row
from tests.support.in_process import without_ray
from trainables.data.scenes.generate import generate_scenes

LIMIT = 4.0
"""Percent of pairs that may have a verdict."""

TWINS = '''
from trainables.plugins import loss


def _contrast(similarity, positives, ignore, temperature):
    logits = (similarity / temperature).masked_fill(ignore, float("-inf"))
    return -(logits.log_softmax(1)[positives]).mean() - (logits.log_softmax(0)[positives]).mean()


@loss(space={"temperature": (0.02, 1.0, "log")})
def left_twin(similarity, positives, ignore, temperature=0.3):
    """A contrastive loss, under its first name."""
    return _contrast(similarity, positives, ignore, temperature)


@loss(space={"temperature": (0.02, 1.0, "log")})
def right_twin(similarity, positives, ignore, temperature=0.3):
    """A contrastive loss, under its second name."""
    return _contrast(similarity, positives, ignore, temperature)
'''


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=Path, nargs="*", default=[], help="folders of experiments with twins")
    parser.add_argument("--searches", type=int, nargs="+", default=[2, 3, 5], help="of each twin")


def run(options: argparse.Namespace) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        folders = options.runs or [train(Path(folder))]
        for searches in options.searches:
            words = [word for runs in folders for word in verdicts_of(runs, searches)]
            if words:
                called = sum(word is not Verdict.TIE for word in words)
                case = f"{len(words)} pairs of twins, {searches} searches each"
                note = f"{called} of {len(words)} pairs"
                yield Row(case, "%", 100 * called / len(words), LIMIT, "limit", note=note)


def verdicts_of(folder: Path, searches: int) -> list[Verdict]:
    """Return the verdict on each pair of twins, made of groups of searches of an experiment."""
    words = []
    for confirmation in confirmations(read_history(folder)).values():
        twins = confirmation.verdict.candidates
        numbers = sorted({run.search for twin in twins for run in twin.values})
        for first in range(0, len(numbers) - searches + 1, searches):
            pair = [part(twin, numbers[first : first + searches]) for twin in twins]
            level = LEVELS_OF_SEARCHES.get(searches, LEVEL)
            words.append(judge(pair, level=level, over_images=all(twin.images for twin in pair)).verdict)
    return words


def part(twin: Runs, searches: Collection[int]) -> Runs:
    """Return the runs of some searches alone."""

    def chosen(of_run: Mapping[RunId, Any]) -> dict[RunId, Any]:
        return {run: value for run, value in of_run.items() if run.search in searches}

    images = {metric: chosen(of_run) for metric, of_run in twin.images.items()}
    return replace(twin, values=chosen(twin.values), images=images, missing=chosen(twin.missing))


def train(folder: Path) -> Path:
    """Train a few twins on generated pictures, and return the folder of their experiment."""
    (folder / "twins.py").write_text(TWINS)
    generate_scenes(folder / "data" / "scenes", images=200)
    values = {
        "name": "twins",
        "datasets": ["scenes"],
        "models": ["wsabie"],
        "losses": ["left_twin", "right_twin"],
        "training": {"epochs": 2, "batch_size": 64, "embedding_size": 16},
        "search": {"sampler": "random", "trials": 2, "repeats": 6, "training": {"learning_rate": [0.0005, 0.05]}},
        "scheduler": {"name": "none"},
        "resources": {"cpus": 1, "gpus": 0},
        "confirm": {},
    }
    document = with_plugins(Document("twins", values), [str(folder / "twins.py")], folder)
    experiment = validate(Experiment, document)
    with without_ray():
        workload = make_workload(experiment.resources, str(folder / "data"), experiment.plugins)
        run_search(experiment, workload, folder, quiet=True)
    return folder / "twins"
