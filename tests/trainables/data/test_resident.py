"""Rows of feature files, read without mapping them, copied to a device in parts, and kept in memory where small."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from tests.benchmarks.flickr8k import generate
from trainables.data import batches
from trainables.data.batches import ResidentSplit, copy_rows
from trainables.data.features import open_features, open_views
from trainables.data.npy_files import read_rows

ROWS = np.array([3, 0, 3, 6])
VIEWS = np.array([1, 0, 0, 1])


@pytest.fixture(params=["float16", "float32"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    np.save(tmp_path / "features_global.npy", np.random.default_rng(0).random((7, 2, 5)).astype(request.param))
    return tmp_path / "features_global.npy"


def test_rows_are_those_of_the_array_mapped_or_not(path: Path) -> None:
    array = np.load(path)
    for given in (array, open_features(path)):
        assert np.array_equal(read_rows(given, ROWS), array[ROWS])
        assert read_rows(given, ROWS).dtype == array.dtype
    for given in (array, open_views(path)):
        assert np.array_equal(read_rows(given, ROWS, VIEWS), array[ROWS, VIEWS])
    assert read_rows(open_features(path), ROWS[:0]).shape == (0, 2, 5)


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_rows_are_copied_in_parts_as_float16(path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    array = open_features(path)
    monkeypatch.setattr(batches, "COPIED_BYTES", at_once * array[0].nbytes)
    copied = copy_rows(array, ROWS, torch.device("cpu"))
    assert torch.equal(copied, torch.from_numpy(np.load(path)[ROWS]).to(torch.float16))


def test_small_features_are_kept_in_memory_and_large_ones_read_from_their_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = generate({"train": len(ROWS)}).splits["train"]
    split = replace(made, features=open_features(path), views=open_views(path), image_rows=ROWS)
    size, asked = len(ROWS) * split.features[0].nbytes, torch.tensor([2, 0, 2, 1])
    found = []
    for limit in (size, size - 1):
        monkeypatch.setattr(batches, "IN_MEMORY_BYTES", limit)
        reads = Mock(wraps=read_rows)
        monkeypatch.setattr(batches, "read_rows", reads)
        placed = ResidentSplit(split, torch.device("cpu"))
        reads.reset_mock()
        found.append((placed.images(asked), placed.images(asked, draw=1), placed.images(asked, draw=2)))
        assert reads.called is (limit < size)
    for kept, read in zip(*found, strict=True):
        assert kept.dtype == read.dtype == torch.float32
        assert torch.equal(kept, read)
    assert torch.equal(found[0][0], torch.from_numpy(np.load(path)[ROWS[asked.numpy()]]).float())
