"""Cuts captions into tokens, for English, words between spaces, scripts without spaces or by a file; numbers words.

``english`` lower-cases and cuts by NLTK's word tokeniser without sentence splitting, as the published code does; the
tokeniser needs no downloaded data. ``words`` cuts at Unicode's word boundaries [UAX29], after case folding and
compatibility normalisation (NFKC). A full stop or colon between letters parts words here, because captions lack spaces.
Han and Hiragana characters are tokens of their own, as there. ``characters`` also takes the characters of the other
scripts without spaces one by one, and words of all other scripts as ``words`` does. Marks such as vowel signs stay with
their letter. All three keep punctuation. A ``tokenizer.json`` is read by the package ``tokenizers``; nothing in such a
file is code, and nothing is downloaded. ``labels`` takes a whole caption, folded, for one token.

Of a vocabulary, ids 0 to 3 are fixed. The words that are seen often enough follow by descending count and then by the
alphabet. So the ids are the same on every machine (the published code numbers them in dictionary order).

References:
    [UAX29] Unicode Standard Annex 29, Unicode Text Segmentation, section 4. https://unicode.org/reports/tr29/
    [Faghri2018] Faghri et al., VSE++, https://github.com/fartashf/vsepp, vocab.py: words seen at least 4 times.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from trainables.config import TOKENIZERS
from trainables.data.text_files import read_text
from trainables.errors import DataError
from trainables.extras import require
from trainables.files import parse_state

SAMPLE = 2000
"""Most captions from which a tokenizer is inferred, evenly spaced over the train split."""

RULE = 1
"""Version of the rule by which a tokenizer is inferred, increased when it changes."""

# Words of letters and single hyphens, with commas and one full stop: NLTK's forty regular expressions only separate the
# commas and the stop. Nine of ten captions have this form, and NLTK takes 3 s to import and 0.25 ms a caption.
_PLAIN = re.compile(r"\s*[a-z]+(?:-[a-z]+)*(?:(?: ?, | )[a-z]+(?:-[a-z]+)*)*(?: ?\.)?\s*", re.ASCII)
# NLTK parts these wherever they are whole words, also beside a hyphen.
_CONTRACTIONS = re.compile(r"\b(?:cannot|gimme|gonna|gotta|lemme|wanna)\b")

_IDEOGRAPHS = "\u3005\u3007\u3041-\u3096\u309d-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Han and Hiragana, each character of which is a word of its own for Unicode."""
# Katakana, Thai, Lao, Myanmar, Khmer.
_UNSPACED = _IDEOGRAPHS + (
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3"
)
_JOINERS = "\u200c\u200d"
"""Marks inside the words of some scripts, such as Persian; the other characters that are not seen are left out."""


@dataclass(frozen=True)
class Tokenizer:
    """Cuts captions into tokens.

    The name is one of ``TOKENIZERS``, or that of a file, a ``tokenizer.json`` whose text is ``content``.
    """

    name: str
    content: str | None = None

    def __call__(self, caption: str) -> list[str]:
        """Return the tokens of a caption, in their order."""
        if self.content is not None:
            tokens: list[str] = _loaded(self.content).encode(caption, add_special_tokens=False).tokens
            return tokens
        return _CUT[self.name](caption)

    @property
    def identity(self) -> str:
        """The name; of a file, its name and the SHA-256 of its text."""
        if self.content is None:
            return self.name
        return f"{Path(self.name).name} sha256:{hashlib.sha256(self.content.encode()).hexdigest()}"

    @property
    def threshold(self) -> int:
        """Least number of times that a token of the vocabulary is seen; of labels all count."""
        return 1 if self.name == TOKENIZERS[-1] else THRESHOLD

    @property
    def title(self) -> str:
        """The name for people."""
        return self.name if self.content is None else Path(self.name).name


def tokenize_english(caption: str) -> list[str]:
    """Cut a caption into lower-case tokens, as ``nltk.word_tokenize(caption.lower(), preserve_line=True)`` does.

    Example:
        >>> tokenize_english("A red ball, a blue box.")
        ['a', 'red', 'ball', ',', 'a', 'blue', 'box', '.']
    """
    text = caption.lower()
    if _PLAIN.fullmatch(text) and not _CONTRACTIONS.search(text):
        return text.replace(",", " , ").replace(".", " . ").split()
    return _word_tokenize()(text, preserve_line=True)


def tokenize_words(caption: str) -> list[str]:
    """Cut a caption at Unicode's word boundaries, case-folded.

    Example:
        >>> tokenize_words("Zwei Straßenhunde, l'été")
        ['zwei', 'strassenhunde', ',', "l'été"]
    """
    return _pattern(_IDEOGRAPHS).findall(_folded(caption))


def tokenize_characters(caption: str) -> list[str]:
    """Cut a caption into the characters of scripts without spaces, and into words of other scripts, case-folded.

    Example:
        >>> tokenize_characters("一只狗在玩frisbee。")
        ['一', '只', '狗', '在', '玩', 'frisbee', '。']
    """
    return _pattern(_UNSPACED).findall(_folded(caption))


def tokenize_label(caption: str) -> list[str]:
    """Return a caption as one token, case-folded.

    Example:
        >>> tokenize_label("Black  cat ")
        ['black cat']
    """
    return [" ".join(_folded(caption).split())]


ENGLISH, WORDS, CHARACTERS, LABELS = map(Tokenizer, TOKENIZERS)
_CUT: dict[str, Callable[[str], list[str]]] = dict(
    zip(TOKENIZERS, (tokenize_english, tokenize_words, tokenize_characters, tokenize_label), strict=True)
)

REASONS = {
    ENGLISH: "the letters are a to z",
    WORDS: "letters beyond a to z, and spaces between words",
    CHARACTERS: "most letters are of scripts without spaces between words",
    LABELS: "a caption is a label",
}
"""Tokenizer -> why ``infer_tokenizer`` chose it."""


def infer_tokenizer(captions: Sequence[str]) -> Tokenizer:
    """Return the tokenizer that fits the script of some captions.

    ``characters`` where more than half of the letters are of scripts without spaces; else ``english`` where 99 in 100
    letters are a to z, as in English with some foreign names; else ``words``. Captions without letters are English.
    """
    step = max(1, -(-len(captions) // SAMPLE))
    letters = [letter for caption in captions[::step] for letter in caption if letter.isalpha()]
    unspaced = len(re.findall(f"[{_UNSPACED}]", "".join(letters)))
    if 2 * unspaced > len(letters):
        return CHARACTERS
    ascii_letters = sum(letter.isascii() for letter in letters)
    return ENGLISH if 100 * ascii_letters >= 99 * len(letters) else WORDS


def find_tokenizer(name: str, folder: Path) -> Tokenizer:
    """Return the tokenizer of a name.

    The name is one of ``TOKENIZERS``, the name of a ``tokenizer.json`` in the dataset's folder, or an absolute path.

    Raises:
        DataError: If there is no such file, or it is no tokenizer.
        MissingExtraError: If the package ``tokenizers`` is not installed.
    """
    if name in TOKENIZERS:
        return Tokenizer(name)
    path = folder / name
    if not path.is_file():
        raise DataError(
            f"tokenizer: there is no file {path}; name {', '.join(TOKENIZERS)}, a tokenizer.json in the dataset's "
            "folder, or an absolute path"
        )
    content = read_text(path)
    try:
        _loaded(content)
    except ValueError as error:
        raise DataError(f"{path}: is no tokenizer of the package tokenizers: {error}") from None
    return Tokenizer(name, content)


@lru_cache(maxsize=4)
def _loaded(content: str) -> Any:
    """Return the tokenizer of a ``tokenizer.json``; ``ValueError`` if the text is something else."""
    require("tokenizers", "a tokenizer.json")
    from tokenizers import Tokenizer as FileTokenizer

    try:
        loaded = FileTokenizer.from_str(content)
    except Exception as error:  # noqa: BLE001  # the package raises no narrower class
        raise ValueError(str(error)) from None
    # The file may ask for a fixed length, which captions do not have.
    loaded.no_truncation()
    loaded.no_padding()
    return loaded


@cache
def _word_tokenize() -> Callable[..., list[str]]:
    require("captions", "a caption with apostrophes, digits or other signs")
    from nltk.tokenize import word_tokenize

    tokenizer: Callable[..., list[str]] = word_tokenize
    return tokenizer


def _folded(caption: str) -> str:
    """Return a caption in which letters that people take for the same are the same."""
    if caption.isascii():
        return caption.lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", caption).casefold())
    if folded.isprintable():
        return folded
    return "".join(sign for sign in folded if sign in _JOINERS or unicodedata.category(sign) != "Cf")


@cache
def _pattern(alone: str) -> re.Pattern[str]:
    """Return the expression of a token, where each character of some ranges is a token of its own."""
    # Python's \w lacks marks, so that it would cut the words of Hindi and of vowelled Arabic.
    signs = map(chr, (*range(0x20000), *range(0xE0100, 0xE01F0)))
    marks = "".join(re.escape(sign) for sign in signs if unicodedata.category(sign).startswith("M"))
    letter = rf"(?:(?![{alone}])[\w{_JOINERS}{marks}])"
    inside = r"(?:['’·״](?=[^\W\d])|(?<=\d)[.,](?=\d))"
    return re.compile(rf"[{alone}][{marks}]*|{letter}+(?:{inside}{letter}+)*|\S[{marks}]*")


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

    Word i has id i; the first four are ``SPECIAL``.
    """

    words: tuple[str, ...]
    tokenizer: Tokenizer = ENGLISH

    def __post_init__(self) -> None:
        if self.words[: len(SPECIAL)] != SPECIAL:
            raise ValueError(f"a vocabulary begins with {SPECIAL}, got {self.words[: len(SPECIAL)]}")

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], tokenizer: Tokenizer = ENGLISH) -> "Vocabulary":
        """Number the words that are counted often enough: the frequent first, then by the alphabet."""
        least = tokenizer.threshold
        frequent = [word for word, count in counts.items() if count >= least and word not in SPECIAL]
        return cls(SPECIAL + tuple(sorted(frequent, key=lambda word: (-counts[word], word))), tokenizer)

    def __len__(self) -> int:
        return len(self.words)

    def id_of(self, token: str) -> int:
        """Return the id of a token, ``UNKNOWN`` if it has none."""
        return self._ids.get(token, UNKNOWN)

    def encode(self, caption: str) -> list[int]:
        """Return the ids of a caption between ``START`` and ``END``."""
        return [START, *map(self.id_of, self.tokenizer(caption)), END]

    def unknown(self, caption: str) -> list[str]:
        """Return the words of a caption that have no id, each once."""
        return list(dict.fromkeys(word for word in self.tokenizer(caption) if self.id_of(word) == UNKNOWN))

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
