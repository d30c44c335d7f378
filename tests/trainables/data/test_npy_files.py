"""Every ``.npy`` file is read as NumPy reads it, or refused by name, by everything that reads one."""

import hashlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from trainables.data.batches import copy_rows
from trainables.data.features import inspect_features, open_features, open_views
from trainables.data.npy_files import map_array, read_rows
from trainables.errors import DataError

CPU = torch.device("cpu")
MANY = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
READ = {np.dtype("<f2"), np.dtype("<f4")}


def npy(array: np.ndarray, is_fortran: bool, version: tuple[int, int] = (1, 0), pad: int = 3, after: int = 0) -> bytes:
    described = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": is_fortran, "shape": array.shape}
    text = f"{described}{' ' * pad}\n".encode()
    size = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + text + array.tobytes("F" if is_fortran else "C") + b"\7" * after


@st.composite
def files(draw: st.DrawFn) -> tuple[np.ndarray, bool, bytes]:
    """Return an array, whether its rows are stored one by one as numbers of this machine, and the bytes of its file."""
    dtype = np.dtype(draw(st.sampled_from(["<f2", "<f4", ">f2", ">f4", "<f8", "<i4", "|u1", "<c8", "|b1", "<U2"])))
    shape, is_fortran = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)), draw(st.booleans())
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    array = np.asfortranarray(values) if is_fortran else values
    version = draw(st.sampled_from([(1, 0), (2, 0), (3, 0)]))
    content = npy(array, is_fortran, version, draw(st.integers(0, 9)), draw(st.integers(0, 9)))
    return array, dtype in READ and not (is_fortran and not array.flags.c_contiguous), content


FORTRAN = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
FORTRAN_REGIONS = np.asfortranarray(np.arange(24, dtype=np.float16).reshape(3, 2, 4))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("npy") / "features_global.npy"


READERS = {"features": (open_features, (2, 3)), "augmented": (open_views, (3, 4))}


@pytest.mark.parametrize("kind", READERS)
@MANY
@given(file=files(), seed=st.integers(0, 99))
@example(file=(FORTRAN, False, npy(FORTRAN, True)), seed=0)
@example(file=(FORTRAN_REGIONS, False, npy(FORTRAN_REGIONS, True)), seed=0)
def test_what_is_read_and_digested_is_what_numpy_reads_or_the_file_is_refused(
    path: Path, kind: str, file: tuple[np.ndarray, bool, bytes], seed: int
) -> None:
    array, is_readable, content = file
    open_array, dimensions = READERS[kind]
    path = path.with_name(f"{kind}_global.npy")
    path.write_bytes(content)
    if not is_readable or array.ndim not in dimensions:
        for refuse in (open_array, inspect_features):
            with pytest.raises(DataError, match=path.name):
                refuse(path)
        return
    random = np.random.default_rng(seed)
    wanted, mapped = np.load(path), open_array(path)
    rows = random.integers(0, len(wanted), 6)
    assert np.array_equal(mapped, wanted)
    assert np.array_equal(read_rows(mapped, rows), wanted[rows])
    assert np.array_equal(copy_rows(mapped, rows, CPU).numpy(), wanted[rows].astype(np.float16))
    if kind == "augmented":
        views = random.integers(0, wanted.shape[1], 6)
        assert np.array_equal(read_rows(mapped, rows, views), wanted[rows, views])
    # The digest that the records of older versions hold for such values.
    described = f"{array.dtype.str}{array.shape}".encode()
    assert inspect_features(path)["digest"] == hashlib.sha256(described + array.tobytes("C")).hexdigest()


PARTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "later-rows": lambda array: array[2:],
    "every-second": lambda array: array[::2],
    "backwards": lambda array: array[::-1],
    "turned": lambda array: array.transpose(2, 1, 0),
    "columns": lambda array: array[:, :, 1:],
    "reshaped": lambda array: array.reshape(5, -1),
    "other-dtype": lambda array: array.view(np.float16),
    "whole": lambda array: array[:],
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_rows_of_a_part_of_a_mapped_array_are_those_of_the_part(tmp_path: Path, part: Any) -> None:
    array = np.random.default_rng(0).random((5, 3, 4), dtype=np.float32)
    np.save(tmp_path / "a.npy", array)
    rows = np.array([1, 0, 1])
    read = read_rows(part(map_array(tmp_path / "a.npy")), rows)
    assert np.array_equal(read, part(array)[rows], equal_nan=True)


@pytest.mark.parametrize(("rows", "views"), [([5], None), ([-1], None), ([0], [3]), ([0], [-1])])
def test_no_row_outside_the_array_is_read(tmp_path: Path, rows: list[int], views: list[int] | None) -> None:
    np.save(tmp_path / "a.npy", np.ones((5, 3, 4), np.float32))
    with pytest.raises(IndexError, match=r"a\.npy: a row is outside"):
        read_rows(map_array(tmp_path / "a.npy"), np.array(rows), None if views is None else np.array(views))


def rewrite(path: Path) -> None:
    np.save(path, np.load(path) + np.float32(1))
    # The clock of the file system may not have ticked since the file was written first.
    os.utime(path, ns=(1, 1))


def replace(path: Path) -> None:
    np.save(path.with_name("new.npy"), np.load(path) + np.float32(1))
    path.with_name("new.npy").rename(path)


CHANGES: dict[str, Callable[[Path], Any]] = {
    "cut": lambda path: os.truncate(path, path.stat().st_size - 1),
    "removed": lambda path: path.unlink(),
    "rewritten": rewrite,
    "replaced": replace,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_changes_while_it_is_trained_on_is_named(tmp_path: Path, change: Any) -> None:
    """Its digest was taken before; through a memory map of a file cut short the process would be killed by SIGBUS."""
    np.save(tmp_path / "a.npy", np.ones((5, 4), np.float32))
    array = map_array(tmp_path / "a.npy")
    change(tmp_path / "a.npy")
    with pytest.raises(DataError, match=r"a\.npy: was changed or removed while it was in use"):
        read_rows(array, np.array([1]))


@MANY
@given(st.lists(st.tuples(st.integers(0, 140), st.binary(min_size=0, max_size=3)), min_size=1, max_size=3))
@example([(8, b"\0\0")])
@example([(10, b"{1:2,'a':3}")])
@example([(10, b"(" * 60)])
def test_any_damage_is_refused_by_name_or_read_as_numpy_reads_it(path: Path, damages: list[tuple[int, bytes]]) -> None:
    np.save(path, np.arange(6, dtype=np.float32).reshape(3, 2))
    content = bytearray(path.read_bytes())
    for place, data in damages:
        content[place : place + max(1, len(data))] = data
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            mapped = open_features(path)
        except DataError as error:
            assert str(path) in str(error)
            return
        assert np.array_equal(mapped, np.load(path), equal_nan=True)
        rows = np.arange(len(mapped))
        assert np.array_equal(read_rows(mapped, rows), np.load(path), equal_nan=True)
