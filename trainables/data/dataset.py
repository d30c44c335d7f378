"""A dataset in the form that models read: splits of feature rows and token ids, memory-mapped.

``load_dataset`` reads a corpus once, checks it whole, and keeps what it prepared in a cache under the digest of its
sources. From then on it only compares sizes and times of the files and maps arrays.
"""

import contextlib
import hashlib
import json
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np

from trainables.config import NO_FEATURES, PIXELS, TEXT, TEXT_MODELS, TrainingConfig, TrialConfig
from trainables.data.corpus import SPLITS, Corpus, as_consequences, check_records, empty_splits
from trainables.data.features import (
    check_caption_features,
    check_features,
    check_values,
    check_views,
    description_of,
    feature_rows,
    inspect_features,
    open_features,
    open_views,
    sidecars,
    view_files,
)
from trainables.data.inputs import (
    INPUTS,
    REGION_LENGTHS,
    CaptionInput,
    ImageColumn,
    ImageInput,
    check_boxes,
    check_image_input,
    check_lengths,
    image_columns,
    input_files,
    input_numbers,
    input_rows,
    inputs_digest_lines,
    lengths_file,
    lengths_of,
)
from trainables.data.pictures import ImageFiles, check_links, find_image_files, link_problem
from trainables.data.prepared import CAPTION_ROWS, VERSION, FeatureRows, SplitArrays, open_prepared, prepare
from trainables.data.repeats import Members, group_images
from trainables.data.source import Source, find_source
from trainables.data.text_features import NAME as TFIDF
from trainables.data.text_files import Strings, file_digest
from trainables.data.tokenizers import (
    ENGLISH,
    LABELS,
    REASONS,
    RULE,
    SPLITS_OF,
    Tokenizer,
    Vocabulary,
    VocabularyName,
    find_tokenizer,
    infer_tokenizer,
)
from trainables.errors import ConfigError, DataError
from trainables.files import alone, default_cache, make_in_cache, read_state, remembered, write_whole, writing_to
from trainables.metric_table import metric_of
from trainables.model_parameters import READS_LENGTHS, check_identity

_INFERRED = {tokenizer.name: tokenizer for tokenizer in REASONS}


@dataclass(frozen=True, eq=False)
class Split:
    """One split: I images with C captions of T tokens in all.

    Attributes:
        name: ``train``, ``val`` or ``test``.
        features: Rows of the whole feature file, shape (rows, D) or (rows, R, D), float16 or float32, memory-mapped.
        image_rows: Row of each image in ``features``, shape (I,), int64.
        image_ids: The source's id of each image; I strings.
        filenames: File name of each image, empty where the source has none; I strings.
        tokens: Word ids of all captions one after the other, start and end included, shape (T,), int32.
        offsets: Caption c is ``tokens[offsets[c]:offsets[c + 1]]``; shape (C + 1,), int64.
        image_of_caption: Index in [0, I) of each caption's image, shape (C,), int64, non-decreasing.
        captions: Each caption as written; C strings, decoded when asked for.
        views: Features of N random crops of each row of ``features``, shape (rows, N, ...), memory-mapped; ``None``
            where none were extracted.
        files: The image files in the order of the images, where pixels were asked for instead of features.
        caption_features: Rows of the whole file of the captions' features, shape (rows, D), float16 or float32,
            memory-mapped; ``None`` where these were not asked for.
        caption_rows: Row of each caption in ``caption_features``, shape (C,), int64; ``None`` without such features.
        image_groups: A number of each image, shape (I,), int64, that equal feature rows of all splits share; ``None``
            where that is not known.
        caption_groups: The same of captions with equal tokens, shape (C,).
        labels: Class of each image, shape (I,), int64, where images retrieve images of their class; ``None`` where
            images and captions retrieve each other. Caption i is then image i, with its features.
        caption_labels: Number of the label that each caption is, shape (C,), int64 in [0, L), where captions are labels
            that images share; ``None`` elsewhere. A label is then one candidate, see ``metrics.rank_labels``.
        feature_lengths: Number of regions, or frames, of each row of ``features``, shape (rows,), int64; ``None`` where
            all rows have equally many.
        columns: Further inputs of the images by their keys, see ``inputs.INPUTS``.
        token_numbers: Further input -> whole numbers of all tokens, one after the other, shape (T,).
        caption_numbers: Further input -> whole numbers of each caption, shape (C, ...).
    """

    name: str
    features: np.ndarray
    image_rows: np.ndarray
    image_ids: Strings
    filenames: Strings
    tokens: np.ndarray
    offsets: np.ndarray
    image_of_caption: np.ndarray
    captions: Strings
    views: np.ndarray | None = None
    files: ImageFiles | None = None
    caption_features: np.ndarray | None = None
    caption_rows: np.ndarray | None = None
    labels: np.ndarray | None = None
    caption_labels: np.ndarray | None = None
    feature_lengths: np.ndarray | None = None
    columns: Mapping[str, ImageColumn] = field(default_factory=dict)
    token_numbers: Mapping[str, np.ndarray] = field(default_factory=dict)
    caption_numbers: Mapping[str, np.ndarray] = field(default_factory=dict)
    image_groups: np.ndarray | None = None
    caption_groups: np.ndarray | None = None

    def queries_digest(self) -> str:
        """Return the SHA-256 of the ids of the images and the captions, whatever the features are; 64 hex digits."""
        digest = hashlib.sha256(np.ascontiguousarray(self.image_of_caption, dtype="<i8").tobytes())
        for strings in (self.image_ids, self.captions):
            digest.update(json.dumps(list(strings)).encode())
        return digest.hexdigest()

    def head(self, images: int) -> "Split":
        """Return the split with its first ``images`` images and their captions alone."""
        return self.part(np.arange(images))

    def part(self, images: np.ndarray) -> "Split":
        """Return the split with some images, indices (J,), int64, ascending, and their captions alone."""
        kept = np.isin(self.image_of_caption, images)
        captions, lengths = np.flatnonzero(kept), np.diff(self.offsets)
        tokens = np.repeat(kept, lengths)
        return replace(
            self,
            image_rows=self.image_rows[images],
            image_ids=self.image_ids.at(images),
            filenames=self.filenames.at(images),
            tokens=self.tokens[tokens],
            offsets=np.concatenate([[0], lengths[kept].cumsum()]),
            image_of_caption=np.searchsorted(images, self.image_of_caption[kept]),
            captions=self.captions.at(captions),
            caption_rows=None if self.caption_rows is None else self.caption_rows[kept],
            labels=None if self.labels is None else self.labels[images],
            caption_labels=None if self.caption_labels is None else _numbered(self.caption_labels[kept]),
            columns={key: replace(column, rows=column.rows[images]) for key, column in self.columns.items()},
            token_numbers={key: values[tokens] for key, values in self.token_numbers.items()},
            caption_numbers={key: values[kept] for key, values in self.caption_numbers.items()},
            image_groups=None if self.image_groups is None else self.image_groups[images],
            caption_groups=None if self.caption_groups is None else self.caption_groups[kept],
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset that passed every check.

    ``digest`` is the SHA-256 over captions, splits and features, 64 hex digits; the same wherever the folder lies.
    """

    name: str
    digest: str
    vocabulary: Vocabulary
    splits: Mapping[str, Split]


def members_of(split: Split) -> Members:
    """Return which images and captions of a split are equal; without that knowledge each is another."""
    images = np.arange(len(split.image_rows)) if split.image_groups is None else split.image_groups
    captions = np.arange(len(split.captions)) if split.caption_groups is None else split.caption_groups
    return Members(np.asarray(images), np.asarray(captions), np.asarray(split.image_of_caption))


def open_dataset(config: TrialConfig, data_root: Path) -> Dataset:
    """Load the dataset of a trial with the features that its model reads; see ``load_dataset``."""
    return load_dataset(config.dataset, data_root, **data_settings(config))


def data_settings(config: TrialConfig) -> dict[str, Any]:
    """Return the settings of ``load_dataset`` for a trial."""
    return {
        "vocabulary": config.vocabulary,
        "tokenizer": config.tokenizer,
        "features": None if config.features == NO_FEATURES else config.features,
        "text": config.reads_text_features,
        "val_images": config.val_images,
        "inputs": config.inputs,
    }


def load_dataset(
    name: str,
    data_root: Path,
    *,
    vocabulary: VocabularyName = "train",
    tokenizer: str | None = None,
    features: str | None = "global",
    text: bool = False,
    val_images: int | None = None,
    inputs: Sequence[str] = (),
) -> Dataset:
    """Load a dataset, preparing it in the user's cache directory if this has not been done before.

    Args:
        name: A folder under ``data_root``, or a path.
        data_root: Where datasets lie; no file is read outside it.
        vocabulary: ``train``: words of the train split; ``published``: of train and val, as for the papers' features.
        tokenizer: A name of ``tokenizers.find_tokenizer``; ``None`` infers it from the train captions.
        features: ``global`` (rows, D), ``regions`` (rows, R, D), or the NAME of another ``features_NAME.npy``, each
            with ``augmented_NAME.npy`` if it lies beside; ``None`` for captions alone, with features of shape
            (images, 0); ``pixels`` for the image files instead of features.
        text: With the features of the captions (rows, D), ``features_text.npy``.
        val_images: Keep only the first val images, this many; the published code keeps 1,000.
        inputs: Further inputs, keys of ``inputs.INPUTS``.

    Raises:
        DataError: If the dataset has problems; the message lists all, each with file and record. If the features of its
            captions were made with another tokenizer than ``tokenizer``.
    """
    if vocabulary not in SPLITS_OF:
        raise DataError(f"vocabulary must be one of {', '.join(SPLITS_OF)}, got {vocabulary!r}")
    source = find_source(name, Path(data_root))
    kind = None if features == PIXELS else features
    files = source.feature_files(kind) if kind else {}
    # Of one modality both sides are the images.
    texts = source.feature_files(TEXT) if text and not source.has_one_modality else {}
    cut = tokenizer_of(source, tokenizer)
    if tokenizer is not None:
        _check_made_with(cut, texts)
    if inputs:
        input_files(source.folder, inputs)
    digest = dataset_digest(source, files, texts, cut, inputs)
    # Another version of a plug-in may read other captions from the same files.
    reader = "" if source.plugin is None else f"-{source.plugin.digest[:12]}"
    folder = default_cache() / f"{source.name}-{digest[:24]}-{vocabulary}-v{VERSION}{reader}"
    opened = open_prepared(folder, cut)
    if opened is None:
        corpus = source.read()
        asked = {name: paths for name, paths in ((kind, files), (TEXT, texts)) if name and paths}
        if problems := find_problems(source, corpus, asked, inputs):
            raise DataError(problems)
        numbered = {split: np.arange(len(corpus.split(split)), dtype=np.int64) for split in SPLITS}
        rows = {"image_rows": feature_rows(corpus, files) if files else numbered}
        images = np.cumsum([0, *(len(numbered[split]) for split in SPLITS)])
        own = {split: numbered[split] + first for split, first in zip(SPLITS, images[:-1], strict=True)}
        rows["image_groups"] = group_images(files, rows["image_rows"]) if files else own
        rows |= {CAPTION_ROWS: feature_rows(corpus, texts, of_captions=True)} if texts else {}
        rows |= {f"rows.{key}": of_split for key, of_split in input_rows(corpus, source.folder, inputs).items()}
        rows |= _numbers(source, corpus, inputs, cut)
        opened = _prepare_once(folder, corpus, rows, vocabulary, cut)
    if opened is None:
        raise DataError(f"{folder}: the prepared dataset is damaged as soon as it is written; is the disk full?")
    splits = {
        split: _with_inputs(
            _make_split(split, files.get(split), texts.get(split), arrays, source),
            source.folder,
            inputs,
            opened[2][split],
        )
        for split, arrays in opened[1].items()
    }
    if features == PIXELS:
        named = {name: (split.filenames, split.image_ids) for name, split in splits.items()}
        image_files, theirs = find_image_files(source.folder, source.roots, named)
        digest = hashlib.sha256(f"{digest} {theirs}".encode()).hexdigest()
        splits = {name: replace(split, files=image_files[name]) for name, split in splits.items()}
    if val_images is not None:
        splits["val"] = _first_images(splits["val"], val_images, source.name)
    return Dataset(source.name, digest, opened[0], splits)


def _first_images(val: Split, images: int, dataset: str) -> Split:
    """Return the first images of a val split (``DataError`` if there are fewer, or one is alone in its class)."""
    if images > len(val.image_rows):
        raise DataError(
            f"val_images must be at most the {len(val.image_rows):,} images of the val split of {dataset}, got "
            f"{images:,}; leave it out to evaluate on all of them"
        )
    head = val.head(images)
    if head.labels is not None and 1 in np.bincount(head.labels):
        raise DataError(
            f"val_images: among the first {images:,} images of the val split of {dataset} a class has one image alone, "
            "which has no other to find; choose another number"
        )
    return head


def tokenizer_of(source: Source, name: str | None) -> Tokenizer:
    """Return the tokenizer of a dataset: that of a name, or the inferred one, which is remembered with its captions.

    Raises:
        DataError: See ``find_tokenizer``; where captions must be read for the first time, if a file cannot be read.
    """
    if name is not None:
        path = source.folder / name
        # An absolute path is the user's own; the files of a dataset stay in the data root.
        if path.exists() and not Path(name).is_absolute() and (problem := link_problem(path, source.roots)):
            raise DataError(problem)
        return find_tokenizer(name, source.folder)
    if source.has_one_modality:
        return ENGLISH
    if source.has_label_sets:
        return LABELS

    return _INFERRED[_facts_of(source)["tokenizer"]]


def _facts_of(source: Source) -> dict[str, Any]:
    """Return what follows from reading a dataset's captions and splits, which is remembered with its files.

    Returns:
        ``tokenizer``: the name of the inferred one; ``reading``: lines of the digest about how the files were read.

    Raises:
        DataError: If the captions must be read for the first time, and a file cannot be read.
    """
    if outside := files_outside(source, ()):
        raise DataError(outside)
    digests: list[Any] = [remembered(path, file_digest)["digest"] for path in source.files]
    digests += [] if source.plugin is None else [source.plugin.digest]
    # How captions are read may follow from the feature files beside them.
    digests += [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in source.own_feature_files()]
    name = f"reading-{hashlib.sha256(json.dumps(digests).encode()).hexdigest()[:32]}-v{RULE}.json"
    record = default_cache() / "files" / name
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
        facts: dict[str, Any] = read_state(record)
        if facts["tokenizer"] in _INFERRED and all(isinstance(line, str) for line in facts["reading"]):
            return facts
    corpus = source.read()
    images = corpus.split("train") or corpus.images
    inferred = infer_tokenizer([caption for image in images for caption in image.captions])
    reading = [*corpus.reading]
    if source.plugin is not None:
        # The code of a plug-in decides what it reads of the files.
        content = [[image.id, image.filename, image.split, *image.captions] for image in corpus.images]
        reading.append(f"read by a plug-in as {hashlib.sha256(json.dumps(content).encode()).hexdigest()}")
    facts = {"tokenizer": inferred.name, "reading": reading}
    with writing_to(record.parent):
        make_in_cache(record.parent)
        write_whole(record, json.dumps(facts))
    return facts


def _check_made_with(tokenizer: Tokenizer, texts: Mapping[str, Path]) -> None:
    for path in dict.fromkeys(texts.values()):
        made_with = made_by_tokenizer(description_of(path) or {})
        if made_with not in (None, tokenizer.identity):
            raise DataError(
                f"{path}: was made with the tokenizer {made_with}, not {tokenizer.identity}; leave tokenizer out, or "
                f"remove the file and make it again with `orchestrator data extract {shlex.quote(path.parent.name)} "
                f"--text tfidf-svd --tokenizer {tokenizer.name}`"
            )


def made_by_tokenizer(description: Mapping[str, Any]) -> str | None:
    """Return the tokenizer that the file beside features of captions names; ``None`` where none cut the captions."""
    if description.get("extractor") != TFIDF:
        return None
    return str(description.get("tokenizer", ENGLISH.identity))


def _prepare_once(
    folder: Path, corpus: Corpus, rows: FeatureRows, vocabulary: str, tokenizer: Tokenizer
) -> tuple[Vocabulary, dict[str, SplitArrays], dict[str, Mapping[str, np.ndarray]]] | None:
    """Prepare a folder and open it; a folder that another process has prepared meanwhile is only opened."""
    with writing_to(folder.parent):
        make_in_cache(folder.parent)
        with alone(folder.with_name(f".{folder.name}.lock")):
            opened = open_prepared(folder, tokenizer)
            if opened is None:
                # A folder that is there and cannot be opened is damaged. A folder that is being written stays: on a
                # shared disk another machine may write it, whose lock does not reach here.
                shutil.rmtree(folder, ignore_errors=True)
                prepare(folder, corpus, rows, vocabulary, tokenizer)
                opened = open_prepared(folder, tokenizer)
    return opened


def dataset_digest(
    source: Source,
    files: Mapping[str, Path],
    texts: Mapping[str, Path],
    tokenizer: Tokenizer,
    inputs: Sequence[str] = (),
) -> str:
    """Return the SHA-256 over a dataset's captions, splits, features, the features' origins and the tokenizer.

    ``files`` and ``texts`` are the features of images and captions by split; lengths beside features, and further
    inputs, are part of it. ``ENGLISH`` leaves the digest as it was before there were other tokenizers.
    """
    everything = [*files.values(), *texts.values()]
    if outside := files_outside(source, everything):
        raise DataError(outside)
    digest = hashlib.sha256()
    for line in _facts_of(source)["reading"]:
        digest.update(f"{line}\n".encode())
    if tokenizer != ENGLISH:
        digest.update(f"tokenizer {tokenizer.identity}\n".encode())
    for path in (*source.files, *_sidecars(everything)):
        digest.update(f"{path.name} {remembered(path, file_digest)['digest']}\n".encode())
    named = [*files.items(), *((f"captions of {split}", path) for split, path in texts.items())]
    for name, path in (*named, *(("views", path) for path in view_files(files.values()))):
        digest.update(f"{name} {remembered(path, inspect_features)['digest']}\n".encode())
    for path in dict.fromkeys(lengths_file(path) for path in files.values() if path.stem == "features_regions"):
        if path.exists():
            digest.update(f"{path.name} {remembered(path, file_digest)['digest']}\n".encode())
    for line in inputs_digest_lines(source.folder, inputs):
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def files_outside(source: Source, files: Iterable[Path]) -> list[str]:
    """Name each file of a dataset, and of some feature files, that is a link out of the data root."""
    files = dict.fromkeys(files)
    paths = (*source.files, *files, *_sidecars(files), *view_files(files))
    return [problem for path in paths if (problem := link_problem(path, source.roots))]


def check_batch_size(data: Dataset, training: TrainingConfig, key: str = "training.batch_size") -> None:
    """Refuse batches that are larger than an epoch, or that no two classes fit in (``ConfigError``).

    ``key`` is where a configuration has the size.
    """
    train = data.splits["train"]
    count = len(train.image_rows) if training.batches == "images" else len(train.captions)
    unit = "images" if training.batches == "images" else "captions"
    if training.batch_size > count:
        raise ConfigError(
            f"{key}: {training.batch_size} is more than the {count} {unit} of {data.name}'s train split; "
            f"choose at most {count}"
        )
    if train.labels is not None:
        size = max(training.captions_per_image, 2)
        needed = sum(sorted(_smallest_group(count, size) for count in np.bincount(train.labels).tolist())[:2])
        if training.batch_size < needed:
            raise ConfigError(
                f"{key}: no batch of {training.batch_size} has room for two classes of {data.name}, with "
                f"{size} images of each (captions_per_image); choose at least {needed}"
            )


def _smallest_group(count: int, size: int) -> int:
    """Return the images of a class's smallest group in ``batches.compared_parts``, where no image is left alone."""
    rest = count % size
    return count if count <= size + 1 else rest if rest > 1 else size


def check_widths(config: TrialConfig, data: Dataset) -> None:
    """Refuse a head that keeps features of other dimensions than the joint space has (``ConfigError``)."""
    train = data.splits["train"]
    for side, features in (("image", train.features), ("caption", train.caption_features)):
        if features is not None:
            head = str(config.model_parameters.get(f"{side}_head", ""))
            check_identity(side, head, features.shape[-1], config.training.embedding_size)


def check_modality(config: TrialConfig, data: Dataset) -> None:
    """Refuse a model that reads words, and a metric that is not measured, where a dataset has images and classes alone.

    Raises:
        ConfigError: If model or metric is refused; the message names the models that read such a dataset, or the
            metric.
    """
    if data.splits["train"].caption_labels is not None and config.loss_parameters.get("bank"):
        raise ConfigError(
            f"{config.loss}.bank: a batch of {data.name} has the labels of train as candidates already; leave bank out"
        )
    if data.splits["train"].labels is None:
        if not metric_of(config.metric).of_captions:
            raise ConfigError(
                f"metric: {config.metric} is measured of images with classes, and {data.name} has captions"
            )
        return
    if not metric_of(config.metric).of_classes:
        raise ConfigError(f"metric: {config.metric} is not measured on {data.name}, whose images have classes; take r1")
    if not config.reads_text_features:
        raise ConfigError(
            f"model: {data.name} has images with classes and no captions, and {config.model} reads words; take "
            f"{' or '.join(TEXT_MODELS)}, which retrieves images with images there"
        )


def check_region_counts(config: TrialConfig, data: Dataset) -> None:
    """Refuse images of different numbers of regions with a model that reads equally many (``ConfigError``)."""
    if data.splits["train"].feature_lengths is not None and config.model not in READS_LENGTHS:
        raise ConfigError(
            f"model: {data.name} has images of different numbers of regions ({REGION_LENGTHS}), and {config.model} "
            f"reads equally many of each; take {', '.join(READS_LENGTHS)}"
        )


def data_notes(config: TrialConfig, data: Dataset) -> Iterator[str]:
    """Yield what a training does with its data that its config does not say, a sentence each.

    Captions that are cut as English are not mentioned, because they always were.
    """
    train, training = data.splits["train"], config.training
    if train.labels is not None:
        return
    tokenizer = data.vocabulary.tokenizer
    if config.tokenizer is None and tokenizer not in (ENGLISH, LABELS) and not config.reads_text_features:
        yield f"{data.name}: tokenizer {tokenizer.title}, inferred from the captions: {REASONS[tokenizer]}"
    most = int(np.bincount(train.image_of_caption).max())
    if training.batches == "images" and most < training.captions_per_image:
        epochs = f", and {training.epoch_scale} times the epochs are trained" if training.epoch_scale > 1 else ""
        yield (
            f"{data.name}: no train image has more than {most} captions, so that a batch has {most} times "
            f"{training.batch_size} captions at most{epochs}; training.captions_per_image: {most} says so"
        )


def find_problems(
    source: Source, corpus: Corpus, features: Mapping[str, Mapping[str, Path]], inputs: Sequence[str] = ()
) -> list[str]:
    """Return every problem of a corpus, its feature files by kind and split, and further inputs: causes first."""
    consequences = empty_splits(corpus)
    problems = check_records(corpus) + check_links(corpus, source.folder, source.roots)
    for kind, files in features.items():
        for path in dict.fromkeys(files.values()):
            images = [image for image in corpus.images if files[image.split] == path]
            try:
                inspection = remembered(path, inspect_features)
            except DataError as error:
                problems += error.problems
                continue
            if kind == TEXT:
                problems += check_caption_features(path, inspection, images)
            else:
                problems += check_values(path, inspection, images)
                problems += check_views(path, inspection["shape"], images)
                problems += check_lengths(path, open_features(path), fewest=1) if kind == "regions" else []
                consequences += check_features(path, inspection, images, kind)
    of_inputs = _input_problems(source, corpus, inputs)
    if "boxes" in inputs and not (problems or of_inputs):
        pairs = product(INPUTS["boxes"].files(source.folder), dict.fromkeys(features.get("regions", {}).values()))
        of_inputs = [problem for boxes, regions in pairs for problem in check_boxes(boxes, regions)]
    problems += of_inputs
    return problems + as_consequences(consequences, corpus)


def _input_problems(source: Source, corpus: Corpus, inputs: Sequence[str]) -> list[str]:
    """Return every problem of some inputs; parses and role graphs are checked when they are laid on the captions."""
    problems = []
    for name in inputs:
        entry = INPUTS[name]
        problems += entry.orphans(source.folder) if isinstance(entry, ImageInput) else []
        for path in entry.files(source.folder):
            if problem := link_problem(path, source.roots):
                problems.append(problem)
            elif isinstance(entry, ImageInput):
                problems += check_image_input(name, path, corpus.images)
            else:
                try:
                    entry.read(path, problems)
                except DataError as error:
                    problems += error.problems
    return problems


def _numbers(
    source: Source, corpus: Corpus, inputs: Sequence[str], tokenizer: Tokenizer
) -> dict[str, dict[str, np.ndarray]]:
    """Return ``numbers.NAME`` -> split -> numbers of captions (``DataError`` if a caption has none)."""
    problems: list[str] = []
    numbers = input_numbers(corpus, source.folder, inputs, tokenizer, problems)
    if problems:
        raise DataError(problems)
    return {f"numbers.{name}": of_split for name, of_split in numbers.items()}


def _with_inputs(split: Split, folder: Path, inputs: Sequence[str], arrays: Mapping[str, np.ndarray]) -> Split:
    """Return a split with its further inputs, of the prepared ``arrays``."""
    columns: dict[str, ImageColumn] = {}
    tokens: dict[str, np.ndarray] = {}
    captions: dict[str, np.ndarray] = {}
    rows = {key.removeprefix("rows."): values for key, values in arrays.items() if key.startswith("rows.")}
    for name in inputs:
        entry = INPUTS[name]
        if isinstance(entry, CaptionInput):
            tokens |= {key: arrays[f"numbers.{key}"] for key in entry.of_tokens}
            captions |= {key: arrays[f"numbers.{key}"] for key in entry.of_captions}
        else:
            columns |= image_columns(rows, folder, name)
    return replace(split, columns=columns, token_numbers=tokens, caption_numbers=captions)


def _numbered(groups: np.ndarray) -> np.ndarray:
    """Return numbers in [0, L) for L different ones, int64."""
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _sidecars(files: Iterable[Path]) -> list[Path]:
    files = dict.fromkeys(files)
    return [path for features in (*files, *view_files(files)) for path in sidecars(features) if path.exists()]


def _make_split(name: str, path: Path | None, text: Path | None, arrays: SplitArrays, source: Source) -> Split:
    count = len(arrays["image_rows"])
    features = open_features(path) if path else np.empty((count, 0), dtype=np.float32)
    views = next((open_views(file) for file in view_files([path] if path else [])), None)
    captions = open_features(text) if text else None
    lengths = lengths_of(path, features) if path and path.stem == "features_regions" else None
    made = Split(
        name=name,
        features=features,
        views=views,
        caption_features=captions,
        feature_lengths=lengths,
        **cast(dict[str, Any], arrays),
    )
    if source.has_label_sets:
        return replace(made, caption_labels=_numbered(np.asarray(made.caption_groups)))
    if not source.has_one_modality:
        return made
    # The captions are the images, labelled by the class that is a caption.
    labels = _numbered(np.array(list(made.captions)))
    return replace(made, labels=labels, caption_features=features, caption_rows=made.image_rows)
