"""The test split: opened in the journal before anybody looks at it, evaluated once; and packed champions."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial
from orchestrator.results.winner import find_champions
from orchestrator.storage.stores import FolderStore
from orchestrator.winners.winners import (
    CARD,
    CHAMPIONS,
    MODEL,
    Champion,
    describe_champion,
    evaluate_on_test,
    packed_champions,
    ranks_file,
)
from orchestrator.workload.evaluation import measure_checkpoint
from orchestrator.workload.training import TrainablesWorkload
from orchestrator.workload.workload import TestEvaluation
from tests.support.commands import CommandLine
from tests.support.experiments import add_repeat, add_trial, open_test
from tests.support.fake_workload import report
from tests.support.precomputed_folder import write_precomputed
from trainables.config import Change, TrainingConfig, TrialConfig
from trainables.ranks import Ranks, read_ranks


@dataclass
class Folders:
    def bring(self, trial: str, folder: Path) -> Path:
        return folder


@dataclass
class Evaluations:
    """A workload that notes what was in the journal when it was asked to evaluate, and can fail."""

    ledger: Ledger
    fails: bool = False
    opened: list[Mapping[str, Any]] = field(default_factory=list)

    def test(self, config: TrialConfig, checkpoint: Path) -> TestEvaluation:
        self.opened.append({name: list(trials) for name, trials in self.ledger.history.tests_opened.items()})
        if self.fails:
            raise OSError("no disk")
        return TestEvaluation({"rsum": 7.0})


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


RANKS = Ranks(
    np.array([1, 4, 2], dtype=np.int32), np.array([3, 1, 1], dtype=np.int32), np.array([0, 0, 1], dtype=np.int32),
    "ab" * 32, "test", ("dog", "cat"),
)  # fmt: skip


@dataclass
class Ranking(Evaluations):
    def test(self, config: TrialConfig, checkpoint: Path) -> TestEvaluation:
        return TestEvaluation({"rsum": 7.0}, {"val": replace(RANKS, split="val"), "test": RANKS})


@pytest.mark.parametrize("apart", [False, True], ids=["in the experiment's folder", "in a storage"])
def test_ranks_are_kept_before_the_journal_says_evaluated(ledger: Ledger, tmp_path: Path, apart: bool) -> None:
    trial, directory = add_trial(ledger, [1.0]), tmp_path / "runs"
    trials = tmp_path / "storage" if apart else directory / "trials"
    storage = FolderStore(trials)
    ledger.listeners.append(
        lambda record: record.kind != "test_evaluated" or seen.append(ranks_file(directory, trial, "test").is_file())
    )
    seen: list[bool] = []
    storage.save(trial.id, report(0.1, 1))
    evaluate_on_test(ledger, Ranking(ledger), storage, directory, [trial])  # type: ignore[arg-type]
    assert seen == [True]
    for folder in (directory / "trials" / trial.id, trials / trial.id):
        for split in ("val", "test"):
            ranks = read_ranks(folder / f"ranks_{split}.npz")
            assert (ranks.split, ranks.image_ids, ranks.i2t.tolist()) == (split, ("dog", "cat"), [1, 4, 2])
    kept = History.of(read_journal(tmp_path / "journal.jsonl")).test_ranks
    assert Ranks.from_text(kept[trial.id]).t2i.tolist() == [3, 1, 1]


@dataclass(frozen=True)
class Trained:
    """A short training, its best model, and the metrics of the model on each split."""

    root: Path
    workload: TrainablesWorkload
    config: TrialConfig
    checkpoint: Path
    model: Any
    metrics: Mapping[str, Mapping[str, float]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """A training on a dataset whose splits have different scores."""
    import torch

    from trainables.checkpoint import save_epoch
    from trainables.data.batches import ResidentSplit
    from trainables.evaluation import evaluate as metrics_of_split
    from trainables.evaluation import load_best

    root = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
        write_precomputed(root / "data" / "pets")
        sizes = TrainingConfig(epochs=1, batch_size=16, embedding_size=16, word_size=8, learning_rate=0.01)
        config = TrialConfig(dataset="pets", loss="nt_xent", training=sizes)
        workload = TrainablesWorkload(str(root / "data"), threads=torch.get_num_threads(), device="cpu")
        (report,) = workload.train(config, None)
        checkpoint = save_epoch(root / "trial", report)
        data = workload.open_data(config)
        model, _ = load_best(checkpoint, data)
        metrics = {
            name: metrics_of_split(model, ResidentSplit(split, torch.device("cpu")))
            for name, split in data.splits.items()
        }
        assert len({values["rsum"] for values in metrics.values()}) == len(metrics) == 3
        yield Trained(root, workload, config, checkpoint, model, metrics)


def test_a_training_is_tested_on_the_test_split(trained: Trained) -> None:
    evaluation = trained.workload.test(trained.config, trained.checkpoint)
    assert evaluation.metrics == trained.metrics["test"]
    assert {name: ranks.split for name, ranks in evaluation.ranks.items()} == {"val": "val", "test": "test"}


@pytest.mark.parametrize(
    ("options", "split"), [((), "test"), (("--split", "test"), "test"), (("--split", "val"), "val")]
)
def test_evaluate_looks_at_the_split_that_is_named(
    trained: Trained, cli: CommandLine, tmp_path: Path, options: tuple[str, ...], split: str
) -> None:
    import torch

    from trainables.metrics import metrics_of_ranks

    where = ("--data-root", trained.root / "data", "--device", "cpu", *options)
    file = tmp_path / "new" / "ranks.npz"
    for ranked in ((), ("--ranks", str(file))):
        told = cli.json("evaluate", trained.checkpoint, *where, *ranked)
        assert told["metrics"] == trained.metrics[split]
    ranks = read_ranks(file)
    assert told["ranks"] == str(file)
    arrays = (torch.from_numpy(array).long() for array in (ranks.i2t, ranks.t2i, ranks.image_of_caption))
    assert metrics_of_ranks(*arrays) == trained.metrics[split]
    part = trained.workload.open_data(trained.config).splits[split]
    assert (ranks.split, ranks.queries) == (split, part.queries_digest())
    assert part.queries_digest() != trained.workload.open_data(trained.config).splits["train"].queries_digest()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ranks", "ranks.npy"), "must end with .npz"),
        (("--ranks", "/proc/none/ranks.npz"), "--ranks /proc/none/ranks.npz: cannot be written"),
        (("--ranks", "ranks.npz", "--folds", "5"), "give one of the two"),
    ],
)
def test_ranks_that_cannot_be_written_are_refused_first(cli: CommandLine, options: tuple[str, ...], said: str) -> None:
    assert said in cli.refuses("evaluate", "there-is-no-such-checkpoint", *options)


def statistics_of(trained: Trained, checkpoint: Path) -> Mapping[str, Any]:
    places = {"epsilon": 0.01, "convention": "paper", "device": "cpu"}
    return measure_checkpoint(checkpoint, trained.root / "data", **places)["statistics"]  # type: ignore[arg-type]


def counted(trained: Trained, model: Any, split: str, **loss_parameters: float) -> Mapping[str, Any]:
    import torch

    from trainables.data.batches import ResidentSplit, epoch_batches
    from trainables.evaluation import measure_contributions
    from trainables.losses import build_loss
    from trainables.seeding import generator

    part = ResidentSplit(trained.workload.open_data(trained.config).splits[split], torch.device("cpu"))
    batches = epoch_batches(part, trained.config.training, generator(trained.config.seed, "cocos"))
    spreads = measure_contributions(model, build_loss("nt_xent", **loss_parameters), batches)
    return {name: spread._asdict() for name, spread in spreads.items()}


def test_statistics_of_gradients_are_those_of_the_train_split(trained: Trained) -> None:
    found = statistics_of(trained, trained.checkpoint)
    assert found == counted(trained, trained.model, "train")
    assert found not in (counted(trained, trained.model, "val"), counted(trained, trained.model, "test"))


def test_statistics_of_gradients_are_those_of_the_loss_at_the_best_epoch(trained: Trained, tmp_path: Path) -> None:
    """Steps so small that no weight changes make the first epoch the best, with the loss before its change."""
    from trainables.checkpoint import save_epoch
    from trainables.evaluation import load_best

    for first, (rate, temperature) in enumerate([(0.01, 0.2), (1e-30, 0.7)]):
        training = replace(trained.config.training, epochs=2, learning_rate=rate)
        change = Change(epoch=2, loss_parameters={"temperature": 0.2})
        config = replace(trained.config, training=training, schedule=(change,), loss_parameters={"temperature": 0.7})
        report = list(trained.workload.train(config, None))[-1]
        assert report.is_best == (first == 0), "the last epoch is the best of the first training alone"
        checkpoint = save_epoch(tmp_path / str(first), report)
        model, _ = load_best(checkpoint, trained.workload.open_data(trained.config))
        expected = {value: counted(trained, model, "train", temperature=value) for value in (0.2, 0.7)}
        assert expected[0.2] != expected[0.7]
        assert statistics_of(trained, checkpoint) == expected[temperature]


def test_a_winner_is_packed_with_what_it_has_not_seen(trained: Trained, tmp_path: Path) -> None:
    trained.workload.pack(trained.config, trained.checkpoint, tmp_path / "packed")
    about = json.loads((tmp_path / "packed" / "retriever.json").read_text())
    assert about["split"] == "test"
    assert about["images"] == list(trained.workload.open_data(trained.config).splits["test"].image_ids)


def test_a_copy_of_a_packed_champion_is_not_registered_beside_it(tmp_path: Path) -> None:
    values = {"dataset": "pets", "experiment": "e", "trial": "t", "metric": "val/rsum", "data_digest": "d"}
    champion = Champion(**values, confirmed=True, value=1.0)
    folder = tmp_path / CHAMPIONS / "pets"
    folder.mkdir(parents=True)
    (folder / CARD).write_text(json.dumps(asdict(champion)))
    shutil.copytree(folder, folder.with_name("pets.bak"))
    assert packed_champions(tmp_path) == {folder / MODEL: champion}


def test_the_description_has_the_spread_over_the_seeds_of_a_confirmed_winner_alone(ledger: Ledger) -> None:
    best = add_trial(ledger, [100.0, 140.0])
    ((dataset, model),) = find_champions(ledger.history).items()
    unconfirmed = describe_champion(ledger.history, dataset, model)
    assert (unconfirmed.value, unconfirmed.std, unconfirmed.seeds) == (140.0, None, 1)
    open_test(ledger, [add_repeat(ledger, best, index, 7 + index, value) for index, value in enumerate((138.0, 141.0))])
    ((dataset, model),) = find_champions(ledger.history).items()
    confirmed = describe_champion(ledger.history, dataset, model)
    assert (confirmed.value, confirmed.std, confirmed.seeds) == (139.5, pytest.approx(1.5), 2)
