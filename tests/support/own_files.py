"""Pictures with captions as people's tools write them: pandas, datasets, webdataset, Excel, BLIP, COCO, open_clip."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

PICTURES = 30
EACH = 2
NAMES = [f"photo{number:03d}.jpg" for number in range(PICTURES)]
SPLITS = ["train"] * 20 + ["validation"] * 5 + ["test"] * 5
OUR_SIZES = {"train": 20, "val": 5, "test": 5}


def caption(number: int, which: int) -> str:
    return f"A dog, number {number}, seen from side {which} ."


ROWS = [(name, caption(number, which)) for number, name in enumerate(NAMES) for which in range(EACH)]


def picture(number: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(number).integers(0, 255, (12, 16, 3), dtype=np.uint8))


def picture_bytes(number: int) -> bytes:
    buffer = io.BytesIO()
    picture(number).save(buffer, "JPEG")
    return buffer.getvalue()


def write_pictures(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(NAMES):
        (folder / name).write_bytes(picture_bytes(number))
    return folder


def features(dimensions: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Features of both sides in one space: those of a caption are near those of its picture."""
    random = np.random.default_rng(0)
    images = random.normal(size=(PICTURES, dimensions)).astype(np.float32)
    captions = images.repeat(EACH, axis=0) + 0.1 * random.normal(size=(PICTURES * EACH, dimensions))
    return images, captions.astype(np.float32)


def kaggle8k(folder: Path) -> list[Path]:
    """Flickr8k of Kaggle: captions.txt and Images."""
    import pandas

    write_pictures(folder / "Images")
    pandas.DataFrame(ROWS, columns=["image", "caption"]).to_csv(folder / "captions.txt", index=False)
    return [folder]


def kaggle30k(folder: Path) -> list[Path]:
    """Flickr30k of Kaggle: results.csv with bars, and its row whose number and caption are one cell."""
    write_pictures(folder / "flickr30k_images")
    lines = ["image_name| comment_number| comment"]
    lines += [f"{name}| {row % EACH}| {text}" for row, (name, text) in enumerate(ROWS)]
    lines[5] = lines[5].replace("| 0| ", "| 0   ")
    (folder / "results.csv").write_text("\n".join(lines) + "\n")
    return [folder]


def excel(folder: Path) -> list[Path]:
    """A CSV as a European Excel writes it: a mark at its beginning, semicolons, CRLF."""
    import pandas

    folder.mkdir(parents=True)
    table = pandas.DataFrame(ROWS, columns=["Dateiname", "Beschreibung"]).assign(Split=np.repeat(SPLITS, EACH))
    table.to_csv(folder / "liste.csv", sep=";", index=False, encoding="utf-8-sig", lineterminator="\r\n")
    return [folder / "liste.csv"]


def parquet(folder: Path) -> list[Path]:
    """A table of pandas with a list of captions a row, and features of the pictures in a column."""
    import pandas

    folder.mkdir(parents=True)
    texts = [[caption(number, which) for which in range(EACH)] for number in range(PICTURES)]
    values = {"file_name": NAMES, "captions": texts, "split": SPLITS, "image_embedding": list(features()[0])}
    pandas.DataFrame(values).to_parquet(folder / "pairs.parquet")
    return [folder / "pairs.parquet"]


def json_lines(folder: Path) -> list[Path]:
    """XFlickrCO: a file of JSON lines for each split, with sentences and img_path."""
    folder.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        records = [
            {"sentences": [caption(number, which) for which in range(EACH)], "id": number, "img_path": NAMES[number]}
            for number in range(PICTURES)
            if SPLITS[number] == split
        ]
        name = {"validation": "dev"}.get(split, split)
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return [folder]


def blip(folder: Path) -> list[Path]:
    """The lists of BLIP and LAVIS: a caption a record in train, a list of captions in val and test."""
    folder.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        numbers = [number for number in range(PICTURES) if SPLITS[number] == split]
        records: list[dict[str, Any]] = [
            {"image": f"val2014/{NAMES[n]}", "caption": [caption(n, which) for which in range(EACH)]} for n in numbers
        ]
        if split == "train":
            records = [
                {"caption": caption(n, which), "image": f"train2014/{NAMES[n]}", "image_id": f"coco_{n}"}
                for n in numbers
                for which in range(EACH)
            ]
        name = {"validation": "val"}.get(split, split)
        (folder / f"coco_karpathy_{name}.json").write_text(json.dumps(records))
    return [folder]


def saved_dataset(folder: Path) -> list[Path]:
    """A folder that Hugging Face's datasets saved, with the pictures in it."""
    from datasets import Dataset, DatasetDict, Features, List, Value
    from datasets import Image as ImageFeature

    kinds = Features({"image": ImageFeature(), "captions": List(Value("string"))})
    parts = {}
    for split in ("train", "validation", "test"):
        numbers = [number for number in range(PICTURES) if SPLITS[number] == split]
        pictures = [{"bytes": picture_bytes(number), "path": NAMES[number]} for number in numbers]
        texts = [[caption(number, which) for which in range(EACH)] for number in numbers]
        parts[split] = Dataset.from_dict({"image": pictures, "captions": texts}, features=kinds)
    DatasetDict(parts).save_to_disk(str(folder))
    return [folder]


def shards(folder: Path) -> list[Path]:
    """Shards of webdataset, some for each split."""
    import webdataset

    folder.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        numbers = [number for number in range(PICTURES) if SPLITS[number] == split]
        with webdataset.TarWriter(str(folder / f"{split}-000000.tar")) as writer:
            for number in numbers:
                texts = {"captions": [caption(number, which) for which in range(EACH)]}
                writer.write({"__key__": f"photo{number:03d}", "jpg": picture_bytes(number), "json": texts})
    return [folder]


def texts_beside(folder: Path) -> list[Path]:
    """Pictures with a text of the same name beside each."""
    write_pictures(folder)
    for number, name in enumerate(NAMES):
        lines = [caption(number, which) for which in range(EACH)]
        (folder / name).with_suffix(".txt").write_text("\n".join(lines) + "\n")
    return [folder]


def coco(folder: Path) -> list[Path]:
    """Annotations in COCO's form in one file, whose images have no splits."""
    write_pictures(folder / "images")
    (folder / "annotations").mkdir()
    images = [{"id": number, "file_name": name} for number, name in enumerate(NAMES)]
    texts = [
        {"id": 10 * number + which, "image_id": number, "caption": caption(number, which)}
        for number in range(PICTURES)
        for which in range(EACH)
    ]
    content = {"info": {}, "images": images, "annotations": texts}
    (folder / "annotations" / "captions_all.json").write_text(json.dumps(content))
    return [folder]


def multi30k(folder: Path) -> list[Path]:
    """Multi30k: a list of pictures and two lists of captions for each split."""
    folder.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        numbers = [number for number in range(PICTURES) if SPLITS[number] == split]
        name = {"validation": "val", "test": "test_2016_flickr"}.get(split, split)
        (folder / f"{name}.txt").write_text("".join(f"{NAMES[number]}\n" for number in numbers))
        for which in range(EACH):
            texts = [f"{caption(number, which)}\n" for number in numbers]
            (folder / f"{name}.{which + 1}.en").write_text("".join(texts))
    return [folder]


Write = Callable[[Path], list[Path]]

WITH_SPLITS: dict[str, Write] = {
    "excel": excel,
    "parquet": parquet,
    "json lines": json_lines,
    "blip": blip,
    "saved dataset": saved_dataset,
    "shards": shards,
    "multi30k": multi30k,
}
WITHOUT_SPLITS: dict[str, Write] = {
    "kaggle8k": kaggle8k,
    "kaggle30k": kaggle30k,
    "texts beside": texts_beside,
    "coco": coco,
}


def damage_shard(path: Path) -> None:
    """Cut a shard in the middle of a picture."""
    with tarfile.open(path) as archive:
        member = next(iter(archive))
        end = member.offset_data + member.size // 2
    path.write_bytes(path.read_bytes()[:end])
