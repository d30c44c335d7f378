"""Decides what the columns of a table hold, and makes pairs of its rows.

A column is known by its name, or where that is no help by its values: names of pictures, and the longest texts. A
person may name each column. Columns that are numbered, such as ``caption_1`` to ``caption_5``, are captions together.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.data.corpus import caption_problem
from trainables.data.importing.material import CaptionedPicture, Material, NamedColumns, Taken, as_texts, is_picture
from trainables.data.importing.tables import SPLIT_KEY, SourceTable
from trainables.errors import ConfigError, DataError

_IMAGES = "image filename file_name image_name img_name image_file image_path img_path filepath file_path path file img"
IMAGE_NAMES = tuple(f"{_IMAGES} picture photo jpg png image_id img_id id".split())
_CAPTIONS = "caption captions sentence sentences comment comments text texts txt raw description title alt_text alt"
CAPTION_NAMES = tuple(f"{_CAPTIONS} prompt".split())
SPLIT_NAMES = ("split", "splits", "set", "subset", "partition", SPLIT_KEY)
_NUMBERED = re.compile(r"(caption|sentence|comment|text|description)s?_?\d+")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9()]+", "_", name.lower()).strip("_")


def read_pairs(table: SourceTable, columns: NamedColumns) -> Material:
    """Return the pairs of a table.

    Raises:
        ConfigError: If a column that a person named is not there.
        DataError: If it cannot be decided which column holds pictures or captions.
    """
    sample = [row for _, row in table.rows[:50]]
    image = _column(table, columns.image, "--image") or _guess_image(table, sample)
    numbered = [] if columns.caption else [name for name in table.columns if _NUMBERED.fullmatch(_plain(name))]
    named = _column(table, columns.caption, "--caption")
    captions = [named] if named else numbered if len(numbered) > 1 else [_guess_caption(table, sample, image)]
    split = _column(table, columns.split, "--split-column") or _first(table.columns, SPLIT_NAMES)
    group = _column(table, columns.group, "--group")
    material = Material(columns=table.columns)
    material.taken = [
        Taken(table.path.name, table.about),
        Taken(f"  {image}", "the picture"),
        *(Taken(f"  {name}", "captions" if _is_list(sample, name) else "caption") for name in captions),
        *([Taken(f"  {split}", "split")] if split else []),
        *([Taken(f"  {group}", "group")] if group else []),
    ]
    vectors = [name for name in table.columns if _is_vector(sample, name)]
    material.splits_named = f"the column {split}" if split else ""
    kept = []
    for index, (place, row) in enumerate(table.rows):
        before = len(material.pairs)
        _add_row(material, place, row, image, captions, split, group)
        kept += [index] * (len(material.pairs) - before)
    for name in vectors:
        material.taken.append(Taken(f"  {name}", "numbers, looked at as features"))
        material.vectors[name] = _matrix(table, name, kept)
    return material


def _add_row(
    material: Material, place: str, row: Mapping[str, Any], image: str, captions: Sequence[str], split: str, group: str
) -> None:
    name, picture = _picture_of(row.get(image))
    if not name:
        material.problems.append(f"{place}: {image} must name a picture, got {row.get(image)!r:.60}")
        return
    texts: list[str] = []
    for column in captions:
        listed = as_texts(row.get(column))
        if listed is None:
            material.problems.append(
                f"{place}: {column} must be a text or a list of texts, got {row.get(column)!r:.60}"
            )
            return
        texts += listed
    if not texts:
        material.problems.append(f"{place}: {', '.join(captions)} must have a caption, got an empty list")
    for text in texts:
        if wrong := caption_problem(text):
            material.problems.append(f"{place}: {wrong}")
        else:
            told, grouped = (str(row.get(column) or "") if column else "" for column in (split, group))
            material.pairs.append(CaptionedPicture(place, name, text, told, grouped, picture))


def _picture_of(value: Any) -> tuple[str, Any]:
    """Return the name of a picture, and its bytes where they are in the table, as Hugging Face writes them."""
    if isinstance(value, Mapping):
        data, path = value.get("bytes"), value.get("path") or value.get("filename") or ""
        if isinstance(data, bytes):
            return (str(path) or _name_of_bytes(data)), lambda: data
        return str(path), None
    if isinstance(value, bytes):
        return _name_of_bytes(value), lambda: value
    if isinstance(value, bool) or not isinstance(value, str | int):
        return "", None
    return str(value).strip(), None


def _name_of_bytes(data: bytes) -> str:
    import hashlib

    return f"{hashlib.sha256(data).hexdigest()[:16]}{suffix_of(data)}"


def suffix_of(data: bytes) -> str:
    """Return the suffix of a picture by its first bytes, ``.jpg`` where they are not known."""
    begins = {b"\x89PNG": ".png", b"GIF8": ".gif", b"BM": ".bmp", b"II*\0": ".tif", b"MM\0*": ".tif"}
    known = next((suffix for mark, suffix in begins.items() if data.startswith(mark)), None)
    return known or (".webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ".jpg")


def _column(table: SourceTable, name: str, option: str) -> str:
    if name and name not in table.columns:
        raise ConfigError(f"{option} {name}: {table.path.name} has the columns {', '.join(table.columns)}")
    return name


def _first(columns: Sequence[str], names: Sequence[str]) -> str:
    """Return the column that has the first of some names that is there; empty if none is."""
    plain: dict[str, str] = {}
    for column in columns:
        plain.setdefault(_plain(column) or column, column)
    return next((plain[name] for name in names if name in plain), "")


def _guess_image(table: SourceTable, sample: Sequence[Mapping[str, Any]]) -> str:
    shown = [name for name in table.columns if all(_shows_picture(row.get(name)) for row in sample)]
    guess = _first(shown, IMAGE_NAMES) or (shown[0] if shown else "") or _first(table.columns, IMAGE_NAMES)
    return guess or _ask(table, "the name of the picture", "--image")


def _shows_picture(value: Any) -> bool:
    if isinstance(value, Mapping):
        return isinstance(value.get("bytes"), bytes) or is_picture(str(value.get("path") or ""))
    return isinstance(value, bytes) or (isinstance(value, str) and is_picture(value))


def _guess_caption(table: SourceTable, sample: Sequence[Mapping[str, Any]], image: str) -> str:
    texts = [
        name
        for name in table.columns
        if name != image and all(as_texts(row.get(name)) is not None for row in sample if row.get(name) is not None)
    ]
    if guess := _first(texts, CAPTION_NAMES):
        return guess
    lengths = {name: float(np.mean([len(" ".join(as_texts(row.get(name)) or [])) for row in sample])) for name in texts}
    longest = sorted(lengths, key=lambda name: -lengths[name])
    # A caption has several words, and no other column is nearly as long.
    if longest and lengths[longest[0]] >= 8 and (len(longest) == 1 or lengths[longest[0]] > 2 * lengths[longest[1]]):
        return longest[0]
    return _ask(table, "the caption", "--caption")


def _ask(table: SourceTable, what: str, option: str) -> str:
    raise DataError(
        f"{table.path}: is a table with the columns {', '.join(table.columns)}; which holds {what}? "
        f"Name it with {option}"
    )


def _is_list(sample: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(isinstance(row.get(name), list) for row in sample)


def _is_vector(sample: Sequence[Mapping[str, Any]], name: str) -> bool:
    values = [row.get(name) for row in sample]
    return all(
        isinstance(value, list) and len(value) > 1 and all(isinstance(number, float) for number in value)
        for value in values
    )


def _matrix(table: SourceTable, name: str, kept: Sequence[int]) -> np.ndarray:
    try:
        values = np.array([row[name] for _, row in table.rows], dtype=np.float32)
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{table.path}: the column {name} has rows of different lengths") from None
    return values[kept]


def named_in_folder(path: Path, root: Path) -> str:
    """Return the path of a file below a folder, with slashes."""
    return path.relative_to(root).as_posix()
