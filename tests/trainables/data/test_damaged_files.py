"""Damaged files: every reader of a dataset, of features and of other programs' files refuses them by name, or reads.

Each seed is one damaged folder or file, the same on every machine. `make proof` tries ten times as many.
"""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from tests.trainables.data import folders
from tests.trainables.data.damage import damage_folder, damaged
from trainables.data.dataset import load_dataset
from trainables.data.foreign_features import read_dump
from trainables.data.source import FORMATS, find_source
from trainables.data.text_features import TfidfSvd, read_extractor
from trainables.dataset_description import describe_dataset
from trainables.errors import UserError
from trainables.ranks import Ranks, read_ranks, write_ranks

CASES = 20
"""Damaged folders or files of each form that a property names; `make test` tries half of them."""


FORMS = [form for form in folders.FORMS if form not in ("karpathy", "views", "text")]
"""The other forms; one of these three has the files of all."""


@contextmanager
def folder_of(form: str) -> Iterator[Path]:
    """Give a data root with an undamaged dataset ``tiny``."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "data" / "tiny"
        folders.FORMS[form](folder)
        yield folder.parent


def read_folder(root: Path) -> None:
    """Read a dataset in both ways: as a description of its problems, and for a training."""
    described = describe_dataset("tiny", root)
    assert all(str(root) in problem for problem in described.problems), described.problems
    try:
        kinds = find_source("tiny", root).feature_kinds()
        of_images = next((kind for kind in kinds if kind != "text"), None)
        load_dataset("tiny", root, features=of_images, text="text" in kinds)
    except UserError as error:
        if described.problems:
            assert str(root) in str(error)


def test_every_form_of_data_is_damaged_here() -> None:
    found = set()
    for form in FORMS:
        with folder_of(form) as root:
            assert describe_dataset("tiny", root).problems == []
            found.add(find_source("tiny", root).format)
    assert found == set(FORMATS)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=CASES, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_damaged_dataset_is_read_or_refused_by_name(form: str, seed: int) -> None:
    with folder_of(form) as root:
        damage_folder(root / "tiny", Random(seed))
        try:
            read_folder(root)
        except UserError as error:
            assert str(root) in str(error), error


def dump() -> dict[str, torch.Tensor]:
    return {"image_features": torch.ones(6, 4), "text_features": torch.ones(12, 3)}


def write_npz(path: Path) -> None:
    np.savez_compressed(path, **{name: value.numpy() for name, value in dump().items()}, image_ids=np.arange(6))


def write_few_ranks(path: Path) -> None:
    ranks = np.array([1, 2, 1, 3], np.int32)
    write_ranks(path, Ranks(ranks, ranks, np.array([0, 0, 1, 1], np.int32), "ab", "test", ("a", "b")))


def write_extractor(path: Path) -> None:
    path.write_bytes(TfidfSvd(("a", "dog"), np.ones(2, np.float32), np.ones((2, 3), np.float32)).to_bytes())


READERS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "dump.npz": (write_npz, read_dump),
    "dump.pt": (lambda path: torch.save({**dump(), "logit_scale": torch.tensor(1.0)}, path), read_dump),
    "dump.safetensors": (lambda path: save_file(dump(), path), read_dump),
    "ranks.npz": (write_few_ranks, read_ranks),
    "extractor.safetensors": (write_extractor, lambda path: read_extractor(path).transform(["a dog", "x"])),
}
"""Name of a file -> what writes an undamaged one, and its reader."""


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=3 * CASES, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_damaged_file_is_read_or_refused_by_name(name: str, seed: int) -> None:
    write, read = READERS[name]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # torch and NumPy warn of some damages before they raise.
        warnings.simplefilter("ignore")
        path = Path(folder) / name
        write(path)
        path.write_bytes(damaged(path.read_bytes(), path.suffix, Random(seed)))
        try:
            read(path)
        except UserError as error:
            assert str(path) in str(error), error
