"""Where the image files of a dataset are: in its folder or in the folders in it, and nowhere else."""

from collections.abc import Sequence
from pathlib import Path

from trainables.data.corpus import Corpus


def image_folders(folder: Path) -> list[Path]:
    """Return the folders in which image files are looked up: the dataset's own, then those in it by name."""
    inner = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return [folder, *sorted(inner)]


def find_image(folders: Sequence[Path], filename: str) -> Path | None:
    """Return the first file of that name in the folders, ``None`` if there is none."""
    return next((path for folder in folders if filename and (path := folder / filename).is_file()), None)


def link_problem(path: Path, roots: Sequence[Path]) -> str | None:
    """Say that a file lies outside the resolved roots, links followed; ``None`` if it lies inside."""
    real = path.resolve()
    if any(real.is_relative_to(root) for root in roots):
        return None
    return f"{path}: is a link that leaves the data root {roots[0]}; move the file itself there"


def check_links(corpus: Corpus, folder: Path, roots: Sequence[Path]) -> list[str]:
    """Return a problem for each image whose file is there and lies outside the roots, links followed."""
    folders = image_folders(folder)
    problems = []
    for image in corpus.images:
        path = find_image(folders, image.filename)
        if path and (problem := link_problem(path, roots)):
            problems.append(f"{image.place}: {problem}")
    return problems
