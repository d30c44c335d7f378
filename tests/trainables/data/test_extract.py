"""Shards, joins and problems with a fake network; the real one is in tests/trainables/models/test_backbones.py."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from trainables.data.clip_files import Frame
from trainables.data.extract import Encoder, ExtractionPlan, crops_of, extract_shards, join_shards, open_shards
from trainables.data.pictures import center_crop, decode
from trainables.errors import DataError

IMAGES, SIZE = 11, 16


@pytest.fixture
def plan(tmp_path: Path) -> ExtractionPlan:
    paths = []
    for index in range(IMAGES):
        pixels = np.random.default_rng(index).integers(0, 256, (20 + index, 30, 3), dtype=np.uint8)
        paths.append(tmp_path / f"{index}.png")
        PIL.Image.fromarray(pixels).save(paths[-1])
    places = tuple(f"captions.json: images[{index}]" for index in range(IMAGES))
    origin: dict[str, object] = {"backbone": "fake", "seed": 0}
    return ExtractionPlan(
        tmp_path / "shards", [Frame(path, 0) for path in paths], places, ("global", "regions"), 2, origin, 4, 3
    )


def fake_network(crops: np.ndarray) -> dict[str, np.ndarray]:
    assert crops.dtype == np.uint8 and crops.shape[1:] == (SIZE, SIZE, 3) and len(crops) <= 3
    cells = crops.reshape(len(crops), 2, SIZE // 2, 2, SIZE // 2, 3).mean((2, 4)).reshape(len(crops), 4, 3)
    return {"global": cells.mean(1).astype(np.float16), "regions": cells.astype(np.float16)}


def encoder(encode: Callable[[np.ndarray], dict[str, np.ndarray]] = fake_network, *, seed: int = 0) -> Encoder:
    return Encoder(crops_of(SIZE, 2, seed), encode)


def run(plan: ExtractionPlan, out: Path, *, seed: int = 0) -> list[Path]:
    out.mkdir(exist_ok=True)
    for result in extract_shards(plan, open_shards(plan), encoder(seed=seed), threads=2):
        assert not result[1]
    return join_shards(plan, out)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_rows_are_the_features_of_the_images_in_their_order(plan: ExtractionPlan, tmp_path: Path) -> None:
    run(plan, tmp_path / "out")
    found = {path.stem: np.load(path, allow_pickle=False) for path in (tmp_path / "out").glob("*.npy")}
    assert {name: (array.shape, array.dtype) for name, array in found.items()} == {
        "features_global": ((IMAGES, 3), np.float16),
        "features_regions": ((IMAGES, 4, 3), np.float16),
        "augmented_global": ((IMAGES, 2, 3), np.float16),
        "augmented_regions": ((IMAGES, 2, 4, 3), np.float16),
        "boxes": ((IMAGES, 4, 4), np.float32),
    }
    for row, frame in enumerate(plan.items):
        expected = fake_network(center_crop(decode(*frame), SIZE)[None])
        assert np.array_equal(found["features_global"][row], expected["global"][0])
        assert np.array_equal(found["features_regions"][row], expected["regions"][0])
    assert len(np.unique(found["augmented_global"].reshape(-1, 3), axis=0)) > IMAGES


@pytest.mark.parametrize("finished", [0, 1, 2, 3])
def test_stopped_and_gone_on_with_gives_the_same_bytes(plan: ExtractionPlan, tmp_path: Path, finished: int) -> None:
    run(plan, tmp_path / "whole")
    other = replace(plan, folder=tmp_path / "other_shards")
    results = extract_shards(other, open_shards(other), encoder(), threads=1)
    for _ in range(finished):
        next(results)
    results.close()
    assert open_shards(other) == list(range(finished, 3))
    run(other, tmp_path / "resumed")
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")


def test_a_shard_counts_only_when_all_its_files_are_there(plan: ExtractionPlan, tmp_path: Path) -> None:
    run(plan, tmp_path / "out")
    plan.file("global", 1).unlink()
    assert open_shards(plan) == [1]


def test_augmentations_differ_with_the_seed_and_centres_do_not(plan: ExtractionPlan, tmp_path: Path) -> None:
    run(plan, tmp_path / "a")
    run(replace(plan, folder=tmp_path / "other_shards"), tmp_path / "b", seed=1)
    a, b = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert a["features_global.npy"] == b["features_global.npy"]
    assert a["augmented_global.npy"] != b["augmented_global.npy"]


BREAKS: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "text": lambda path: path.write_bytes(b"no image at all"),
    "missing": Path.unlink,
}


@pytest.mark.parametrize("spoil", BREAKS.values(), ids=BREAKS)
def test_bad_images_are_all_named_and_spoil_their_shard_alone(
    plan: ExtractionPlan, spoil: Callable[[Path], object]
) -> None:
    for row in (4, 5, 7):
        spoil(plan.items[row].path)
    results = list(extract_shards(plan, open_shards(plan), encoder(), threads=2))
    assert [len(problems) for _, problems in results] == [0, 3, 0]
    for row, problem in zip((4, 5, 7), results[1][1], strict=True):
        assert problem.startswith(f"captions.json: images[{row}]: {plan.items[row].path}: cannot be decoded")
    assert open_shards(plan) == [1]


SHARDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "fortran": np.asfortranarray,
    "dtype": lambda block: block.astype(np.float32),
    "double": lambda block: block.astype(np.float64),
    "fewer rows": lambda block: block[:1],
    "fewer crops": lambda block: block[:, :1],
    "other size": lambda block: block[..., :2],
    "flat": lambda block: block.reshape(-1),
}


@pytest.mark.parametrize("spoil", SHARDS.values(), ids=SHARDS)
def test_a_damaged_shard_is_named(
    plan: ExtractionPlan, tmp_path: Path, spoil: Callable[[np.ndarray], np.ndarray]
) -> None:
    run(plan, tmp_path / "out")
    path = plan.file("regions", 1)
    np.save(path, spoil(np.load(path)))
    with pytest.raises(DataError, match=r"regions_00001\.npy: damaged"):
        join_shards(plan, tmp_path / "out")
    path.write_bytes(b"\x93NUMPY")
    with pytest.raises(DataError, match=r"regions_00001\.npy: damaged"):
        join_shards(plan, tmp_path / "out")


def test_numbers_that_are_none_are_refused(plan: ExtractionPlan) -> None:
    def broken(crops: np.ndarray) -> dict[str, np.ndarray]:
        return {kind: features + np.float16(np.inf) for kind, features in fake_network(crops).items()}

    open_shards(plan)
    with pytest.raises(DataError, match="NaN or infinity"):
        list(extract_shards(plan, [0], encoder(broken), threads=1))


def test_captions_are_items_too(tmp_path: Path) -> None:
    captions = [f"caption {row}" for row in range(9)]
    plan = ExtractionPlan(tmp_path / "shards", captions, captions, ("text",), 0, {"encoder": "fake"}, 4, 3)
    seen = []

    def encode(texts: np.ndarray) -> dict[str, np.ndarray]:
        seen.append(len(texts))
        return {"text": np.array([[len(text), int(text[-1])] for text in texts], np.float16)}

    prepare = Encoder(lambda caption, row: np.array([caption], dtype=object), encode)
    (tmp_path / "out").mkdir()
    assert [items for items, _ in extract_shards(plan, open_shards(plan), prepare, threads=2)] == [4, 4, 1]
    (path,) = join_shards(plan, tmp_path / "out")
    assert np.load(path)[:, 1].tolist() == list(range(9)) and path.name == "features_text.npy"
    assert seen == [3, 1, 3, 1, 1], "batches end with their shard"
