"""Broken datasets on the command line: exit code 2, and each mistake named with its file and record, ten at most."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import yaml

from tests.support.commands import CommandLine

pytestmark = pytest.mark.usefixtures("own_folders")

IMAGES = 30
CAPTIONS = "dataset_photos.json"
Mutation = Callable[[Path], Any]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "photos"
    (folder / "images").mkdir(parents=True)
    records = []
    for index in range(IMAGES):
        PIL.Image.new("RGB", (40, 30), (index * 8, 80, 80)).save(folder / "images" / f"{index}.jpg")
        split = "train" if index < 20 else ("val", "test")[index % 2]
        sentences = [{"raw": f"a picture with number {index}", "imgid": index, "sentid": index}]
        records.append({"filename": f"{index}.jpg", "imgid": index, "split": split, "sentences": sentences})
    (folder / CAPTIONS).write_text(json.dumps({"dataset": "photos", "images": records}))
    np.save(folder / "features_global.npy", np.random.default_rng(0).random((IMAGES, 8), dtype=np.float32))
    return folder


PIXELS = ("training.finetune=true", "model_parameters.backbone=resnet18", "model_parameters.weights=none")
TRAIN = ("train", "--set", "dataset=photos", "--set", "training.epochs=1", "--set", "training.batch_size=16")
COMMANDS = {
    "describe": ("data", "describe", "photos", "--decode-images"),
    "train": TRAIN,
    "pixels": (*TRAIN, *(part for setting in PIXELS for part in ("--set", setting))),
    "extract": ("data", "extract", "photos", "--backbone", "resnet18", "--weights", "none", "--out"),
    "search": ("search",),
}


def run(command: str, tmp_path: Path, cli: CommandLine) -> tuple[int, str]:
    arguments = list(COMMANDS[command])
    if command == "extract":
        arguments.append(str(tmp_path / "features"))
    if command == "search":
        experiment = {"name": "bad", "datasets": ["photos"], "losses": ["nt_xent"], "search": {"trials": 1}}
        experiment["training"] = {"batch_size": 16}
        (tmp_path / "bad.yaml").write_text(yaml.safe_dump(experiment))
        arguments.append(str(tmp_path / "bad.yaml"))
    code, out, err = cli.run(*arguments)
    return code, out if command == "describe" else err


def truncate(folder: Path) -> None:
    path = folder / "images" / "3.jpg"
    path.write_bytes(path.read_bytes()[:300])


def link_out(folder: Path) -> None:
    path, outside = folder / "images" / "3.jpg", folder.parent.parent / "outside.jpg"
    path.rename(outside)
    path.symlink_to(outside)


def other_features(folder: Path) -> None:
    (folder / "features_global.json").write_text(json.dumps({"images_digest": "0123456789abcdef"}))


IMAGE_READERS = ("describe", "pixels", "extract")
FEATURE_READERS = ("describe", "train", "search")
CASES: dict[str, tuple[Mutation, str, tuple[str, ...]]] = {
    "image missing": (lambda folder: (folder / "images" / "3.jpg").unlink(), "image '3", IMAGE_READERS),
    "image truncated": (truncate, "images/3.jpg: ", IMAGE_READERS),
    "JSON broken": (
        lambda folder: (folder / CAPTIONS).write_text('{"images": ['),
        f"{CAPTIONS}: line 1, column 13: broken",
        (),
    ),
    "link out of the root": (link_out, f"{CAPTIONS}: images[3]: ", ()),
    "features of another dataset": (
        other_features,
        "features_global.npy: features of another dataset",
        FEATURE_READERS,
    ),
}
"""Fault -> message, and the commands that meet the fault; ``tests/trainables/data/test_bad_data.py`` has all faults."""


@pytest.mark.parametrize(
    ("command", "case"),
    [
        pytest.param(command, name, id=f"{name}-{command}")
        for name, (_, _, commands) in CASES.items()
        for command in commands or COMMANDS
    ],
)
def test_bad_input(photos: Path, tmp_path: Path, cli: CommandLine, command: str, case: str) -> None:
    spoil, message, _ = CASES[case]
    spoil(photos)
    code, told = run(command, tmp_path, cli)
    assert code == 2, told
    assert message in told
    assert not list((tmp_path / "runs").rglob("*.pt"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_shared_fault_is_one_line_with_a_count(photos: Path, tmp_path: Path, cli: CommandLine, command: str) -> None:
    content = json.loads((photos / CAPTIONS).read_text())
    for image in content["images"][:15]:
        image["sentences"][0]["raw"] = ""
    (photos / CAPTIONS).write_text(json.dumps(content))
    code, told = run(command, tmp_path, cli)
    assert code == 2
    assert "images[0].sentences[0]: empty caption" in told and told.count("empty caption") == 1
    assert "(and 14 more like it)" in told
