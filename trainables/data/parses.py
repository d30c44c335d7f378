"""Dependency parses in CoNLL-U: the head of each word, as graphs of words need.

A sentence is a block of lines, closed by an empty line. A line of a word has ten columns with tabs between; read are
the first (number, from 1), the second (form), the fourth and fifth (universal and Penn tag), the seventh (number of the
head, 0 for the root) and the eighth (relation). Lines of multi-word tokens (``2-3``) and of empty nodes (``8.1``) are
not read. ``# text = ...`` is the sentence's text where its words do not spell it.

References:
    [Nivre2020] Nivre et al., Universal Dependencies v2, section 3: CoNLL-U. arXiv:2004.10643
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainables.data.sentences import Sentence, WordLayout, text_key
from trainables.data.text_files import read_lines

COLUMNS = 10
"""Columns of a line."""


class Word(NamedTuple):
    """A word of a parse; ``head`` is the index of its head from 0, -1 for the root."""

    form: str
    lemma: str
    universal: str
    tag: str
    head: int
    relation: str


def read_parses(path: Path, problems: list[str]) -> dict[str, Sentence]:
    """Return the sentences of a file by the key of their text; of equal texts the first counts.

    Raises:
        DataError: If the file cannot be read; a broken sentence is a problem that names its line.
    """
    sentences: dict[str, Sentence] = {}
    for place, text, lines in _blocks(path):
        words, problem = _words(lines)
        if problem or not words:
            problems.append(f"{path}: line {place}: {problem or 'a sentence without words'}")
            continue
        forms = tuple(word.form for word in words)
        sentence = Sentence(f"{path}: line {place}", forms, words)
        for key in {text_key("".join(forms)), text_key(text)} - {""}:
            sentences.setdefault(key, sentence)
    return sentences


def number_heads(words: tuple[Word, ...], layout: WordLayout) -> Mapping[str, np.ndarray]:
    """Return ``heads``: the place of each token's head in its caption, (T,), int16; its own place where it has none.

    The first token of a word has the first token of the word's head; another token of a word has the word's first.
    """
    heads = np.arange(layout.tokens, dtype=np.int16)
    for place, word in enumerate(layout.word_of):
        if word < 0:
            continue
        target = layout.first[word]
        if target in (place, -1) and words[word].head >= 0:
            target = layout.first[words[word].head]
        heads[place] = place if target < 0 else target
    return {"heads": heads}


def _blocks(path: Path) -> Iterator[tuple[int, str, list[tuple[int, str]]]]:
    """Yield line of the beginning, text, and numbered lines of words of each sentence."""
    start, text, lines = 1, "", []
    for number, line in enumerate([*read_lines(path), ""], 1):
        if line.strip():
            if line.startswith("# text ="):
                text = line.partition("=")[2]
            elif not line.startswith("#"):
                lines.append((number, line))
            continue
        if lines or text:
            yield start, text, lines
        start, text, lines = number + 1, "", []


def _words(lines: list[tuple[int, str]]) -> tuple[tuple[Word, ...], str | None]:
    """Return the words of a sentence, or what is wrong with it."""
    words: list[Word] = []
    for number, line in lines:
        columns = line.split("\t")
        if len(columns) != COLUMNS:
            return (), f"line {number} must have {COLUMNS} columns with tabs between, got {len(columns)}"
        if "-" in columns[0] or "." in columns[0]:
            continue
        if columns[0] != str(len(words) + 1) or not (columns[6].isascii() and columns[6].isdigit()):
            return (), f"line {number} must be word {len(words) + 1} with the number of its head, got {line!r:.40}"
        if len(columns[6]) > 5:
            return (), f"line {number} names a head that is not there: {columns[6]!r:.20}"
        words.append(Word(columns[1], columns[2], columns[3], columns[4], int(columns[6]) - 1, columns[7]))
    if outside := [word.form for word in words if word.head >= len(words)]:
        return (), f"the word {outside[0]!r:.30} has a head that is not there"
    rooted = {-1}
    for place in range(len(words)):
        path: set[int] = set()
        while place not in rooted:
            if place in path:
                return (), f"the word {words[place].form!r:.30} is below itself: its heads lead back to it"
            path.add(place)
            place = words[place].head
        rooted.update(path)
    return tuple(words), None
