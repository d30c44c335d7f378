"""Tables for programs: all digits, our own names, and cells that no spreadsheet takes for a formula."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.tables.rows import Row
from orchestrator.tables.table import Table
from orchestrator.text.values import guarded

ABOUT = ("table", "dataset", "model", "loss", "number", "published", "parameters", "seeds", "verdict")
"""The first columns of the CSV."""


def render_json(tables: Sequence[Table]) -> str:
    """Return a list with an object for each table: ``name``, ``title``, ``rows``, ``notes``."""
    return json.dumps([to_dict(table) for table in tables], indent=2, allow_nan=False)


def to_dict(table: Table) -> dict[str, Any]:
    """Return a table as plain values; a metric that a row lacks is ``None``."""
    metrics = [column.metric for column in table.layout.columns]
    rows = [
        {
            **{name: getattr(row, name) for name in ABOUT[1:]},
            "parameters": dict(row.parameters),
            "measures": {name: asdict(row.measures[name]) if name in row.measures else None for name in metrics},
        }
        for row in table.rows
    ]
    return {"name": table.layout.name, "title": table.layout.title, "rows": rows, "notes": list(table.notes)}


def render_csv(tables: Sequence[Table]) -> str:
    """Return one CSV of all tables: a column for each metric and for its ``_std``, empty if a row has none."""
    metrics = list(dict.fromkeys(column.metric for table in tables for column in table.layout.columns))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*ABOUT, *(name for metric in metrics for name in (metric, f"{metric}_std"))])
    writer.writerows(_cells(table, row, metrics) for table in tables for row in table.rows)
    return text.getvalue()


def _cells(table: Table, row: Row, metrics: Sequence[str]) -> list[str | float | None]:
    shown = [column.metric for column in table.layout.columns]
    parameters = json.dumps(dict(row.parameters), allow_nan=False)
    names = [guarded(name) for name in (table.layout.name, row.dataset, row.model, row.loss, row.number)]
    measures = [row.measures.get(metric) if metric in shown else None for metric in metrics]
    numbers = [number for one in measures for number in ((one.mean, one.std) if one else (None, None))]
    return [
        *names,
        str(row.published).lower(),
        guarded(parameters),
        row.seeds,
        guarded(row.verdict),
        *numbers,
    ]
