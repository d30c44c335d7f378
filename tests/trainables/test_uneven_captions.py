"""One caption for some images, nine for others: nothing assumes five, from batches to a packed model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainables.tiny import suited, tiny_dataset
from trainables.checkpoint import save_epoch
from trainables.cocos import count_contributions
from trainables.config import PIXELS, TrainingConfig, TrialConfig
from trainables.data.batches import ResidentSplit, image_batches
from trainables.data.dataset import data_notes
from trainables.errors import ConfigError
from trainables.evaluation import evaluate_checkpoint, rank_checkpoint
from trainables.fused import FusedTrials
from trainables.losses import LOSSES, build_loss
from trainables.metrics import metrics_of_ranks
from trainables.model_parameters import FEATURES
from trainables.serving.packed import write_retriever
from trainables.serving.retriever import Retriever
from trainables.trial import run_trial

COUNTS = (1, 9, 4)
"""Captions of the first, second and third image; then again."""


DATA = tiny_dataset(images=30, captions_per_image=COUNTS)
SMALL = TrainingConfig(epochs=1, batch_size=8, embedding_size=16, word_size=4, cocos_every=1)


def make_config(model: str, loss: str, batches: str) -> TrialConfig:
    return TrialConfig(dataset="tiny", model=model, loss=loss, training=replace(SMALL, batches=batches))


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_trains_and_is_counted(loss: str) -> None:
    config = make_config("head", loss, "images")
    (report,) = run_trial(config, suited(DATA, config), device="cpu")
    assert np.isfinite(report.metrics["train/loss"])
    assert report.metrics["cocos/gradient_negatives"] > 0


@pytest.mark.parametrize("model", [model for model, kind in FEATURES.items() if kind != PIXELS])
def test_every_model_trains_on_images_with_their_captions(model: str) -> None:
    config = make_config(model, "smooth_ap", "images")
    (report,) = run_trial(config, suited(DATA, config), device="cpu")
    assert 0 <= report.metrics["val/rsum"] <= 600


def test_batches_hold_the_captions_that_there_are() -> None:
    split = ResidentSplit(DATA.splits["train"], torch.device("cpu"))
    batches = list(image_batches(split, 30, 5, torch.Generator().manual_seed(0)))
    assert len(batches) == 1
    assert sorted(batches[0].positives.sum(1).tolist()) == sorted([1, 5, 4] * 10)


def test_fused_trials_are_those_of_their_own() -> None:
    configs = [replace(make_config("head", "smooth_ap", "images"), seed=seed) for seed in (0, 1)]
    data = suited(DATA, configs[0])
    together = FusedTrials("cpu")
    for config in configs:
        together.add(str(config.seed), config, data, None)
    fused = together.run_epoch(["0", "1"])
    for config in configs:
        (alone,) = run_trial(config, data, device="cpu")
        assert fused[str(config.seed)].metrics["val/rsum"] == pytest.approx(alone.metrics["val/rsum"], abs=1e-6)  # type: ignore[union-attr]


def test_published_counts_of_smooth_ap_are_of_five_captions_alone() -> None:
    positives = torch.eye(4, dtype=torch.bool).repeat_interleave(3, dim=1)
    similarity = torch.linspace(-1, 1, 48).reshape(4, 12)
    loss = build_loss("smooth_ap")
    assert count_contributions(loss, similarity, positives)
    with pytest.raises(ConfigError, match="exist for 5 captions an image, got 3 to 3; use convention 'paper'"):
        count_contributions(loss, similarity, positives, convention="published")


def test_metrics_folds_ranks_and_answers(tmp_path: Path) -> None:
    config = make_config("vsepp", "smooth_ap", "images")
    (report,) = run_trial(config, DATA, device="cpu")
    checkpoint = save_epoch(tmp_path / "run", report)
    whole, folds = (evaluate_checkpoint(checkpoint, DATA, "test", device="cpu", folds=folds) for folds in (1, 2))
    assert folds["rsum"] > whole["rsum"]
    ranked = rank_checkpoint(checkpoint, DATA, ["test"], device="cpu")["test"]
    assert ranked.metrics == whole
    owners = torch.from_numpy(ranked.ranks.image_of_caption).long()
    i2t, t2i = (torch.from_numpy(ranks).long() for ranks in (ranked.ranks.i2t, ranked.ranks.t2i))
    assert metrics_of_ranks(i2t, t2i, owners)["rsum"] == pytest.approx(whole["rsum"])
    write_retriever(tmp_path / "packed", checkpoint, DATA, "test")
    retriever = Retriever(tmp_path / "packed")
    assert [len(retriever.captions_of(image)) for image in list(DATA.splits["test"].image_ids)[:3]] == list(COUNTS)
    assert len(retriever.captions_for(DATA.splits["test"].image_ids[0], top=3)) == 3


def test_fewer_captions_than_a_batch_takes_are_said() -> None:
    training = replace(SMALL, batches="images", captions_per_image=10, scale_epochs=True)
    config = replace(make_config("vsepp", "smooth_ap", "images"), training=training)
    (note,) = data_notes(config, DATA)
    assert note.startswith("tiny: no train image has more than 9 captions")
    assert "10 times the epochs are trained; training.captions_per_image: 9" in note
    assert list(data_notes(replace(config, training=replace(training, captions_per_image=9)), DATA)) == []
