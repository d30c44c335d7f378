"""Captions a line beside lists of pictures, as Multi30k has them: ``train.en`` (or ``train.1.en`` ...), ``train.txt``.

Line n of each caption list of a split is a caption of the picture in line n of the list of its pictures.
"""

from collections.abc import Sequence
from pathlib import Path

from trainables.data.corpus import caption_problem, splits_named
from trainables.data.importing.material import CaptionedPicture, Material, Taken, is_picture
from trainables.data.text_files import read_lines
from trainables.errors import DataError


def lists_pictures(path: Path) -> bool:
    """Say whether each line of a file is the name of a picture."""
    lines = [line.strip() for line in read_lines(path) if line.strip()]
    return bool(lines) and all(is_picture(line.partition("#")[0]) and "\t" not in line for line in lines)


def read_line_lists(files: Sequence[Path]) -> Material:
    """Return the pairs of lists of captions and of pictures (``DataError`` if they do not go together)."""
    pictures = [path for path in files if lists_pictures(path)]
    captions = [path for path in files if path not in pictures]
    material = Material(splits_named="the names of the files")
    for path in pictures:
        split = _split_of(path)
        of_split = [other for other in captions if _split_of(other) == split]
        endings = {other.suffix for other in of_split}
        if len(endings) != 1:
            there = ", ".join(other.name for other in of_split) or "no list of captions"
            raise DataError(
                f"{path}: lists the pictures of {split}; beside it are {there}: give the lists of one language"
            )
        names = [line.strip().partition("#")[0] for line in read_lines(path)]
        for other in sorted(of_split):
            lines = read_lines(other)
            if len(lines) != len(names):
                raise DataError(f"{other}: {len(lines)} captions for the {len(names)} pictures of {path.name}")
            for number, (name, caption) in enumerate(zip(names, lines, strict=True), 1):
                if wrong := caption_problem(caption):
                    material.problems.append(f"{other}: line {number}: {wrong}")
                else:
                    material.pairs.append(CaptionedPicture(f"{other}: line {number}", name, caption, split))
        lists = ", ".join(other.name for other in sorted(of_split))
        material.taken.append(Taken(path.name, f"names of the pictures of {split}, captions in {lists}"))
    return material


def _split_of(path: Path) -> str:
    named = splits_named(path.name)
    if len(named) != 1:
        raise DataError(f"{path}: its name must have one of train, val and test")
    return min(named)
