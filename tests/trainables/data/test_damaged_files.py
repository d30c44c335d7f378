"""Damaged files: every reader of a dataset, of features and of other programs' files refuses them by name, or reads.

Each seed is one damaged folder or file, the same on every machine. `make proof` tries ten times as many.
"""

import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyarrow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from safetensors.torch import save_file

from tests.trainables.data.damage import damage_folder, damaged
from tests.trainables.data.test_clips import write_msrvtt, write_msvd, write_tgif
from trainables.data.corpus import SPLITS
from trainables.data.dataset import load_dataset
from trainables.data.foreign_features import read_dump
from trainables.data.source import FORMATS, find_source
from trainables.data.text_features import TfidfSvd, read_extractor
from trainables.dataset_description import describe
from trainables.errors import UserError
from trainables.ranks import Ranks, read_ranks, write_ranks

IMAGES = [("train", 0), ("train", 1), ("restval", 2), ("val", 3), ("test", 4), ("test", 5)]
CASES = 20
"""Damaged folders or files of each form that a property names; `make test` tries half of them."""


def write_features(folder: Path, images: int, captions: int) -> None:
    np.save(folder / "features_global.npy", np.arange(images * 4, dtype=np.float32).reshape(images, 4))
    save_file({"features": torch.ones(captions, 3)}, folder / "features_text.safetensors")


def karpathy(folder: Path, name: str = "tiny") -> None:
    images = [
        {
            "filename": f"{number}.jpg",
            "imgid": number,
            "cocoid": number,
            "split": split,
            "sentences": [{"raw": f"a dog {number} {k}", "imgid": number, "sentid": 2 * number + k} for k in (0, 1)],
        }
        for split, number in IMAGES
    ]
    (folder / f"dataset_{name}.json").write_text(json.dumps({"images": images}))
    write_features(folder, 6, 12)
    about = {"weights_digest": "ab", "captions_digest": None}
    (folder / "features_text.json").write_text(json.dumps(about))
    (folder / "features_global_ids.txt").write_text("".join(f"{number}\n" for number in range(6)))
    np.save(folder / "augmented_global.npy", np.ones((6, 2, 4), np.float32))
    (folder / "ExpertAnnotations.txt").write_text("4.jpg\t5.jpg#1\t3\t3\t1\n5.jpg\t4.jpg#1\t1\t1\t1\n")
    (folder / "CrowdFlowerAnnotations.txt").write_text("5.jpg\t4.jpg#1\t0.67\t2\t1\n")
    (folder / "eccv_image_to_caption.json").write_text(json.dumps({"4": [8, 9, 10], "5": [11]}))
    (folder / "eccv_caption_to_image.json").write_text(json.dumps({"8": [4, 5], "10": [5]}))


def coco(folder: Path) -> None:
    (folder / "annotations").mkdir()
    for name, ids in {"train2014": range(4), "val2014": range(4, 8)}.items():
        images = [{"id": key, "file_name": f"{key}.jpg"} for key in ids]
        captions = [{"id": 10 * key + k, "image_id": key, "caption": f"a dog {key} {k}"} for key in ids for k in (0, 1)]
        content = json.dumps({"images": images, "annotations": captions})
        (folder / "annotations" / f"captions_{name}.json").write_text(content)
    write_features(folder, 8, 16)


def coco_with_splits(folder: Path) -> None:
    coco(folder)
    (folder / "features_text.safetensors").unlink()
    karpathy(folder, "coco")


def flickr(folder: Path) -> None:
    lines = [f"{name}.jpg#{number}\ta dog {number} of {name}\n" for name in "abcd" for number in (1, 0)]
    (folder / "results.token").write_text("".join(lines))
    for split, names in {"train": "ab", "val": "c", "test": "d"}.items():
        (folder / f"{split}.txt").write_text("".join(f"{name}.jpg\n" for name in names))
    write_features(folder, 4, 8)


def precomputed(folder: Path) -> None:
    for split in ("train", "dev", "test"):
        (folder / f"{split}_caps.txt").write_text("".join(f"a dog {number}\n" for number in range(10)))
        np.save(folder / f"{split}_ims.npy", np.ones((2, 2, 4), np.float32))


def clip_retrieval(folder: Path) -> None:
    for split in SPLITS:
        for part in ("metadata", "img_emb", "text_emb"):
            (folder / split / part).mkdir(parents=True)
        names = [f"{split}/{number // 2}.jpg" for number in range(4)]
        table = pyarrow.table({"image_path": names, "caption": [f"a dog {number}" for number in range(4)]})
        parquet.write_table(table, folder / split / "metadata" / "metadata_0.parquet")
        for kind in ("img_emb", "text_emb"):
            np.save(folder / split / kind / f"{kind}_0.npy", np.ones((4, 3), np.float16))


def labels(folder: Path) -> None:
    rows = [f"{split}/{k}/{n}.jpg,{split} {k},{split}\n" for split in SPLITS for k in (0, 1) for n in (0, 1)]
    (folder / "labels.csv").write_text("filename,class,split\n" + "".join(rows))
    write_features(folder, 12, 12)


FORMS: dict[str, Callable[[Path], None]] = {
    "karpathy": karpathy,
    "coco": coco,
    "coco with splits": coco_with_splits,
    "flickr": flickr,
    "precomputed": precomputed,
    "clip-retrieval": clip_retrieval,
    "labels": labels,
    "msrvtt": write_msrvtt,
    "msvd": write_msvd,
    "tgif": write_tgif,
}


@contextmanager
def folder_of(form: str) -> Iterator[Path]:
    """Give a data root with an undamaged dataset ``tiny``."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "data" / "tiny"
        folder.mkdir(parents=True)
        FORMS[form](folder)
        yield folder.parent


def read_folder(root: Path) -> None:
    """Read a dataset in both ways: as a description of its problems, and for a training."""
    cache = root.parent / "cache"
    described = describe("tiny", root, cache=cache)
    assert all(str(root) in problem for problem in described.problems), described.problems
    try:
        source = find_source("tiny", root)
        kinds = [kind for kind in source.feature_kinds() if kind != "text"]
        load_dataset(
            "tiny", root, features=kinds[0] if kinds else None, text="text" in source.feature_kinds(), cache=cache
        )
    except UserError as error:
        if described.problems:
            assert str(root) in str(error)


def test_every_form_of_data_is_damaged_here() -> None:
    found = set()
    for form in FORMS:
        with folder_of(form) as root:
            assert describe("tiny", root, cache=root.parent / "cache").problems == []
            found.add(find_source("tiny", root).format)
    assert found == set(FORMATS)


def replaced(old: str, new: str) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        text = path.read_text()
        assert old in text
        path.write_bytes(text.replace(old, new, 1).encode())

    return change


def of_dates(path: Path) -> None:
    days = pyarrow.array([2**31 - 1] * 4, pyarrow.int32()).cast(pyarrow.date32())
    parquet.write_table(pyarrow.table({"image_path": ["a"] * 4, "caption": days}), path)


def of_equal_rows(path: Path) -> None:
    parquet.write_table(pyarrow.table({"image_path": ["a"] * 10**6, "caption": ["a"] * 10**6}), path)


def with_header(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(len(text).to_bytes(8, "little") + text.encode() + b"\0" * 64)


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


METADATA = "val/metadata/metadata_0.parquet"
SAFETENSORS = "features_text.safetensors"
NAMED: dict[str, tuple[str, str, Callable[[Path], object], str]] = {
    "labels, empty": ("labels", "labels.csv", lambda p: p.write_text(""), "line 1: must be filename,class,split, got"),
    "labels, a carriage return": ("labels", "labels.csv", replaced("0.jpg,", "0.jpg,a\rb"), "line 2: broken CSV: new-"),
    "labels, an open quote": ("labels", "labels.csv", replaced("train/0/0", '"'), "broken CSV: unexpected end of data"),
    "labels, a large field": ("labels", "labels.csv", replaced("train 0", "x" * 140_000), "line 2: broken CSV: field"),
    "a list as split": (
        "msrvtt",
        "train_val_videodatainfo.json",
        replaced('"split": "train"', '"split": ["train"]'),
        "videos[0]: split must be train, validate or test, got ['train']",
    ),
    "a list as id": (
        "msrvtt",
        "test_videodatainfo.json",
        replaced('"video_id": "f", "caption"', '"video_id": ["f"], "caption"'),
        "sentences[0]: video_id ['f'] is none of videos",
    ),
    "half of a surrogate pair as id": (
        "karpathy",
        "dataset_tiny.json",
        replaced('"cocoid": 3', '"cocoid": "\\ud800"'),
        "images[3]: the id '\\ud800' is no Unicode text",
    ),
    "dates as captions": ("clip-retrieval", METADATA, of_dates, "image_path, caption: days=2147483647"),
    "more rows than bytes": ("clip-retrieval", METADATA, of_equal_rows, "image_path, caption: 1,000,000 rows in"),
    "5,000 digits": ("flickr", "results.token", replaced("#1", "#" + "9" * 5000), "line 1: must be 'NAME.jpg#NUMBER"),
    "5,000 digits of a judged caption": (
        "karpathy",
        "ExpertAnnotations.txt",
        replaced("#1", "#" + "9" * 5000),
        "ExpertAnnotations.txt: line 1: must be 'IMAGE.jpg",
    ),
    "5,000 votes": (
        "karpathy",
        "CrowdFlowerAnnotations.txt",
        replaced("\t2\t", "\t" + "9" * 5000 + "\t"),
        "CrowdFlowerAnnotations.txt: line 1: must be 'IMAGE.jpg",
    ),
    "a header of null": ("labels", SAFETENSORS, with_header("null"), "file: its header is no JSON object"),
    "an offset beyond every file": (
        "labels",
        SAFETENSORS,
        with_header('{"a": {"dtype": "F32", "shape": [12, 3], "data_offsets": [' + "9" * 30 + ", 0]}}"),
        "cannot be read as a safetensors file",
    ),
    "a shape of texts": (
        "labels",
        SAFETENSORS,
        with_header('{"a": {"dtype": "F32", "shape": ["12", 3], "data_offsets": [0, 144]}}'),
        "its header has a shape, or an offset, that is no whole number of at least 0",
    ),
    "a folder": ("karpathy", "dataset_tiny.json", to_folder, "dataset_tiny.json: must be a regular file"),
}


@pytest.mark.parametrize(("form", "file", "change", "message"), NAMED.values(), ids=NAMED)
def test_damage_is_named_with_its_file_and_place(
    form: str, file: str, change: Callable[[Path], object], message: str
) -> None:
    with folder_of(form) as root:
        path = root / "tiny" / file
        change(path)
        try:
            problems = describe("tiny", root, cache=root.parent / "cache").problems
        except UserError as error:
            problems = [str(error)]
        assert any(message in problem and str(root / "tiny") in problem for problem in problems), problems


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=CASES, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_damaged_dataset_is_read_or_refused_by_name(form: str, seed: int) -> None:
    read_damaged_folder(form, seed)


def read_damaged_folder(form: str, seed: int) -> None:
    with folder_of(form) as root:
        damage_folder(root / "tiny", Random(seed))
        try:
            read_folder(root)
        except UserError as error:
            assert str(root) in str(error), error


@dataclass(frozen=True)
class Reader:
    """A reader of a file of some name, and what writes an undamaged one."""

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], object]


def dump() -> dict[str, torch.Tensor]:
    return {"image_features": torch.ones(6, 4), "text_features": torch.ones(12, 3)}


def write_npz(path: Path) -> None:
    np.savez_compressed(path, **{name: value.numpy() for name, value in dump().items()}, image_ids=np.arange(6))


def write_few_ranks(path: Path) -> None:
    ranks = np.array([1, 2, 1, 3], np.int32)
    write_ranks(path, Ranks(ranks, ranks, np.array([0, 0, 1, 1], np.int32), "ab", "test", ("a", "b")))


def write_extractor(path: Path) -> None:
    path.write_bytes(TfidfSvd(("a", "dog"), np.ones(2, np.float32), np.ones((2, 3), np.float32)).to_bytes())


READERS = (
    Reader("dump.npz", write_npz, read_dump),
    Reader("dump.pt", lambda path: torch.save({**dump(), "logit_scale": torch.tensor(1.0)}, path), read_dump),
    Reader("dump.safetensors", lambda path: save_file(dump(), path), read_dump),
    Reader("ranks.npz", write_few_ranks, read_ranks),
    Reader("extractor.safetensors", write_extractor, lambda path: read_extractor(path).transform(["a dog", "x"])),
)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
@settings(max_examples=3 * CASES, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_damaged_file_is_read_or_refused_by_name(reader: Reader, seed: int) -> None:
    read_damaged_file(reader, seed)


def read_damaged_file(reader: Reader, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # torch and NumPy warn of some damages before they raise.
        warnings.simplefilter("ignore")
        path = Path(folder) / reader.name
        reader.write(path)
        path.write_bytes(damaged(path.read_bytes(), path.suffix, Random(seed)))
        try:
            reader.read(path)
        except UserError as error:
            assert str(path) in str(error), error
