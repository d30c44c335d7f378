"""The neutral form that every loader produces, and the rules that every corpus keeps.

A loader reads one format into a ``Corpus``. Each mistake of a record becomes a line of ``problems`` that names the file
and the record, so that one look shows all mistakes.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?,
        section 4, and its code MauritsBleeker/ecir-2022-reproducibility-bleeker@9800594. arXiv:2202.07474
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import NamedTuple

SPLITS = ("train", "val", "test")
"""The splits of a dataset, in the order in which they are listed."""

EVALUATED_CAPTIONS = 5
"""Captions of an MS-COCO image in val and test: the published evaluation takes every fifth row for another image, and
prints 5,000 images with 25,000 captions [Bleeker2022]. Some images of COCO have six or seven. Training takes
them all, as the published runs of VSE++ did to judge by their batches: 127.99 pairs on average are those of 566,747
captions."""

SPLIT_ALIASES = {
    **dict.fromkeys(("train", "training", "restval"), "train"),
    **dict.fromkeys(("val", "valid", "validate", "validation", "dev", "development"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""Name of a split in a format -> its name here; restval is the rest of COCO's val images, which the papers train on."""

_COMPOUND = re.compile(r"(?:train|val|dev|test|all)+")
_SYLLABLES = re.compile(r"train|val|dev|test")


def splits_named(name: str) -> set[str]:
    """Return the splits that the words of a name name, whatever they are usually called.

    Example:
        >>> splits_named("captions_train2014"), splits_named("myValidation.json"), sorted(splits_named("trainval"))
        ({'train'}, {'val'}, ['train', 'val'])
        >>> splits_named("captions_all"), splits_named("latest")
        (set(), set())
    """
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    named = {SPLIT_ALIASES[word] for word in words if word in SPLIT_ALIASES}
    for word in words:
        if word not in SPLIT_ALIASES and _COMPOUND.fullmatch(word):
            named |= {SPLIT_ALIASES[part] for part in _SYLLABLES.findall(word)}
    return named


class Image(NamedTuple):
    """One image with its captions.

    Attributes:
        place: Place in the source, for messages.
        id: Id in the source; unique in the corpus.
        filename: Path relative to the dataset's folder or one of its image folders; empty if the format has none.
        split: One of ``SPLITS``.
        captions: Captions as written, in the source's order.
        caption_ids: Id of each caption in the source; empty if the format has no such ids.
    """

    place: str
    id: str
    filename: str
    split: str
    captions: tuple[str, ...]
    caption_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """The images and captions of one dataset.

    Attributes:
        file: The source's main file, for messages.
        images: Images in the order of the feature rows: of the images that share a feature file, the n-th has its n-th
            row.
        problems: Mistakes that the loader found; a corpus with problems is described, never trained on.
        notes: Remarks that are no mistakes, such as images that no split lists.
        reading: How the files were read where they can be read in more than one way; part of the dataset's digest.
    """

    file: str
    images: Sequence[Image]
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()
    reading: Sequence[str] = ()

    def split(self, name: str) -> list[Image]:
        """Return the images of one split in feature row order."""
        return [image for image in self.images if image.split == name]


_MS_COCO = re.compile(r"(?:.*/)?COCO_(?:train|val)2014_(\d{12})\.jpg")


def is_of_ms_coco(filename: str, key: str) -> bool:
    """Say whether a picture is one of MS-COCO: its file has COCO's name of the picture's id.

    The name of a file of captions says nothing: other datasets come in files of COCO's names.
    """
    match = _MS_COCO.fullmatch(filename)
    return match is not None and match[1] == key.zfill(12)


def cut_captions(corpus: Corpus) -> Corpus:
    """Return a corpus whose val and test images keep their first ``EVALUATED_CAPTIONS`` captions, noted if any go."""
    kept = [
        image
        if image.split == "train"
        else image._replace(
            captions=image.captions[:EVALUATED_CAPTIONS], caption_ids=image.caption_ids[:EVALUATED_CAPTIONS]
        )
        for image in corpus.images
    ]
    cut = sum(len(image.captions) for image in corpus.images) - sum(len(image.captions) for image in kept)
    note = (
        f"val and test keep the first {EVALUATED_CAPTIONS} captions of each image, as published: {cut:,} captions are "
        "left out; train keeps all of its captions"
    )
    reading = [*corpus.reading, f"{EVALUATED_CAPTIONS} captions in val and test"]
    return replace(corpus, images=kept, notes=[*corpus.notes, *([note] if cut else [])], reading=reading)


def check_corpus(corpus: Corpus) -> list[str]:
    """Return every problem of a corpus: problems of its records, then splits without images."""
    return check_records(corpus) + as_consequences(empty_splits(corpus), corpus)


def check_records(corpus: Corpus) -> list[str]:
    """Return the problems that the loader found, then broken rules across records."""
    problems = [*corpus.problems]
    problems += [
        f"{image.place}: the id {image.id!r:.60} is no Unicode text (half of a surrogate pair)"
        for image in corpus.images
        if not is_unicode(image.id)
    ]
    problems += [f"{image.place}: image without captions" for image in corpus.images if not image.captions]
    return problems + _repeated(corpus.images, "id") + _repeated(corpus.images, "filename")


def empty_splits(corpus: Corpus) -> list[str]:
    """Return a problem for each split without images."""
    return [
        f"{corpus.file}: split {split!r} has no images; every dataset needs train, val and test"
        for split in SPLITS
        if not any(image.split == split for image in corpus.images)
    ]


def as_consequences(problems: Sequence[str], corpus: Corpus) -> list[str]:
    """Return problems with a remark that they may only follow from problems that the loader found, if it found any."""
    because = " (perhaps because of the problems above: mend those first)" if corpus.problems else ""
    return [f"{problem}{because}" for problem in problems]


def caption_problem(caption: object) -> str | None:
    """Say what keeps a caption from being used: no text, or text that is no Unicode; ``None`` if it is good."""
    if not isinstance(caption, str):
        return f"the caption must be text, got {caption!r:.60}"
    if not caption.strip():
        return "empty caption: write one, or remove the record"
    if not is_unicode(caption):
        return f"the caption {caption!r:.60} is no Unicode text (half of a surrogate pair)"
    return None


def filename_problem(filename: object) -> str | None:
    """Say what keeps a file name from being looked up inside the data root; ``None`` if it is good."""
    if not isinstance(filename, str) or not filename or "\0" in filename or not is_unicode(filename):
        return f"the file name must be text, got {filename!r:.60}"
    if PurePosixPath(filename).is_absolute() or PureWindowsPath(filename).drive or filename.startswith("\\"):
        return f"file name {filename!r} is absolute; give it relative to the dataset's folder"
    if ".." in PurePosixPath(filename.replace("\\", "/")).parts:
        return f"file name {filename!r} leaves the data root; give it relative to the dataset's folder"
    return None


def is_unicode(text: str) -> bool:
    """Say whether a text can be written as UTF-8; half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _repeated(images: Sequence[Image], key: str) -> list[str]:
    """Name each image whose id or file name an earlier image has."""
    first: dict[str, Image] = {}
    problems = []
    for image in images:
        value = getattr(image, key)
        # Where both agree, the id has said it already.
        earlier = first.setdefault(value, image)
        if not value or earlier is image or (key == "filename" and earlier.id == image.id):
            continue
        if earlier.split != image.split:
            rule = f"the same image in two splits, {earlier.split!r} and {image.split!r}"
        else:
            rule = "two images of one " + ("id" if key == "id" else "file")
        problems.append(f"{image.place}: {rule}: {key} {value!r} is that of {earlier.place} too")
    return problems
