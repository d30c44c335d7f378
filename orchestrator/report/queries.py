"""Ten queries in each direction, with the retrievals of a checkpoint."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainables.data.pictures import find_image, image_folders, link_problem
from trainables.errors import DataError

if TYPE_CHECKING:
    from trainables.data.dataset import Dataset, Split
    from trainables.data.source import Source

QUERIES, ANSWERS = 10, 5
SIDE = 168
"""Longer side of an embedded image in pixels; twice the image's size on the page."""
QUALITY = 72


@dataclass(frozen=True)
class Item:
    """An image or a caption.

    Attributes:
        text: The caption, or the source's name of the image.
        image: JPEG as a data URI; empty for a caption, and if the image file is missing.
        score: Similarity to the query; ``None`` for the query itself.
    """

    text: str
    image: str = ""
    score: float | None = None
    correct: bool = False


@dataclass(frozen=True)
class Query:
    """A query and its first answers.

    Attributes:
        rank: Rank of the first right answer, from 1, in the whole split; ties count against it.
    """

    query: Item
    rank: int
    answers: list[Item]


@dataclass(frozen=True)
class Queries:
    """Retrievals of one checkpoint.

    Attributes:
        note: Reason for missing retrievals or pictures.
        i2t: Images that query captions.
        t2i: Captions that query images.
    """

    title: str = ""
    note: str = ""
    i2t: list[Query] = field(default_factory=list)
    t2i: list[Query] = field(default_factory=list)


def retrieve(checkpoint: Path, data: "Dataset", source: "Source", split: str, *, device: str = "auto") -> Queries:
    """Return the retrievals of a checkpoint's best model.

    The queries are spread evenly over the split, so that no person selects the queries.

    Args:
        checkpoint: An ``epoch_NNNN`` directory.
        data: The dataset that the model was trained on.
        source: Source of the dataset's image files.
        split: ``val``, or ``test`` if the test split has been opened.
        device: See ``trainables.seeding``.

    Raises:
        CheckpointError: If the checkpoint is damaged or was trained on another dataset.
    """
    import torch

    from trainables.data.batches import ResidentSplit
    from trainables.evaluation import encode_captions, encode_images, evaluating, load_best
    from trainables.seeding import choose_device

    model, _ = load_best(checkpoint, data)
    where = choose_device(device)
    part = data.splits[split]
    with evaluating(model.to(where)):
        resident = ResidentSplit(part, where, model.crop_size)
        scores = model.scores(encode_images(model, resident), encode_captions(model, resident))
        everything = torch.arange(len(part.image_ids)), torch.arange(len(part.captions))
        asked_images, asked_captions = (_spread(len(each)) for each in everything)
        of_images = scores.between(torch.tensor(asked_images), everything[1]).cpu().numpy()
        of_captions = scores.between(everything[0], torch.tensor(asked_captions)).T.cpu().numpy()
    pictures = Pictures(part, source)
    return Queries(
        title=f"{data.name} {split}",
        note="" if pictures.found() else f"The image files of {data.name} {split} were not found; names are shown.",
        i2t=_image_queries(dict(zip(asked_images, of_images, strict=True)), part, pictures),
        t2i=_caption_queries(dict(zip(asked_captions, of_captions, strict=True)), part, pictures),
    )


class Pictures:
    """The images of a split as small data URIs, looked up in the dataset's folder and the folders in it."""

    def __init__(self, split: "Split", source: "Source") -> None:
        self._split, self._source = split, source
        self._folders = image_folders(source.folder)
        self._made: dict[int, str] = {}

    def item(self, image: int, score: float | None = None, correct: bool = False) -> Item:
        """Return an image of the split as an item."""
        if image not in self._made:
            self._made[image] = embedded_picture(self._split.filenames[image], self._folders, self._source)
        return Item(str(self._split.image_ids[image]), self._made[image], score, correct)

    def found(self) -> bool:
        """Say whether the first image's file is there."""
        return self._path(0) is not None

    def _path(self, image: int) -> Path | None:
        return _find(self._split.filenames[image], self._folders, self._source)


def embedded_picture(filename: str, folders: Sequence[Path], source: "Source") -> str:
    """Return an image file of a dataset as a small data URI; empty if the file is missing.

    Args:
        filename: Name of the image in the dataset.
        folders: Folders in which image files of the dataset may lie.
        source: The dataset; a link that leads out of its roots is not followed.
    """
    path = _find(filename, folders, source)
    return _data_uri(path) if path else ""


def _find(filename: str, folders: Sequence[Path], source: "Source") -> Path | None:
    path = find_image(folders, filename)
    return None if path is None or link_problem(path, source.roots) else path


def _image_queries(asked: Mapping[int, np.ndarray], split: "Split", pictures: Pictures) -> list[Query]:
    """Return the answers to images; ``asked`` maps each query to the scores of all captions."""
    found = []
    for image, scores in asked.items():
        correct = split.image_of_caption == image
        answers = [Item(split.captions[int(c)], "", float(scores[c]), bool(correct[c])) for c in _best(scores)]
        found.append(Query(pictures.item(image), _rank(scores, correct), answers))
    return found


def _caption_queries(asked: Mapping[int, np.ndarray], split: "Split", pictures: Pictures) -> list[Query]:
    """Return the answers to captions; ``asked`` maps each query to the scores of all images."""
    found = []
    for caption, scores in asked.items():
        correct = np.arange(len(scores)) == split.image_of_caption[caption]
        answers = [pictures.item(int(i), float(scores[i]), bool(correct[i])) for i in _best(scores)]
        found.append(Query(Item(split.captions[caption]), _rank(scores, correct), answers))
    return found


def _spread(count: int) -> list[int]:
    """Return up to ``QUERIES`` positions, evenly spaced from the first on."""
    return [place * count // min(QUERIES, count) for place in range(min(QUERIES, count))]


def _best(scores: np.ndarray) -> np.ndarray:
    return np.argsort(-scores, kind="stable")[:ANSWERS]


def _rank(scores: np.ndarray, correct: np.ndarray) -> int:
    """Return the rank of the best correct candidate; ties with wrong candidates rank against it."""
    return 1 + int((scores[~correct] >= scores[correct].max()).sum())


def _data_uri(path: Path) -> str:
    """Return an image file as a small JPEG; empty for an unreadable file, of which the page shows the name."""
    import PIL.Image

    from trainables.data.pictures import decode

    try:
        image = decode(path)
    except DataError:
        return ""
    image.thumbnail((SIDE * 2, SIDE * 2), PIL.Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
