"""The hand-made datasets of ``folders`` in the test's folder, and a cache that is gone after the test."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from tests.trainables.data import folders
from tests.trainables.data.folders import KarpathyFolder


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def karpathy_folder(tmp_path: Path) -> KarpathyFolder:
    return folders.karpathy(tmp_path / "data" / "tiny")


@pytest.fixture
def make_coco_folder(tmp_path: Path) -> Callable[..., Path]:
    return partial(folders.coco, tmp_path / "data" / "coco")


@pytest.fixture
def coco_folder(make_coco_folder: Callable[..., Path]) -> Path:
    return make_coco_folder()


@pytest.fixture
def flickr_folder(tmp_path: Path) -> Path:
    return folders.flickr(tmp_path / "data" / "Flickr8k")


@pytest.fixture
def make_precomputed_folder(tmp_path: Path) -> Callable[..., Path]:
    return partial(folders.precomputed, tmp_path / "data" / "f8k_precomp")


@pytest.fixture
def write_pictures() -> Callable[..., None]:
    def write(folder: Path, names: list[str]) -> None:
        folder.mkdir(exist_ok=True)
        for name in names:
            Image.new("RGB", (8, 8), "red").save(folder / name)

    return write
