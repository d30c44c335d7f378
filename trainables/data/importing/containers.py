"""Reads what is no table: shards of webdataset, folders of Hugging Face, texts beside pictures, COCO's form, lists."""

import tarfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from trainables.data.corpus import caption_problem, splits_named
from trainables.data.formats import coco
from trainables.data.importing.columns import named_in_folder, read_pairs
from trainables.data.importing.material import (
    PICTURES,
    CaptionedPicture,
    Material,
    NamedColumns,
    Taken,
    as_texts,
    is_picture,
)
from trainables.data.importing.tables import SourceTable, read_table
from trainables.data.text_files import numbered_lines, read_json, read_lines, read_text
from trainables.errors import DataError, reason_of
from trainables.extras import is_installed, require
from trainables.files import parse_state

LARGEST = 4 << 30
"""Most characters of a file of annotations."""

TEXTS = ("txt", "caption", "text")
"""Suffixes of the caption beside a picture."""


def one_split(name: str) -> str:
    """Return the one split that a name names; empty if it names none, or several."""
    named = splits_named(name)
    return min(named) if len(named) == 1 else ""


def read_shards(files: Sequence[Path]) -> Material:
    """Return the pairs of webdataset's shards: the picture, and its text, or the ``caption`` of its JSON.

    Raises:
        DataError: If a shard is damaged, or has no pairs.
        MissingExtraError: If webdataset is not installed.
    """
    require("import", "reading shards of webdataset", "webdataset")
    material = Material()
    splits = {path: one_split(path.stem) or one_split(path.parent.name) for path in files}
    for path in files:
        count = 0
        for sample, members in _samples(path):
            place = f"{path}: {sample['__key__']}"
            picture = next((suffix for suffix in sample if f".{suffix.lower()}" in PICTURES), None)
            texts = _texts_of(sample)
            if picture is None or not texts:
                there = ", ".join(suffix for suffix in sample if not suffix.startswith("__"))
                material.problems.append(f"{place}: must have a picture and a txt, or a json with caption; has {there}")
                continue
            count += 1
            name = f"{sample['__key__']}.{picture}"
            for text in texts:
                if wrong := caption_problem(text):
                    material.problems.append(f"{place}: {wrong}")
                else:
                    reader = partial(_read_part, path, *members[name])
                    material.pairs.append(CaptionedPicture(place, name, text, splits[path], "", reader))
        of = f" of {splits[path]}" if splits[path] else ""
        material.taken.append(Taken(path.name, f"shard of webdataset{of}, {count:,} pictures"))
    if all(splits.values()):
        material.splits_named = "the names of the shards"
    return material


def _samples(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, tuple[int, int]]]]:
    """Yield the samples of a shard, with offset and size of each member by name."""
    from webdataset.tariterators import base_plus_ext, group_by_keys, tar_file_expander

    try:
        # Not compressed: pictures are read from their places in the file.
        with tarfile.open(path, "r:") as archive:
            files = [(*base_plus_ext(member.name), member) for member in archive if member.isfile()]
        # The samples have suffixes in lower case.
        members = {f"{key}.{suffix.lower()}": (file.offset_data, file.size) for key, suffix, file in files if key}
        with path.open("rb") as stream:
            for sample in group_by_keys(tar_file_expander([{"url": str(path), "stream": stream}])):
                yield sample, members
    except (OSError, tarfile.TarError, ValueError, EOFError) as error:
        raise DataError(
            f"{path}: cannot be read as a shard of webdataset: {reason_of(error)}; a compressed one must be unpacked"
        ) from None


def _texts_of(sample: dict[str, Any]) -> Sequence[str] | None:
    for suffix in TEXTS:
        if suffix in sample:
            return [_decoded(sample[suffix])]
    try:
        content = parse_state(_decoded(sample.get("json", b"")))
    except ValueError:
        return None
    found = next((content[name] for name in ("caption", "captions", "text", "txt") if name in content), None)
    return as_texts(found)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", errors="replace").strip()


def _read_part(path: Path, offset: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)


def is_saved_dataset(folder: Path) -> bool:
    """Say whether Hugging Face's ``save_to_disk`` wrote a folder."""
    return (folder / "dataset_dict.json").exists() or (folder / "state.json").exists()


def read_saved_dataset(folder: Path, columns: NamedColumns) -> Material:
    """Return the pairs of a folder that ``save_to_disk`` of Hugging Face's datasets wrote, of all of its splits."""
    material = Material()
    names = [""]
    if (folder / "dataset_dict.json").exists():
        names = read_json(folder / "dataset_dict.json").get("splits", [])
        material.splits_named = "the splits of the dataset"
    for name in names:
        part = folder / name
        table = _with_datasets(part) if is_installed("datasets") else _without_datasets(part)
        of_part = read_pairs(table, columns)
        if name:
            of_part.pairs = [_of_split(pair, name) for pair in of_part.pairs]
        of_part.taken[0] = Taken(f"{folder.name}/{name}".rstrip("/"), table.about)
        material.add(of_part)
    return material


def _of_split(pair: CaptionedPicture, split: str) -> CaptionedPicture:
    # Pictures of two splits may be called alike, since files of a saved dataset have no folders.
    return CaptionedPicture(pair.place, pair.image, pair.caption, split, pair.group, pair.picture)


def _with_datasets(folder: Path) -> SourceTable:
    from datasets import Image, load_from_disk

    try:
        data = load_from_disk(str(folder))
        for name, feature in data.features.items():
            if isinstance(feature, Image):
                data = data.cast_column(name, Image(decode=False))
        rows = [(f"{folder}: row {index}", row) for index, row in enumerate(data)]
    except Exception as error:  # noqa: BLE001  # of a damaged folder the library raises any error
        raise DataError(f"{folder}: cannot be read as a saved dataset: {reason_of(error)}") from None
    if not rows:
        raise DataError(f"{folder}: is empty")
    return SourceTable(folder, list(data.column_names), rows, f"saved by Hugging Face datasets, {len(rows):,} rows")


def _without_datasets(folder: Path) -> SourceTable:
    files = sorted(folder.glob("*.arrow"))
    if not files:
        raise DataError(f"{folder}: holds no .arrow files")
    tables = [read_table(path) for path in files]
    rows = [row for table in tables for row in table.rows]
    return SourceTable(folder, tables[0].columns, rows, f"saved by Hugging Face datasets, {len(rows):,} rows")


def read_texts_beside(folder: Path, pictures: Sequence[Path]) -> Material:
    """Return the pairs of pictures with a file of the same name and the suffix .txt beside each, a caption a line."""
    material = Material()
    for picture in pictures:
        text = next((path for suffix in TEXTS if (path := picture.with_suffix(f".{suffix}")).exists()), None)
        if text is None:
            material.problems.append(f"{picture}: has no {picture.stem}.txt beside it")
            continue
        name = named_in_folder(picture, folder)
        split = one_split(PurePosixPath(name).parent.as_posix())
        pairs = [
            CaptionedPicture(place, name, line.strip(), split, "", picture)
            for place, line in numbered_lines(text)
            if line.strip()
        ]
        material.pairs += pairs
        material.problems += [] if pairs else [f"{text}: {caption_problem('')}"]
    if material.pairs and all(pair.split for pair in material.pairs):
        material.splits_named = "the folders of the pictures"
    material.taken.append(Taken(f"{folder.name}/", f"{len(pictures):,} pictures with a text beside each"))
    return material


def is_coco(path: Path) -> bool:
    """Say whether a JSON file has annotations in COCO's form."""
    begin = path.open("rb").read(1 << 16) if path.suffix == ".json" else b""
    if b'"images"' not in begin and b'"annotations"' not in begin:
        return False
    try:
        content = parse_state(read_text(path), LARGEST)
    except ValueError as error:
        raise DataError(f"{path}: broken JSON: {error}; fetch the file again") from None
    return isinstance(content, dict) and isinstance(content.get("annotations"), list) and "images" in content


def read_coco(files: Sequence[Path]) -> Material:
    """Return the pairs of annotations in COCO's form, after the checks of ``trainables.data.formats.coco``."""
    images, problems = coco.read_images(files)
    material = Material(problems=problems)
    for image in images:
        material.pairs += [CaptionedPicture(image.place, image.filename, text, image.split) for text in image.captions]
    if images and all(image.split for image in images):
        material.splits_named = "the annotations"
    names = ", ".join(path.name for path in files)
    material.taken.append(Taken(names, f"annotations in COCO's form, read by pycocotools, {len(images):,} pictures"))
    return material


def pictures_below(folder: Path) -> list[Path]:
    """Return the files of pictures in a folder and its folders, sorted."""
    return sorted(path for path in folder.rglob("*") if is_picture(path.name) and path.is_file())


def lists_pictures(path: Path) -> bool:
    """Say whether each line of a file is the name of a picture."""
    lines = [line.strip() for line in read_lines(path) if line.strip()]
    return bool(lines) and all(is_picture(line.partition("#")[0]) and "\t" not in line for line in lines)


def read_line_lists(files: Sequence[Path]) -> Material:
    """Return the pairs of lists of captions and of pictures, as Multi30k has them: ``train.en`` beside ``train.txt``.

    Line n of each caption list of a split is a caption of the picture in line n of the list of its pictures.

    Raises:
        DataError: If the lists do not go together.
    """
    pictures = [path for path in files if lists_pictures(path)]
    captions = [path for path in files if path not in pictures]
    material = Material(splits_named="the names of the files")
    for path in pictures:
        split = _split_of(path)
        of_split = [other for other in captions if _split_of(other) == split]
        endings = {other.suffix for other in of_split}
        if len(endings) != 1:
            there = ", ".join(other.name for other in of_split) or "no list of captions"
            raise DataError(
                f"{path}: lists the pictures of {split}; beside it are {there}: give the lists of one language"
            )
        names = [line.strip().partition("#")[0] for line in read_lines(path)]
        for other in sorted(of_split):
            lines = read_lines(other)
            if len(lines) != len(names):
                raise DataError(f"{other}: {len(lines)} captions for the {len(names)} pictures of {path.name}")
            for number, (name, caption) in enumerate(zip(names, lines, strict=True), 1):
                if wrong := caption_problem(caption):
                    material.problems.append(f"{other}: line {number}: {wrong}")
                else:
                    material.pairs.append(CaptionedPicture(f"{other}: line {number}", name, caption, split))
        lists = ", ".join(other.name for other in sorted(of_split))
        material.taken.append(Taken(path.name, f"names of the pictures of {split}, captions in {lists}"))
    return material


def _split_of(path: Path) -> str:
    named = splits_named(path.name)
    if len(named) != 1:
        raise DataError(f"{path}: its name must have one of train, val and test")
    return min(named)
