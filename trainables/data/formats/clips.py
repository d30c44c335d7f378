"""Clips with captions as a table and lists of the splits: MSVD and TGIF.

A line of a table is a caption, ``ID<tab>a man drives a car``: ``sents_train_lc_nopunc.txt`` and similar files of MSVD,
or ``tgif-v1.0.tsv``, whose ids are addresses. The splits are lists with one id a line: ``train_list.txt``,
``val_list.txt``, ``test_list.txt``, or ``train.txt``, ``val.txt``, ``test.txt``, beside the table or in ``splits``. A
clip takes the place of an image; the id of an address is the name of its file without the suffix. Feature rows follow
the lists: train, then val, then test; captions follow the table. Clips with captions that are in no list are left out.

References:
    [Chen2011] Chen and Dolan, Collecting Highly Parallel Data for Paraphrase Evaluation (MSVD). ACL 2011
    [Li2016] Li et al., TGIF: A New Dataset and Benchmark on Animated GIF Description. arXiv:1604.02748
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from trainables.data.corpus import Corpus, Image, caption_problem
from trainables.data.formats.flickr import check_lists, split_lists
from trainables.data.text_files import checked, numbered_lines

FORMAT = "clips with captions (*.tsv or sents_*.txt, with train_list.txt or splits/train.txt ...)"


def find(folder: Path) -> list[Path]:
    """Return the tables of captions and the lists of the splits, or nothing."""
    tables = sorted([*folder.glob("*.tsv"), *folder.glob("sents_*.txt")])
    lists = _lists(folder)
    return [*tables, *lists.values()] if tables and lists else []


def read(files: Sequence[Path]) -> Corpus:
    """Read the tables, then the lists; problems are collected with their lines."""
    lists = _lists(files[0].parent)
    for folder in dict.fromkeys(file.parent for file in lists.values()):
        check_lists(folder)
    problems: list[str] = []
    captions: dict[str, list[str]] = {}
    named: dict[str, str] = {}
    for file in files:
        if file not in lists.values():
            for place, line in checked(numbered_lines(file), _row_problem, problems):
                name, _, caption = line.partition("\t")
                name = name.strip()
                if (first := named.setdefault(_clip_of(name), name)) != name:
                    problems.append(f"{place}: {name!r} and {first!r} have one name of a file, and are two clips")
                captions.setdefault(_clip_of(name), []).append(caption)
    images: list[Image] = []
    for split, file in lists.items():
        for place, line in checked(numbered_lines(file), _id_problem, problems):
            clip = _clip_of(line)
            images.append(Image(place, clip, "", split, tuple(captions.get(clip, ()))))
    left_out = len(captions.keys() - {image.id for image in images})
    notes = [f"{left_out} clips with captions are in no list and left out"] if left_out else []
    return Corpus(str(files[0]), images, problems, notes)


def _lists(folder: Path) -> dict[str, Path]:
    return split_lists(folder) or split_lists(folder / "splits")


def _id_problem(line: str) -> str | None:
    return None if _clip_of(line) else f"must be the id of a clip, got {line!r:.60}"


def _row_problem(line: str) -> str | None:
    name, tab, caption = line.partition("\t")
    return caption_problem(caption) if tab and _clip_of(name) else f"must be 'ID<tab>caption', got {line!r:.60}"


def _clip_of(name: str) -> str:
    """Return the id of a clip; for an address, the name of its file without the suffix."""
    name = name.strip()
    return PurePosixPath(name).stem if "://" in name else name
