"""MS-COCO captions, 2014 or 2017, and other datasets in their format: ``annotations/captions_*.json``.

A Karpathy JSON (``dataset_*.json``) in the same folder gives the splits and the order of the images. With restval
joined to train MS-COCO has 113,287 / 5,000 / 5,000 images. Without a Karpathy JSON the annotations tell the splits: the
field ``split`` of an image, or the name of its file of annotations, or else the names of the pictures with their
folders. Annotations that tell the splits of a part of their images, or of none, are refused. Feature rows are then
sorted by image id.

MS-COCO itself has captions of train and val alone, and gets a split that is equal on every machine. Images are sorted
by the SHA-256 of their ids. The first half of the official val images, at most 5,000, is val, and as many images after
them are test. The rest joins the official train images. It is known by its pictures, not by the names of its
annotations: by ``COCO_val2014_000000000042.jpg`` for the image 42, or in 2017 by their ``coco_url``.

Captions are read from the annotations. An image is a problem if the Karpathy JSON has none of its captions. If the JSON
has further captions, the image is counted in a note.

The index of the annotations is that of pycocotools. It accepts a file without images, two images of one id and captions
without an image, and a missing id ends in a bare ``KeyError``. So the records are checked first: these are problems
here, each with its place.

References:
    [Chen2015] Chen et al., Microsoft COCO Captions. arXiv:1504.00325
"""

import contextlib
import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainables.data.corpus import (
    SPLIT_ALIASES,
    Corpus,
    Image,
    caption_problem,
    cut_captions,
    filename_problem,
    is_of_ms_coco,
    splits_named,
)
from trainables.data.formats import karpathy
from trainables.data.text_files import checked, read_json, records
from trainables.errors import DataError
from trainables.extras import require

FORMAT = "COCO captions (annotations/captions_*.json)"

LARGEST_SPLIT = 5000
"""Largest number of images in val and in test, as in Karpathy's splits."""

_SPLIT_WORDS = "train, val and test"


def find(folder: Path) -> list[Path]:
    """Return the annotation files in a folder and the split file beside them, or nothing."""
    annotations = sorted((folder / "annotations").glob("captions_*.json"))
    return [*annotations, *karpathy.find(folder)] if annotations else []


def read(files: Sequence[Path]) -> Corpus:
    """Read the annotations, then the splits.

    Raises:
        DataError: If a file cannot be read, or splits are told of a part of the images, or of none.
        MissingExtraError: If pycocotools is not installed.
    """
    require("coco", "a dataset in COCO's form")
    images: dict[int, Image] = {}
    refused: set[int] = set()
    problems: list[str] = []
    annotations = [file for file in files if file.parent.name == "annotations"]
    of_ms_coco = True
    for file in annotations:
        refused_here, are_of_ms_coco = _read_annotations(file, images, problems)
        refused |= refused_here
        of_ms_coco &= are_of_ms_coco
    place = str(annotations[0])
    if len(annotations) < len(files):
        listed, notes = _listed_split(karpathy.only_file(files[len(annotations) :]), images, refused, problems)
        left_out = len(images) - len({image.id for image in listed})
        if left_out > 0:
            notes.append(f"{left_out} images with captions are in no split and left out")
        corpus = Corpus(place, listed, problems, notes)
    elif of_ms_coco and {image.split for image in images.values()} == {"train", "val"}:
        notes = ["MS-COCO without a Karpathy JSON: val and test are halves of its official val images, at most 5,000"]
        corpus = Corpus(place, _own_split(images), problems, notes)
    else:
        corpus = Corpus(
            place, _told_split(annotations, images), problems, reading=["splits as the annotations name them"]
        )
    return cut_captions(corpus) if of_ms_coco else corpus


def read_images(files: Sequence[Path]) -> tuple[list[Image], list[str]]:
    """Return the images of annotations with the split that fields or files name, empty if none, and all problems."""
    require("coco", "a dataset in COCO's form")
    images: dict[int, Image] = {}
    problems: list[str] = []
    for file in files:
        _read_annotations(file, images, problems)
    return list(images.values()), problems


def _read_annotations(file: Path, images: dict[int, Image], problems: list[str]) -> tuple[set[int], bool]:
    """Add the good images of a file by id, with their captions and the split that is told, empty if there is none.

    Returns:
        The ids of images whose records are problems: a reference to such an image is no further problem. And whether
        all images are of MS-COCO.
    """
    content = read_json(file)
    good: dict[str, list[Any]] = {
        key: [record for _, record in checked(records(file, content, key, "a COCO captions file"), check, problems)]
        for key, check in (("images", _image_problem), ("annotations", _annotation_problem))
    }
    known = {record["id"] for record in content["images"] if _has_id(record)}
    problems += [
        f"{file}: annotation {annotation['id']}: caption without image: there is no image {annotation['image_id']}"
        for annotation in good["annotations"]
        if annotation["image_id"] not in known
    ]
    named = splits_named(file.stem)
    annotated = _annotations_of(good)
    for image in good["images"]:
        place = f"{file}: image {image['id']}"
        if image["id"] in images:
            problems.append(f"{place}: two images of one id: it is that of {images[image['id']].place} too")
        captions = tuple(annotation["caption"] for annotation in annotated[image["id"]])
        ids = tuple(str(annotation["id"]) for annotation in annotated[image["id"]])
        split = SPLIT_ALIASES[image["split"]] if "split" in image else min(named) if len(named) == 1 else ""
        images[image["id"]] = Image(place, str(image["id"]), image["file_name"], split, captions, ids)
    return known - {image["id"] for image in good["images"]}, all(map(_is_of_ms_coco, good["images"]))


def _annotations_of(content: Mapping[str, list[Any]]) -> Mapping[int, list[dict[str, Any]]]:
    """Return the annotations of each image id, as pycocotools lists them."""
    from pycocotools.coco import COCO

    coco = COCO()
    coco.dataset = dict(content)
    # It prints what it does.
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
    annotated: Mapping[int, list[dict[str, Any]]] = coco.imgToAnns
    return annotated


def _is_of_ms_coco(record: Mapping[str, Any]) -> bool:
    """Say whether a record is of a picture of MS-COCO; in 2017 the names are ids alone, as in other datasets."""
    name, key = record["file_name"], str(record["id"])
    address = str(record.get("coco_url", "")).partition("://")[2].partition("/")[0]
    return is_of_ms_coco(name, key) or (
        address.endswith("cocodataset.org") and name.rpartition("/")[2] == f"{key.zfill(12)}.jpg"
    )


def _has_id(record: Any) -> bool:
    return isinstance(record, dict) and isinstance(record.get("id"), int)


def _image_problem(record: Any) -> str | None:
    if not _has_id(record):
        return f"another schema: must be an object with a whole number 'id', got {record!r:.60}"
    if "split" in record and (not isinstance(record["split"], str) or record["split"] not in SPLIT_ALIASES):
        return f"'split' must be one of {', '.join(SPLIT_ALIASES)}, got {record['split']!r:.60}"
    return filename_problem(record.get("file_name"))


def _annotation_problem(record: Any) -> str | None:
    if not isinstance(record, dict) or not all(isinstance(record.get(key), int) for key in ("id", "image_id")):
        return f"another schema: must be an object with whole numbers 'id' and 'image_id', got {record!r:.60}"
    wrong = caption_problem(record.get("caption"))
    return f"annotation {record['id']} of image {record['image_id']}: {wrong}" if wrong else None


def _told_split(files: Sequence[Path], images: Mapping[int, Image]) -> list[Image]:
    """Return all images by ascending id, with the splits that fields, files or pictures' names tell (``DataError``)."""
    if any(image.split for image in images.values()):
        untold = next((image for image in images.values() if not image.split), None)
        if untold is not None:
            told = next(image for image in images.values() if image.split)
            raise DataError(
                f"{untold.place}: neither a field 'split' nor the file's name gives one of {_SPLIT_WORDS}, while "
                f"{told.place} is of {told.split}: rename the file, or add the field"
            )
        return [image for _, image in sorted(images.items())]
    named = {key: _split_of_picture(image.filename) for key, image in images.items()}
    if not all(named.values()):
        raise DataError(
            f"{files[0].parent}: no splits: give each image a field 'split', name the files captions_train.json, "
            "captions_val.json and captions_test.json, or draw splits with "
            "`orchestrator data import FOLDER --split 80/10/10 --out NEW`"
        )
    return [image._replace(split=named[key]) for key, image in sorted(images.items())]


def _split_of_picture(filename: str) -> str:
    """Return the one split that the folders of a picture name, or else the name of its file; empty if none does."""
    folders, _, name = filename.replace("\\", "/").rpartition("/")
    named = splits_named(folders) or splits_named(name)
    return min(named) if len(named) == 1 else ""


def _listed_split(
    file: Path, images: Mapping[int, Image], refused: set[int], problems: list[str]
) -> tuple[list[Image], list[str]]:
    """Return the images that a Karpathy JSON lists, in its order, matched by COCO's id or by file name; and notes."""
    edited, listed = 0, []
    by_name = {image.filename: key for key, image in images.items()}
    entries = records(file, read_json(file), "images", "Karpathy's JSON")
    for place, record in checked(entries, karpathy.image_problem, problems):
        key = record.get("cocoid", by_name.get(record["filename"]))
        if not isinstance(key, int) or key not in images:
            if isinstance(key, int) and key in refused:
                # The annotation of this image is a problem already.
                continue
            problems.append(f"{place}: {record['filename']!r} is in no annotation file; fetch the file that has it")
            continue
        image, split = images[key], SPLIT_ALIASES[record["split"]]
        if image.split == "test" != split:
            problems.append(f"{place}: is in {split} here, and of test by {image.place}: mend one of the two")
        listed.append(image._replace(place=place, split=split))
        unknown, known = _compare_captions(record, image)
        edited += bool(unknown and known)
        if unknown and not known:
            problems.append(
                f"{place}: {record['filename']!r} has other captions than {image.place}, such as {unknown[0]!r:.60}: "
                "these are two images; fetch annotations and split file of one release"
            )
    note = (
        f"{edited:,} images have captions in {file.name} that the annotations do not have; the captions of the "
        "annotations are taken"
    )
    return listed, [note] if edited else []


def _compare_captions(record: dict[str, Any], image: Image) -> tuple[list[str], list[str]]:
    """Return the captions of a split file's record that the annotations lack, and the captions that they have."""
    annotated = {_letters(caption) for caption in image.captions}
    sentences = record.get("sentences")
    listed = sentences if isinstance(sentences, list) and annotated else []
    raw = [sentence.get("raw") for sentence in listed if isinstance(sentence, dict)]
    captions = [caption for caption in raw if isinstance(caption, str)]
    unknown = [caption for caption in captions if _letters(caption) not in annotated]
    return unknown, [caption for caption in captions if _letters(caption) in annotated]


def _letters(caption: str) -> str:
    """Return the letters and digits of a caption, which copies with other spaces, capitals or punctuation share."""
    return "".join(character for character in caption.casefold() if character.isalnum())


def _own_split(images: Mapping[int, Image]) -> list[Image]:
    """Return all images of MS-COCO by ascending id, with the split that the module describes."""
    pool = [key for key, image in images.items() if image.split == "val"]
    size = min(LARGEST_SPLIT, len(pool) // 2)
    shuffled = sorted(pool, key=lambda key: hashlib.sha256(str(key).encode()).hexdigest())
    split = dict.fromkeys(shuffled[:size], "val") | dict.fromkeys(shuffled[size : 2 * size], "test")
    return [image._replace(split=split.get(key, "train")) for key, image in sorted(images.items())]
