"""Small hand-made datasets, a writer for each form of data, and changes that spoil them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import torch
from pyarrow import parquet
from safetensors.torch import save_file

Change = Callable[[Path], object]


@dataclass
class KarpathyFolder:
    """Six images with two captions each, as a Karpathy JSON with features; ``content`` may be changed and saved."""

    root: Path
    content: Any

    @property
    def folder(self) -> Path:
        return self.root / "tiny"

    @property
    def images(self) -> list[dict[str, Any]]:
        return self.content["images"]

    def save(self) -> None:
        (self.folder / "dataset_tiny.json").write_text(json.dumps(self.content))


def karpathy(folder: Path) -> KarpathyFolder:
    folder.mkdir(parents=True)
    splits, words = ("train", "train", "restval", "val", "test", "test"), ("one", "two", "three", "four", "five", "six")
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
        for index, (split, word) in enumerate(zip(splits, words, strict=True))
    ]
    made = KarpathyFolder(folder.parent, {"dataset": "tiny", "images": images})
    made.save()
    np.save(folder / "features_global.npy", np.arange(24, dtype=np.float16).reshape(6, 4))
    np.save(folder / "features_regions.npy", np.arange(36, dtype=np.float32).reshape(6, 2, 3))
    return made


def with_views(folder: Path) -> None:
    karpathy(folder)
    np.save(folder / "augmented_global.npy", np.ones((6, 3, 4), np.float32))


def with_text(folder: Path) -> None:
    karpathy(folder)
    np.save(folder / "features_text.npy", np.arange(36, dtype=np.float32).reshape(12, 3))


def with_everything(folder: Path) -> None:
    """Files of every kind that may lie beside a dataset."""
    with_views(folder)
    save_file({"features": torch.ones(12, 3)}, folder / "features_text.safetensors")
    (folder / "features_text.json").write_text(json.dumps({"weights_digest": "ab", "captions_digest": None}))
    (folder / "features_global_ids.txt").write_text("".join(f"{number}\n" for number in range(6)))
    experts = "picture4.jpg\tpicture5.jpg#1\t3\t3\t1\npicture5.jpg\tpicture4.jpg#1\t1\t1\t1\n"
    (folder / "ExpertAnnotations.txt").write_text(experts)
    (folder / "CrowdFlowerAnnotations.txt").write_text("picture5.jpg\tpicture4.jpg#1\t0.67\t2\t1\n")
    (folder / "eccv_image_to_caption.json").write_text(json.dumps({"4": [8, 9, 10], "5": [11]}))
    (folder / "eccv_caption_to_image.json").write_text(json.dumps({"8": [4, 5], "10": [5]}))


def coco(folder: Path, *, split: bool = True) -> Path:
    """Twelve images of three captions, eight of them official train; with ``split`` a Karpathy JSON beside them."""
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
        train = dict.fromkeys(range(107, 99, -1), "train")
        splits = {200: "val", 201: "test", 202: "restval", **train, 203: "test"}
        listed = [
            {
                "cocoid": key,
                "filename": f"COCO_val2014_{key:012d}.jpg",
                "filepath": "val2014",
                "split": name,
                "sentences": [],
            }
            for key, name in splits.items()
        ]
        (folder / "dataset_coco.json").write_text(json.dumps({"images": listed}))
    np.save(folder / "features_global.npy", np.arange(24, dtype=np.float32).reshape(12, 2))
    return folder


def flickr(folder: Path) -> Path:
    folder.mkdir(parents=True)
    lines = [f"{name}.jpg#{number}\tcaption {number} of {name}" for name in "abcde" for number in (1, 0, 2)]
    (folder / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")
    (folder / "Flickr8k.lemma.token.txt").write_text("not read\n")
    for split, names in {"train": "db", "dev": "a", "test": "e"}.items():
        (folder / f"Flickr_8k.{split}Images.txt").write_text("".join(f"{name}.jpg\n" for name in names))
    np.save(folder / "features_global.npy", np.arange(8, dtype=np.float32).reshape(4, 2))
    return folder


def precomputed(folder: Path, *, repeated: tuple[str, ...] = (), regions: bool = False, each: int = 5) -> Path:
    """Three train, two val and one test image of ``each`` captions; ``repeated`` splits have a row a caption."""
    folder.mkdir(parents=True)
    for split, count in {"train": 3, "dev": 2, "test": 1}.items():
        captions = [f"{split} image {image} caption {number}" for image in range(count) for number in range(each)]
        (folder / f"{split}_caps.txt").write_text("\n".join(captions) + "\n")
        rows = np.arange(count, dtype=np.float32)[:, None] * np.ones(4, dtype=np.float32)
        rows = rows.reshape(count, 2, 2) if regions else rows
        np.save(folder / f"{split}_ims.npy", rows.repeat(each, axis=0) if split in repeated else rows)
    return folder


PAIRS = {
    "train": [("/a/1.jpg", "a dog"), ("/a/1.jpg", "one dog"), ("/a/2.jpg", "a cat")],
    "val": [("/a/3.jpg", "two cats")],
    "test": [("/a/4.jpg", "two dogs"), ("/a/4.jpg", "dogs")],
}


def clip_retrieval(folder: Path) -> None:
    random = np.random.default_rng(0)
    for split, rows in PAIRS.items():
        for name in ("img_emb", "text_emb"):
            (folder / split / name).mkdir(parents=True)
            values = random.normal(size=(len(rows), 4)).astype(np.float16)
            if name == "img_emb":
                values = values[[[path for path, _ in rows].index(path) for path, _ in rows]]
            np.save(folder / split / name / f"{name}_0.npy", values)
        (folder / split / "metadata").mkdir()
        write_pairs(folder / split / "metadata" / "metadata_0.parquet", rows)


def write_pairs(path: Path, rows: list[tuple[str, Any]]) -> None:
    names, captions = zip(*rows, strict=True)
    parquet.write_table(pyarrow.table({"image_path": names, "caption": captions}), path)


CLASSES = {"train": "abc", "val": "de", "test": "fg"}


def labels(folder: Path) -> None:
    """Five images a class, whose features are a direction a class, with noise."""
    folder.mkdir(parents=True)
    rows = [f"{c}{n}.jpg,class {c},{split}" for split, classes in CLASSES.items() for c in classes for n in range(5)]
    (folder / "labels.csv").write_text("\n".join(["filename,class,split", *rows]) + "\n")
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(7, 8)).repeat(5, 0)
    np.save(folder / "features_global.npy", (centres + generator.normal(size=(35, 8))).astype(np.float32))


def label_sets(folder: Path) -> None:
    """Images with one to three of four labels."""
    folder.mkdir(parents=True)
    splits = ("train", "train", "train", "val", "val", "test", "test")
    rows = [
        f"{n}.jpg,{'|'.join(sorted({f'tag {n % 4}', f'tag {n * n % 4}'}))},{split}" for n, split in enumerate(splits)
    ]
    (folder / "labels.csv").write_text("\n".join(["filename,labels,split", *rows]) + "\n")
    np.save(folder / "features_global.npy", np.arange(28, dtype=np.float32).reshape(7, 4))


def passages(folder: Path) -> None:
    """Two queries of each of seven passages; both name a number of their own."""
    folder.mkdir(parents=True)
    splits = ("train", "train", "train", "train", "val", "test", "test")
    names = ("one", "two", "three", "four", "two one", "three four", "four one")
    pairs = [(f"Passage of {name}, in full.", query, split) for name, split in zip(names, splits, strict=True)
             for query in (f"query {name}", f"{name} passage")]  # fmt: skip
    lines = [f'"{passage}",{query},{split}' for passage, query, split in pairs]
    (folder / "passages.csv").write_text("\n".join(["passage,query,split", *lines]) + "\n")
    np.save(folder / "features_global.npy", np.arange(28, dtype=np.float32).reshape(7, 4))


CLIPS = {"train": ["a", "b", "c"], "val": ["d", "e"], "test": ["f", "g"]}


def _sentences(clips: list[str]) -> list[tuple[str, str]]:
    """Two captions of each clip, all first ones before all second ones."""
    return [(clip, f"a {kind} clip {clip}") for kind in ("red", "blue") for clip in clips]


def msrvtt(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, splits in (("train_val", ("train", "val")), ("test", ("test",))):
        clips = [(clip, split) for split in splits for clip in CLIPS[split]]
        told = {
            "videos": [{"video_id": clip, "split": {"val": "validate"}.get(split, split)} for clip, split in clips],
            "sentences": [{"video_id": c, "caption": text} for c, text in _sentences([clip for clip, _ in clips])],
        }
        (folder / f"{name}_videodatainfo.json").write_text(json.dumps(told))


def msvd(folder: Path) -> None:
    folder.mkdir(parents=True)
    for split, clips in CLIPS.items():
        (folder / f"{split}_list.txt").write_text("".join(f"{clip}\n" for clip in clips))
        lines = "".join(f"{clip}\t{text}\n" for clip, text in _sentences(clips))
        (folder / f"sents_{split}_lc_nopunc.txt").write_text(lines)


def tgif(folder: Path) -> None:
    address = "https://38.media.tumblr.com/1/{}.gif"
    (folder / "splits").mkdir(parents=True)
    for split, clips in CLIPS.items():
        (folder / "splits" / f"{split}.txt").write_text("".join(f"{address.format(clip)}\n" for clip in clips))
    told = _sentences([*"abcdefg", "unlisted"])
    (folder / "tgif-v1.0.tsv").write_text("".join(f"{address.format(clip)}\t{text}\n" for clip, text in told))


FORMS: dict[str, Callable[[Path], object]] = {
    "karpathy": karpathy,
    "views": with_views,
    "text": with_text,
    "everything": with_everything,
    "coco": partial(coco, split=False),
    "coco with splits": coco,
    "flickr": flickr,
    "precomputed": precomputed,
    "clip-retrieval": clip_retrieval,
    "labels": labels,
    "label sets": label_sets,
    "passages": passages,
    "msrvtt": msrvtt,
    "msvd": msvd,
    "tgif": tgif,
}


def edit(name: str, change: Callable[[Any], object]) -> Change:
    """Change the content of a JSON file."""

    def apply(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        change(content)
        (folder / name).write_text(json.dumps(content))

    return apply


def write(name: str, text: str | bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def append(name: str, text: str) -> Change:
    def apply(folder: Path) -> None:
        with (folder / name).open("a") as file:
            file.write(text)

    return apply


def replaced(name: str, old: str, new: str) -> Change:
    def apply(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_bytes(text.replace(old, new, 1).encode())

    return apply


def remove(*names: str) -> Change:
    return lambda folder: [(folder / name).unlink() for name in names]


def save(name: str, array: Any) -> Change:
    return lambda folder: np.save(folder / name, array, allow_pickle=True)
