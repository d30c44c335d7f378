"""Describes a dataset in numbers, with all its problems."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainables.chance import chance_rsum
from trainables.config import TEXT
from trainables.data.cache import default_cache, remembered
from trainables.data.corpus import SPLITS, Corpus
from trainables.data.dataset import Dataset, Split, dataset_digest, files_outside, find_problems, load_dataset
from trainables.data.features import inspect_features
from trainables.data.pictures.images import check_images, list_images
from trainables.data.source import Source, find_source
from trainables.data.vocabulary import UNKNOWN, VocabularyName
from trainables.errors import DataError
from trainables.judgements.beside_dataset import find_judgement_files, load_judgements
from trainables.judgements.judgements import JudgementCounts


@dataclass(frozen=True)
class SplitDescription:
    """One split in numbers.

    Attributes:
        images: Number of images.
        captions: Number of captions.
        captions_per_image: Fewest and most captions of an image.
        image_files: Number of images whose files lie in the dataset's folder.
        caption_lengths: ``min``, ``median``, ``mean``, ``max`` in tokens, without start and end; none if the dataset
            has problems.
        unknown_tokens: Share of the tokens that are not in the vocabulary, in [0, 1]; none if it has problems.
        chance_rsum: The rsum that a random ranking reaches on the split, in [0, 600]; none if it has problems.
    """

    images: int
    captions: int
    captions_per_image: tuple[int, int]
    image_files: int
    caption_lengths: Mapping[str, float] | None = None
    unknown_tokens: float | None = None
    chance_rsum: float | None = None


@dataclass
class Description:
    """A dataset in numbers.

    Attributes:
        name: Name of the dataset's folder.
        folder: The dataset's folder.
        format: Format of the dataset.
        digest: Kind of features -> digest of captions, splits and features; ``none`` for captions alone.
        splits: Name -> description of the split.
        vocabulary: Number of entries, special ones included; none if the dataset has problems.
        features: Kind -> split -> ``file``, ``shape``, ``dtype``.
        problems: All problems, each with file and record.
        notes: Facts worth knowing that are no problems.
        judgements: Split -> judgements that lie beside the dataset, in numbers.
    """

    name: str
    folder: str
    format: str
    digest: dict[str, str] = field(default_factory=dict)
    splits: dict[str, SplitDescription] = field(default_factory=dict)
    vocabulary: int | None = None
    features: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    judgements: dict[str, list[JudgementCounts]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def describe(
    name: str,
    data_root: Path,
    *,
    vocabulary: VocabularyName = "train",
    decode_images: bool = False,
    cache: Path | None = None,
) -> Description:
    """Read a dataset and all its features, and find every problem.

    Args:
        name: A folder under ``data_root``, or a path.
        data_root: Where datasets lie.
        vocabulary: Splits whose words count, as for ``load_dataset``.
        decode_images: Decode every image file too, which takes some milliseconds an image.
        cache: Where prepared datasets are kept.

    Raises:
        DataError: If there is no such dataset; an existing dataset with problems is described.
    """
    source = find_source(name, data_root)
    cache = cache or default_cache()
    told = Description(source.name, str(source.folder), source.format.FORMAT)
    files: dict[str, Mapping[str, Path]] = {}
    try:
        files = {kind: source.feature_files(kind) for kind in source.feature_kinds()}
        told.problems += files_outside(source, [path for by_split in files.values() for path in by_split.values()])
        if told.problems:
            return told
        corpus = source.read()
        told.problems += find_problems(source, corpus, files, cache)
    except DataError as error:
        told.problems += error.problems
        return told
    told.notes += corpus.notes
    found = list_images(source.folder)
    told.problems += check_images(corpus, found, decode=decode_images)
    _describe_features(told, source, files, cache)
    of_images = next((kind for kind in files if kind != TEXT), None)
    data = (
        None if told.problems else load_dataset(name, data_root, vocabulary=vocabulary, features=of_images, cache=cache)
    )
    told.vocabulary = len(data.vocabulary) if data else None
    told.splits |= _describe_splits(corpus, found, data)
    if data is not None:
        _describe_judgements(told, name, data_root, source, data, corpus)
    return told


def _describe_judgements(
    told: Description, name: str, data_root: Path, source: Source, data: Dataset, corpus: Corpus
) -> None:
    """Add the judgements; damaged files are problems."""
    try:
        files = find_judgement_files(source)
        judged = load_judgements(name, data_root, data.splits, corpus)
    except DataError as error:
        told.problems += error.problems
        return
    told.judgements |= {split: [each.counts() for each in of_split] for split, of_split in judged.items()}
    used = {counts.name for each in told.judgements.values() for counts in each}
    told.notes += [
        f"{', '.join(file.name for file in files[judges])}: no judged pair is of images and captions of this dataset"
        for judges in files
        if judges not in used
    ]


def _describe_features(told: Description, source: Source, files: Mapping[str, Mapping[str, Path]], cache: Path) -> None:
    """Add shapes and digests of features; files that can't be read are already among the problems."""
    for kind, by_split in {**files, "none": {}}.items():
        try:
            inspected = {split: remembered(cache, path, inspect_features) for split, path in by_split.items()}
            if kind != TEXT:
                told.digest[kind] = dataset_digest(source, by_split, cache)
                if kind != "none" and TEXT in files:
                    told.digest[f"{kind} and {TEXT}"] = dataset_digest(source, by_split, cache, files[TEXT])
        except DataError:
            continue
        if by_split:
            told.features[kind] = {
                split: {"file": by_split[split].name, "shape": found["shape"], "dtype": found["dtype"]}
                for split, found in inspected.items()
            }


def _describe_splits(corpus: Corpus, found: Mapping[str, Path], data: Dataset | None) -> dict[str, SplitDescription]:
    described = {}
    for name in SPLITS:
        images = corpus.split(name)
        counts = [len(image.captions) for image in images] or [0]
        measured = _measure_captions(data.splits[name]) if data else {}
        described[name] = SplitDescription(
            images=len(images),
            captions=sum(counts),
            captions_per_image=(min(counts), max(counts)),
            image_files=sum(image.filename in found for image in images),
            **measured,
        )
    return described


def _measure_captions(split: Split) -> dict[str, Any]:
    lengths = np.diff(split.offsets) - 2
    measures = {"min": lengths.min(), "median": np.median(lengths), "mean": lengths.mean(), "max": lengths.max()}
    return {
        "caption_lengths": {name: round(float(value), 2) for name, value in measures.items()},
        "unknown_tokens": round(float((split.tokens == UNKNOWN).sum() / lengths.sum()), 5),
        "chance_rsum": round(chance_rsum(split.image_of_caption, split.labels), 2),
    }
