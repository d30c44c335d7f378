"""Tables of results as records: CSV, TSV, JSON lines, JSON, Parquet, and stores of MLflow and Optuna.

A record maps the name of a column to a cell: a number, a text, or ``None`` for an empty cell. ``columns`` finds
what the columns mean.
"""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.text.addresses import database_of, without_password
from trainables.data.importing.tables import ARROW_TABLES, JSON_TABLES, decoded, read_table
from trainables.errors import DataError

Cell = str | float | None
Record = dict[str, Cell]

MLFLOW, OPTUNA = "mlflow:", "optuna:"
"""Beginnings of the address of a store; ``#`` and the name of the experiment or study follow the address."""

SUFFIXES = (".csv", ".tsv", ".txt", *JSON_TABLES, *ARROW_TABLES)
"""Endings of the files that are read as tables."""

EMPTY = {"", "-", "–", "na", "n/a", "nan", "none", "null"}
"""Texts of an empty cell, in small letters."""


def read_records(place: str) -> list[Record]:
    """Return the records of a file, or of a store of MLflow or Optuna.

    Raises:
        DataError: If it is missing, damaged, empty, or of no known form.
    """
    records: Sequence[Mapping[str, Any]]
    if place.startswith(MLFLOW):
        from orchestrator.tracking.foreign import runs_of_experiment

        records = runs_of_experiment(*_address(place, MLFLOW, "EXPERIMENT"))
    elif place.startswith(OPTUNA):
        from orchestrator.studies.foreign import trials_of_study

        records = trials_of_study(*_address(place, OPTUNA, "STUDY"))
    elif "://" in place:
        raise DataError(
            f"{without_password(place)}: is no file; a store is {MLFLOW}ADDRESS#EXPERIMENT or {OPTUNA}ADDRESS#STUDY"
        )
    else:
        records = _of_file(Path(place))
    if not records:
        raise DataError(f"{without_password(place)}: has no rows")
    return [{name: cell_of(value) for name, value in record.items()} for record in records]


def _address(place: str, start: str, name: str) -> tuple[str, str]:
    address, mark, named = place.removeprefix(start).rpartition("#")
    if not (mark and address and named):
        raise DataError(f"{without_password(place)}: must be {start}ADDRESS#{name}")
    # Both programs would make a database that is missing.
    if (file := database_of(address)) is not None and not file.is_file():
        raise DataError(f"{without_password(place)}: there is no file {file}")
    return address, named


def _of_file(path: Path) -> Sequence[Mapping[str, Any]]:
    suffix = path.suffix.lower()
    if suffix in (".xlsx", ".xls", ".ods"):
        raise DataError(f"{path}: is a spreadsheet; export it as CSV")
    if suffix not in SUFFIXES:
        raise DataError(f"{path}: must end with {', '.join(sorted(SUFFIXES))}")
    if suffix in (*JSON_TABLES, *ARROW_TABLES):
        return [_flat(row) for _, row in read_table(path).rows]
    return _of_separated(path, decoded(path))


def _flat(record: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    """Return a record whose objects within objects became columns such as ``config.lr``."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat |= _flat(value, f"{start}{name}.") if isinstance(value, dict) else {f"{start}{name}": value}
    return flat


def _of_separated(path: Path, text: str) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a file whose separator is the commonest of its first line: comma, tab or semicolon."""
    head = text.partition("\n")[0]
    separator = max(",\t;", key=head.count)
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    try:
        rows = [[cell.strip() for cell in row] for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num}: {error}") from None
    if not rows:
        return []
    names, body = rows[0], rows[1:]
    if len(set(names)) != len(names) or not all(names):
        raise DataError(f"{path}: the first line must have a different name for each column, got {', '.join(names)}")
    for number, row in enumerate(body, 2):
        if len(row) > len(names):
            raise DataError(f"{path}: row {number} has {len(row)} cells, but the first line has {len(names)}")
    # A spreadsheet of a country with decimal commas separates cells by semicolons.
    comma = separator == ";"
    return [{name: _decimal(cell) if comma else cell for name, cell in zip(names, row, strict=False)} for row in body]


def _decimal(cell: str) -> str:
    return cell.replace(",", ".") if re.fullmatch(r"[-+]?\d+,\d+ ?%?", cell) else cell


def cell_of(value: Any) -> Cell:
    """Return a cell: a finite number, a text, or ``None``.

    Example:
        >>> cell_of("71.5 %"), cell_of("NaN"), cell_of(True), cell_of("vse++")
        (71.5, None, 'true', 'vse++')
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    text = str(value).strip()
    if text.lower() in EMPTY:
        return None
    try:
        number = float(text.removesuffix("%").strip().replace("−", "-"))
    except ValueError:
        return text
    return number if math.isfinite(number) else None


def pivoted(records: Sequence[Record]) -> list[Record]:
    """Return records with a column for each metric, of a table that has a row for each metric; others as they are.

    Example:
        >>> pivoted([{"seed": 1.0, "metric": "acc", "value": 0.5}, {"seed": 1.0, "metric": "f1", "value": 0.4}])
        [{'seed': 1.0, 'acc': 0.5, 'f1': 0.4}]
    """
    name = next((name for name in records[0] if name.lower() in ("metric", "metric_name")), None)
    value = next((name for name in records[0] if name.lower() in ("value", "metric_value")), None)
    if name is None or value is None:
        return list(records)
    whole: dict[tuple[tuple[str, Cell], ...], Record] = {}
    for record in records:
        rest = {key: cell for key, cell in record.items() if key not in (name, value)}
        whole.setdefault(tuple(rest.items()), dict(rest))[str(record[name])] = record[value]
    return list(whole.values())
