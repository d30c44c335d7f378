"""Small hand-made datasets, one a format, and a cache that is gone after the test."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.trainables.data.karpathy_folder import KarpathyFolder

SPLITS = ("train", "train", "restval", "val", "test", "test")


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def karpathy_folder(tmp_path: Path) -> KarpathyFolder:
    images = [
        {
            "filename": f"picture{index}.jpg",
            "imgid": index,
            "split": split,
            "sentids": [2 * index, 2 * index + 1],
            "sentences": [
                {"raw": f"A dog number {word} runs .", "imgid": index, "sentid": 2 * index},
                {"raw": f"The dog's {word}", "imgid": index, "sentid": 2 * index + 1},
            ],
        }
        for index, (split, word) in enumerate(zip(SPLITS, ["one", "two", "three", "four", "five", "six"], strict=True))
    ]
    made = KarpathyFolder(tmp_path / "data", {"dataset": "tiny", "images": images})
    made.folder.mkdir(parents=True)
    made.save()
    np.save(made.folder / "features_global.npy", np.arange(24, dtype=np.float16).reshape(6, 4))
    np.save(made.folder / "features_regions.npy", np.arange(36, dtype=np.float32).reshape(6, 2, 3))
    return made


@pytest.fixture
def make_coco_folder(tmp_path: Path) -> Callable[..., Path]:
    """Twelve images of three captions, eight of them official train; ``split=True`` adds a Karpathy JSON."""

    def make(*, split: bool = True) -> Path:
        folder = tmp_path / "data" / "coco"
        (folder / "annotations").mkdir(parents=True)
        for name, ids in {"train2014": range(100, 108), "val2014": range(200, 204)}.items():
            images = [{"id": key, "file_name": f"COCO_{name}_{key:012d}.jpg"} for key in ids]
            annotations = [
                {"id": 10 * key + number, "image_id": key, "caption": f"caption {number} of image {key}"}
                for number in range(3)
                for key in ids
            ]
            content = {"info": {}, "images": images, "annotations": annotations}
            (folder / "annotations" / f"captions_{name}.json").write_text(json.dumps(content))
        if split:
            splits = {
                200: "val",
                201: "test",
                202: "restval",
                **dict.fromkeys(range(107, 99, -1), "train"),
                203: "test",
            }
            listed = [
                {"cocoid": key, "filename": f"{key}.jpg", "filepath": "val2014", "split": name, "sentences": []}
                for key, name in splits.items()
            ]
            (folder / "dataset_coco.json").write_text(json.dumps({"images": listed}))
        np.save(folder / "features_global.npy", np.arange(24, dtype=np.float32).reshape(12, 2))
        return folder

    return make


@pytest.fixture
def coco_folder(make_coco_folder: Callable[..., Path]) -> Path:
    return make_coco_folder()


@pytest.fixture
def flickr_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "Flickr8k"
    folder.mkdir(parents=True)
    lines = [f"{name}.jpg#{number}\tcaption {number} of {name}" for name in "abcde" for number in (1, 0, 2)]
    (folder / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")
    (folder / "Flickr8k.lemma.token.txt").write_text("not read\n")
    for split, names in {"train": "db", "dev": "a", "test": "e"}.items():
        (folder / f"Flickr_8k.{split}Images.txt").write_text("".join(f"{name}.jpg\n" for name in names))
    np.save(folder / "features_global.npy", np.arange(8, dtype=np.float32).reshape(4, 2))
    return folder


@pytest.fixture
def make_precomputed_folder(tmp_path: Path) -> Callable[..., Path]:
    """Three train, two val and one test image of ``each`` captions; ``repeated`` splits have a row a caption."""

    def make(*, repeated: tuple[str, ...] = (), regions: bool = False, each: int = 5) -> Path:
        folder = tmp_path / "data" / "f8k_precomp"
        folder.mkdir(parents=True)
        for split, count in {"train": 3, "dev": 2, "test": 1}.items():
            captions = [f"{split} image {image} caption {number}" for image in range(count) for number in range(each)]
            (folder / f"{split}_caps.txt").write_text("\n".join(captions) + "\n")
            rows = np.arange(count, dtype=np.float32)[:, None] * np.ones(4, dtype=np.float32)
            rows = rows.reshape(count, 2, 2) if regions else rows
            np.save(folder / f"{split}_ims.npy", rows.repeat(each, axis=0) if split in repeated else rows)
        return folder

    return make


@pytest.fixture
def write_pictures() -> Callable[..., None]:
    def write(folder: Path, names: list[str]) -> None:
        folder.mkdir(exist_ok=True)
        for name in names:
            Image.new("RGB", (8, 8), "red").save(folder / name)

    return write
