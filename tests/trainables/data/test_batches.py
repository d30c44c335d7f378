"""What a step trains on: every caption once, with its own image, and nothing else marked positive."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from tests.benchmarks.flickr8k import generate
from tests.trainables.tiny import tiny_dataset
from trainables.config import TrainingConfig
from trainables.data.batches import Batch, ResidentSplit, copy_rows, epoch_batches, order_pairs, pair_batches
from trainables.data.dataset import Split
from trainables.data.features import open_features, open_views
from trainables.data.npy_files import read_rows
from trainables.seeding import generator

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def split() -> Split:
    return tiny_dataset().splits["train"]


def batches(split: Split, **training: object) -> list[Batch]:
    return list(epoch_batches(ResidentSplit(split, CPU), TrainingConfig(**training), generator(0, "batches", 1)))


def caption(batch: Batch, column: int) -> list[int]:
    return batch.tokens[column, : batch.lengths[column]].tolist()


def captions_of(split: Split, image: int) -> list[list[int]]:
    owned = np.flatnonzero(split.image_of_caption == image)
    return [split.tokens[split.offsets[i] : split.offsets[i + 1]].tolist() for i in owned]


def image_of(split: Split, features: torch.Tensor) -> int:
    rows = split.features[split.image_rows].astype(np.float32)
    return int(np.flatnonzero((rows == features.numpy()).all(1))[0])


@pytest.fixture(scope="module")
def distinct() -> Split:
    """A split whose images and captions can all be told apart."""
    split = tiny_dataset(images=30).splits["train"]
    features = np.eye(90, dtype=np.float16)[: len(split.features)]
    return replace(split, features=features)


@pytest.mark.parametrize("buckets", [1, 4])
def test_pairs_hold_every_caption_once_with_its_image(distinct: Split, buckets: int) -> None:
    got = batches(distinct, batch_size=16, length_buckets=buckets)
    assert sorted(len(batch.lengths) for batch in got) == [6, *[16] * 9]
    rows = [(batch, row) for batch in got for row in range(len(batch.lengths))]
    seen = [(image_of(distinct, batch.images[row]), tuple(caption(batch, row))) for batch, row in rows]
    expected = [(image, tuple(words)) for image in range(30) for words in captions_of(distinct, image)]
    assert sorted(seen) == sorted(expected)
    assert all(torch.equal(batch.positives, torch.eye(len(batch.lengths), dtype=torch.bool)) for batch in got)
    for batch in got:
        behind = torch.arange(int(batch.lengths.max())) >= batch.lengths[:, None]
        assert torch.equal(batch.tokens == 0, behind), "captions are padded with zeros to the longest"
    groups = [(batch.image_groups.tolist(), batch.caption_groups.tolist()) for batch in got]
    assert all(images == captions for images, captions in groups)
    assert [image for image, _ in seen] == [image for images, _ in groups for image in images]


def test_batches_of_about_one_length_come_in_a_random_order(split: Split) -> None:
    resident = ResidentSplit(split, CPU)
    order = order_pairs(resident, 10, 1000, generator(0))
    shortest = [int(resident.lengths[part].min()) for part in order]
    longest = [int(resident.lengths[part].max()) for part in order]
    assert max(high - low for low, high in zip(shortest, longest, strict=True)) <= 1
    assert sorted(shortest) != shortest != sorted(shortest, reverse=True)


def test_a_batch_of_one_image_is_left_out(distinct: Split) -> None:
    training = TrainingConfig(batch_size=29, batches="images")
    shapes = [batch.positives.shape for batch in epoch_batches(ResidentSplit(distinct, CPU), training, generator(0))]
    assert shapes == [(29, 145)]


@pytest.mark.parametrize("training", [{"duplicates": "mask"}, {"duplicates": "negatives"}, {}], ids=str)
def test_duplicates_are_what_the_training_says(distinct: Split, training: dict[str, str]) -> None:
    """All captions in one batch: each has four others of its image, masked where nothing is said."""
    (batch,) = batches(distinct, batch_size=150, **training)
    images = torch.tensor([image_of(distinct, image) for image in batch.images])
    assert torch.equal(batch.positives, torch.eye(150, dtype=torch.bool))
    if training == {"duplicates": "negatives"}:
        assert batch.ignore is None
    else:
        assert torch.equal(batch.ignore, (images[:, None] == images) & ~batch.positives)


def test_positives_that_an_evaluation_made_first_serve_a_training(split: Split) -> None:
    resident = ResidentSplit(split, CPU)
    with torch.inference_mode():
        resident.diagonal(2)
    scores = torch.zeros(2, 2, requires_grad=True)
    torch.where(resident.diagonal(2), scores, -scores).sum().backward()


def test_a_batch_of_one_pair_is_left_out(split: Split) -> None:
    resident = ResidentSplit(split, CPU)
    order = order_pairs(resident, 299, 1, generator(0))
    assert [len(part) for part in order] == [299, 1]
    assert len(list(pair_batches(resident, order, mask_duplicates=True))) == 1


def test_images_come_once_with_their_own_captions(distinct: Split) -> None:
    got = batches(distinct, batch_size=8, batches="images")
    assert [batch.positives.shape for batch in got] == [(8, 40), (8, 40), (8, 40), (6, 30)]
    seen = []
    for batch in got:
        for row in range(len(batch.images)):
            image = image_of(distinct, batch.images[row])
            columns = batch.positives[row].nonzero().flatten().tolist()
            assert sorted(caption(batch, column) for column in columns) == sorted(captions_of(distinct, image))
            seen.append(image)
        assert (batch.positives.sum(0) == 1).all()
        assert torch.equal(batch.image_groups[:, None] == batch.caption_groups, batch.positives)
        assert batch.image_groups.tolist() == seen[-len(batch.images) :]
    assert sorted(seen) == list(range(30))


def test_an_image_with_more_captions_gives_some_drawn_anew(distinct: Split) -> None:
    resident = ResidentSplit(distinct, CPU)
    training = TrainingConfig(batch_size=30, batches="images", captions_per_image=2)
    drawn = set()
    for epoch in range(20):
        (batch,) = epoch_batches(resident, training, generator(0, "batches", epoch))
        assert batch.positives.sum(1).tolist() == [2] * 30
        row = int(batch.images[:, 0].argmax())
        drawn |= {tuple(caption(batch, column)) for column in batch.positives[row].nonzero().flatten().tolist()}
    assert drawn == {tuple(words) for words in captions_of(distinct, 0)}


ROWS = np.array([3, 0, 3, 6])


@pytest.fixture(params=["float16", "float32"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    np.save(tmp_path / "features_global.npy", np.random.default_rng(0).random((7, 2, 5)).astype(request.param))
    return tmp_path / "features_global.npy"


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_rows_are_copied_in_parts_as_float16(path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    array = open_features(path)
    monkeypatch.setattr("trainables.data.batches.COPIED_BYTES", at_once * array[0].nbytes)
    copied = copy_rows(array, ROWS, torch.device("cpu"))
    assert torch.equal(copied, torch.from_numpy(np.load(path)[ROWS]).to(torch.float16))


def test_small_features_are_kept_in_memory_and_large_ones_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = generate({"train": len(ROWS)}).splits["train"]
    split = replace(made, features=open_features(path), views=open_views(path), image_rows=ROWS)
    size, asked = len(ROWS) * split.features[0].nbytes, torch.tensor([2, 0, 2, 1])
    found = []
    for limit in (size, size - 1):
        monkeypatch.setattr("trainables.data.batches.IN_MEMORY_BYTES", limit)
        reads = Mock(wraps=read_rows)
        monkeypatch.setattr("trainables.data.batches.read_rows", reads)
        placed = ResidentSplit(split, torch.device("cpu"))
        reads.reset_mock()
        found.append(tuple(placed.request_images(asked, draw)() for draw in (None, 1, 2)))
        assert reads.called is (limit < size)
    for kept, read in zip(*found, strict=True):
        assert kept.dtype == read.dtype == torch.float32
        assert torch.equal(kept, read)
    assert torch.equal(found[0][0], torch.from_numpy(np.load(path)[ROWS[asked.numpy()]]).float())
