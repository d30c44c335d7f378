"""Further inputs of images and captions beside their features and words: boxes, experts, parses and role graphs.

An input is an entry of ``INPUTS``. Of images it is one or more arrays with a row an image, or one a caption, like
features. Where rows are sets of different sizes, the array is padded with zeros, and a file beside it has their
lengths. Of captions it is a text file with a sentence for each caption (``trainables.data.sentences``), from which
whole numbers are made once, beside the token ids. Model and parameters decide which inputs a training reads
(``trainables.model_parameters.further_inputs``).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainables.data.corpus import Corpus, Image
from trainables.data.features import check_values, feature_rows, inspect_features, open_features
from trainables.data.npy_files import SAFETENSORS, map_lengths
from trainables.data.parses import number_heads, read_parses
from trainables.data.role_graphs import number_graph, read_role_graphs
from trainables.data.sentences import Number, Sentence, number_captions
from trainables.data.text_files import file_digest
from trainables.data.tokenizers import Tokenizer
from trainables.errors import DataError
from trainables.files import remembered

REGION_LENGTHS = "region_lengths.npy"
"""File beside ``features_regions`` where images, or clips, have different numbers of regions, or frames."""


@dataclass(frozen=True, eq=False)
class ImageColumn:
    """One input of the images of a split.

    Attributes:
        values: Shape (rows, ...), float16 or float32, memory-mapped.
        rows: Row of each image, shape (I,), int64.
        lengths: Size of the set in each row, shape (rows,), int64; ``None`` where rows are no sets.
    """

    values: np.ndarray
    rows: np.ndarray
    lengths: np.ndarray | None = None


@dataclass(frozen=True)
class ImageInput:
    """An input of images.

    Attributes:
        form: Files and shapes, for people.
        pattern: Files in the dataset's folder, without suffix.
        check: Returns what is wrong with the values of a file beyond NaN and infinity, from path and array.
        has_lengths: Whether each row is a set, whose size ``lengths_file`` says; without that file all places count.
    """

    form: str
    pattern: str
    check: Callable[[Path, np.ndarray], list[str]]
    has_lengths: bool = False

    def files(self, folder: Path) -> list[Path]:
        """Return the arrays of a dataset, sorted by name; empty where there are none."""
        found = (path for suffix in (".npy", SAFETENSORS) for path in folder.glob(f"{self.pattern}{suffix}"))
        return sorted(path for path in found if not path.stem.endswith("_lengths"))

    def orphans(self, folder: Path) -> list[str]:
        """Return a problem for each file of lengths without its array."""
        known = set(map(lengths_file, self.files(folder)))
        found = sorted(folder.glob(f"{self.pattern}_lengths.npy")) if self.has_lengths else []
        return [f"{path}: has no array of that name beside it" for path in found if path not in known]

    def sidecars(self, folder: Path) -> list[Path]:
        """Return the files of lengths."""
        return [path for path in map(lengths_file, self.files(folder)) if self.has_lengths and path.exists()]


@dataclass(frozen=True)
class CaptionInput:
    """An input of captions.

    Attributes:
        form: Files and form, for people.
        names: File names in the dataset's folder; the first that exists is read.
        read: Reads a file into sentences by the key of their text; its second argument collects problems.
        number: Makes whole numbers of a sentence.
        of_tokens: Names of the numbers of each token.
        of_captions: Names of the numbers of each caption.
    """

    form: str
    names: tuple[str, ...]
    read: Callable[[Path, list[str]], Mapping[str, Sentence]]
    number: Number
    of_tokens: tuple[str, ...]
    of_captions: tuple[str, ...] = ()

    def files(self, folder: Path) -> list[Path]:
        """Return the file, or nothing."""
        return [folder / name for name in self.names if (folder / name).exists()][:1]

    def sidecars(self, folder: Path) -> list[Path]:
        """Return nothing: a file of sentences is whole."""
        return []


def lengths_file(path: Path) -> Path:
    """Return where the lengths of the sets of an array lie.

    Example:
        >>> lengths_file(Path("experts/audio.npy")).name, lengths_file(Path("features_regions.npy")).name
        ('audio_lengths.npy', 'region_lengths.npy')
    """
    return path.with_name(REGION_LENGTHS if path.stem == "features_regions" else f"{path.stem}_lengths.npy")


def _check_boxes(path: Path, boxes: np.ndarray) -> list[str]:
    if boxes.ndim != 3 or boxes.shape[2] != 4:
        return [f"{path}: boxes must have shape (images, R, 4), got {boxes.shape}"]
    inside = ((boxes >= 0) & (boxes <= 1)).all(-1) & (boxes[..., :2] <= boxes[..., 2:]).all(-1)
    if inside.all():
        return []
    row, region = (int(place) for place in np.argwhere(~inside)[0])
    return [
        f"{path}: row {row}, region {region}: must be x1, y1, x2, y2 in [0, 1] with x1 <= x2 and y1 <= y2, divided by "
        f"width and height, got {[round(float(number), 4) for number in boxes[row, region]]}"
    ]


INPUTS: Mapping[str, ImageInput | CaptionInput] = {
    "boxes": ImageInput(
        "boxes.npy (images, R, 4): x1, y1, x2, y2 of each region, divided by width and height", "boxes", _check_boxes
    ),
    "experts": ImageInput(
        "experts/NAME.npy (images, D) or (images, N, D), with experts/NAME_lengths.npy, where 0 is missing",
        "experts/*",
        lambda path, array: [],
        has_lengths=True,
    ),
    "parses": CaptionInput(
        "captions.conllu: a dependency parse of each caption",
        ("captions.conllu",),
        read_parses,
        number_heads,
        ("heads",),
    ),
    "role_graphs": CaptionInput(
        "graphs.jsonl, or HGR's sent2rolegraph.augment.json: a role graph of each caption",
        ("graphs.jsonl", "sent2rolegraph.augment.json"),
        read_role_graphs,
        number_graph,
        ("phrases",),
        ("roles", "links"),
    ),
}
"""Name of an input -> its entry."""


def found_inputs(folder: Path) -> list[str]:
    """Return the inputs whose files lie in a dataset's folder."""
    return [name for name, entry in INPUTS.items() if entry.files(folder)]


def input_files(folder: Path, names: Sequence[str]) -> dict[str, list[Path]]:
    """Return name -> files of some inputs (``DataError`` names those that are missing)."""
    files = {name: INPUTS[name].files(folder) for name in names}
    if problems := [f"{folder}: has no {INPUTS[name].form}" for name, paths in files.items() if not paths]:
        raise DataError(problems)
    return files


def inputs_digest_lines(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield a line for each file of some inputs: its name and the digest of its content."""
    for name, paths in input_files(folder, names).items():
        inspect = inspect_features if isinstance(INPUTS[name], ImageInput) else file_digest
        for path in paths:
            yield f"{name} {path.name} {remembered(path, inspect)['digest']}"
        for path in INPUTS[name].sidecars(folder):
            yield f"{name} {path.name} {remembered(path, file_digest)['digest']}"


def lengths_of(path: Path, array: np.ndarray) -> np.ndarray | None:
    """Return the lengths beside an array, shape (rows,), int64; ``None`` where none lie there.

    Raises:
        DataError: If the file is damaged, or a length is no number of places of a row.
    """
    file = lengths_file(path)
    if not file.exists():
        return None
    places = array.shape[1] if array.ndim == 3 else 1
    return map_lengths(file, rows=len(array), most=places)


def check_lengths(path: Path, array: np.ndarray, *, fewest: int = 0) -> list[str]:
    """Return what is wrong with the lengths beside an array whose sets have at least ``fewest`` members."""
    try:
        lengths = lengths_of(path, array)
    except DataError as error:
        return error.problems
    if lengths is None or (too_short := np.flatnonzero(lengths < fewest)).size == 0:
        return []
    return [f"{lengths_file(path)}: row {too_short[0]}: must be at least {fewest}, got {lengths[too_short[0]]}"]


def check_image_input(name: str, path: Path, images: Sequence[Image]) -> list[str]:
    """Return every problem of a file of an input of some images, in row order."""
    entry = INPUTS[name]
    assert isinstance(entry, ImageInput)
    try:
        inspection, array = remembered(path, inspect_features), open_features(path)
    except DataError as error:
        return error.problems
    captions = sum(len(image.captions) for image in images)
    problems = check_values(path, inspection, images)
    if len(array) not in (len(images), captions):
        problems.append(f"{path}: {len(array)} rows for {len(images)} images; there must be one row an image")
    if not problems:
        problems += entry.check(path, array)
    return problems + (check_lengths(path, array) if entry.has_lengths else [])


def check_boxes(boxes: Path, features: Path) -> list[str]:
    """Return why boxes (rows, R, 4) do not fit the regions (rows, R, D) of features."""
    shape, regions = open_features(boxes).shape, open_features(features).shape
    if len(regions) == 3 and shape[1] != regions[1]:
        return [f"{boxes}: has {shape[1]} boxes an image, but {features.name} has {regions[1]} regions"]
    return []


def image_columns(corpus_rows: Mapping[str, np.ndarray], folder: Path, name: str) -> dict[str, ImageColumn]:
    """Return the columns of an input, by their keys, whose rows are given by key."""
    entry = INPUTS[name]
    assert isinstance(entry, ImageInput)
    columns = {}
    for path in entry.files(folder):
        values, key = open_features(path), input_key(name, path)
        lengths = lengths_of(path, values) if entry.has_lengths else None
        if entry.has_lengths and lengths is None:
            lengths = np.full(len(values), values.shape[1] if values.ndim == 3 else 1, dtype=np.int64)
        columns[key] = ImageColumn(values, corpus_rows[key], lengths)
    return columns


def input_key(name: str, path: Path) -> str:
    """Return the key of a file of an input in what a model reads: ``boxes``, ``experts.audio``."""
    return name if path.stem == name else f"{name}.{path.stem}"


def input_rows(corpus: Corpus, folder: Path, names: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
    """Return key -> split -> row of each image, of the inputs of images among some inputs."""
    return {
        input_key(name, path): feature_rows(corpus, dict.fromkeys(("train", "val", "test"), path))
        for name in names
        if isinstance(entry := INPUTS[name], ImageInput)
        for path in entry.files(folder)
    }


def input_numbers(
    corpus: Corpus, folder: Path, names: Sequence[str], tokenizer: Tokenizer, problems: list[str]
) -> dict[str, dict[str, np.ndarray]]:
    """Return name -> split -> numbers of the captions, of the inputs of captions among some inputs.

    Numbers of tokens are flat beside the token ids, (T,), and numbers of captions (C, ...).
    """
    numbers: dict[str, dict[str, np.ndarray]] = {}
    for name in names:
        entry = INPUTS[name]
        if isinstance(entry, CaptionInput):
            (path,) = entry.files(folder)
            sentences = entry.read(path, problems)
            numbers |= number_captions(corpus, path, sentences, entry.number, tokenizer, problems)
    return numbers


def describe_inputs(folder: Path) -> dict[str, dict[str, Any]]:
    """Return key -> ``file``, and ``sentences``, or ``shape``, ``dtype`` and ``about_lengths`` of arrays."""
    described: dict[str, dict[str, Any]] = {}
    for name in found_inputs(folder):
        for path in INPUTS[name].files(folder):
            about: dict[str, Any] = {"file": str(path.relative_to(folder))}
            if isinstance(INPUTS[name], ImageInput):
                array = open_features(path)
                about |= {"shape": list(array.shape), "dtype": array.dtype.name, **about_lengths(path, array)}
            else:
                about |= remembered(path, _count_sentences)
            described[input_key(name, path) if "shape" in about else name] = about
    return described


def about_lengths(path: Path, array: np.ndarray) -> dict[str, Any]:
    """Return ``missing`` (rows of length 0), and ``members``, the fewest and the most of another row.

    Empty where no lengths lie beside the array.
    """
    lengths = lengths_of(path, array)
    if lengths is None:
        return {}
    some = lengths[lengths > 0]
    return {"missing": len(lengths) - len(some), "members": [int(some.min()), int(some.max())] if len(some) else [0, 0]}


def _count_sentences(path: Path) -> dict[str, int]:
    entry = next(entry for entry in INPUTS.values() if isinstance(entry, CaptionInput) and path.name in entry.names)
    return {"sentences": len({sentence.place for sentence in entry.read(path, []).values()})}
