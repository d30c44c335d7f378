"""Models from elsewhere, read as files: embeddings or a similarity matrix, ranked on a split of a dataset.

Rows are in the order of the split: its images, and its captions image by image. Nothing is loaded that can run code.
"""

import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainables.errors import ConfigError, DataError
from trainables.files import whole_directory
from trainables.judged_ranks import JudgedRanks, JudgedSplit
from trainables.ranks import Ranks

if TYPE_CHECKING:
    from torch import Tensor

    from trainables.data.dataset import Split
    from trainables.positive_ranks import PairScores

CUTS = (5, 10, 20)
"""Words after which captions are cut, for the curve over lengths."""


@dataclass(frozen=True)
class RankedFiles:
    """What a model of files retrieves on a split: its ranks in each fold, and the ranks of judged pairs."""

    folds: tuple[Ranks, ...]
    judged: tuple[JudgedRanks, ...] = ()


class MatrixScores:
    """A similarity matrix of shape (I, C) as scores of pairs; equal numbers are ties."""

    tolerance = 0.0

    def __init__(self, matrix: "Tensor") -> None:
        self._matrix, self.device = matrix.double(), matrix.device

    def between(self, images: "Tensor", captions: "Tensor") -> "Tensor":
        """Return the scores of some images with some captions, both indices, shape (images, captions)."""
        return self._matrix[images][:, captions]


def rank_files(
    files: Sequence[Path], split: "Split", *, folds: int = 1, judgements: Sequence[JudgedSplit] = ()
) -> RankedFiles:
    """Return the ranks of embeddings, compared by dot products, or of similarities.

    Args:
        files: Images (I, D) and captions (C, D), or one file of similarities (I, C), larger is closer; ``.npy``.
        split: The split whose queries they answer.
        folds: Number of consecutive parts with equally many images, each ranked alone; judged pairs need one fold.
        judgements: People's judgements of the split.

    Raises:
        DataError: If a file is missing, damaged, or does not fit the split.
        ConfigError: If the folds do not divide the images.
    """
    import torch

    from trainables.evaluation import ranks_of
    from trainables.positive_ranks import BlockScores, rank_positives, rank_similarity

    if split.labels is not None or split.caption_labels is not None:
        raise DataError(
            f"{split.name}: has images with classes or labels; vectors of other programs are read of captions alone"
        )
    owners = torch.from_numpy(split.image_of_caption.astype(np.int64))
    images, captions = len(split.image_rows), len(owners)
    if folds < 1 or images % folds:
        raise ConfigError(f"--folds must divide the {images:,} images of the {split.name} split, got {folds}")
    shapes = [(images, captions)] if len(files) == 1 else [(images, -1), (captions, -1)]
    arrays = [read_array(file, shape) for file, shape in zip(files, shapes, strict=True)]

    def ranks_in(rows: slice, columns: slice, own: "Tensor") -> "tuple[Tensor, Tensor]":
        if len(arrays) == 1:
            return rank_similarity(arrays[0][rows, columns], own)
        return rank_positives(arrays[0][rows], arrays[1][columns], own)

    parts = list(_folds(split.image_of_caption, images, folds))
    try:
        ranked = [ranks_in(rows, columns, owners[columns] - rows.start) for rows, columns in parts]
    except ValueError as error:
        raise DataError(f"{', '.join(map(str, files))}: {split.name}: {error}") from None
    if folds > 1:
        digest = split.queries_digest()
        whole = enumerate(zip(parts, ranked, strict=True))
        return RankedFiles(
            tuple(
                Ranks(
                    i2t.numpy().astype(np.int32),
                    t2i.numpy().astype(np.int32),
                    (split.image_of_caption[columns] - rows.start).astype(np.int32),
                    f"{digest[:56]}{place:08d}",
                    split.name,
                )
                for place, ((rows, columns), (i2t, t2i)) in whole
            )
        )
    scores: PairScores = MatrixScores(arrays[0]) if len(arrays) == 1 else BlockScores(*arrays)
    judged = tuple(source.rank(scores) for source in judgements)
    return RankedFiles((ranks_of(split, *ranked[0]),), judged)


def _folds(image_of_caption: np.ndarray, images: int, folds: int) -> Iterator[tuple[slice, slice]]:
    """Yield images and captions of each fold."""
    size = images // folds
    for start in range(0, images, size):
        first, last = np.searchsorted(image_of_caption, [start, start + size])
        yield slice(start, start + size), slice(int(first), int(last))


def read_array(file: Path, shape: tuple[int, ...]) -> "Tensor":
    """Return the array of a ``.npy`` file, float32 or float64, after a check of its shape; -1 is any length.

    Raises:
        DataError: If the file is missing, damaged, of another shape, or holds no floating-point numbers.
    """
    import torch

    try:
        # Mapped, so that a file of another shape is refused before its values are read.
        values = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, zipfile.BadZipFile) as error:
        raise DataError(f"{file}: holds no array, or is damaged: {error}") from None
    if not isinstance(values, np.ndarray):
        raise DataError(f"{file}: must be one array as numpy.save writes it, got an archive")
    expected = " x ".join("any" if size < 0 else f"{size:,}" for size in shape)
    if values.ndim != len(shape) or any(
        size not in (-1, length) for size, length in zip(shape, values.shape, strict=True)
    ):
        raise DataError(f"{file}: must have the shape {expected} of the split, got {values.shape}")
    if values.dtype.kind != "f":
        raise DataError(f"{file}: must hold floating-point numbers, got {values.dtype}")
    return torch.from_numpy(values.astype(np.float64 if values.dtype.itemsize == 8 else np.float32))


@dataclass(frozen=True, eq=False)
class Choices:
    """Answers to questions "which of two captions fits the image?".

    Attributes:
        correct: Whether the right caption scores higher, shape (N,); a tie is wrong.
        images: Image of each question, shape (N,), from 0 without a gap.
    """

    correct: np.ndarray
    images: np.ndarray


def read_choices(files: Sequence[Path], questions: Path | None = None) -> Choices:
    """Return the answers of a model to questions with one right and one wrong caption.

    Args:
        files: Embeddings of image, right and wrong caption of each question, (N, D) three times, compared by dot
            products; or one file of scores (N, 2), the right caption first. ``.npy``.
        questions: The questions as SugarCrepe has them, a JSON object of objects with ``filename``; it says which
            questions share an image. ``None`` takes each question as an image of its own.

    Raises:
        DataError: If a file is missing, damaged, or does not fit the others.
    """
    import torch

    if len(files) == 1:
        right, wrong = read_array(files[0], (-1, 2)).double().unbind(1)
    else:
        image, *captions = (read_array(file, (-1, -1)).double() for file in files)
        if len({part.shape for part in (image, *captions)}) != 1:
            raise DataError(f"{', '.join(map(str, files))}: must have one shape (questions, dimensions)")
        right, wrong = ((image * caption).sum(1) for caption in captions)
    if not bool(torch.isfinite(right).all() and torch.isfinite(wrong).all()):
        raise DataError(f"{', '.join(map(str, files))}: scores must be finite")
    count = len(right)
    places = np.arange(count) if questions is None else _images_of(questions, count)
    # Sums of products round; within rounding a score is a tie, and no answer.
    scale = float(torch.maximum(right.abs(), wrong.abs()).max()) if count else 0.0
    return Choices((right > wrong + 1e-12 * scale).numpy(), places)


def _images_of(questions: Path, count: int) -> np.ndarray:
    """Return the image of each question, from 0 without a gap."""
    try:
        content = json.loads(questions.read_text(encoding="utf-8"))
        entries = list(content.values()) if isinstance(content, dict) else list(content)
        names = [str(entry["filename"]) for entry in entries]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{questions}: must be JSON questions with `filename`: {error}") from None
    if len(names) != count:
        raise DataError(f"{questions}: has {len(names):,} questions, but the files answer {count:,}")
    return np.unique(names, return_inverse=True)[1]


def write_captions(folder: Path, split: "Split") -> list[Path]:
    """Write the captions of a split for an encoder, whole and cut after ``CUTS`` words, and the names of its images.

    Lines are in the order of the rows that ``rank_files`` reads.

    Raises:
        ConfigError: If the folder exists.
    """
    if folder.exists():
        raise ConfigError(f"{folder}: exists; name a folder that does not")
    captions = [" ".join(caption.split()) for caption in split.captions]
    texts = {"captions.txt": captions}
    texts |= {f"captions_{words}.txt": [" ".join(text.split()[:words]) for text in captions] for words in CUTS}
    texts["images.txt"] = [name or key for name, key in zip(split.filenames, split.image_ids, strict=True)]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_directory(folder) as partial:
        for name, lines in texts.items():
            (partial / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [folder / name for name in texts]
