"""Images with labels of a vocabulary in place of captions: ``labels.csv``, a line for each image.

::

    filename,labels,split
    images/0001.jpg,dog|grass|ball,train
    images/0002.jpg,cat|grass,test

An image has any number of labels, and images share them. So a label is one candidate, however many images have it, as
in the annotation of images [Weston2011]. Feature rows follow the lines. ``labels.py`` reads images of one class each,
from a file of the same name with the column ``class``.

References:
    [Weston2011] Weston et al., WSABIE: Scaling Up To Large Vocabulary Image Annotation. IJCAI 2011
"""

from collections.abc import Sequence
from pathlib import Path

from trainables.data.corpus import SPLIT_ALIASES, Corpus, Image, caption_problem, filename_problem
from trainables.data.formats.labels import FILE, table_rows

FORMAT = "images with several labels (labels.csv with the columns filename, labels, split)"
LABEL_SETS = True
COLUMNS = ("filename", "labels", "split")
SEPARATOR = "|"


def find(folder: Path) -> list[Path]:
    """Return the file of labels if it has the column of this form, or nothing."""
    try:
        with (folder / FILE).open(encoding="utf-8-sig") as file:
            header = file.readline(200)
    except (OSError, UnicodeDecodeError):
        return []
    return [folder / FILE] if header.strip().split(",")[1:2] == [COLUMNS[1]] else []


def read(files: Sequence[Path]) -> Corpus:
    """Read the labels; each label of an image is one of its captions."""
    (file,) = files
    problems: list[str] = []
    images = [
        Image(place, row[0], row[0], SPLIT_ALIASES[row[2]], tuple(labels_of(row[1])))
        for place, row in table_rows(file, COLUMNS, _row_problem, problems)
    ]
    return Corpus(str(file), images, problems)


def labels_of(cell: str) -> list[str]:
    """Return the labels of a cell, without blanks around them.

    Example:
        >>> labels_of("dog | brown dog|grass")
        ['dog', 'brown dog', 'grass']
    """
    return [label.strip() for label in cell.split(SEPARATOR)]


def _row_problem(row: Sequence[str]) -> str | None:
    labels = labels_of(row[1])
    if "" in labels:
        return f"an empty label in {row[1]!r:.60}; write labels with {SEPARATOR} between them"
    folded = [label.casefold() for label in labels]
    if repeated := next((label for label in labels if folded.count(label.casefold()) > 1), None):
        return f"the label {repeated!r:.60} is there twice; name each label of an image once"
    return filename_problem(row[0]) or next(filter(None, map(caption_problem, labels)), None)
