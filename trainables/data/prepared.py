"""Captions prepared once: tokenised into flat arrays, stored beside their vocabulary, and memory-mapped.

A folder of the cache holds one dataset under one vocabulary and tokenizer::

    meta.json  vocabulary.json
    train/  val/  test/     tokens.npy  offsets.npy  image_of_caption.npy  image_rows.npy
                            image_groups.npy  caption_groups.npy: equal numbers for equal rows, and equal tokens
                            caption_rows.npy where the captions have features
                            rows.NAME.npy and numbers.NAME.npy of further inputs (``inputs.py``)
                            and captions, image_ids, filenames as NAME.bytes.npy with NAME.offsets.npy
"""

import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trainables.data.corpus import SPLITS, Corpus, Image
from trainables.data.text_files import Strings
from trainables.data.tokenizers import END, SPLITS_OF, START, Tokenizer, Vocabulary
from trainables.files import read_state, whole_directory

VERSION = 2
"""Increased when the files or the tokeniser change, so that folders of older versions are not used."""

ARRAYS = ("tokens", "offsets", "image_of_caption", "image_rows", "image_groups", "caption_groups")
TEXTS = ("captions", "image_ids", "filenames")

CAPTION_ROWS = "caption_rows"

SplitArrays = Mapping[str, np.ndarray | Strings]


FeatureRows = Mapping[str, Mapping[str, np.ndarray]]
"""``image_rows``, ``image_groups`` (I,), and ``caption_rows`` (C,) where captions have features, int64 -> by split."""


def prepare(target: Path, corpus: Corpus, rows: FeatureRows, vocabulary: str, tokenizer: Tokenizer) -> None:
    """Write a corpus that has no problems as a prepared folder.

    Several processes may prepare one folder at once: the folder appears whole, and the first folder stays.
    """
    splits = {name: corpus.split(name) for name in SPLITS}
    words: dict[str, int] = {}
    numbered = {name: _number_tokens(images, words, tokenizer) for name, images in splits.items()}
    counted = np.concatenate([numbered[name][0] for name in SPLITS_OF[vocabulary]])
    counts = np.bincount(counted, minlength=len(words))
    built = Vocabulary.from_counts({word: int(counts[number]) for word, number in words.items()}, tokenizer)
    # Maps the numbers of words, which follow their first use, to the vocabulary's ids.
    id_of = np.array([built.id_of(word) for word in words], dtype=np.int32)
    groups: dict[bytes, int] = {}
    with whole_directory(target) as folder:
        (folder / "vocabulary.json").write_text(built.to_json(), encoding="utf-8")
        for name, (numbers, lengths) in numbered.items():
            (folder / name).mkdir()
            _write_split(folder / name, splits[name], id_of[numbers], lengths)
            np.save(folder / name / "caption_groups.npy", _group_captions(numbers, lengths, groups))
            for kind, of_splits in rows.items():
                np.save(folder / name / f"{kind}.npy", of_splits[name])
        sizes = {name: len(images) for name, images in splits.items()}
        (folder / "meta.json").write_text(json.dumps({"version": VERSION, "images": sizes}))


INPUTS = ("rows.", "numbers.")
"""Beginnings of the names of arrays of further inputs."""


def open_prepared(
    folder: Path, tokenizer: Tokenizer
) -> tuple[Vocabulary, dict[str, SplitArrays], dict[str, Mapping[str, np.ndarray]]] | None:
    """Map a prepared folder; ``None`` if it is not there or damaged.

    The arrays of further inputs come by split and name, after the vocabulary and the arrays of every split.
    """
    try:
        meta = read_state(folder / "meta.json")
        vocabulary = Vocabulary.from_json((folder / "vocabulary.json").read_text(encoding="utf-8"), tokenizer)
        splits = {name: _open_split(folder / name) for name in SPLITS}
        inputs: dict[str, Mapping[str, np.ndarray]] = {
            name: {
                path.stem: _map(path) for path in sorted((folder / name).glob("*.npy")) if path.name.startswith(INPUTS)
            }
            for name in SPLITS
        }
        whole = all(len(splits[name]["image_rows"]) == meta["images"][name] for name in SPLITS)
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None
    return (vocabulary, splits, inputs) if whole else None


def _number_tokens(
    images: Sequence[Image], words: dict[str, int], tokenizer: Tokenizer
) -> tuple[np.ndarray, np.ndarray]:
    """Return all tokens as numbers in the order of their first use (added to ``words``), and each caption's length."""
    # Eight million tokens of COCO take 32 MB as numbers, and hundreds of MB as lists of strings.
    numbers, lengths = array("i"), array("q")
    for image in images:
        for caption in image.captions:
            tokens = tokenizer(caption)
            lengths.append(len(tokens))
            numbers.extend([words.setdefault(token, len(words)) for token in tokens])
    return np.array(numbers, dtype=np.int32), np.array(lengths, dtype=np.int64)


def _group_captions(numbers: np.ndarray, lengths: np.ndarray, groups: dict[bytes, int]) -> np.ndarray:
    """Return a number of each caption, (C,), int64, equal for equal words; ``groups`` has those of earlier splits."""
    ends = np.cumsum(lengths)
    pieces = (numbers[begin:end].tobytes() for begin, end in zip(ends - lengths, ends, strict=True))
    return np.array([groups.setdefault(piece, len(groups)) for piece in pieces], dtype=np.int64)


def _write_split(folder: Path, images: Sequence[Image], ids: np.ndarray, lengths: np.ndarray) -> None:
    np.save(folder / "tokens.npy", _wrap(ids, lengths))
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(lengths + 2)]))
    counts = np.array([len(image.captions) for image in images], dtype=np.int64)
    np.save(folder / "image_of_caption.npy", np.repeat(np.arange(len(images)), counts))
    texts = {
        "captions": [caption for image in images for caption in image.captions],
        "image_ids": [image.id for image in images],
        "filenames": [image.filename for image in images],
    }
    for name, strings in texts.items():
        packed = Strings.pack(strings)
        np.save(folder / f"{name}.bytes.npy", packed.data)
        np.save(folder / f"{name}.offsets.npy", packed.offsets)


def _wrap(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Put ``START`` before and ``END`` after each caption: (T,) and (C,) become (T + 2C,), int32."""
    captions = np.arange(len(lengths))
    ends = np.cumsum(lengths)
    wrapped = np.empty(len(ids) + 2 * len(lengths), dtype=np.int32)
    wrapped[ends - lengths + 2 * captions] = START
    wrapped[ends + 2 * captions + 1] = END
    wrapped[np.arange(len(ids)) + 2 * np.repeat(captions, lengths) + 1] = ids
    return wrapped


def _open_split(folder: Path) -> SplitArrays:
    """Map one split's arrays; ``ValueError`` if a file is shorter than its header says."""
    optional = (CAPTION_ROWS,) if (folder / f"{CAPTION_ROWS}.npy").exists() else ()
    arrays: dict[str, np.ndarray | Strings] = {name: _map(folder / f"{name}.npy") for name in (*ARRAYS, *optional)}
    for name in TEXTS:
        arrays[name] = Strings(_map(folder / f"{name}.bytes.npy"), _map(folder / f"{name}.offsets.npy"))
    return arrays


def _map(path: Path) -> np.ndarray:
    # An empty array can't be mapped: precomputed folders have no file names.
    if path.stat().st_size <= 128:
        return np.load(path, allow_pickle=False)
    return np.load(path, mmap_mode="r", allow_pickle=False)
