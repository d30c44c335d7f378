"""Flickr8k and Flickr30k as their authors gave them: ``Flickr8k.token.txt``, ``results_20130124.token``.

A line is a caption: ``NAME.jpg#2<tab>A dog runs .``. The splits are lists of file names in the same folder, with or
without ``.jpg``: ``Flickr_8k.trainImages.txt``, ``.devImages.txt``, ``.testImages.txt``, or ``train.txt``, ``val.txt``,
``test.txt``. Feature rows follow these lists: train, then val, then test. Images with captions that are in no list are
left out; the published lists leave out 92 of Flickr8k's 8,092.

References:
    [Hodosh2013] Hodosh, Young and Hockenmaier, Framing Image Description as a Ranking Task. JAIR 47.
    [Young2014] Young et al., From Image Descriptions to Visual Denotations. TACL 2.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from trainables.data.corpus import Corpus, Image, caption_problem, filename_problem
from trainables.data.text_files import checked, numbered_lines, read_lines
from trainables.errors import DataError

FORMAT = "Flickr captions (*.token or *.token.txt, with *.trainImages.txt or train.txt ...)"

# Numbers of at most nine digits, because Python refuses thousands.
_LINE = re.compile(r"([^\t]+)#([0-9]{1,9})\t(.*)")
_LISTS = {
    "train": ("*trainImages.txt", "train.txt", "train_list.txt"),
    "val": ("*devImages.txt", "val.txt", "dev.txt", "val_list.txt"),
    "test": ("*testImages.txt", "test.txt", "test_list.txt"),
}


def find(folder: Path) -> list[Path]:
    """Return the caption file and the split lists, or nothing."""
    # Flickr8k's archive also holds lemmatised captions, and captions that were judged by experts.
    paths = sorted([*folder.glob("*.token"), *folder.glob("*.token.txt")])
    tokens = [path for path in paths if "lemma" not in path.name]
    return [*tokens, *split_lists(folder).values()] if tokens else []


def read(files: Sequence[Path]) -> Corpus:
    """Read the captions, then the lists; problems are collected with their lines."""
    lists = split_lists(files[0].parent)
    token_files = [file for file in files if file not in lists.values()]
    if len(token_files) > 1:
        names = ", ".join(file.name for file in token_files)
        raise DataError(f"{files[0].parent}: one caption file a folder, but here are {names}; move all but one away")
    if not lists:
        wanted = ", ".join(patterns[0].replace("*", "Flickr_8k.") for patterns in _LISTS.values())
        raise DataError(f"{token_files[0]}: no lists of the splits beside it; fetch {wanted}")
    check_lists(files[0].parent)
    problems: list[str] = []
    captions = _read_captions(token_files[0], problems)
    images = [image for split, file in lists.items() for image in _read_list(file, split, captions, problems)]
    left_out = len(captions.keys() - {image.filename for image in images})
    notes = [f"{left_out} images with captions are in no list and left out"] if left_out else []
    return Corpus(str(token_files[0]), images, problems, notes)


def split_lists(folder: Path) -> dict[str, Path]:
    """Return the list of file names, or ids, of each split that has one."""
    there = _lists_of(folder)
    return {split: paths[0] for split, paths in there.items() if paths}


def check_lists(folder: Path) -> None:
    """Refuse two lists of one split that do not list the same (``DataError``)."""
    for split, (first, *others) in ((split, paths) for split, paths in _lists_of(folder).items() if paths):
        listed = {line.strip().removesuffix(".jpg") for line in read_lines(first)}
        for other in others:
            if {line.strip().removesuffix(".jpg") for line in read_lines(other)} != listed:
                raise DataError(f"{other}: is of {split} like {first.name}, and lists others; move one of the two away")


def _lists_of(folder: Path) -> dict[str, list[Path]]:
    """Return the lists of each split, the one that is read first."""
    return {
        split: list(dict.fromkeys(path for pattern in patterns for path in sorted(folder.glob(pattern))))
        for split, patterns in _LISTS.items()
    }


def _read_captions(file: Path, problems: list[str]) -> dict[str, list[str]]:
    """Return the captions of each file name in the order of their numbers."""
    numbered: dict[str, dict[int, str]] = {}
    for place, line in numbered_lines(file):
        if (match := _LINE.fullmatch(line)) is None:
            problems.append(f"{place}: must be 'NAME.jpg#NUMBER<tab>caption', got {line!r:.60}")
            continue
        filename, index, caption = match[1], int(match[2]), match[3]
        wrong = filename_problem(filename) or caption_problem(caption)
        if index in numbered.get(filename, {}):
            wrong = f"caption {index} of {filename!r} is there twice"
        if wrong:
            problems.append(f"{place}: {wrong}")
        else:
            numbered.setdefault(filename, {})[index] = caption
    return {filename: [captions[key] for key in sorted(captions)] for filename, captions in numbered.items()}


def _read_list(file: Path, split: str, captions: dict[str, list[str]], problems: list[str]) -> list[Image]:
    images = []
    names = ((place, line.strip()) for place, line in numbered_lines(file))
    for place, name in checked(names, filename_problem, problems):
        filename = name if name in captions or name.endswith(".jpg") else f"{name}.jpg"
        images.append(Image(place, filename, filename, split, tuple(captions.get(filename, ()))))
    return images
