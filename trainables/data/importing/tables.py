"""Reads tables of any kind into rows: CSV, TSV, JSON, JSON lines, Parquet, Arrow; of datasets, and of results.

A row is a mapping of column to value, after its place. The separator of a text table is found by trying: the one by
which the first lines have equally many columns, at least two. A text table may have a header or none.
"""

import ast
import csv
import io
import json
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from trainables.data.corpus import SPLIT_ALIASES
from trainables.data.importing.material import is_picture
from trainables.data.text_files import LARGEST_FILE, read_text
from trainables.errors import DataError, reason_of
from trainables.extras import require

TEXT_TABLES = (".csv", ".tsv", ".txt", ".token")
JSON_TABLES = (".json", ".jsonl", ".ndjson")
ARROW_TABLES = (".parquet", ".pq", ".arrow", ".feather")
SUFFIXES = (*TEXT_TABLES, *JSON_TABLES, *ARROW_TABLES)

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Separator of columns -> its name."""

SAMPLE = 50
"""Rows of a text table by which its separator is found."""

SPLIT_KEY = "(split)"
"""Column that has the key of a JSON object whose keys are splits."""

Rows = list[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class SourceTable:
    """Rows with their places; ``about`` says in words how the file was read."""

    path: Path
    columns: Sequence[str]
    rows: Rows
    about: str


def read_table(path: Path) -> SourceTable:
    """Read a table.

    Raises:
        DataError: If the file is missing, damaged, or holds no table; the message has the place.
        MissingExtraError: If pyarrow is needed and not installed.
    """
    suffix = path.suffix.lower()
    if suffix in ARROW_TABLES:
        return _read_arrow(path)
    if suffix in JSON_TABLES:
        return _read_json(path)
    return _read_text_table(path)


def decoded(path: Path) -> str:
    """Return the text of a file in UTF-8, or in the UTF-16 that Excel calls Unicode (``DataError``)."""
    try:
        with path.open("rb") as file:
            mark = file.read(2)
        if mark in (b"\xff\xfe", b"\xfe\xff"):
            return path.read_bytes().decode("utf-16")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {reason_of(error)}") from None
    return read_text(path)


def _read_text_table(path: Path) -> SourceTable:
    text = decoded(path)
    separator = _separator(path, text)
    is_strict = separator != "|"
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=is_strict)
    try:
        lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num}: broken CSV: {error}") from None
    # Pandas leaves the name of the column of row numbers empty.
    header = [cell or f"column {number}" for number, cell in enumerate(lines[0][1], 1)]
    about = f"table separated by {SEPARATORS[separator]}"
    if any(map(is_picture, header)) or len(set(header)) < len(header):
        columns, about = [f"column {number}" for number in range(1, len(header) + 1)], f"{about}, without a header"
    else:
        columns, lines = header, lines[1:]
    rows: Rows = []
    problems = []
    for number, row in lines:
        place = f"{path}: line {number}"
        row = _mended(row, len(columns))
        if len(row) != len(columns):
            problems.append(f"{place}: {len(row)} columns, where the first line has {len(columns)}: quote the caption")
        else:
            rows.append((place, dict(zip(columns, row, strict=True))))
    if problems:
        raise DataError(problems)
    return SourceTable(
        path, columns, [(place, _with_lists(row)) for place, row in rows], f"{about}, {len(rows):,} rows"
    )


def _separator(path: Path, text: str) -> str:
    """Return the separator by which the first rows have equally many columns (``DataError``)."""
    if not text.strip():
        raise DataError(f"{path}: is empty")
    scores = {}
    for separator in SEPARATORS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
        counts: list[int] = []
        # A broken row is named with its line when the table is read.
        with suppress(csv.Error):
            counts.extend(len(row) for row in islice(reader, SAMPLE) if any(map(str.strip, row)))
        if counts and counts[0] > 1:
            scores[separator] = sum(count == counts[0] for count in counts) / len(counts)
    if not scores or max(scores.values()) < 0.9:
        raise DataError(f"{path}: line 1: no table: no separator (comma, semicolon, tab, bar) gives equal columns")
    return max(scores, key=lambda separator: scores[separator])


def _mended(row: list[str], columns: int) -> list[str]:
    """Return a row whose number and caption are one cell, as in line 19,999 of Flickr30k's results.csv, as two."""
    number, _, caption = row[-1].partition(" ")
    is_joined = len(row) == columns - 1 and number.isdigit() and caption.strip()
    return [*row[:-1], number, caption.strip()] if is_joined else row


def _with_lists(row: Mapping[str, str]) -> dict[str, Any]:
    """Return a row whose cells that are written lists of texts are lists."""
    return {name: _list_of(cell) if cell.startswith("[") and cell.endswith("]") else cell for name, cell in row.items()}


def _list_of(cell: str) -> Any:
    """Return the list that a cell holds as JSON, Python or NumPy write it; the cell if it holds none.

    Example:
        >>> _list_of("['a dog' 'a cat']"), _list_of("['a dog', 'a cat']")
        (['a dog', 'a cat'], ['a dog', 'a cat'])
    """
    with suppress(ValueError, RecursionError):
        return json.loads(cell)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(cell).readline))
        texts = [ast.literal_eval(token.string) for token in tokens if token.type == tokenize.STRING]
    except (tokenize.TokenError, ValueError, SyntaxError, RecursionError, MemoryError):
        return cell
    # Python itself would join the texts of NumPy, which has no commas between them.
    marks = "".join(token.string.strip() for token in tokens if token.type != tokenize.STRING)
    return texts if re.fullmatch(r"\[,*\]", marks) and all(isinstance(text, str) for text in texts) else cell


def _read_json(path: Path) -> SourceTable:
    text = decoded(path)
    if path.suffix.lower() != ".json":
        return _of_records(path, _json_lines(path, text), "JSON lines")
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return _of_records(path, _json_lines(path, text), "JSON lines")
        raise DataError(f"{path}: line {error.lineno}, column {error.colno}: broken JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: broken JSON: {reason_of(error)}") from None
    return _of_records(path, _json_records(path, content), "JSON")


def _json_lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    # Not ``splitlines``: texts may hold other characters that end a line for Unicode.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"{path}: line {number}", json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}: line {number}: broken JSON: {reason_of(error)}") from None


def _json_records(path: Path, content: Any) -> Iterator[tuple[str, Any]]:
    """Return the records of a list, of lists by split, of columns, or of captions by picture; or one record."""
    if isinstance(content, list):
        return ((f"{path}: [{index}]", record) for index, record in enumerate(content))
    if not isinstance(content, dict) or not content:
        raise DataError(f"{path}: must be a list or an object of records, got {content!r:.60}")
    if all(is_picture(name) for name in content):
        return ((f"{path}: {name!r}", {"image": name, "caption": value}) for name, value in content.items())
    if all(name in SPLIT_ALIASES and isinstance(value, list) for name, value in content.items()):
        return _by_split(path, content)
    if all(isinstance(value, dict) for value in content.values()):
        # Columns with their rows by index, as pandas writes them.
        content = {name: list(value.values()) for name, value in content.items()}
    lists = {name: value for name, value in content.items() if isinstance(value, list)}
    if len(lists) == 1:
        ((name, value),) = lists.items()
        return ((f"{path}: {name}[{index}]", record) for index, record in enumerate(value))
    if not lists:
        return iter([(f"{path}", content)])
    if len(lists) > 1 and len({len(value) for value in lists.values()}) == 1:
        rows = zip(*lists.values(), strict=True)
        return ((f"{path}: row {index}", dict(zip(lists, row, strict=True))) for index, row in enumerate(rows))
    keys = ", ".join(map(str, content))
    raise DataError(f"{path}: no table: an object with {keys:.80}, where records or columns are expected")


def _by_split(path: Path, content: Mapping[str, list[Any]]) -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        for index, record in enumerate(value):
            yield f"{path}: {name}[{index}]", {**record, SPLIT_KEY: name} if isinstance(record, dict) else record


def _of_records(path: Path, records: Iterator[tuple[str, Any]], about: str) -> SourceTable:
    rows: Rows = []
    for place, record in records:
        if not isinstance(record, dict):
            raise DataError(f"{place}: must be an object, with a value for each column, got {record!r:.60}")
        rows.append((place, {str(name): value for name, value in record.items()}))
    if not rows:
        raise DataError(f"{path}: is empty")
    columns = list(dict.fromkeys(name for _, row in rows for name in row))
    return SourceTable(path, columns, rows, f"{about}, {len(rows):,} rows")


def _read_arrow(path: Path) -> SourceTable:
    """Read Parquet, or Arrow's IPC in either of its two forms."""
    require("import", f"reading {path.suffix} files", "pyarrow")
    import pyarrow
    from pyarrow import ipc, parquet

    try:
        size = path.stat().st_size
        if size > 64 * LARGEST_FILE:
            raise DataError(f"{path}: has {size >> 20:,} MB; import it in parts")
        if path.suffix.lower() in (".parquet", ".pq"):
            table = parquet.read_table(path)
        else:
            with pyarrow.memory_map(str(path)) as source:
                try:
                    table = ipc.open_file(source).read_all()
                except pyarrow.ArrowInvalid:
                    source.seek(0)
                    table = ipc.open_stream(source).read_all()
        rows: Rows = [(f"{path}: row {index}", row) for index, row in enumerate(table.to_pylist())]
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001  # of a damaged file Arrow raises any error
        raise DataError(f"{path}: cannot be read as a table: {reason_of(error)}") from None
    if not rows:
        raise DataError(f"{path}: is empty")
    return SourceTable(path, table.column_names, rows, f"{path.suffix.lower()[1:]} table, {len(rows):,} rows")
