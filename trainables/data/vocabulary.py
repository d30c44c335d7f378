"""Words and their ids.

A tokenizer (``tokenizers``) cuts a caption into words. Ids 0 to 3 are fixed; the words that are seen often enough
follow by descending count and then by the alphabet, so that the ids are the same on every machine (the published code
numbers them in dictionary order).

References:
    [Faghri2018] Faghri et al., VSE++, https://github.com/fartashf/vsepp, vocab.py: words seen at least 4 times.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trainables.data.tokenizers import ENGLISH, Tokenizer
from trainables.files import parse_state

PAD, START, END, UNKNOWN = 0, 1, 2, 3
"""Ids of special tokens: padding, begin and end of a caption, a word that is not in the vocabulary."""

SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")
THRESHOLD = 4
"""Least number of times that a word of the vocabulary is seen [Faghri2018]."""

VocabularyName = Literal["train", "published"]
SPLITS_OF: Mapping[str, tuple[str, ...]] = {"train": ("train",), "published": ("train", "val")}
"""Vocabulary -> splits whose words count; the papers counted ``published`` for precomputed features."""


@dataclass(frozen=True)
class Vocabulary:
    """The words that have an id; everything else is ``<unk>``.

    Attributes:
        words: Word i has id i; the first four are ``SPECIAL``.
        tokenizer: Cuts captions into words.
    """

    words: tuple[str, ...]
    tokenizer: Tokenizer = ENGLISH
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.words[: len(SPECIAL)] != SPECIAL:
            raise ValueError(f"a vocabulary begins with {SPECIAL}, got {self.words[: len(SPECIAL)]}")
        object.__setattr__(self, "_ids", {word: index for index, word in enumerate(self.words)})

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], threshold: int = THRESHOLD, tokenizer: Tokenizer = ENGLISH
    ) -> "Vocabulary":
        """Number the words that are counted at least ``threshold`` times: the frequent first, then by the alphabet."""
        frequent = [word for word, count in counts.items() if count >= threshold and word not in SPECIAL]
        return cls(SPECIAL + tuple(sorted(frequent, key=lambda word: (-counts[word], word))), tokenizer)

    def __len__(self) -> int:
        return len(self.words)

    def id_of(self, token: str) -> int:
        """Return the id of a token, ``UNKNOWN`` if it has none."""
        return self._ids.get(token, UNKNOWN)

    def encode(self, caption: str) -> list[int]:
        """Return the ids of a caption between ``START`` and ``END``."""
        return [START, *map(self.id_of, self.tokenizer(caption)), END]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the words of some ids."""
        return [self.words[index] for index in ids]

    def to_json(self) -> str:
        """Return the words as a JSON list; ``from_json`` takes it back."""
        return json.dumps(self.words, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, tokenizer: Tokenizer = ENGLISH) -> "Vocabulary":
        """Read what ``to_json`` gave; ``ValueError`` if it is something else."""
        words: Sequence[str] = parse_state(text)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError("a vocabulary is a JSON list of words")
        return cls(tuple(words), tokenizer)
