"""The test split: opened in the journal before anybody looks at it, evaluated once, and never taken for val."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.history import Trial
from orchestrator.ledger import Ledger
from orchestrator.opening import evaluate_on_test
from orchestrator.workload import Training
from tests.orchestrator.experiments import add_trial
from tests.precomputed_folder import write_precomputed
from trainables.config import TrainingConfig, TrialConfig


@dataclass
class Folders:
    """Checkpoints that are always there."""

    def bring(self, trial: str, folder: Path) -> Path:
        return folder


@dataclass
class Evaluations:
    """A workload that notes what was in the journal when it was asked to evaluate, and can fail."""

    ledger: Ledger
    fails: bool = False
    opened: list[Mapping[str, Any]] = field(default_factory=list)

    def test(self, config: TrialConfig, checkpoint: Path) -> Mapping[str, float]:
        self.opened.append({name: list(trials) for name, trials in self.ledger.history.tests_opened.items()})
        if self.fails:
            raise OSError("no disk")
        return {"rsum": 7.0}


def evaluate(ledger: Ledger, trials: list[Trial], workload: Evaluations) -> None:
    evaluate_on_test(ledger, workload, Folders(), Path("runs"), trials)  # type: ignore[arg-type]


def test_a_split_is_opened_before_it_is_looked_at_and_each_trial_evaluated_once(ledger: Ledger) -> None:
    first, second = add_trial(ledger, [1.0]), add_trial(ledger, [2.0])
    failing = Evaluations(ledger, fails=True)
    with pytest.raises(OSError, match="no disk"):
        evaluate(ledger, [first], failing)
    assert failing.opened == [{"pets": [first.id]}]
    assert (ledger.history.test_openings, ledger.history.tests) == ({"pets": 1}, {})
    workload = Evaluations(ledger)
    for _ in range(2):
        evaluate(ledger, [first, second], workload)
    assert workload.opened == [{"pets": [first.id, second.id]}] * 2, "each of two trials once"
    assert ledger.history.tests == {first.id: {"rsum": 7.0}, second.id: {"rsum": 7.0}}
    assert ledger.history.test_openings == {"pets": 2}, "for the first, and for the second"


def test_a_training_is_tested_on_the_test_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from trainables.checkpoint import save_epoch
    from trainables.data.resident import ResidentSplit
    from trainables.evaluation import evaluate as metrics_of_split
    from trainables.evaluation import load_best

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_precomputed(tmp_path / "data" / "pets")
    sizes = TrainingConfig(epochs=1, batch_size=16, embedding_size=16, word_size=8, learning_rate=0.01)
    config = TrialConfig(dataset="pets", loss="nt_xent", training=sizes)
    workload = Training(str(tmp_path / "data"), threads=torch.get_num_threads(), device="cpu")
    (report,) = workload.train(config, None)
    checkpoint = save_epoch(tmp_path / "trial", report)
    data = workload.open_data(config)
    model, _ = load_best(checkpoint, data)
    expected = {
        name: metrics_of_split(model, ResidentSplit(split, torch.device("cpu"))) for name, split in data.splits.items()
    }
    assert len({metrics["rsum"] for metrics in expected.values()}) == len(expected) == 3
    assert workload.test(config, checkpoint) == expected["test"]
