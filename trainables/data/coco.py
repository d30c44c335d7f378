"""MS-COCO captions, 2014 or 2017, and whatever else is written like them: ``annotations/captions_*.json``.

The splits and the order of the images are those of a Karpathy JSON (``dataset_*.json``) in the same folder, with
restval joined to train: 113,287 / 5,000 / 5,000 images. Without one, the folder gets a split of its own, the same on
every machine: images in the order of the SHA-256 of their ids; of the official val images the first half, at most
5,000, is val, as many after them are test, and the rest joins the official train images. Where the annotations have no
official train and val, val and test get a tenth each. Feature rows then go by ascending image id.

References:
    [Chen2015] Chen et al., Microsoft COCO Captions. arXiv:1504.00325
"""

import contextlib
import hashlib
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trainables.data import karpathy
from trainables.data.corpus import SPLIT_ALIASES, Corpus, Image, caption_problem, filename_problem
from trainables.data.text_files import read_json, records

FORMAT = "COCO captions (annotations/captions_*.json)"
LARGEST_SPLIT = 5000
"""Images in val and in test at most, as in Karpathy's splits."""


class _Annotated(NamedTuple):
    """An image of an annotation file with its captions."""

    place: str
    filename: str
    official: str
    captions: tuple[str, ...]


def find(folder: Path) -> list[Path]:
    """Return the annotation files in a folder and the split file beside them, or nothing."""
    annotations = sorted((folder / "annotations").glob("captions_*.json"))
    return [*annotations, *karpathy.find(folder)] if annotations else []


def read(files: Sequence[Path]) -> Corpus:
    """Read the annotations with pycocotools, then the splits."""
    problems: list[str] = []
    images: dict[int, _Annotated] = {}
    annotations = [file for file in files if file.parent.name == "annotations"]
    for file in annotations:
        _read_annotations(file, images, problems)
    place = str(annotations[0])
    if len(annotations) == len(files):
        return Corpus(
            place, _own_split(images), problems, ["no Karpathy JSON beside the annotations: a split of our own"]
        )
    listed = _listed_split(karpathy.only_file(files[len(annotations) :]), images, problems)
    left_out = len(images) - len({image.id for image in listed})
    notes = [f"{left_out} images with captions are in no split and left out"] if left_out > 0 else []
    return Corpus(place, listed, problems, notes)


def _read_annotations(file: Path, images: dict[int, _Annotated], problems: list[str]) -> None:
    """Add the good images and captions of a file, and its problems."""
    content = read_json(file)
    entries = {
        key: _good_records(file, content, key, check, problems)
        for key, check in (("images", _image_problem), ("annotations", _annotation_problem))
    }
    known = {image["id"] for image in entries["images"]}
    for annotation in entries["annotations"]:
        if annotation["image_id"] not in known:
            problems.append(
                f"{file}: annotation {annotation['id']}: caption without image: "
                f"there is no image {annotation['image_id']}"
            )
    index = _index(entries)
    official = next((SPLIT_ALIASES[name] for name in ("train", "val") if name in file.stem), "")
    for image in entries["images"]:
        place = f"{file}: image {image['id']}"
        if image["id"] in images:
            problems.append(f"{place}: two images of one id: it is that of {images[image['id']].place} too")
        captions = tuple(annotation["caption"] for annotation in index.imgToAnns.get(image["id"], []))
        images[image["id"]] = _Annotated(place, image["file_name"], official, captions)


def _index(entries: Mapping[str, list[dict[str, Any]]]) -> Any:
    """Return pycocotools' index of checked records: it would answer broken ones with a KeyError, and it prints."""
    from pycocotools.coco import COCO

    index = COCO()
    index.dataset = dict(entries)
    with contextlib.redirect_stdout(io.StringIO()):
        index.createIndex()
    return index


def _good_records(file: Path, content: dict[str, Any], key: str, check: Any, problems: list[str]) -> list[Any]:
    """Return the entries of a list that are what they should be; the others become problems."""
    good = []
    for position, record in enumerate(records(file, content, key, "a COCO captions file")):
        if wrong := check(record):
            problems.append(f"{file}: {key}[{position}]: {wrong}")
        else:
            good.append(record)
    return good


def _image_problem(record: Any) -> str | None:
    if not isinstance(record, dict) or not isinstance(record.get("id"), int):
        return f"another schema: must be an object with a whole number 'id', got {record!r:.60}"
    return filename_problem(record.get("file_name"))


def _annotation_problem(record: Any) -> str | None:
    if not isinstance(record, dict) or not all(isinstance(record.get(key), int) for key in ("id", "image_id")):
        return f"another schema: must be an object with whole numbers 'id' and 'image_id', got {record!r:.60}"
    wrong = caption_problem(record.get("caption"))
    return f"annotation {record['id']} of image {record['image_id']}: {wrong}" if wrong else None


def _listed_split(file: Path, images: Mapping[int, _Annotated], problems: list[str]) -> list[Image]:
    """Return the images that a Karpathy JSON lists, in its order, matched by COCO's id, else by file name."""
    by_name = {image.filename: key for key, image in images.items()}
    listed = []
    for position, record in enumerate(records(file, read_json(file), "images", "Karpathy's JSON")):
        place = f"{file}: images[{position}]"
        if wrong := karpathy.image_problem(record):
            problems.append(f"{place}: {wrong}")
            continue
        key = record.get("cocoid", by_name.get(record["filename"]))
        if not isinstance(key, int) or key not in images:
            problems.append(f"{place}: {record['filename']!r} is in no annotation file; fetch the one that has it")
            continue
        image = images[key]
        split = SPLIT_ALIASES[record["split"]]
        listed.append(Image(place, str(key), image.filename, split, image.captions))
    return listed


def _own_split(images: Mapping[int, _Annotated]) -> list[Image]:
    """Return all images by ascending id, split as the module says."""
    official = Counter(image.official for image in images.values())
    has_official = official["train"] > 0 and official["val"] > 0
    pool = [key for key, image in images.items() if not has_official or image.official == "val"]
    size = min(LARGEST_SPLIT, len(pool) // (2 if has_official else 10))
    shuffled = sorted(pool, key=lambda key: hashlib.sha256(str(key).encode()).hexdigest())
    split = dict.fromkeys(shuffled[:size], "val") | dict.fromkeys(shuffled[size : 2 * size], "test")
    return [
        Image(image.place, str(key), image.filename, split.get(key, "train"), image.captions)
        for key, image in sorted(images.items())
    ]
