"""Rows of feature files, read without mapping them, and copied to a device in parts."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from trainables.data import resident
from trainables.data.features import open_features, open_views, read_rows
from trainables.data.resident import copy_rows
from trainables.errors import DataError

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


def test_a_file_that_is_cut_short_while_it_is_trained_on_is_named(path: Path) -> None:
    """Through a memory map the process would be killed by SIGBUS."""
    array = open_features(path)
    os.truncate(path, path.stat().st_size - 1)
    assert read_rows(array, ROWS[:1]).shape == (1, 2, 5)
    with pytest.raises(DataError, match=r"features_global\.npy: has become shorter"):
        read_rows(array, ROWS)


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_rows_are_copied_in_parts_as_float16(path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    array = open_features(path)
    monkeypatch.setattr(resident, "COPIED_BYTES", at_once * array[0].nbytes)
    copied = copy_rows(array, ROWS, torch.device("cpu"))
    assert torch.equal(copied, torch.from_numpy(np.load(path)[ROWS]).to(torch.float16))
