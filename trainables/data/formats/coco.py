"""MS-COCO captions, 2014 or 2017, and other datasets in their format: ``annotations/captions_*.json``.

A Karpathy JSON (``dataset_*.json``) in the same folder gives the splits and the order of the images. With restval
joined to train they have 113,287 / 5,000 / 5,000 images. Without a Karpathy JSON, the folder gets a split that is equal
on every machine. Images are sorted by the SHA-256 of their ids. The first half of the official val images, at most
5,000, is val, and as many images after them are test. The rest joins the official train images. Where the annotations
have no official train and val, val and test get a tenth each. Feature rows are then sorted by image id.

Captions are read from the annotations. An image is a problem if the Karpathy JSON has none of its captions. If the JSON
has further captions, the image is counted in a note.

The reader of pycocotools takes a third of the time: 1.0 s instead of 2.8 s for the captions of train2014. But it
accepts a file without images, two images of one id and captions without an image. A missing id ends in a bare
``KeyError``. Here these are problems, each with its place.

References:
    [Chen2015] Chen et al., Microsoft COCO Captions. arXiv:1504.00325
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainables.data.corpus import SPLIT_ALIASES, Corpus, Image, caption_problem, filename_problem
from trainables.data.formats import karpathy
from trainables.data.text_files import checked, read_json, records

FORMAT = "COCO captions (annotations/captions_*.json)"
RELEASES = ("train2014", "val2014", "train2017", "val2017")
"""Releases of MS-COCO's own annotations; other datasets use its format as well."""

LARGEST_SPLIT = 5000
"""Largest number of images in val and in test, as in Karpathy's splits."""


def find(folder: Path) -> list[Path]:
    """Return the annotation files in a folder and the split file beside them, or nothing."""
    annotations = sorted((folder / "annotations").glob("captions_*.json"))
    return [*annotations, *karpathy.find(folder)] if annotations else []


def read(files: Sequence[Path]) -> Corpus:
    """Read the annotations, then the splits."""
    images: dict[int, Image] = {}
    refused: set[int] = set()
    problems: list[str] = []
    annotations = [file for file in files if file.parent.name == "annotations"]
    for file in annotations:
        refused |= _read_annotations(file, images, problems)
    place = str(annotations[0])
    if len(annotations) == len(files):
        notes = ["no Karpathy JSON beside the annotations: a split of our own"]
        return Corpus(place, _own_split(images), problems, notes)
    listed, notes = _listed_split(karpathy.only_file(files[len(annotations) :]), images, refused, problems)
    left_out = len(images) - len({image.id for image in listed})
    if left_out > 0:
        notes.append(f"{left_out} images with captions are in no split and left out")
    return Corpus(place, listed, problems, notes)


def _read_annotations(file: Path, images: dict[int, Image], problems: list[str]) -> set[int]:
    """Add the good images of a file by id, with their captions and the official split, empty if there is none.

    Returns:
        The ids of images whose records are problems: a reference to such an image is no further problem.
    """
    content = read_json(file)
    entries = {
        key: [good for _, good in checked(records(file, content, key, "a COCO captions file"), check, problems)]
        for key, check in (("images", _image_problem), ("annotations", _annotation_problem))
    }
    known = {record["id"] for record in content["images"] if _has_id(record)}
    annotations_of: dict[int, list[dict[str, Any]]] = {}
    for annotation in entries["annotations"]:
        annotations_of.setdefault(annotation["image_id"], []).append(annotation)
        if annotation["image_id"] not in known:
            problems.append(
                f"{file}: annotation {annotation['id']}: caption without image: "
                f"there is no image {annotation['image_id']}"
            )
    official = next((SPLIT_ALIASES[name] for name in ("train", "val") if name in file.stem), "")
    for image in entries["images"]:
        place = f"{file}: image {image['id']}"
        if image["id"] in images:
            problems.append(f"{place}: two images of one id: it is that of {images[image['id']].place} too")
        annotated = annotations_of.get(image["id"], ())
        captions = tuple(annotation["caption"] for annotation in annotated)
        ids = tuple(str(annotation["id"]) for annotation in annotated)
        images[image["id"]] = Image(place, str(image["id"]), image["file_name"], official, captions, ids)
    return known - {image["id"] for image in entries["images"]}


def _has_id(record: Any) -> bool:
    return isinstance(record, dict) and isinstance(record.get("id"), int)


def _image_problem(record: Any) -> str | None:
    if not _has_id(record):
        return f"another schema: must be an object with a whole number 'id', got {record!r:.60}"
    return filename_problem(record.get("file_name"))


def _annotation_problem(record: Any) -> str | None:
    if not isinstance(record, dict) or not all(isinstance(record.get(key), int) for key in ("id", "image_id")):
        return f"another schema: must be an object with whole numbers 'id' and 'image_id', got {record!r:.60}"
    wrong = caption_problem(record.get("caption"))
    return f"annotation {record['id']} of image {record['image_id']}: {wrong}" if wrong else None


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
        image = images[key]
        listed.append(image._replace(place=place, split=SPLIT_ALIASES[record["split"]]))
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
    """Return all images by ascending id, with the split that the module describes."""
    official = Counter(image.split for image in images.values())
    has_official = official["train"] > 0 and official["val"] > 0
    pool = [key for key, image in images.items() if not has_official or image.split == "val"]
    size = min(LARGEST_SPLIT, len(pool) // (2 if has_official else 10))
    shuffled = sorted(pool, key=lambda key: hashlib.sha256(str(key).encode()).hexdigest())
    split = dict.fromkeys(shuffled[:size], "val") | dict.fromkeys(shuffled[size : 2 * size], "test")
    return [image._replace(split=split.get(key, "train")) for key, image in sorted(images.items())]
