"""Crops of a dataset's images, decoded from their files when a batch asks for them.

A request returns at once and threads decode (the decoder lets other threads run), so that the crops of the next batch
are made while the network works on this batch. The random crop of an image is a function of a seed and of its row
alone, so neither threads nor the order of batches change it.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from trainables.data.pictures.images import image_folders, link_problem, list_images
from trainables.data.text_files import Strings
from trainables.errors import DataError


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """The image files of a split.

    Attributes:
        folder: The dataset's folder.
        names: Path of each image's file in the folder; I strings.
        ids: The source's id of each image, for messages; I strings.
    """

    folder: Path
    names: Strings
    ids: Strings

    def crop(self, row: int, size: int, draw: int | None) -> np.ndarray:
        """Return the centre of an image, or with a seed ``draw`` a random part of it: (size, size, 3), uint8.

        Raises:
            DataError: If the file cannot be read.
        """
        from trainables.data.pictures.pixels import center_crop, decode, random_crop

        try:
            image = decode(self.folder / self.names[row])
        except DataError as error:
            raise DataError(f"image {self.ids[row]!r}: {error}") from error
        if draw is None:
            return center_crop(image, size)
        return random_crop(image, size, np.random.default_rng((draw, row)))


class CropReader:
    """Decodes crops of one size ahead of their use."""

    def __init__(self, files: ImageFiles, size: int, threads: int) -> None:
        """Prepare to decode with ``threads`` >= 1 threads, which start with the first request."""
        self._files, self._size = files, size
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="decode")

    def request(self, rows: Sequence[int], draw: int | None) -> Callable[[], np.ndarray]:
        """Begin to decode images; return a function that waits for their crops, (len(rows), size, size, 3), uint8."""
        return partial(_collect, [self._pool.submit(self._files.crop, row, self._size, draw) for row in rows])


def find_image_files(
    folder: Path, roots: Sequence[Path], splits: Mapping[str, tuple[Strings, Strings]]
) -> tuple[dict[str, ImageFiles], str]:
    """Find the file of every image of some splits.

    Args:
        folder: The dataset's folder.
        roots: Resolved folders that no file may leave.
        splits: File names and ids of each split's images.

    Returns:
        The files by split, and a SHA-256 over names and sizes: reading 20 GB of pixels would take minutes.

    Raises:
        DataError: If files are missing or lie outside the roots; the message names each image.
    """
    found = list_images(folder)
    problems = [problem for inner in image_folders(folder) if (problem := link_problem(inner, roots))]
    digest = hashlib.sha256()
    files = {}
    for split, (filenames, ids) in splits.items():
        names = []
        for filename, key in zip(filenames, ids, strict=True):
            path = found.get(filename)
            if path is None:
                problems.append(f"{folder}: {split} image {key!r}: file {filename!r} is in neither it nor its folders")
                continue
            size, problem = _inspect(path, roots)
            problems += [f"{split} image {key!r}: {problem}"] if problem else []
            digest.update(f"{split} {filename} {size}\n".encode())
            names.append(os.path.relpath(path, folder))
        files[split] = ImageFiles(folder, Strings.pack(names), ids)
    if problems:
        raise DataError(problems)
    return files, digest.hexdigest()


def _inspect(path: Path, roots: Sequence[Path]) -> tuple[int, str | None]:
    """Return a file's size, and why its place is refused; only links are resolved, because resolving is slow."""
    status = path.lstat()
    if not stat.S_ISLNK(status.st_mode):
        return status.st_size, None
    return path.stat().st_size, link_problem(path, roots)


def _collect(crops: Sequence[Future[np.ndarray]]) -> np.ndarray:
    """Wait for crops; ``DataError`` names every image of the batch that cannot be read."""
    errors = [error for crop in crops if (error := crop.exception())]
    problems = [problem for error in errors if isinstance(error, DataError) for problem in error.problems]
    if problems:
        raise DataError(list(dict.fromkeys(problems)))
    return np.stack([crop.result() for crop in crops])
