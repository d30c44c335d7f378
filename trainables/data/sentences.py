"""Sentences of other programs, such as parses, laid beside the captions and their tokens.

A sentence belongs to every caption with its text, blanks and case aside. Its words and the caption's tokens may be cut
differently, so both are laid on the characters of that text. A token belongs to the word of its first character, and a
word begins in the token of its first character. Where words or tokens spell a text differently (quotes become `` and
''), the characters that agree decide.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainables.data.corpus import SPLITS, Corpus
from trainables.data.tokenizers import Tokenizer


class Sentence(NamedTuple):
    """A sentence of a file.

    Attributes:
        place: Place in the file, for messages.
        words: Its words, at least one.
        content: What the file says about the words, as ``Numbered.number`` takes it.
    """

    place: str
    words: tuple[str, ...]
    content: Any


@dataclass(frozen=True)
class WordLayout:
    """A sentence's words on a caption's tokens.

    Attributes:
        tokens: Number of tokens, start and end included.
        word_of: Word of each token, -1 for start and end, and for a token of no word.
        first: First token of each word, -1 for a word that is in no token.
    """

    tokens: int
    word_of: Sequence[int]
    first: Sequence[int]


Number = Callable[[Any, WordLayout], Mapping[str, np.ndarray]]
"""Makes whole numbers, by their names, of a sentence's content: of each token (T,), or of the caption."""


def text_key(text: str) -> str:
    """Return a text without blanks, in lower case.

    Example:
        >>> text_key("A dog  runs .")
        'adogruns.'
    """
    return "".join(text.casefold().split())


def lay(words: Sequence[str], tokens: Sequence[str]) -> WordLayout:
    """Lay the words of a sentence on the tokens of a caption, which lie between start and end.

    Example:
        >>> lay(["do", "n't", "run"], ["don't", "run"])
        WordLayout(tokens=4, word_of=[-1, 0, 2, -1], first=[1, 1, 2])
    """
    text = text_key("".join(words))
    word_starts = _starts([text_key(word) for word in words], text)
    token_starts = _starts([text_key(token) for token in tokens], text)
    word_of = [-1, *(_holder(word_starts, start) for start in token_starts), -1]
    first = [place + 1 if (place := _holder(token_starts, start)) >= 0 else -1 for start in word_starts]
    return WordLayout(len(tokens) + 2, word_of, first)


def _starts(pieces: Sequence[str], text: str) -> list[int]:
    """Return where each piece begins in a text, ascending."""
    joined = "".join(pieces)
    ends = np.cumsum([0, *map(len, pieces)]).tolist()
    if joined == text:
        return list(ends[:-1])
    places = np.zeros(len(joined) + 1, dtype=np.int64)
    for _, low, high, first, last in SequenceMatcher(None, joined, text, autojunk=False).get_opcodes():
        places[low:high] = np.clip(first + np.arange(high - low), first, max(last - 1, first))
    return [int(places[end]) for end in ends[:-1]]


def _holder(starts: Sequence[int], place: int) -> int:
    """Return which piece holds a place, -1 if none begins before it."""
    return bisect_right(starts, place) - 1


def number_captions(
    corpus: Corpus,
    path: Path,
    sentences: Mapping[str, Sentence],
    number: Number,
    tokenizer: Tokenizer,
    problems: list[str],
) -> dict[str, dict[str, np.ndarray]]:
    """Return name -> split -> numbers of all captions, by the sentence of each caption's text.

    Numbers of tokens lie one caption after the other, (T,); numbers of captions are (C, ...). Captions without a
    sentence are a problem, which names the first of them.
    """
    cache: dict[str, Mapping[str, np.ndarray]] = {}
    missing: list[str] = []
    numbers: dict[str, dict[str, np.ndarray]] = {}
    for split in SPLITS:
        of_split: dict[str, list[np.ndarray]] = {}
        for caption in _captions(corpus, split):
            if caption not in cache:
                sentence = sentences.get(text_key(caption))
                if sentence is None:
                    missing.append(caption)
                    continue
                cache[caption] = number(sentence.content, lay(sentence.words, tokenizer(caption)))
            for name, values in cache[caption].items():
                of_split.setdefault(name, []).append(values)
        for name, parts in of_split.items():
            numbers.setdefault(name, {})[split] = np.concatenate(parts)
    if missing:
        count = f"{len(missing):,} caption{'s' * (len(missing) > 1)}"
        problems.append(
            f"{path}: has no sentence for {count}, the first {missing[0]!r:.60}; make it again of all captions"
        )
    return numbers


def _captions(corpus: Corpus, split: str) -> Iterator[str]:
    return (caption for image in corpus.split(split) for caption in image.captions)
