"""Planted regressions in real trainings are caught, and none is seen where nothing changed."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch

from orchestrator.journal.epochs import Epochs
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.regression.accepted import Accepted, CellRecord
from orchestrator.regression.comparison import Finding
from orchestrator.regression.rerun import cell_runs
from orchestrator.regression.suite import Suite
from orchestrator.regression.verdict import SuiteResult, judge_suite
from tests.support.regression_results import make_suite
from tests.trainables.tiny import tiny_dataset
from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.losses.ranking import SmoothAP
from trainables.trial import run_trial

TRAINING = {"epochs": 3, "batch_size": 20, "learning_rate": 2e-3, "embedding_size": 32, "word_size": 16}
SUITE = make_suite(
    matters=60,
    gradients_matter=0.02,
    training=TRAINING,
    cells=[
        {"dataset": "tiny", "loss": "triplet", "loss_parameters": {"margin": 0.2}},
        {"dataset": "tiny", "loss": "smooth_ap", "training": {"batches": "images", "batch_size": 10}},
        {"dataset": "tiny", "model": "wsabie", "loss": "warp", "training": {"optimizer": "sgd", "learning_rate": 1.0}},
    ],
)
ACCEPTED_SEEDS, NEW_SEEDS = range(1, 6), range(6, 9)
"""Other seeds, so that unchanged code does not just give the same numbers again."""

CAUGHT = (Finding.REGRESSION, Finding.CHANGED)
"""A score that fell, or other gradients."""

Change = Callable[[TrialConfig], TrialConfig]


def train(suite: Suite, cell: int, seeds: range, data: Dataset, change: Change = lambda config: config) -> CellRecord:
    """Train a cell as a rerun does, and return its numbers as a rerun reads them from its journal."""
    title = suite.cells[cell].title
    history = History(
        data={"tiny:global": data.digest}, environment={"git_revision": None, "versions": {}, "machine": {}}
    )
    for seed in seeds:
        config = change(suite.config(suite.cells[cell], seed))
        trial = Trial(f"{title}-{seed}", title, seed, {}, config, 0.0, Stage.REGRESS, state=TrialState.FINISHED)
        trial.epochs = Epochs({report.epoch: dict(report.metrics) for report in run_trial(config, data, device="cpu")})
        history.trials[trial.id] = trial
    return cell_runs(suite, history, started="")[title]


@pytest.fixture(scope="module")
def data() -> Dataset:
    torch.set_num_threads(1)
    return tiny_dataset(120)


@pytest.fixture(scope="module")
def reference(data: Dataset) -> Accepted:
    cells = {cell.title: train(SUITE, number, ACCEPTED_SEEDS, data) for number, cell in enumerate(SUITE.cells)}
    return Accepted("quick", "ada", "2026-01-02T03:04:05Z", "known to be right", cells)


def judge(reference: Accepted, changed: Mapping[int, CellRecord]) -> SuiteResult:
    """Return what is found when some cells gave new numbers and the others what was accepted."""
    runs = {one.title: changed.get(number, reference.cells[one.title]) for number, one in enumerate(SUITE.cells)}
    return judge_suite(SUITE, runs, reference)


def find(reference: Accepted, cell: int, runs: CellRecord) -> tuple[Finding, list[str]]:
    """Return what is found about one cell when the others are as they were, and which numbers moved."""
    result = judge(reference, {cell: runs}).cells[cell]
    changes = [change for change in (result.score, *result.gradients) if change is not None]
    return result.finding, [change.metric for change in changes if change.finding in CAUGHT]


@pytest.mark.parametrize("cell", range(3), ids=["triplet", "smooth_ap", "wsabie"])
def test_unchanged_code_raises_no_alarm(reference: Accepted, data: Dataset, cell: int) -> None:
    assert find(reference, cell, train(SUITE, cell, NEW_SEEDS, data))[1] == []


def test_a_flipped_sign_is_caught(reference: Accepted, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    right = SmoothAP.__call__
    monkeypatch.setattr(SmoothAP, "__call__", lambda self, *inputs: -right(self, *inputs))
    finding, moved = find(reference, 1, train(SUITE, 1, NEW_SEEDS, data))
    assert finding in CAUGHT and "last/train/loss" in moved


def test_another_margin_is_caught_by_what_contributes(reference: Accepted, data: Dataset) -> None:
    other = train(SUITE, 0, NEW_SEEDS, data, lambda config: replace(config, loss_parameters={"margin": 0.1}))
    finding, moved = find(reference, 0, other)
    assert finding in CAUGHT and moved


def test_a_dropped_clipping_is_caught(reference: Accepted, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *arguments: None)
    assert find(reference, 2, train(SUITE, 2, NEW_SEEDS, data))[0] in CAUGHT


def test_shuffled_captions_are_caught(reference: Accepted, data: Dataset) -> None:
    runs = {cell: train(SUITE, cell, NEW_SEEDS, shuffled(data, 0.02)) for cell in range(len(SUITE.cells))}
    assert judge(reference, runs).finding in CAUGHT


def shuffled(data: Dataset, share: float) -> Dataset:
    """Return a dataset in which a share of the captions of each split belong to other images."""
    rng = np.random.default_rng(0)
    splits = {}
    for name, split in data.splits.items():
        whole = np.split(split.tokens, split.offsets[1:-1])
        captions = list(whole)
        moved = rng.choice(len(captions), size=max(2, round(share * len(captions))), replace=False)
        for target, source in zip(moved, np.roll(moved, 1), strict=True):
            captions[target] = whole[source]
        offsets = np.concatenate([[0], np.cumsum([len(caption) for caption in captions])]).astype(np.int64)
        splits[name] = replace(split, tokens=np.concatenate(captions), offsets=offsets)
    return replace(data, splits=splits)
