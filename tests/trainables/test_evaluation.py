"""What is evaluated is the split that was asked for, by the model as it is used and not as it is trained."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainables.runs import encoded_alone
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.checkpoint import save_epoch
from trainables.config import TrialConfig
from trainables.data.batches import ResidentSplit, epoch_batches
from trainables.data.dataset import Dataset
from trainables.evaluation import CHUNK, encode_images, evaluate, evaluate_checkpoint, load_best, measure_contributions
from trainables.losses import build_loss
from trainables.metrics import retrieval_metrics
from trainables.models import RetrievalModel, build_model
from trainables.seeding import generator
from trainables.trial import Trial, run_trial

CPU = torch.device("cpu")
SPLITS = ("train", "val", "test")


CONFIG = replace(tiny_config(epochs=3), model="vsrn")
"""VSRN, whose batch norms compute something else in training than in evaluation."""

DATA = suited(tiny_dataset(images=40), CONFIG)
"""Regions whose train, val and test splits are of 40, 13 and 13 images, the words of test in other features."""
TEST = DATA.splits["test"]
SHIFTED = TEST.features.copy()
SHIFTED[TEST.image_rows] = np.roll(SHIFTED[TEST.image_rows], 3, axis=-1)
DATA = replace(DATA, splits={**DATA.splits, "test": replace(TEST, features=SHIFTED)})


@torch.no_grad()
def by_hand(model: RetrievalModel, split: str) -> list[dict[str, float]]:
    """Return the metrics of the whole similarity matrix of a split, by a model in the mode that it is in.

    Captions of the same words tie, and rounding decides about them: first all near ties are lost, then all are won.
    """
    images, captions = encoded_alone(model, DATA.splits[split])
    positives = torch.arange(len(images))[:, None] == torch.from_numpy(DATA.splits[split].image_of_caption)
    similarity = images.double() @ torch.cat(captions).double().T
    return [retrieval_metrics(similarity + shift * positives, positives) for shift in (-1e-5, 1e-5)]


def are_between(found: Mapping[str, float], bounds: list[dict[str, float]]) -> bool:
    assert bounds[1]["rsum"] - bounds[0]["rsum"] < 10, "a split that is taken for another one must be noticed"
    ends = {name: sorted(bound[name] for bound in bounds) for name in found}
    return all(ends[name][0] - 1e-9 <= value <= ends[name][1] + 1e-9 for name, value in found.items())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial")
    return [save_epoch(folder, report) for report in run_trial(CONFIG, DATA, device="cpu")][-1]


def test_a_checkpoint_is_evaluated_on_the_split_that_is_named(checkpoint: Path) -> None:
    model, _ = load_best(checkpoint, DATA)
    found = {split: evaluate_checkpoint(checkpoint, DATA, split, device="cpu") for split in SPLITS}
    assert min(np.diff(sorted(metrics["rsum"] for metrics in found.values()))) > 10
    assert all(are_between(metrics, by_hand(model.eval(), split)) for split, metrics in found.items())


def test_an_epoch_reports_the_metrics_of_val_and_trains_on_train() -> None:
    trial = Trial(CONFIG, DATA, CPU)
    report = trial.run_epoch()
    model = trial.model.eval()
    assert are_between({"rsum": report.metrics["val/rsum"]}, by_hand(model, "val"))
    assert abs(by_hand(model, "val")[0]["rsum"] - by_hand(model, "test")[0]["rsum"]) > 10
    seen = torch.cat([batch.images for batch in trial.batches()]).unique(dim=0)
    train = DATA.splits["train"]
    assert torch.equal(seen, torch.from_numpy(train.features[train.image_rows]).float().unique(dim=0))


def untrained(config: TrialConfig = CONFIG, data: Dataset = DATA) -> RetrievalModel:
    torch.manual_seed(0)
    return build_model(config, data)


def test_evaluation_is_in_eval_mode_and_leaves_the_model_as_it_was() -> None:
    model = untrained()
    aside = by_hand(model.eval(), "val")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert by_hand(model.train(), "val") != aside, "the batch norms must tell the modes apart"
    model.load_state_dict(before)
    assert are_between(evaluate(model, ResidentSplit(DATA.splits["val"], CPU)), aside)
    assert model.training
    after = model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    evaluate(model.eval(), ResidentSplit(DATA.splits["val"], CPU))
    assert not model.training


def test_statistics_of_gradients_are_taken_in_eval_mode() -> None:
    model = untrained()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    split = ResidentSplit(DATA.splits["train"], CPU)
    loss = build_loss("nt_xent", temperature=0.1)
    measured = []
    for mode in (True, False):
        batches = epoch_batches(split, CONFIG.training, generator(0))
        measured.append(measure_contributions(model.train(mode), loss, batches))
    assert measured[0] == measured[1]
    after = model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_more_images_than_are_encoded_at_a_time_keep_their_order() -> None:
    data = tiny_dataset(images=3 * (CHUNK + 40))
    model = untrained(tiny_config(), data)
    val = data.splits["val"]
    with torch.no_grad():
        expected = model.encode_images(torch.from_numpy(val.features[val.image_rows]).float())
        found = encode_images(model, ResidentSplit(val, CPU))
    assert len(found) > CHUNK
    torch.testing.assert_close(found, expected)
