"""Video clips: the caption files and splits of MSR-VTT, MSVD and TGIF, and features of frames pooled per clip."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import run_command as main
from trainables.data.dataset import load_dataset
from trainables.data.foreign_features import pick_frames
from trainables.data.source import find_source
from trainables.errors import DataError

SPLITS = {"train": ["a", "b", "c"], "val": ["d", "e"], "test": ["f", "g"]}


def sentences(clips: list[str]) -> list[tuple[str, str]]:
    """Two captions of each clip, all first ones before all second ones."""
    return [(clip, f"a {kind} clip {clip}") for kind in ("red", "blue") for clip in clips]


def write_msrvtt(folder: Path) -> None:
    for name, splits in (("train_val", ("train", "val")), ("test", ("test",))):
        clips = [(clip, split) for split in splits for clip in SPLITS[split]]
        told = {
            "videos": [{"video_id": clip, "split": {"val": "validate"}.get(split, split)} for clip, split in clips],
            "sentences": [{"video_id": c, "caption": text} for c, text in sentences([clip for clip, _ in clips])],
        }
        (folder / f"{name}_videodatainfo.json").write_text(json.dumps(told))


def write_msvd(folder: Path) -> None:
    for split, clips in SPLITS.items():
        (folder / f"{split}_list.txt").write_text("".join(f"{clip}\n" for clip in clips))
        lines = "".join(f"{clip}\t{text}\n" for clip, text in sentences(clips))
        (folder / f"sents_{split}_lc_nopunc.txt").write_text(lines)


def write_tgif(folder: Path) -> None:
    address = "https://38.media.tumblr.com/1/{}.gif"
    (folder / "splits").mkdir()
    for split, clips in SPLITS.items():
        (folder / "splits" / f"{split}.txt").write_text("".join(f"{address.format(clip)}\n" for clip in clips))
    told = sentences([*"abcdefg", "unlisted"])
    (folder / "tgif-v1.0.tsv").write_text("".join(f"{address.format(clip)}\t{text}\n" for clip, text in told))


WRITERS = {"msrvtt": write_msrvtt, "msvd": write_msvd, "tgif": write_tgif}


@pytest.fixture(params=WRITERS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "data" / str(request.param)
    folder.mkdir(parents=True)
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
    assert {split: [image.id for image in corpus.split(split)] for split in SPLITS} == SPLITS
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
                times = [(2 * part + 1) * count // 6 for part in range(3)]
                expected = [number, (count - 1) / 2] if kind == "global" else [[number, time] for time in times]
                assert split.features[row].tolist() == expected


def test_the_models_train_on_clips(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "msvd"
    folder.mkdir(parents=True)
    write_msvd(folder)
    write_frames(tmp_path / "frames")
    place = ["--data-root", str(folder.parent)]
    assert main(["data", "frames", "msvd", str(tmp_path / "frames"), *place]) == 0
    settings = {"dataset": "msvd", "training.epochs": 1, "training.batch_size": 4, "training.embedding_size": 8}
    settings |= {"model_parameters.pooling": "gpo"}
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    assert main(["train", *options, *place, "--output", str(tmp_path / "runs")]) == 0


SPOILED = {
    "split": (write_msrvtt, "test_videodatainfo.json", '"split": "test"', '"split": "x"', "videos[0]: split must be"),
    "unknown clip": (write_msrvtt, "test_videodatainfo.json", '"f", "cap', '"z", "cap', "'z' is none of videos"),
    "twice": (write_msrvtt, "test_videodatainfo.json", '"g", "split', '"a", "split', "video_id 'a' is that of"),
    "no tab": (write_msvd, "sents_val_lc_nopunc.txt", "\t", " ", "line 1: must be 'ID<tab>caption'"),
    "no caption": (write_msvd, "val_list.txt", "e\n", "q\n", "val_list.txt: line 2: image without captions"),
}


@pytest.mark.parametrize("write, name, before, after, message", SPOILED.values(), ids=SPOILED)
def test_what_is_wrong_is_named_with_its_place(write, name, before, after, message, tmp_path: Path) -> None:
    folder = tmp_path / "clips"
    folder.mkdir()
    write(folder)
    (folder / name).write_text((folder / name).read_text().replace(before, after))
    with pytest.raises(DataError) as refused:
        load_dataset("clips", tmp_path, features=None)
    assert message in "\n".join(refused.value.problems)


def test_frames_that_are_missing_or_of_another_width_are_all_named(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "msvd"
    folder.mkdir()
    write_msvd(folder)
    write_frames(tmp_path / "frames")
    (tmp_path / "frames" / "b.npy").unlink()
    np.save(tmp_path / "frames" / "c.npy", np.ones((4, 3), np.float32))
    assert main(["data", "frames", "msvd", str(tmp_path / "frames"), "--data-root", str(tmp_path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "b.npy: cannot be read" in said
    assert "c.npy: features of frames must have shape (frames, 2), got (4, 3)" in said
    assert not list(folder.glob("features_*"))


@pytest.mark.parametrize("count", [1, 3, 12])
def test_picked_frames_are_the_middles_of_equal_parts(count: int) -> None:
    for frames in range(1, 20):
        picked = pick_frames(frames, count).tolist()
        assert picked == [(2 * part + 1) * frames // (2 * count) for part in range(count)]
        assert picked == sorted(picked)
        assert 0 <= picked[0] <= picked[-1] < frames
