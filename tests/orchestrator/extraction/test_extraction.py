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
import PIL.Image
import psutil
import pytest
import torch

import trainables.data.extract
from tests.support.commands import CommandLine
from tests.support.photos import IMAGES, contents
from tests.support.videos import CODECS, write_video
from tests.support.waiting import wait_until
from tests.trainables.data import folders
from trainables.data.dataset import load_dataset
from trainables.data.features import images_digest
from trainables.data.pictures import center_crop, decode
from trainables.data.source import find_source
from trainables.data.videos import decode_video
from trainables.models.backbones import build_backbone, make_encoder

pytestmark = pytest.mark.usefixtures("own_folders")

NETWORK = ("--backbone", "resnet18", "--weights", "none", "--shard-size", "2")
EXTRACT = ("data", "extract", "photos", *NETWORK)


def test_features_are_extracted_and_loaded(photos: Path, cli: CommandLine) -> None:
    told = cli.json(*EXTRACT, "--features", "both", "--augmentations", 1)
    names = ("features_global", "augmented_global", "features_regions", "augmented_regions")
    files = [str(photos / f"{name}.npy") for name in (*names[:3], "boxes", names[3])]
    assert told == {"files": files, "images": 12, "extracted": 12}
    boxes = np.load(photos / "boxes.npy")
    assert boxes.shape == (12, 49, 4)
    np.testing.assert_allclose(boxes[3, 8], np.array([1, 1, 2, 2]) / 7, atol=1e-6)
    shapes = [np.load(photos / f"{name}.npy", mmap_mode="r").shape for name in names]
    assert shapes == [(12, 512), (12, 1, 512), (12, 49, 512), (12, 1, 49, 512)]
    for kind in ("global", "regions"):
        data = load_dataset("photos", photos.parent, features=kind)
        assert [len(split.image_rows) for split in data.splits.values()] == [8, 2, 2]
    origin = json.loads((photos / "features_global.json").read_text())
    images = find_source("photos", photos.parent).read().images
    assert origin["images_digest"] == images_digest(images) and origin["backbone"] == "resnet18"
    assert not [path for path in photos.iterdir() if path.name.startswith(".")]


def write_clip(path: Path, colours: list[int]) -> None:
    """Write a picture that moves, or a folder of pictures, of one grey in each frame."""
    frames = [PIL.Image.new("RGB", (32, 24), (grey, grey, grey)) for grey in colours]
    if path.suffix:
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=100, loop=0, lossless=True)
        return
    path.mkdir()
    for number, frame in enumerate(frames):
        frame.save(path / f"{number:04d}.png")


def test_frames_of_clips_are_features_like_pictures(tmp_path: Path, cli: CommandLine) -> None:
    folder = tmp_path / "data" / "films"
    folders.tgif(folder)
    (folder / "clips").mkdir()
    greys = {clip: [10 * number, 200, 100, 60][: 1 + number % 4] for number, clip in enumerate("abcdefg")}
    suffixes = (".gif", ".webp", "", ".png", ".gif", ".webp", "")
    for (clip, colours), suffix in zip(greys.items(), suffixes, strict=True):
        write_clip(folder / "clips" / f"{clip}{suffix}", colours)
    arguments = ("data", "extract", "films", *NETWORK, "--frames", "3")
    told = cli.json(*arguments)
    counts = [min(3, len(colours)) for colours in greys.values()]
    assert (told["frames"], told["extracted"]) == (sum(counts), sum(counts))
    assert [Path(path).name for path in told["files"] if path.endswith(".npy")] == [
        "features_global.npy",
        "features_regions.npy",
        "region_lengths.npy",
    ]
    assert np.load(folder / "region_lengths.npy").tolist() == counts
    frames, means = np.load(folder / "features_regions.npy"), np.load(folder / "features_global.npy")
    # The clip d has four frames, of which the first, the third and the last are kept, as a still picture would be.
    still = folder / "still.png"
    PIL.Image.new("RGB", (32, 24), (100, 100, 100)).save(still)
    encode = make_encoder(build_backbone("resnet18", "none", seed=0), ("global",), torch.device("cpu"))
    alone = encode(center_crop(decode(still), 224)[None])["global"][0]
    row = [image.id for image in find_source("films", folder.parent).read().images].index("d")
    np.testing.assert_allclose(frames[row, 1], alone, atol=2e-3)
    np.testing.assert_allclose(means[row], frames[row].astype(np.float32).mean(0), atol=2e-3)
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    refused = cli.refuses("data", "extract", "films", *NETWORK, "--out", tmp_path / "other", "--augmentations", 1)
    assert "--augmentations" in refused
    (folder / "clips" / "a.gif").unlink()
    assert "clip 'a' is neither" in cli.refuses("data", "extract", "films", *NETWORK, "--out", tmp_path / "other")


def test_videos_are_extracted_like_moving_pictures(tmp_path: Path, cli: CommandLine) -> None:
    pytest.importorskip("av", reason="the extra video is not installed")
    folder = tmp_path / "data" / "films"
    folders.tgif(folder)
    (folder / "clips").mkdir()
    for clip, suffix in zip("abcdefg", (*CODECS, ".mp4", ".gif"), strict=True):
        path = folder / "clips" / f"{clip}{suffix}"
        if suffix == ".gif":
            write_clip(path, [10, 200])
        else:
            write_video(path, [(40 * number, 90, 200 - 30 * number) for number in range(6)])
    arguments = ("data", "extract", "films", *NETWORK, "--frames", "4")
    assert cli.json(*arguments)["frames"] == 6 * 4 + 2
    assert np.load(folder / "region_lengths.npy").tolist() == [4] * 6 + [2]
    frames = np.load(folder / "features_regions.npy").astype(np.float32)
    encode = make_encoder(build_backbone("resnet18", "none", seed=0), ("global",), torch.device("cpu"))
    for number, frame in ((1, 2), (3, 5)):
        alone = encode(center_crop(decode_video(folder / "clips" / "a.mp4", frame), 224)[None])["global"][0]
        np.testing.assert_allclose(frames[0, number], alone, atol=2e-3)
    (folder / "clips" / "b.mkv").write_bytes(b"no video")
    (folder / "clips" / "c.webm").write_bytes((folder / "clips" / "c.webm").read_bytes()[:400])
    refused = cli.refuses(*arguments, "--out", tmp_path / "other")
    assert "b.mkv: cannot be decoded" in refused and "c.webm: cannot be decoded" in refused
    assert not (tmp_path / "other").exists()


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
