"""Finds out what each source is, reads it, and finds the pictures that its tables name.

A source is a file or a folder. A folder may be one that Hugging Face saved, or hold shards, tables, annotations,
pictures, or some of these. Files of features are left to ``trainables.data.importing.features``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath

from trainables.data.corpus import SPLIT_ALIASES
from trainables.data.importing.columns import read_pairs
from trainables.data.importing.containers import (
    is_coco,
    is_saved_dataset,
    lists_pictures,
    one_split,
    pictures_below,
    read_coco,
    read_line_lists,
    read_saved_dataset,
    read_shards,
    read_texts_beside,
)
from trainables.data.importing.features import SUFFIXES as FEATURE_SUFFIXES
from trainables.data.importing.material import CaptionedPicture, Material, NamedColumns, Taken
from trainables.data.importing.tables import SUFFIXES as TABLE_SUFFIXES
from trainables.data.importing.tables import read_table
from trainables.errors import DataError, UserError

LARGEST_FOLDER = 200_000
"""Most files of a folder that is described unasked."""

SHARDS = (".tar",)
LANGUAGES = (".en", ".de", ".fr", ".cs", ".ar", ".zh", ".ja", ".es", ".id", ".ru", ".tr")
"""Suffixes of lists of captions in a language."""

_NO_TABLES = ("readme", "license", "licence", "requirements")


def read_sources(sources: Sequence[Path], columns: NamedColumns) -> tuple[Material, list[Path]]:
    """Read everything but features.

    Returns:
        What was read, and the files of features among the sources.

    Raises:
        ConfigError: If a column that a person named is not there.
        DataError: If a source is missing, damaged, or nothing that is known; the message says what was found in it.
    """
    material = Material()
    features: list[Path] = []
    pictures: dict[Path, list[Path]] = {}
    files: list[Path] = []
    for source in sources:
        if not source.exists():
            raise DataError(f"{source}: no such file or folder")
        if source.is_file():
            files.append(source)
        elif is_saved_dataset(source):
            material.add(read_saved_dataset(source, columns))
        else:
            pictures[source] = pictures_below(source)
            files += _files_of(source, pictures[source])
    features += [path for path in files if path.suffix.lower() in FEATURE_SUFFIXES]
    rest = [path for path in files if path not in features]
    for read in _groups(rest, columns):
        material.add(read)
    if not material.pairs and not material.problems:
        for folder, below in pictures.items():
            if any(picture.with_suffix(".txt").exists() for picture in below):
                material.add(read_texts_beside(folder, below))
    if not material.pairs and not material.problems:
        raise DataError(_nothing(sources, files, pictures))
    _find_pictures(material, pictures, [path.parent for path in rest])
    return material, features


def describe_folder(folder: Path) -> str | None:
    """Say what lies in a folder that ``data import`` reads, in a sentence; ``None`` if nothing does."""
    # Asked for a folder that is no dataset, which may be any folder: a large one is not walked.
    if sum(1 for _ in islice(folder.rglob("*"), LARGEST_FOLDER)) == LARGEST_FOLDER:
        return None
    try:
        material, _ = read_sources([folder], NamedColumns())
    except UserError:
        return None
    if not material.pairs:
        return None
    splits = f"has splits by {material.splits_named}" if material.splits_named else "names no splits"
    if material.columns:
        table = next((taken.what for taken in material.taken), folder.name)
        return f"{table} is a table with the columns {', '.join(material.columns)} and {splits}"
    return f"{material.taken[0].what}: {material.taken[0].meaning}, {splits}"


def _files_of(folder: Path, pictures: Sequence[Path]) -> list[Path]:
    """Return the files of a folder, and of its folder ``annotations``, that may be tables, shards or features."""
    known = (*TABLE_SUFFIXES, *SHARDS, *FEATURE_SUFFIXES, *LANGUAGES)
    inner = [folder, *(folder / name for name in ("annotations", "data", "train", "val", "validation", "dev", "test"))]
    paths = [path for place in inner if place.is_dir() for path in sorted(place.iterdir())]
    # A text beside a picture belongs to the picture.
    beside = {picture.with_suffix("") for picture in pictures}
    return [
        path
        for path in paths
        if path.is_file()
        and path.suffix.lower() in known
        and not path.name.lower().startswith((*_NO_TABLES, "."))
        and not (path.suffix in (".txt", ".json") and path.with_suffix("") in beside)
    ]


def _groups(files: Sequence[Path], columns: NamedColumns) -> Iterable[Material]:
    """Yield what was read of each group of files that belong together."""
    shards = [path for path in files if path.suffix.lower() in SHARDS]
    annotations = [path for path in files if path not in shards and is_coco(path)]
    # COCO has files of boxes and of key points beside those of captions.
    others = [path for path in annotations if not path.name.startswith("captions")]
    if len(others) < len(annotations):
        annotations = [path for path in annotations if path not in others]
        files = [path for path in files if path not in others]
        yield Material(taken=[Taken(path.name, "left out: another file has the captions") for path in others])
    texts = [path for path in files if path.suffix.lower() in LANGUAGES]
    if texts:
        texts += [path for path in files if path.suffix == ".txt" and lists_pictures(path)]
    tables = [path for path in files if path not in (*shards, *annotations, *texts)]
    if shards:
        yield read_shards(shards)
    if annotations:
        yield read_coco(annotations)
    if texts:
        yield read_line_lists(texts)
    for path in tables:
        if path.suffix.lower() not in TABLE_SUFFIXES:
            raise DataError(f"{path}: is nothing that is known: a table, shards, annotations or features")
        yield _of_file(path, columns)


def _of_file(path: Path, columns: NamedColumns) -> Material:
    """Return the pairs of a table; where it has no column of splits, its file or folder may name one."""
    material = read_pairs(read_table(path), columns)
    # Of a folder only the whole name counts: `test_run/` says nothing about what lies in it.
    split = one_split(path.stem) or SPLIT_ALIASES.get(path.parent.name.lower(), "")
    if split and not material.splits_named:
        material.pairs = [replace(pair, split=split) for pair in material.pairs]
        material.splits_named = "the names of the files"
        material.taken[0] = Taken(material.taken[0].what, f"{material.taken[0].meaning}, of {split}")
    return material


def _find_pictures(material: Material, pictures: dict[Path, list[Path]], beside: Sequence[Path]) -> None:
    """Give the pairs the files of their pictures, which their tables name with or without folders and suffix."""
    if not material.pairs or all(pair.picture is not None for pair in material.pairs):
        return
    known = _by_name(pictures)
    unfound: dict[str, CaptionedPicture] = {}
    for pair in material.pairs:
        if pair.picture is None:
            unfound.setdefault(pair.image, pair)
    found: dict[str, Path | None] = {}
    name_of: dict[Path, str] = {}
    for name, pair in unfound.items():
        places = _find(name, known, beside)
        found[name] = places[0] if places else None
        other = name_of.setdefault(places[0], name) if places else name
        if len(places) > 1:
            listed = " or ".join(map(str, places[:2]))
            material.problems.append(f"{pair.place}: {name!r:.80} may be {listed}: name pictures with their folders")
        elif other != name:
            material.problems.append(
                f"{pair.place}: {name!r:.80} and {other!r:.80} would both be {places[0]}: give the other picture too"
            )
        elif not places and any(pictures.values()):
            material.problems.append(f"{pair.place}: no picture {name!r:.80} in the sources")
    material.pairs = [replace(pair, picture=pair.picture or found[pair.image]) for pair in material.pairs]
    there = sum(path is not None for path in found.values())
    material.taken += [
        Taken(f"{folder.name}/", f"{len(below):,} pictures, {there:,} of them named")
        for folder, below in pictures.items()
        if below
    ]
    if not any(pair.picture for pair in material.pairs):
        material.taken.append(Taken("pictures", "none given: only their names are kept"))


def _by_name(pictures: dict[Path, list[Path]]) -> dict[str, list[Path]]:
    """Return the pictures of each path below a folder, which begins with /, of each name, and name without suffix."""
    known: dict[str, list[Path]] = {}
    for path, folder in {path: folder for folder, below in pictures.items() for path in below}.items():
        for name in {f"/{path.relative_to(folder).as_posix()}", path.name, path.stem}:
            known.setdefault(name, []).append(path)
    return known


def _find(name: str, known: dict[str, list[Path]], beside: Sequence[Path]) -> list[Path]:
    """Return the pictures that a name may mean: by its path, or else by the name of its file with or without suffix."""
    plain = name.replace("\\", "/")
    for candidate in (f"/{plain}", f"/{plain}.jpg", PurePosixPath(plain).name, f"{plain.zfill(12)}.jpg"):
        if candidate in known:
            return known[candidate]
    places = [] if ".." in Path(plain).parts else [folder / plain for folder in dict.fromkeys(beside)]
    return [path for path in places if path.is_file()]


def _nothing(sources: Sequence[Path], files: Sequence[Path], pictures: dict[Path, list[Path]]) -> str:
    there = [path.name for path in files] + [f"{len(below):,} pictures" for below in pictures.values() if below]
    where = ", ".join(map(str, sources))
    return (
        f"{where}: no captions found; there are {', '.join(there) or 'no files that are known'}. "
        "Needed: a table of pictures and captions, or a .txt beside each picture"
    )
