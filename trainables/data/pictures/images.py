"""Finds the image files of a dataset, in its folder and the folders in it."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainables.data.corpus import SPLITS, Corpus
from trainables.errors import DataError


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


def check_links(corpus: Corpus, folder: Path, roots: Sequence[Path]) -> list[str]:
    """Return a problem for each image file and each folder of them that leads outside the roots.

    Only links are followed: one listing of a folder finds them, where resolving COCO's 123,287 names takes a minute.
    """
    problems = []
    place_of = {name: image.place for image in corpus.images for name in (image.filename, Path(image.filename).name)}
    for inner in image_folders(folder):
        if problem := link_problem(inner, roots):
            problems.append(problem)
            continue
        for link in _links(inner):
            if link.name in place_of and (problem := link_problem(link, roots)):
                problems.append(f"{place_of[link.name]}: {problem}")
    return problems


def list_images(folder: Path) -> dict[str, Path]:
    """Return name -> file of the image folders, for names with and without the folder."""
    found: dict[str, Path] = {}
    for inner in image_folders(folder):
        with os.scandir(inner) as entries:
            paths = {entry.name: Path(entry.path) for entry in entries if entry.is_file()}
        found |= {f"{inner.name}/{name}": path for name, path in paths.items() if inner != folder}
        # Of two files of one name, the one in the folder that is listed first is meant, as in find_image.
        found = paths | found
    return found


def check_images(corpus: Corpus, found: dict[str, Path], *, decode: bool) -> list[str]:
    """Name the image files that are missing from a split that has others, and with ``decode`` those that are broken.

    A split without any image file is no problem, because the dataset may have features alone.
    """
    problems = []
    for split in SPLITS:
        images = corpus.split(split)
        there = [image for image in images if image.filename in found]
        if there and len(there) < len(images):
            problems += [
                f"{image.place}: image {image.filename!r} is missing; {len(there)} others of {split} are there"
                for image in images
                if image.filename not in found
            ]
        if decode:
            problems += _check_decoding([found[image.filename] for image in there])
    return problems


def _check_decoding(paths: Sequence[Path]) -> list[str]:
    """Decode files on all cores (the decoder lets other threads run) and name those that fail."""
    from trainables.data.pictures.pixels import decode

    def find_problems(path: Path) -> list[str]:
        try:
            decode(path)
        except DataError as error:
            return error.problems
        return []

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [problem for problems in pool.map(find_problems, paths) for problem in problems]


def _links(folder: Path) -> Iterator[Path]:
    """Yield each link in a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield Path(entry.path)
