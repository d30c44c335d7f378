"""The feature files of a whole dataset, made of its captions, of frames of videos or of features saved elsewhere.

Their places are checked first, then they are written.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.config import TEXT
from trainables.data.corpus import SPLIT_ALIASES, SPLITS, Corpus, Image, check_corpus
from trainables.data.dataset import tokenizer_of
from trainables.data.features import captions_digest, images_digest
from trainables.data.foreign_features import Clips, Dump, pool_clips, read_dump
from trainables.data.inputs import lengths_file
from trainables.data.source import find_source
from trainables.data.text_features import NAME, extractor_path, fit_tfidf
from trainables.data.tokenizers import ENGLISH
from trainables.dataset_description import zero_shot_rsum
from trainables.errors import ConfigError, DataError, UserError
from trainables.files import make_writable, write_whole, writing_whole
from trainables.ranks import chance_rsum

KEPT = "finished shards are kept"


class ExtractionInterruptedError(UserError):
    """An extraction that a signal ended; the same command resumes it."""

    exit_code = 130


def extract_text(
    dataset: str, data_root: Path, *, dimensions: int | None, seed: int, out: Path | None, tokenizer: str | None = None
) -> dict[str, Any]:
    """Fit tf-idf and SVD on the train captions of a dataset, and make the features of all its captions.

    Of a dataset of passages the fit and the features are of the passages too.

    See ``open_corpus`` for the places, and ``text_features.fit_tfidf`` for ``dimensions`` and ``seed``. ``tokenizer``
    is that of ``tokenizers.find_tokenizer``; ``None`` infers it.

    Returns:
        Plain values for JSON: the number of ``captions``, the ``dimensions`` of each, all ``files`` that were written,
        the features first, and the ``tokenizer``.

    Raises:
        ConfigError: If the dimensions or the folder are refused.
        DataError: If the dataset is missing or damaged.
    """
    source = find_source(dataset, data_root)
    corpus, targets = open_corpus(dataset, data_root, out, [TEXT, *(["global"] if source.has_passages else [])])
    target = targets[0]
    captions = [caption for image in corpus.images for caption in image.captions]
    cut, train = tokenizer_of(source, tokenizer), corpus.split("train")
    texts = [text for image in train for text in image.captions]
    texts += [image.id for image in train] if source.has_passages else []
    fitted = fit_tfidf(texts, dimensions, seed, cut)
    content, features = fitted.to_bytes(), fitted.transform(captions)
    write_whole(extractor_path(target), content)
    about: dict[str, Any] = {"kind": TEXT, "captions_digest": captions_digest(corpus.images), "captions": len(captions)}
    about |= {"extractor": NAME, "extractor_digest": hashlib.sha256(content).hexdigest(), "seed": seed}
    if cut != ENGLISH:
        about["tokenizer"] = cut.identity
    arrays, origins = [features], [about]
    if source.has_passages:
        arrays.append(fitted.transform([image.id for image in corpus.images]))
        of_passages = {"kind": "global", "images_digest": images_digest(corpus.images), "images": len(corpus.images)}
        origins.append({**of_passages, **{key: about[key] for key in ("extractor", "extractor_digest", "seed")}})
    written = write_features(targets, arrays, origins)
    files = [*written[: len(targets)], str(extractor_path(target)), *written[len(targets) :]]
    return {"captions": len(captions), "dimensions": features.shape[1], "files": files, "tokenizer": cut.title}


def pool_frames(dataset: str, data_root: Path, frames: Path, *, count: int, out: Path | None) -> dict[str, Any]:
    """Write ``features_global.npy``, ``features_regions.npy`` and ``region_lengths.npy`` of the clips of a dataset.

    ``frames`` holds a file ``ID.npy`` for each clip, shape (frames, D), of which at most ``count`` >= 1 are kept as
    regions. See ``open_corpus`` for the places.

    Returns:
        Plain values for JSON: the number of ``clips``, the ``dimensions`` of a frame, the fewest and most frames that
        are kept of a clip (``frames``), and all ``files`` that were written.

    Raises:
        ConfigError: If the count or a folder is refused.
        DataError: If the dataset or a file is missing or damaged.
    """
    if count < 1:
        raise ConfigError(f"--count must be at least 1, got {count}")
    if not frames.is_dir():
        raise ConfigError(f"{frames}: no such folder; it must hold ID.npy of each clip")
    corpus, targets = open_corpus(dataset, data_root, out, ["global", "regions"])
    check_targets(targets[1].parent, [lengths_file(targets[1])])
    clips = pool_clips(corpus.images, frames, count)
    files = write_clips(clips, targets, {"images_digest": images_digest(corpus.images), "frames": frames.name})
    kept = [int(clips.lengths.min()), int(clips.lengths.max())]
    number, dimensions = clips.means.shape
    return {"clips": number, "dimensions": dimensions, "frames": kept, "files": files}


def write_clips(clips: Clips, targets: Sequence[Path], origin: Mapping[str, Any]) -> list[str]:
    """Write the features of clips to ``targets``, of global features and of regions, and return all files."""
    lengths = lengths_file(targets[1])
    # Before the features, so that no padded features lack their lengths.
    with writing_whole(lengths) as file:
        np.save(file, clips.lengths, allow_pickle=False)
    return [*write_features(targets, [clips.means, clips.frames], [origin, origin]), str(lengths)]


def unpack_dumps(dataset: str, data_root: Path, paths: Sequence[Path], out: Path | None) -> dict[str, Any]:
    """Write ``features_global.npy`` and ``features_text.npy`` of a dataset from files of image and caption features.

    ``paths`` are one file with the rows of all splits, or three whose names end in train, val and test. See
    ``open_corpus`` for the places.

    Returns:
        Plain values for JSON: ``images`` and ``captions``, their ``image_size`` and ``caption_size`` in features, all
        ``files`` that were written, and where the sizes are equal the ``zero_shot`` rsum on val, with its ``chance``.

    Raises:
        ConfigError: If the files do not cover all splits, or the folder is refused.
        DataError: If the dataset or a file is missing or damaged, or a file does not fit the dataset.
    """
    corpus, targets = open_corpus(dataset, data_root, out, ["global", TEXT])
    images = list(corpus.images)
    dumps = {split: read_dump(path) for split, path in _by_split(paths).items()}
    of_dump = {split: [image for image in images if split in ("", image.split)] for split in dumps}
    if problems := [wrong for split, dump in dumps.items() for wrong in dump.misfits(of_dump[split])]:
        raise DataError(problems)
    features = _in_order(images, dumps)
    names = [path.name for path in paths]
    origins = [
        {"kind": "global", "dumps": names, "images_digest": images_digest(images)},
        {"kind": TEXT, "dumps": names, "captions_digest": captions_digest(images)},
    ]
    files = write_features(targets, features, origins)
    (count, size), (captions, caption_size) = (rows.shape for rows in features)
    made = {"images": count, "captions": captions, "image_size": size, "caption_size": caption_size}
    return {**made, "files": files, **zero_shot_of_val(images, *features)}


def zero_shot_of_val(
    images: Sequence[Image], of_images: np.ndarray, of_captions: np.ndarray
) -> dict[str, float | None]:
    """Return the ``zero_shot`` rsum on val of features in the order of all images, and its ``chance``."""
    counts = np.array([len(image.captions) for image in images])
    is_val = np.array([image.split == "val" for image in images])
    owners = np.arange(int(is_val.sum())).repeat(counts[is_val])
    rsum = zero_shot_rsum(of_images[is_val], of_captions[is_val.repeat(counts)], owners)
    return {"zero_shot": rsum, "chance": None if rsum is None else round(chance_rsum(owners), 2)}


def _by_split(paths: Sequence[Path]) -> dict[str, Path]:
    """Return split -> file; a single file has the empty name."""
    if len(paths) == 1:
        return {"": paths[0]}
    files = {SPLIT_ALIASES.get(path.stem.replace("-", "_").rpartition("_")[2], ""): path for path in paths}
    if len(files) != len(paths) or set(files) != set(SPLITS):
        raise ConfigError(
            f"give one file with the rows of all splits, or three whose names end in train, val and test, such as "
            f"clip_train.pt; got {', '.join(path.name for path in paths)}"
        )
    return files


def _in_order(images: Sequence[Image], dumps: dict[str, Dump]) -> tuple[np.ndarray, np.ndarray]:
    if "" in dumps:
        return dumps[""].images, dumps[""].captions
    widths = {(dump.images.shape[1], dump.captions.shape[1]) for dump in dumps.values()}
    if len(widths) > 1:
        raise DataError(f"the files hold features of several widths (image, caption): {sorted(widths)}")
    of_image = np.array([image.split for image in images])
    of_caption = np.array([image.split for image in images for _ in image.captions])
    ((wide, narrow),) = widths
    rows = np.empty((len(of_image), wide), np.float32), np.empty((len(of_caption), narrow), np.float32)
    for split, dump in dumps.items():
        rows[0][of_image == split], rows[1][of_caption == split] = dump.images, dump.captions
    return rows


def open_corpus(
    dataset: str, data_root: Path, out: Path | None, kinds: Sequence[str]
) -> tuple[Corpus, tuple[Path, ...]]:
    """Return a dataset's captions and splits, and the paths of its feature files of some kinds.

    ``dataset`` is a folder under ``data_root``, or a path; without ``out`` the features go into the dataset's folder.

    Raises:
        ConfigError: If the folder cannot be written, or a file exists already; the message names it.
        DataError: If the dataset is missing or has problems.
    """
    source = find_source(dataset, data_root)
    corpus = source.read()
    if problems := check_corpus(corpus):
        raise DataError(problems)
    folder = out or source.folder
    targets = tuple(folder / f"features_{kind}.npy" for kind in kinds)
    check_targets(folder, targets)
    return corpus, targets


def check_targets(folder: Path, targets: Iterable[Path]) -> None:
    """Refuse a folder that cannot be written, or a file in it that exists already (``ConfigError``)."""
    try:
        make_writable(folder)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}; name another folder with --out") from None
    if there := next((target for target in targets if target.exists()), None):
        raise ConfigError(f"{there}: is there already; remove it, or name another folder with --out")


def write_features(
    targets: Sequence[Path], features: Sequence[np.ndarray], about: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Write features as float16, after files that describe their origin, so that no features lack an origin.

    Returns:
        The paths of all files, the features first.

    Raises:
        DataError: If a feature is not finite as float16.
    """
    for target, array, origin in zip(targets, features, about, strict=True):
        with np.errstate(over="ignore"):
            rows = array.astype(np.float16)
        if not np.isfinite(rows).all():
            raise DataError(f"{target}: would hold NaN, infinity, or numbers beyond those of float16")
        description = {**origin, "shape": list(rows.shape), "dtype": "float16"}
        write_whole(target.with_suffix(".json"), json.dumps(description, indent=2) + "\n")
        with writing_whole(target) as file:
            np.save(file, rows, allow_pickle=False)
    return [*map(str, targets), *(str(target.with_suffix(".json")) for target in targets)]
