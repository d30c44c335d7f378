"""Features that other programs saved: rows in the dataset's order, checked, and zero-shot retrieval with them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.support.commands import run_command as main
from tests.trainables.data.folders import KarpathyFolder
from trainables.data.corpus import SPLIT_ALIASES
from trainables.data.dataset import load_dataset
from trainables.data.foreign_features import read_dump
from trainables.errors import DataError

SIZE = 4


def features(folder: KarpathyFolder, split: str = "") -> dict[str, torch.Tensor]:
    """Image n is the vector (n, 1, 0, 0), its captions are near it; of one split those of its images alone."""
    kept = [n for n, image in enumerate(folder.images) if split in ("", SPLIT_ALIASES[image["split"]])]
    images = torch.tensor([[n, 1.0, 0.0, 0.0] for n in kept])
    return {"image_features": images, "text_features": images.repeat_interleave(2, 0) + 0.25}


def write(folder: KarpathyFolder, path: Path, saved: dict) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **{name: np.asarray(value) for name, value in saved.items()})
    elif path.suffix == ".safetensors":
        save_file({name: value for name, value in saved.items() if isinstance(value, torch.Tensor)}, path)
    else:
        torch.save(saved, path)
    return path


def unpack(folder: KarpathyFolder, *paths: Path) -> int:
    return main(["data", "unpack", "tiny", *map(str, paths), "--data-root", str(folder.root)])


@pytest.fixture
def bare_folder(karpathy_folder: KarpathyFolder) -> KarpathyFolder:
    for path in karpathy_folder.folder.glob("features_*"):
        path.unlink()
    return karpathy_folder


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_one_file_of_all_splits_becomes_the_features_of_both_sides(suffix, bare_folder, tmp_path) -> None:
    saved = features(bare_folder)
    assert unpack(bare_folder, write(bare_folder, tmp_path / f"clip{suffix}", saved)) == 0
    data = load_dataset("tiny", bare_folder.root, text=True)
    for split in data.splits.values():
        expected = features(bare_folder, split.name)
        assert split.features[split.image_rows].tolist() == expected["image_features"].tolist()
        assert split.caption_features[split.caption_rows].tolist() == expected["text_features"].tolist()


def test_a_file_a_split_with_the_names_of_transformers_is_the_same(bare_folder, tmp_path) -> None:
    paths = []
    for split, named in (("train", "train"), ("val", "dev"), ("test", "test")):
        found = features(bare_folder, split)
        saved = {"image_embeds": found["image_features"].bfloat16(), "text_embeds": found["text_features"]}
        paths.append(write(bare_folder, tmp_path / f"clip-{named}.pt", {**saved, "logit_scale": torch.tensor(100.0)}))
    assert unpack(bare_folder, *paths) == 0
    whole = features(bare_folder)
    assert np.load(bare_folder.folder / "features_global.npy").tolist() == whole["image_features"].tolist()
    assert np.load(bare_folder.folder / "features_text.npy").tolist() == whole["text_features"].tolist()


def shuffled(saved: dict, folder: KarpathyFolder) -> dict:
    names = [image["filename"] for image in folder.images]
    return {**saved, "image_ids": np.array([*names[1:], names[0]])}


REFUSED = {
    "too few captions": (lambda saved, _: {**saved, "text_features": saved["text_features"][:-1]}, "11 rows of capt"),
    "no text": (lambda saved, _: {"image_features": saved["image_features"]}, "no text_features (nor text_embeds"),
    "a vector": (lambda saved, _: {**saved, "text_features": torch.zeros(12)}, "a matrix of numbers, got float32"),
    "another order": (shuffled, "the dataset has"),
    "infinity": (lambda saved, _: {**saved, "text_features": saved["text_features"] * 1e9}, "beyond those of float16"),
}


@pytest.mark.parametrize("spoil, message", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_and_leaves_nothing_that_loads(
    spoil, message, bare_folder, tmp_path, capsys
) -> None:
    path = write(bare_folder, tmp_path / "clip.npz", spoil(features(bare_folder), bare_folder))
    assert unpack(bare_folder, path) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (bare_folder.folder / "features_text.npy").exists()


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_complex_features_are_refused_in_every_form_and_lose_nothing(suffix, bare_folder, tmp_path, capsys) -> None:
    saved = features(bare_folder)
    path = write(bare_folder, tmp_path / f"clip{suffix}", {**saved, "image_features": saved["image_features"] * 1j})
    assert unpack(bare_folder, path) == 2
    message = "image_features must be a matrix of numbers, got complex64 of shape (6, 4)"
    assert message in " ".join(capsys.readouterr().err.split())
    assert list(bare_folder.folder.glob("features_*")) == []


def of_zeros(path: Path) -> None:
    np.savez_compressed(path, image_features=np.zeros((6, 12 << 20), np.float32), text_features=np.zeros((12, 4)))


def of_one_row(path: Path) -> None:
    rows = torch.ones(1, 4).expand(1 << 26, -1)
    torch.save({"image_features": rows, "text_features": torch.ones(12, 4)}, path)


@pytest.mark.parametrize(("name", "write_file"), [("clip.npz", of_zeros), ("clip.pt", of_one_row)])
def test_a_file_that_unpacks_to_many_times_its_size_is_refused_with_both_sizes(name, write_file, tmp_path) -> None:
    write_file(tmp_path / name)
    with pytest.raises(DataError, match=rf"{name}: has [\d,]+ bytes and would unpack to 3?[0-9,]{{11,}};"):
        read_dump(tmp_path / name)


def test_lists_in_place_of_arrays_and_of_ids_are_refused(bare_folder, tmp_path) -> None:
    saved, path = features(bare_folder), tmp_path / "clip.pt"
    for held, message in (
        ([1, 2], "clip.pt: must hold a dict with image_features and text_features, got list"),
        ({**saved, "image_features": [[1.0]]}, "image_features must be a matrix of numbers, got list; save it as an"),
        ({**saved, "image_features": saved["image_features"].int()}, "must be a matrix of numbers, got int32"),
        ({**saved, "image_ids": 3}, "image_ids must be a list of texts, got 3"),
    ):
        torch.save(held, path)
        with pytest.raises(DataError) as caught:
            read_dump(path)
        assert message in str(caught.value)


def test_a_file_that_would_run_code_is_refused(bare_folder, tmp_path, capsys) -> None:
    path = tmp_path / "clip.pt"
    torch.save({"image_features": Path("x")}, path)
    assert unpack(bare_folder, path) == 2
    assert "cannot be read without running code of the file" in " ".join(capsys.readouterr().err.split())
    assert unpack(bare_folder, path, path) == 2
    assert "three whose names end in train, val and test" in " ".join(capsys.readouterr().err.split())


def test_features_that_are_there_are_kept(bare_folder, tmp_path, capsys) -> None:
    path = write(bare_folder, tmp_path / "clip.npz", features(bare_folder))
    assert unpack(bare_folder, path) == 0
    assert unpack(bare_folder, path) == 2
    assert "is there already" in " ".join(capsys.readouterr().err.split())
    assert read_dump(path).image_ids == ()


def test_zero_shot_is_the_rsum_of_the_features_themselves(bare_folder, tmp_path, capsys) -> None:
    """The captions lie on their images' rays, so that every query finds its own first."""
    generator = np.random.default_rng(0)
    images = generator.normal(size=(len(bare_folder.images), SIZE)).astype(np.float32)
    saved = {"image_features": images, "text_features": images.repeat(2, 0) * 3}
    assert unpack(bare_folder, write(bare_folder, tmp_path / "clip.npz", saved)) == 0
    capsys.readouterr()
    settings = {
        "dataset": "tiny",
        "model": "head",
        "model_parameters": "{image_head: identity, caption_head: identity}",
        "training": f"{{embedding_size: {SIZE}, epochs: 1, batch_size: 2}}",
    }
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = ["train", *options, "--data-root", str(bare_folder.root), "--output", str(tmp_path / "runs"), "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["val/rsum"] == 600.0
