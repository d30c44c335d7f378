"""Crops on request: which ones, in which order, and what is said of files that are missing or broken."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from tests.trainables.data.karpathy_folder import KarpathyFolder
from trainables.config import PIXELS, TrainingConfig
from trainables.data.batches import ResidentSplit, epoch_batches
from trainables.data.dataset import Dataset, load_dataset
from trainables.data.pictures import CropReader, ImageFiles, center_crop, decode
from trainables.errors import DataError
from trainables.seeding import generator

SIZE = 16


@pytest.fixture
def folder(karpathy_folder: KarpathyFolder) -> Path:
    (karpathy_folder.folder / "images").mkdir()
    for index, image in enumerate(karpathy_folder.images):
        pixels = np.random.default_rng(index).integers(0, 256, (40, 30 + index, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels).save(karpathy_folder.folder / "images" / image["filename"], quality=95)
    return karpathy_folder.folder


@pytest.fixture
def data(folder: Path) -> Dataset:
    return load_dataset("tiny", folder.parent, features=PIXELS)


def files_of(data: Dataset, split: str = "train") -> ImageFiles:
    files = data.splits[split].files
    assert files is not None
    return files


def test_the_plain_crop_is_the_centre_of_each_image_of_the_split(folder: Path, data: Dataset) -> None:
    resident = ResidentSplit(data.splits["test"], torch.device("cpu"), SIZE)
    paths = [folder / "images" / f"picture{index}.jpg" for index in (4, 5)]
    expected = np.stack([center_crop(decode(path), SIZE) for path in paths])
    assert np.array_equal(torch.cat(list(resident.image_chunks(1))).numpy(), expected)


def test_random_crops_are_a_function_of_draw_and_image_alone(data: Dataset) -> None:
    rows = [2, 0, 1]
    first = CropReader(files_of(data), SIZE, threads=1).request(rows, 7)()
    alone = [CropReader(files_of(data), SIZE, threads=3).request([row], 7)()[0] for row in rows]
    assert np.array_equal(first, np.stack(alone))
    other = CropReader(files_of(data), SIZE, threads=1).request(rows, 8)()
    assert all(not np.array_equal(one, two) for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize("kind", ["pairs", "images"])
def test_the_next_batch_is_decoded_while_this_one_is_worked_on(
    data: Dataset, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    started = threading.Semaphore(0)
    crop = ImageFiles.crop

    def noted(self: ImageFiles, row: int, size: int, draw: int | None) -> np.ndarray:
        started.release()
        return crop(self, row, size, draw)

    monkeypatch.setattr(ImageFiles, "crop", noted)
    training = TrainingConfig(batches=kind, batch_size=2, captions_per_image=2)
    split = ResidentSplit(data.splits["train"], torch.device("cpu"), SIZE)
    batches = epoch_batches(split, training, generator(0, "batches", 1), draw=5)
    assert next(batches).images.shape == (2, SIZE, SIZE, 3)
    # Those of the first batch, and those of the one after it, which nobody has asked for yet.
    expected = 4 if kind == "pairs" else 2
    assert all(started.acquire(timeout=60) for _ in range(expected))


def test_the_digest_knows_names_and_sizes_and_not_the_place(folder: Path, data: Dataset, tmp_path: Path) -> None:
    assert data.digest != load_dataset("tiny", folder.parent, features=None).digest
    folder.parent.rename(tmp_path / "elsewhere")
    assert load_dataset("tiny", tmp_path / "elsewhere", features=PIXELS).digest == data.digest
    with (tmp_path / "elsewhere" / "tiny" / "images" / "picture3.jpg").open("ab") as file:
        file.write(b"0")
    assert load_dataset("tiny", tmp_path / "elsewhere", features=PIXELS).digest != data.digest


def test_every_missing_file_is_named_with_its_image(folder: Path) -> None:
    for index in (1, 4):
        (folder / "images" / f"picture{index}.jpg").unlink()
    with pytest.raises(DataError) as caught:
        load_dataset("tiny", folder.parent, features=PIXELS)
    assert [problem.split(": ")[1] for problem in caught.value.problems] == ["train image '1'", "test image '4'"]
    assert "'picture4.jpg'" in caught.value.problems[1]


def test_files_outside_the_data_root_are_refused_even_when_the_captions_are_prepared(
    folder: Path, data: Dataset, tmp_path: Path
) -> None:
    inside, outside = folder / "images" / "picture2.jpg", tmp_path / "outside.jpg"
    inside.rename(outside)
    inside.symlink_to(outside)
    with pytest.raises(DataError, match="'2': .*is a link that leaves the data root"):
        load_dataset("tiny", folder.parent, features=PIXELS)


def test_all_broken_images_of_a_request_are_named(folder: Path, data: Dataset) -> None:
    for index in (0, 2):
        path = folder / "images" / f"picture{index}.jpg"
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError) as caught:
        CropReader(files_of(data), SIZE, threads=2).request([0, 1, 2, 0], None)()
    assert [problem.split("image ")[1][:3] for problem in caught.value.problems] == ["'0'", "'2'"]


def test_a_split_keeps_its_files_when_it_is_cut(data: Dataset) -> None:
    part = data.splits["train"].head(2)
    resident = ResidentSplit(replace(part), torch.device("cpu"), SIZE)
    assert torch.cat(list(resident.image_chunks(8))).shape == (2, SIZE, SIZE, 3)
