"""Passages in place of images, queries in place of captions: ``passages.csv``, a line for each query.

::

    passage,query,split
    "The Nile flows north, to the Mediterranean.",which way does the nile flow,train
    "The Nile flows north, to the Mediterranean.",mouth of the nile,train

Lines of a passage are neighbours. The text of a passage is its id. Both sides are text, so that ``head`` reads features
of both: the last outlook of [Bleeker2022] asks whether its findings hold for queries and passages.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        section 6. arXiv:2202.07474
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from trainables.data.corpus import SPLIT_ALIASES, Corpus, Image, caption_problem
from trainables.data.formats.labels import table_rows

FORMAT = "passages and queries (passages.csv with the columns passage, query, split)"
PASSAGES = True
FILE = "passages.csv"
COLUMNS = ("passage", "query", "split")


def find(folder: Path) -> list[Path]:
    """Return the file of passages, or nothing."""
    return [folder / FILE] if (folder / FILE).exists() else []


def read(files: Sequence[Path]) -> Corpus:
    """Read passages and queries; a passage is an image whose captions are its queries."""
    (file,) = files
    problems: list[str] = []
    images = []
    lines = table_rows(file, COLUMNS, _row_problem, problems)
    for (passage, split), rows in groupby(lines, lambda entry: _key(entry[1])):
        entries = list(rows)
        images.append(Image(entries[0][0], passage, "", split, tuple(row[1] for _, row in entries)))
    return Corpus(str(file), images, problems)


def _key(row: Sequence[str]) -> tuple[str, str]:
    return " ".join(row[0].split()), SPLIT_ALIASES[row[2]]


def _row_problem(row: Sequence[str]) -> str | None:
    return caption_problem(row[0]) or caption_problem(row[1])
