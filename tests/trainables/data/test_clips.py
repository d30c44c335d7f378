"""Video clips: the caption files and splits of MSR-VTT, MSVD and TGIF, and features of frames pooled per clip."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import run_command as main
from tests.trainables.data import folders
from tests.trainables.data.folders import CLIPS
from trainables.data.dataset import load_dataset
from trainables.data.source import find_source

WRITERS = {"msrvtt": folders.msrvtt, "msvd": folders.msvd, "tgif": folders.tgif}


@pytest.fixture(params=WRITERS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "data" / str(request.param)
    WRITERS[request.param](folder)
    return folder


def write_frames(frames: Path) -> None:
    """Frame t of clip n is the vector (n, t): clip n has n + 2 frames."""
    frames.mkdir()
    for number, clip in enumerate("abcdefg"):
        rows = [[number, time] for time in range(number + 2)]
        np.save(frames / f"{clip}.npy", np.array(rows, dtype=np.float32))


def test_captions_and_splits_are_those_of_the_files(folder: Path) -> None:
    corpus = find_source(folder.name, folder.parent).read()
    assert not corpus.problems
    assert [image.id for image in corpus.images] == list("abcdefg")
    assert {split: [image.id for image in corpus.split(split)] for split in CLIPS} == CLIPS
    assert corpus.images[4].captions == ("a red clip e", "a blue clip e")
    left_out = ["1 clips with captions are in no list and left out"] if folder.name == "tgif" else []
    assert list(corpus.notes) == left_out


def test_frames_become_their_mean_and_a_set_of_each_clip(folder: Path, tmp_path: Path) -> None:
    write_frames(tmp_path / "frames")
    place = ["--data-root", str(folder.parent)]
    assert main(["data", "frames", folder.name, str(tmp_path / "frames"), "--count", "3", *place]) == 0
    for kind in ("global", "regions"):
        data = load_dataset(folder.name, folder.parent, features=kind)
        for split in data.splits.values():
            for clip, row in zip(split.image_ids, split.image_rows, strict=True):
                number = "abcdefg".index(clip)
                count = number + 2
                times = [0, 1] if count == 2 else [0, round((count - 1) / 2), count - 1]
                padding = [[0, 0]] * (3 - len(times))
                shown = [[number, time] for time in times] + padding
                expected = [number, (count - 1) / 2] if kind == "global" else shown
                assert split.features[row].tolist() == expected
                if split.feature_lengths is not None:
                    assert split.feature_lengths[row] == len(times)
        assert (kind == "regions") == (data.splits["val"].feature_lengths is not None)


def test_the_models_train_on_clips(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "msvd"
    folders.msvd(folder)
    write_frames(tmp_path / "frames")
    place = ["--data-root", str(folder.parent)]
    assert main(["data", "frames", "msvd", str(tmp_path / "frames"), *place]) == 0
    settings = {"dataset": "msvd", "training.epochs": 1, "training.batch_size": 4, "training.embedding_size": 8}
    settings |= {"model_parameters.pooling": "gpo"}
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    assert main(["train", *options, *place, "--output", str(tmp_path / "runs")]) == 0


def test_frames_that_are_missing_or_of_another_width_are_all_named(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "msvd"
    folders.msvd(folder)
    write_frames(tmp_path / "frames")
    (tmp_path / "frames" / "b.npy").unlink()
    np.save(tmp_path / "frames" / "c.npy", np.ones((4, 3), np.float32))
    assert main(["data", "frames", "msvd", str(tmp_path / "frames"), "--data-root", str(tmp_path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "b.npy: cannot be read" in said
    assert "c.npy: features of frames must have shape (frames, 2), got (4, 3)" in said
    assert not list(folder.glob("features_*"))
