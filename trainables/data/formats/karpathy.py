"""The JSON of Karpathy's splits: ``dataset_flickr8k.json``, ``dataset_flickr30k.json``, ``dataset_coco.json``.

``{"dataset": name, "images": [{"filename", "imgid", "split", "sentids", "sentences": [{"raw", "imgid", ...}]}]}``;
COCO's file has ``filepath`` (a folder) and ``cocoid`` as well. Captions are the raw text, tokenised as in every other
form, not the ``tokens`` of the file, which have lost their punctuation. The order of ``images`` is the row order of the
features. Of MS-COCO itself, known by the names of its pictures, val and test keep five captions of each image.

References:
    [Karpathy2015] Karpathy and Fei-Fei, Deep Visual-Semantic Alignments. arXiv:1412.2306
"""

from collections.abc import Sequence
from functools import partial
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
)
from trainables.data.text_files import checked, read_json, records
from trainables.errors import DataError

FORMAT = "Karpathy JSON"


def find(folder: Path) -> list[Path]:
    """Return the files of this format in a folder: its ``dataset_*.json``, or nothing."""
    return sorted(folder.glob("dataset_*.json"))


def read(files: Sequence[Path]) -> Corpus:
    """Read the one file of the dataset; problems are collected, an unreadable file raises ``DataError``."""
    file = only_file(files)
    images: list[Image] = []
    problems: list[str] = []
    for index, (place, record) in enumerate(records(file, read_json(file), "images", "Karpathy's JSON")):
        wrong = image_problem(record)
        if wrong is None and not isinstance(record.get("sentences"), list):
            wrong = "another schema: must have a list 'sentences'"
        if wrong:
            problems.append(f"{place}: {wrong}")
            continue
        listed = [(f"{place}.sentences[{number}]", sentence) for number, sentence in enumerate(record["sentences"])]
        sentences = [good for _, good in checked(listed, partial(_sentence_problem, record.get("imgid")), problems)]
        # An image whose captions are all problems would be reported again, as an image without captions.
        if sentences or not listed:
            key = str(record.get("cocoid", record.get("imgid", index)))
            name = f"{record['filepath']}/{record['filename']}" if "filepath" in record else record["filename"]
            captions = tuple(sentence["raw"] for sentence in sentences)
            ids = tuple(str(sentence["sentid"]) for sentence in sentences if "sentid" in sentence)
            split = SPLIT_ALIASES[record["split"]]
            images.append(Image(place, key, name, split, captions, ids if len(ids) == len(captions) else ()))
    corpus = Corpus(str(file), images, problems)
    is_ms_coco = bool(images) and all(is_of_ms_coco(image.filename, image.id) for image in images)
    return cut_captions(corpus) if is_ms_coco else corpus


def only_file(files: Sequence[Path]) -> Path:
    """Return the only file of a sequence; ``DataError`` names all files if there are more."""
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise DataError(f"{files[0].parent}: one dataset a folder, but here are {names}; move all but one away")
    return files[0]


def image_problem(record: Any) -> str | None:
    """Return the problem of an entry of ``images``; ``None`` if the entry is good."""
    if not isinstance(record, dict):
        return f"another schema: must be an object, got {record!r:.60}"
    if not isinstance(record.get("split"), str) or record["split"] not in SPLIT_ALIASES:
        return f"'split' must be one of {', '.join(SPLIT_ALIASES)}, got {record.get('split')!r:.60}"
    if "filename" not in record:
        return "another schema: has no 'filename'"
    if "filepath" in record and (wrong := filename_problem(record["filepath"])):
        return wrong
    return filename_problem(record["filename"])


def _sentence_problem(image: Any, sentence: Any) -> str | None:
    if not isinstance(sentence, dict) or "raw" not in sentence:
        return "another schema: must be an object with 'raw'"
    if sentence.get("imgid", image) != image:
        return f"caption without image: its imgid is {sentence['imgid']!r}, the image's {image!r}"
    return caption_problem(sentence["raw"])
