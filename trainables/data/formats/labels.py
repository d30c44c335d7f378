"""Images with classes in place of captions: ``labels.csv``, a line for each image.

::

    filename,class,split
    images/001.Black_footed_Albatross/0001.jpg,001.Black_footed_Albatross,train
    images/101.White_Pelican/0007.jpg,101.White_Pelican,test

An image is to retrieve the other images of its class, as in fine-grained image retrieval. Feature rows follow the
lines. No class of the test split is a class of train or val, because retrieval is measured on classes that no training
has seen. Train and val may share classes. Every class of a split has at least two images.

References:
    [OhSong2016] Oh Song et al., Deep Metric Learning via Lifted Structured Feature Embedding, section 5: the splits by
        classes. arXiv:1511.06452
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from trainables.data.corpus import SPLIT_ALIASES, SPLITS, Corpus, Image, caption_problem, filename_problem
from trainables.data.text_files import checked, read_lines
from trainables.errors import DataError

FORMAT = "images with classes (labels.csv with the columns filename, class, split)"
ONE_MODALITY = True
FILE = "labels.csv"
COLUMNS = ("filename", "class", "split")


def find(folder: Path) -> list[Path]:
    """Return the file of labels, or nothing."""
    return [folder / FILE] if (folder / FILE).exists() else []


def read(files: Sequence[Path]) -> Corpus:
    """Read the labels; the class of an image is its caption."""
    (file,) = files
    images: list[Image] = []
    problems: list[str] = []
    for place, row in table_rows(file, COLUMNS, _row_problem, problems):
        images.append(Image(place, row[0], row[0], SPLIT_ALIASES[row[2]], (row[1],)))
    return Corpus(str(file), images, problems + _class_problems(file, images))


def table_rows(
    file: Path, columns: Sequence[str], problem_of: Callable[[Sequence[str]], str | None], problems: list[str]
) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the rows of a CSV without a problem, each after its place; the last column is the split.

    Problems of other rows, and of a first line without the columns, are added to ``problems``.

    Raises:
        DataError: If the file is no CSV.
    """
    reader = csv.reader(read_lines(file), strict=True)
    try:
        lines = [(f"{file}: line {reader.line_num}", row) for row in reader]
    except csv.Error as error:
        raise DataError(f"{file}: line {reader.line_num}: broken CSV: {error}") from None
    header = lines[0][1] if lines else []
    if header != [*columns]:
        problems.append(f"{file}: line 1: must be {','.join(columns)}, got {','.join(header)!r:.60}")
        return

    def problem(row: Sequence[str]) -> str | None:
        if len(row) != len(columns):
            return f"must have {len(columns)} columns, got {len(row)}"
        if row[-1] not in SPLIT_ALIASES:
            return f"split must be train, val or test, got {row[-1]!r:.60}"
        return problem_of(row)

    yield from checked(lines[1:], problem, problems)


def _row_problem(row: Sequence[str]) -> str | None:
    return filename_problem(row[0]) or caption_problem(row[1])


def _class_problems(file: Path, images: Sequence[Image]) -> list[str]:
    """Name classes with one image in a split, and classes of the test split that were trained on."""
    by_split = {split: Counter(image.captions[0] for image in images if image.split == split) for split in SPLITS}
    problems = [
        f"{file}: class {name!r} has one image in {split}; a query needs another to find: remove it, or add one"
        for split, classes in by_split.items()
        for name, count in classes.items()
        if count == 1
    ]
    seen = by_split["train"].keys() | by_split["val"].keys()
    problems += [
        f"{file}: class {name!r} is in test and in train or val; the classes of test must be others"
        for name in by_split["test"]
        if name in seen
    ]
    return problems
