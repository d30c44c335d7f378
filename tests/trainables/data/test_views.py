"""Augmented features: found beside the plain ones, part of the digest, trained on and never evaluated on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainables.data.folders import KarpathyFolder
from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.config import TrainingConfig
from trainables.data.batches import ResidentSplit, epoch_batches
from trainables.data.dataset import Dataset, load_dataset
from trainables.seeding import generator
from trainables.trial import Trial, run_trial

CPU = torch.device("cpu")
VIEWS = 3


@pytest.fixture
def folder(karpathy_folder: KarpathyFolder) -> Path:
    """View v of row r is r + v / 10 everywhere."""
    rows = np.arange(6, dtype=np.float32)[:, None] + np.arange(VIEWS, dtype=np.float32) / 10
    np.save(karpathy_folder.folder / "augmented_global.npy", np.repeat(rows[..., None], 4, axis=2))
    return karpathy_folder.folder


@pytest.fixture
def data(folder: Path) -> Dataset:
    return load_dataset("tiny", folder.parent)


def seen(data: Dataset, draw: int | None, batches: str = "pairs") -> dict[int, set[int]]:
    """Return the views of each train image that an epoch shows; -1 is the plain one."""
    split = ResidentSplit(data.splits["train"], CPU)
    training = TrainingConfig(batches=batches, batch_size=2, captions_per_image=2)
    plain = data.splits["train"].features[data.splits["train"].image_rows]
    found: dict[int, set[int]] = {}
    for batch in epoch_batches(split, training, generator(0, "batches", 1), draw):
        for image in batch.images.numpy():
            same = np.flatnonzero((plain == image).all(1))
            row, view = (int(same[0]), -1) if len(same) else (int(image[0]), round(float(image[0] % 1) * 10))
            found.setdefault(row, set()).add(view)
    return found


def test_views_are_mapped_beside_the_features_and_part_of_the_digest(folder: Path, data: Dataset) -> None:
    assert {name: split.views.shape for name, split in data.splits.items() if split.views is not None} == dict.fromkeys(
        data.splits, (6, VIEWS, 4)
    )
    np.save(folder / "augmented_global.npy", np.ones((6, 1, 4), np.float16))
    other = load_dataset("tiny", folder.parent).digest
    (folder / "augmented_global.npy").unlink()
    assert len({data.digest, other, load_dataset("tiny", folder.parent).digest}) == 3


@pytest.mark.parametrize("batches", ["pairs", "images"])
def test_an_epoch_shows_one_view_of_an_image_and_another_epoch_another(data: Dataset, batches: str) -> None:
    epochs = [seen(data, draw, batches) for draw in range(20)]
    assert all(len(views) == 1 for epoch in epochs for views in epoch.values())
    for row in (0, 1):
        assert {view for epoch in epochs for view in epoch.get(row, ())} == set(range(VIEWS))
    assert seen(data, 3, batches) == epochs[3]


def test_without_a_draw_the_plain_features_are_seen(data: Dataset) -> None:
    assert set().union(*seen(data, None).values()) == {-1}
    chunk = next(ResidentSplit(data.splits["val"], CPU).image_chunks(8))
    assert np.array_equal(chunk.numpy(), data.splits["val"].features[data.splits["val"].image_rows])


def with_views(data: Dataset, scale: float) -> Dataset:
    features = data.splits["train"].features
    views = (features[:, None] * np.array([1, scale], dtype=np.float16)[:, None]).astype(np.float16)
    return replace(data, splits={name: replace(split, views=views) for name, split in data.splits.items()})


def test_a_trial_trains_on_views_unless_told_not_to_and_evaluates_without() -> None:
    plain = tiny_dataset()

    def metrics(data: Dataset, **training: Any) -> dict[str, float]:
        return next(run_trial(tiny_config(epochs=1, **training), data, device="cpu")).metrics

    first, again = (metrics(with_views(plain, 0.1)) for _ in range(2))
    assert first["train/loss"] == again["train/loss"] != metrics(plain)["train/loss"]
    without = metrics(with_views(plain, 0.1), augment=False)
    assert (without["train/loss"], without["val/rsum"]) == (metrics(plain)["train/loss"], metrics(plain)["val/rsum"])


def test_each_epoch_of_a_trial_draws_views_anew_and_each_trial_of_a_seed_the_same() -> None:
    data = with_views(tiny_dataset(), 0.1)

    def views(trial: Trial) -> list[bool]:
        """Whether each image, in the order of the split, shows its faint view in the epoch that has begun."""
        images = {}
        for batch in trial.batches():
            for image in batch.images:
                images[tuple((image > 0).tolist())] = float(image.max()) < 0.1
        return [images[key] for key in sorted(images)]

    first, other = (Trial(tiny_config(seed=seed, epochs=4), data, CPU) for seed in (0, 1))
    epochs = []
    for trial in (first, other):
        for _ in range(3):
            trial.begin_epoch()
            epochs.append(tuple(views(trial)))
    assert len(set(epochs)) == 6, "three epochs of two seeds"
    again = Trial(tiny_config(epochs=4), data, CPU)
    again.begin_epoch()
    assert tuple(views(again)) == epochs[0]
