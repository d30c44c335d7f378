import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

import trainables.data.extract
from tests.support.commands import CommandLine
from tests.support.photos import IMAGES, contents
from tests.support.waiting import wait_until
from trainables.data.dataset import load_dataset
from trainables.data.features import images_digest
from trainables.data.source import find_source

pytestmark = pytest.mark.usefixtures("own_folders")

NETWORK = ("--backbone", "resnet18", "--weights", "none", "--shard-size", "2")
EXTRACT = ("data", "extract", "photos", *NETWORK)


def test_features_are_extracted_and_loaded(photos: Path, cli: CommandLine) -> None:
    told = cli.json(*EXTRACT, "--features", "both", "--augmentations", 1)
    names = ("features_global", "augmented_global", "features_regions", "augmented_regions")
    assert told == {"files": [str(photos / f"{name}.npy") for name in names], "images": 12, "extracted": 12}
    shapes = [np.load(path, mmap_mode="r").shape for path in told["files"]]
    assert shapes == [(12, 512), (12, 1, 512), (12, 49, 512), (12, 1, 49, 512)]
    for kind in ("global", "regions"):
        data = load_dataset("photos", photos.parent, features=kind)
        assert [len(split.image_rows) for split in data.splits.values()] == [8, 2, 2]
    origin = json.loads((photos / "features_global.json").read_text())
    images = find_source("photos", photos.parent).read().images
    assert origin["images_digest"] == images_digest(images) and origin["backbone"] == "resnet18"
    assert not [path for path in photos.iterdir() if path.name.startswith(".")]


HANGING = """
import time
from orchestrator.cli import main
from ray import cloudpickle
from trainables.data import extract

extract_shard = extract._extract_shard

def extract_or_hang(plan, shard, crops, encode):
    if shard >= 4:
        time.sleep(3600)
    return extract_shard(plan, shard, crops, encode)

extract._extract_shard = extract_or_hang
# Ray's workers get the module as it is here.
cloudpickle.register_pickle_by_value(extract)
main()
"""
"""The command line in a process that hangs before the last shards, however fast it is."""


@pytest.mark.proof
@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.proof)])
def test_killed_halfway_and_resumed_gives_the_same_bytes(
    photos: Path, tmp_path: Path, cli: CommandLine, workers: str
) -> None:
    arguments = (*EXTRACT, "--features", "both", "--augmentations", "3", "--workers", workers, "--out")
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-c", HANGING, *arguments, str(killed)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    # Of a shard, the regions are written last.
    shards = killed / ".extract"
    wait_until(lambda: len(list(shards.glob("regions_*.npy"))) >= 2 or process.poll() is not None)
    kill_with_workers(process)
    there = len(list(shards.glob("regions_*.npy")))
    assert 2 <= there < 6 and not (killed / "features_global.npy").exists()
    scratch = Path(json.loads((shards / "lock").read_text())["scratch"])
    assert scratch.is_dir()
    assert cli.json(*arguments, killed)["extracted"] == IMAGES - 2 * there
    assert not scratch.exists()
    cli.shows(*arguments, whole)
    assert contents(killed) == contents(whole)


def kill_with_workers(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and all that it has started at once, as a power cut would."""
    started = psutil.Process(process.pid).children(recursive=True)
    for pid in (process.pid, *(child.pid for child in started)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    # One that is about to write a shard may write it yet.
    assert psutil.wait_procs(started, timeout=120)[1] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_the_finished_shards_and_says_so(
    photos: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    # A shell that starts tests in the background has SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    finished = trainables.data.extract.extract_shards

    def one_shard(*arguments: Any) -> Iterator[Any]:
        yield next(iter(finished(*arguments)))
        os.kill(os.getpid(), number)

    try:
        with monkeypatch.context() as patched:
            patched.setattr("orchestrator.extraction.extraction.extract_shards", one_shard)
            told = cli.refuses(*EXTRACT, code=130)
    finally:
        signal.signal(signal.SIGINT, before)
    assert f"interrupted: {photos}: finished shards are kept: resume with the same command" in told
    assert cli.json(*EXTRACT)["extracted"] == IMAGES - 2


@pytest.mark.usefixtures("photos")
def test_one_split_alone(tmp_path: Path, cli: CommandLine) -> None:
    cli.shows(*EXTRACT, "--split", "test", "--out", tmp_path / "out")
    assert np.load(tmp_path / "out" / "features_global.npy").shape == (2, 512)


def test_missing_images_are_one_line_with_a_count(photos: Path, cli: CommandLine) -> None:
    for path in (photos / "images").iterdir():
        path.unlink()
    said = cli.refuses(*EXTRACT)
    assert f"dataset_photos.json: images[0]: image '0.jpg' is missing from {photos}" in said
    assert "images[1]" not in said and "(and 11 more like it)" in said


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.proof)])
def test_truncated_images_are_named_and_the_rest_is_kept(photos: Path, cli: CommandLine, workers: str) -> None:
    paths = [photos / "images" / f"{index}.jpg" for index in (3, 8)]
    whole = [path.read_bytes() for path in paths]
    for path, data in zip(paths, whole, strict=True):
        path.write_bytes(data[: len(data) // 2])
    said = cli.refuses(*EXTRACT, "--workers", workers)
    assert all(f"images[{index}]: {path}: cannot be decoded" in said for index, path in zip((3, 8), paths, strict=True))
    for path, data in zip(paths, whole, strict=True):
        path.write_bytes(data)
    assert cli.json(*EXTRACT, "--workers", workers)["extracted"] == 4


def test_an_image_outside_the_data_root_is_refused(photos: Path, tmp_path: Path, cli: CommandLine) -> None:
    inside, outside = photos / "images" / "4.jpg", tmp_path / "outside.jpg"
    inside.rename(outside)
    inside.symlink_to(outside)
    assert "leaves the data root" in cli.refuses(*EXTRACT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("photo",), "photos"),
        (("photos", "--backbone", "resnet-50"), "nearest: resnet50"),
        (("photos", "--weights", "nowhere.pt"), "there is no file nowhere.pt"),
        (("photos", "--features", "local"), "--features must be one of global, regions, both, got 'local'"),
        (("photos", "--split", "dev"), "--split must be one of train, val, test, got 'dev'"),
        (("photos", "--augmentations", "-1"), "--augmentations must be at least 0, got -1"),
        (("photos", "--shard-size", "0"), "--shard-size must be at least 1, got 0"),
        (("photos", "--workers", "0"), "--workers must be at least 1, got 0"),
        (("photos", "--out", "/proc/nowhere"), "name another folder with --out"),
    ],
)
@pytest.mark.usefixtures("photos")
def test_bad_usage_is_refused(cli: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    said = cli.refuses("data", "extract", *arguments)
    assert said.startswith("error: ") and message in said


@pytest.mark.usefixtures("photos")
def test_weights_of_another_architecture_are_refused(tmp_path: Path, cli: CommandLine) -> None:
    torch.save({"features.0.weight": torch.zeros(3)}, tmp_path / "weights.pt")
    assert "not the weights of a resnet18" in cli.refuses(*EXTRACT, "--weights", tmp_path / "weights.pt")


def test_features_put_beside_an_unfinished_extraction_are_not_overwritten(photos: Path, cli: CommandLine) -> None:
    (photos / ".extract").mkdir()
    others = (("augmented_global.npy", ["--augmentations", "2"]), ("features_global.npy", ["--seed", "1"]))
    for name, options in others:
        (photos / name).write_bytes(b"mine")
        assert f"{name}: is there already" in cli.refuses(*EXTRACT, *options)
        assert (photos / name).read_bytes() == b"mine"
    # What the killed extraction itself had joined is written again.
    (photos / ".extract" / "features_global.npy.joined").touch()
    cli.shows(*EXTRACT)
    whole = (photos / "features_global.npy").read_bytes()
    assert whole != b"mine" and "is there already" in cli.refuses(*EXTRACT, "--seed", 1)
    assert (photos / "features_global.npy").read_bytes() == whole


def test_an_unfinished_extraction_with_other_options_is_refused(photos: Path, cli: CommandLine) -> None:
    (photos / "images" / "0.jpg").write_bytes(b"")
    cli.refuses(*EXTRACT)
    assert "an unfinished extraction with another seed, weights_digest" in cli.refuses(*EXTRACT, "--seed", 1)
