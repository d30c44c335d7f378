"""The image files of a dataset: found, decoded, and cropped as VSE++ does it.

Pictures are not trusted. Formats that start other programs are not opened. A picture's size is checked before it is
decoded. Pixels without a known range are refused, because they cannot be turned into 8 bits a channel.

For evaluation the shorter side is resized and the centre cut out. For training a random part of the image is resized to
the crop and mirrored half of the time [Faghri2018]. Resizing is bilinear with antialiasing, as published.

The random crop of an image is a function of a seed and of its row alone. Neither threads nor the order of batches
change it.

References:
    [Faghri2018] Faghri et al., VSE++. arXiv:1707.05612; code fartashf/vsepp@abe382f, data.py:311-325.
"""

import hashlib
import math
import os
import struct
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trainables.allotment import usable_cpus
from trainables.data.corpus import SPLITS, Corpus
from trainables.data.reading import View
from trainables.data.text_files import Strings
from trainables.errors import DataError

if TYPE_CHECKING:
    import PIL.Image


def image_folders(folder: Path) -> list[Path]:
    """Return the folders in which image files are looked up: the dataset's folder, then its subfolders by name."""
    inner = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return [folder, *sorted(inner)]


def find_image(folders: Sequence[Path], filename: str) -> Path | None:
    """Return the first file of a name in the folders, ``None`` if there is none."""
    return next((path for folder in folders if filename and (path := folder / filename).is_file()), None)


def link_problem(path: Path, roots: Sequence[Path]) -> str | None:
    """Say that a file lies outside the resolved roots, links followed; ``None`` if it lies inside."""
    real = path.resolve()
    if any(real.is_relative_to(root) for root in roots):
        return None
    return f"{path}: is a link that leaves the data root {roots[0]}; move the file itself there"


def find_images(folder: Path, filenames: Iterable[str]) -> dict[str, "os.DirEntry[str]"]:
    """Return the file of each name that is in the image folders of a dataset, or deeper where the name says so.

    Each folder is listed once, because asking for COCO's 123,287 files one by one takes a minute on a slow disk. Of two
    files of one name, the file in the folder that comes first is meant, as in ``find_image``.
    """
    names_in: dict[str, list[tuple[str, str]]] = {}
    for filename in filenames:
        inner, name = os.path.split(filename)
        names_in.setdefault(inner, []).append((name, filename))
    files: dict[str, os.DirEntry[str]] = {}
    for image_folder in image_folders(folder):
        for inner, names in names_in.items():
            listed = _files_in(image_folder / inner)
            for name, filename in names:
                if name in listed:
                    files.setdefault(filename, listed[name])
    return files


def _files_in(folder: Path) -> dict[str, "os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry for entry in entries if entry.is_file()}
    except (FileNotFoundError, NotADirectoryError):
        return {}


def check_links(corpus: Corpus, folder: Path, roots: Sequence[Path]) -> list[str]:
    """Return a problem for each image file and each folder of them that leads outside the roots."""
    place_of = {image.filename: image.place for image in corpus.images}
    files = find_images(folder, place_of)
    problems = _outside_folders(folder, files.values(), roots)
    return problems + [f"{place_of[name]}: {problem}" for name, problem in _outside_files(files, roots).items()]


def _outside_folders(folder: Path, files: Iterable["os.DirEntry[str]"], roots: Sequence[Path]) -> list[str]:
    """Return a problem for each image folder, and each folder of an image file, that leads outside the roots."""
    folders = dict.fromkeys([*map(str, image_folders(folder)), *(os.path.split(file.path)[0] for file in files)])
    return [problem for path in folders if (problem := link_problem(Path(path), roots))]


def _outside_files(files: Mapping[str, "os.DirEntry[str]"], roots: Sequence[Path]) -> dict[str, str]:
    """Return name -> problem of each file that is a link out of the roots.

    Only links are followed: resolving COCO's 123,287 names takes a minute.
    """
    links = {name: Path(file.path) for name, file in files.items() if file.is_symlink()}
    return {name: problem for name, path in links.items() if (problem := link_problem(path, roots))}


def check_images(corpus: Corpus, files: Mapping[str, "os.DirEntry[str]"], *, decode: bool) -> list[str]:
    """Name the image files that are missing from a split that has others, and with ``decode`` the broken files.

    A split without any image file is no problem, because the dataset may have features alone.
    """
    problems = []
    for split in SPLITS:
        images = corpus.split(split)
        there = [image for image in images if image.filename in files]
        if there and len(there) < len(images):
            problems += [
                f"{image.place}: image {image.filename!r} is missing; {len(there)} others of {split} are there"
                for image in images
                if image.filename not in files
            ]
        if decode:
            problems += _check_decoding([Path(files[image.filename].path) for image in there])
    return problems


def _check_decoding(paths: Sequence[Path]) -> list[str]:
    """Decode files on all cores (the decoder lets other threads run) and name the files that fail."""

    def find_problems(path: Path) -> list[str]:
        try:
            decode(path)
        except DataError as error:
            return error.problems
        return []

    with ThreadPoolExecutor(usable_cpus()) as pool:
        return [problem for problems in pool.map(find_problems, paths) for problem in problems]


FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are opened, whatever the file's name; other formats of Pillow may start programs (EPS: Ghostscript)."""

MOST_PIXELS = 1 << 25
"""Most pixels of a picture, e.g. 7,000 x 4,700; decoding takes 4 bytes a pixel, or 8 with alpha."""

LONGEST = 100
"""Most times that a picture is longer than wide, because its shorter side is resized to about the crop's."""

_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGBA", "RGBX", "CMYK", "YCbCr")
"""Pillow's modes of at most 8 bits a channel beside RGB, all of which it converts by their range."""

_SIXTEEN_BITS = (("PNG", "I;16"), ("PNG", "I"), ("PPM", "I"))
"""Formats and modes whose values lie in [0, 65535]; those of a TIFF may have any range."""

_BROKEN = (
    *(OSError, SyntaxError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RuntimeError),
    *(EOFError, AssertionError, MemoryError, struct.error, zlib.error),
)
"""Errors of Pillow's readers about a file that is missing, cut short, damaged, or no picture."""

AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
"""Ranges of a random crop: part of the image's area, and width over height."""


@cache
def _pillow() -> ModuleType:
    """Return ``PIL.Image``, which trainings from features do without."""
    import PIL.Image

    # A picture about which Pillow warns is refused below, with its name.
    warnings.filterwarnings("ignore", category=PIL.Image.DecompressionBombWarning)
    return PIL.Image


def decode(path: Path, frame: int = 0) -> "PIL.Image.Image":
    """Return the pixels of a file, or of a frame of a picture that moves, as red, green and blue of 8 bits each.

    A grey picture of 16 bits is scaled by its range; transparency is dropped, as torchvision drops it.

    Raises:
        DataError: If the file is missing or damaged, of no format of ``FORMATS``, too large, or of pixels without a
            known range; the message names it.
    """
    pillow = _pillow()
    try:
        with pillow.open(path, formats=FORMATS) as image:
            if frame:
                image.seek(frame)
            return _to_rgb(image)
    except (*_BROKEN, pillow.DecompressionBombError) as error:
        raise undecodable(path, error) from error


def count_frames(path: Path) -> int:
    """Return the number of frames of a picture, >= 1; 1 where it does not move (``DataError`` where it is none)."""
    pillow = _pillow()
    try:
        with pillow.open(path, formats=FORMATS) as image:
            return int(getattr(image, "n_frames", 1))
    except (*_BROKEN, pillow.DecompressionBombError) as error:
        raise undecodable(path, error) from error


def undecodable(path: Path, error: BaseException, kind: str = "picture") -> DataError:
    """Return the error about a picture or a video that cannot be decoded, with the file, the reason and the remedy."""
    return DataError(f"{path}: cannot be decoded: {_reason(error)}; fetch the {kind} again, or another")


def center_crop(image: "PIL.Image.Image", size: int) -> np.ndarray:
    """Resize the shorter side to 256/224 of the crop and cut out the centre, shape (size, size, 3), uint8."""
    shorter = resized_side(size)
    # In this order of operations the sizes are torchvision's to the pixel.
    width, height = (int(shorter * side / min(image.size)) for side in image.size)
    image = image.resize((width, height), _pillow().Resampling.BILINEAR)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return np.asarray(image.crop((left, top, left + size, top + size)))


def random_crop(image: "PIL.Image.Image", size: int, random: np.random.Generator) -> np.ndarray:
    """Resize a random part to the crop and mirror it half of the time, shape (size, size, 3), uint8."""
    pixels = np.asarray(random_part(image, size, random))
    return pixels[:, ::-1] if random.random() < 0.5 else pixels


def random_part(
    image: "PIL.Image.Image", size: int, random: np.random.Generator, least_area: float = AREA[0]
) -> "PIL.Image.Image":
    """Return a random part of at least a share of the area, in (0, 1], resized to ``size`` x ``size``."""
    left, top, width, height = _random_box(*image.size, random, least_area)
    part = image.crop((left, top, left + width, top + height))
    return part.resize((size, size), _pillow().Resampling.BILINEAR)


def resized_side(size: int) -> int:
    """Return the length of the shorter side from which the centre is cut: 256 for 224."""
    return round(size * 256 / 224)


def check_size(width: int, height: int) -> None:
    """Raise ``ValueError`` for a picture with more pixels, or a longer one, than is decoded."""
    if width * height > MOST_PIXELS:
        raise ValueError(f"{width:,} x {height:,} pixels are more than {MOST_PIXELS:,}; make it smaller")
    if max(width, height) > LONGEST * min(width, height):
        raise ValueError(f"with {width:,} x {height:,} pixels it is more than {LONGEST} times longer than wide")


def _to_rgb(image: "PIL.Image.Image") -> "PIL.Image.Image":
    """Decode an opened image; ``ValueError`` if it is too large, or the range of its values is not known."""
    check_size(*image.size)
    if image.mode == "RGB":
        # Converting would copy it.
        image.load()
        return image
    if (image.format, image.mode) in _SIXTEEN_BITS:
        values = (np.asarray(image).astype(np.uint32) + 128) // 257
        scaled: PIL.Image.Image = _pillow().fromarray(values.astype(np.uint8))
        return scaled.convert("RGB")
    if image.mode not in _EIGHT_BITS:
        raise ValueError(
            f"it has pixels of mode {image.mode!r} in {image.format} format, whose range of brightness is not known; "
            "save it with 8 bits a channel"
        )
    return image.convert("RGB")


def _reason(error: BaseException) -> str:
    if isinstance(error, _pillow().UnidentifiedImageError):
        return f"it is no picture of the formats that are read, {', '.join(FORMATS)}"
    if isinstance(error, _pillow().DecompressionBombError):
        return f"it has more than {MOST_PIXELS:,} pixels; make it smaller"
    if isinstance(error, OSError | ValueError | SyntaxError):
        return str(getattr(error, "strerror", None) or error)
    return f"{type(error).__name__}: {error}"


def _random_box(width: int, height: int, random: np.random.Generator, least_area: float) -> tuple[int, int, int, int]:
    """Draw left, top, width and height of a part; after ten misfits, take the largest part in the centre."""
    for _ in range(10):
        area = width * height * random.uniform(least_area, AREA[1])
        aspect = math.exp(random.uniform(math.log(ASPECT[0]), math.log(ASPECT[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(random.integers(width - w + 1)), int(random.integers(height - h + 1)), w, h
    w = min(width, round(height * ASPECT[1]))
    h = min(height, round(width / ASPECT[0]))
    return (width - w) // 2, (height - h) // 2, w, h


@dataclass(frozen=True)
class Crop:
    """The view of a backbone: the centre, or a random part; shape (size, size, 3), uint8."""

    size: int

    def __call__(self, image: "PIL.Image.Image", random: np.random.Generator | None) -> np.ndarray:
        """See ``trainables.data.reading.View``."""
        return center_crop(image, self.size) if random is None else random_crop(image, self.size, random)


class ImageFiles(NamedTuple):
    """The image files of a split.

    ``names`` are paths in the dataset's folder, and ``ids`` are the source's, for messages; I strings each.
    """

    folder: Path
    names: Strings
    ids: Strings

    def read(self, row: int, view: View, draw: int | None) -> np.ndarray:
        """Return a view of an image, or with a seed ``draw`` of a random part of it.

        Raises:
            DataError: If the file cannot be read.
        """
        try:
            image = decode(self.folder / self.names[row])
        except DataError as error:
            raise DataError(f"image {self.ids[row]!r}: {error}") from error
        return view(image, None if draw is None else np.random.default_rng((draw, row)))


def find_image_files(
    folder: Path, roots: Sequence[Path], splits: Mapping[str, tuple[Strings, Strings]]
) -> tuple[dict[str, ImageFiles], str]:
    """Find the file of every image of some splits.

    ``splits`` has file names and ids of each split's images; no file may leave the resolved ``roots``.

    Returns:
        The files by split, and a SHA-256 over names and sizes: reading 20 GB of pixels would take minutes.

    Raises:
        DataError: If files are missing or lie outside the roots; the message names each image.
    """
    found = find_images(folder, chain.from_iterable(filenames for filenames, _ in splits.values()))
    problems = _outside_folders(folder, found.values(), roots)
    outside = _outside_files(found, roots)
    digest = hashlib.sha256()
    files = {}
    for split, (filenames, ids) in splits.items():
        names = []
        for filename, key in zip(filenames, ids, strict=True):
            if filename not in found:
                problems.append(f"{folder}: {split} image {key!r}: file {filename!r} is in neither it nor its folders")
                continue
            if filename in outside:
                problems.append(f"{split} image {key!r}: {outside[filename]}")
            digest.update(f"{split} {filename} {found[filename].stat().st_size}\n".encode())
            names.append(os.path.relpath(found[filename].path, folder))
        files[split] = ImageFiles(folder, Strings.pack(names), ids)
    if problems:
        raise DataError(problems)
    return files, digest.hexdigest()
