"""What is evaluated is the split that was asked for, by the model as it is used and not as it is trained."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

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


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Regions whose train, val and test splits are of 40, 13 and 13 images, the words of test in other features."""
    data = suited(tiny_dataset(images=40), replace(tiny_config(), model="vsrn"))
    test = data.splits["test"]
    shifted = test.features.copy()
    shifted[test.image_rows] = np.roll(shifted[test.image_rows], 3, axis=-1)
    return replace(data, splits={**data.splits, "test": replace(test, features=shifted)})


@pytest.fixture(scope="module")
def config() -> TrialConfig:
    """VSRN, whose batch norms compute something else in training than in evaluation."""
    return replace(tiny_config(epochs=3), model="vsrn")


@torch.no_grad()
def by_hand(model: RetrievalModel, data: Dataset, split: str) -> dict[str, float]:
    """Return the metrics of the whole similarity matrix of a split, by a model in the mode that it is in."""
    part = data.splits[split]
    images = model.encode_images(torch.from_numpy(part.features[part.image_rows]).float())
    captions = []
    for start, stop in zip(part.offsets, part.offsets[1:], strict=False):
        tokens = torch.from_numpy(part.tokens[start:stop]).long()
        captions.append(model.encode_captions(tokens[None], torch.tensor([len(tokens)]))[0])
    similarity = images.double() @ torch.stack(captions).double().T
    positives = torch.arange(len(images))[:, None] == torch.from_numpy(part.image_of_caption)
    return retrieval_metrics(similarity, positives)


@pytest.fixture(scope="module")
def checkpoint(data: Dataset, config: TrialConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial")
    return [save_epoch(folder, report) for report in run_trial(config, data, device="cpu")][-1]


def test_a_checkpoint_is_evaluated_on_the_split_that_is_named(data: Dataset, checkpoint: Path) -> None:
    model, _ = load_best(checkpoint, data)
    expected = {split: by_hand(model.eval(), data, split)["rsum"] for split in SPLITS}
    values = sorted(expected.values())
    assert min(np.diff(values)) > 10, "a split that is taken for another one must be noticed"
    found = {split: evaluate_checkpoint(checkpoint, data, split, device="cpu")["rsum"] for split in SPLITS}
    # Captions of the same words tie, and rounding decides about them.
    assert found == pytest.approx(expected, abs=2)


def test_an_epoch_reports_the_metrics_of_val_and_trains_on_train(data: Dataset, config: TrialConfig) -> None:
    trial = Trial(config, data, CPU)
    report = trial.run_epoch()
    model = trial.model.eval()
    assert report.metrics["val/rsum"] == pytest.approx(by_hand(model, data, "val")["rsum"], abs=2)
    assert abs(by_hand(model, data, "val")["rsum"] - by_hand(model, data, "test")["rsum"]) > 10
    seen = torch.cat([batch.images for batch in trial.batches()]).unique(dim=0)
    train = data.splits["train"]
    assert torch.equal(seen, torch.from_numpy(train.features[train.image_rows]).float().unique(dim=0))


def untrained(config: TrialConfig, data: Dataset) -> RetrievalModel:
    torch.manual_seed(0)
    return build_model(config, data)


def test_evaluation_is_in_eval_mode_and_leaves_the_model_as_it_was(data: Dataset, config: TrialConfig) -> None:
    model = untrained(config, data)
    aside = by_hand(model.eval(), data, "val")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert by_hand(model.train(), data, "val") != aside, "the batch norms must tell the modes apart"
    model.load_state_dict(before)
    assert evaluate(model, ResidentSplit(data.splits["val"], CPU)) == pytest.approx(aside, abs=2)
    assert model.training
    after = model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    evaluate(model.eval(), ResidentSplit(data.splits["val"], CPU))
    assert not model.training


def test_statistics_of_gradients_are_taken_in_eval_mode(data: Dataset, config: TrialConfig) -> None:
    model = untrained(config, data)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    split = ResidentSplit(data.splits["train"], CPU)
    loss = build_loss("nt_xent", temperature=0.1)
    measured = []
    for mode in (True, False):
        batches = epoch_batches(split, config.training, generator(0))
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
