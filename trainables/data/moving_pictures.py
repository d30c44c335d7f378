"""The frames of clips: pictures that move (GIF, WebP, PNG), or a folder of pictures for each clip.

A clip has no file name in its dataset. It is looked up by its id in the dataset's folder and the folders in it, such as
``clips/ID.gif`` or ``clips/ID/0001.png``, whose frames are in the order of the names. A picture that does not move is a
clip of one frame.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from trainables.data.pictures import count_frames, image_folders, link_problem

SUFFIXES = (".gif", ".webp", ".png")
"""Endings of the files that are looked up, in this order."""

STILL = (".png", ".jpg", ".jpeg", ".webp")
"""Endings of the pictures in a clip's own folder."""


class Frame(NamedTuple):
    """A frame: the file, and its number in the file, from 0."""

    path: Path
    number: int


def find_clip(folders: Sequence[Path], clip: str) -> list[Path]:
    """Return the one file of a clip, or the pictures of its folder by their names; nothing where it has neither.

    ``folders`` are those of ``pictures.image_folders``. An id with a part of a path names nothing.
    """
    if not clip or Path(clip).name != clip:
        return []
    for folder in folders:
        if found := next((path for suffix in SUFFIXES if (path := folder / f"{clip}{suffix}").is_file()), None):
            return [found]
        if (inner := folder / clip).is_dir():
            return sorted(path for path in inner.iterdir() if path.suffix.lower() in STILL and path.is_file())
    return []


def find_frames(folder: Path, clips: Iterable[str], roots: Sequence[Path]) -> tuple[dict[str, list[Frame]], list[str]]:
    """Return the frames of each clip that is found under a dataset's folder, and a problem for each link out of it.

    Raises:
        DataError: If a file is no picture.
    """
    folders, frames, problems = image_folders(folder), {}, []
    for clip in clips:
        paths = find_clip(folders, clip)
        outside = [problem for path in paths if (problem := link_problem(path, roots))]
        problems += outside
        if len(paths) == 1 and not outside:
            frames[clip] = [Frame(paths[0], number) for number in range(count_frames(paths[0]))]
        elif paths and not outside:
            frames[clip] = [Frame(path, 0) for path in paths]
    return frames, problems
