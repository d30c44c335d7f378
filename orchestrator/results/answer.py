"""An answer: a question about an experiment, the sentence that answers it, its numbers, a table and notes.

``results`` makes answers and nothing else. Each form of output (terminal, HTML, Markdown, LaTeX, CSV, JSON) has one
renderer in ``views``, which can show any answer. Sentences are made here, once, with the texts of ``text.wording``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
"""Plain values, as in ``Answer.data`` and ``summary.json``."""

TEXT = "text"
"""Unit of a column of texts."""


TAKEN_BACK = ", taken back"
"""End of a word that is taken back."""


@dataclass(frozen=True)
class Quantity:
    """A measured number.

    Attributes:
        value: The number, in the unit of its column.
        deviation: Sample standard deviation (``ddof=1``) over the seeds, in the same unit; ``None`` if unknown.
        low, high: Ends of the 95 % confidence interval; ``None`` without an interval.
    """

    value: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None


Cell = str | int | float | Quantity | None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        key: Name of the column for programs, unique in its table.
        unit: How the values are shown: ``text``, ``p``, ``probability``, ``share``, ``count``, ``seconds``, ``number``
            or the name of a metric, see ``wording.value_in_unit``.
        signed: Whether the values are differences, shown with a sign.
        shows: The shown parts of a ``Quantity``: ``value`` with its deviation; ``both``, with the interval behind it;
            or ``apart``, with the interval in a column of its own.
        hidden: Whether only programs read the column (CSV, JSON).
        group: Heading above the headings of several columns, such as ``i2t``; may be empty.
        latex: Heading in LaTeX where it differs; may be empty.
        decimals: Digits after the point; ``None`` for those of the unit.
        folds: Whether the texts are sentences, which a narrow terminal folds at words.
    """

    key: str
    heading: str
    unit: str = TEXT
    signed: bool = False
    shows: str = "value"
    group: str = ""
    latex: str = ""
    decimals: int | None = None
    hidden: bool = False
    folds: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        rows: A cell for each column; ``None`` is a cell without a value.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values for JSON: a mapping for each row, by the keys of the columns."""
        rows = [
            {column.key: plain_cell(cell) for column, cell in zip(self.columns, row, strict=True)} for row in self.rows
        ]
        # A table has no title; the key is part of ``summary.json``.
        return {"title": "", "columns": {column.key: column.heading for column in self.columns}, "rows": rows}


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    Attributes:
        key: Name of the question for programs, such as ``loss``; stable.
        dataset: The dataset that the answer is about; empty if it is about the experiment.
        headline: The answer in one sentence; empty where the table says all.
        verdict: ``better``, ``tie``, ``worse``, ``untested``, ``unconfirmed``, or empty where nothing was tested.
        taken_back: Sentences that take the headline back, such as that people's judgements change its word.
        closest: Label of the candidate whose comparison decides; empty without a comparison.
        numbers: Name -> number, the most important first.
        notes: Further sentences, the most important first.
        figure: Key of the figure that draws ``data``; empty without a figure.
        data: The content of the figure, as plain values for JSON.
    """

    key: str
    dataset: str
    question: str
    headline: str
    verdict: str = ""
    closest: str = ""
    numbers: Mapping[str, float | int | None] = field(default_factory=dict)
    table: Table | None = None
    notes: tuple[str, ...] = ()
    figure: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    taken_back: tuple[str, ...] = ()

    @property
    def badge(self) -> str:
        """The word of the headline, which says where it is taken back; the word alone colours no page then."""
        return f"{self.verdict}{TAKEN_BACK}" if self.verdict and self.taken_back else self.verdict

    @property
    def sentences(self) -> list[str]:
        """The headline, what takes it back, and the notes."""
        return [sentence for sentence in (self.headline, *self.taken_back, *self.notes) if sentence]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values for JSON."""
        plain = {
            **vars(self),
            "numbers": dict(self.numbers),
            "table": self.table and self.table.to_dict(),
            "notes": list(self.notes),
            "taken_back": list(self.taken_back),
            "data": dict(self.data),
        }
        del plain["figure"]
        return plain


def plain_cell(cell: Cell) -> Any:
    """Return a cell as a plain value for JSON; a quantity becomes a mapping of what is known of it."""
    if not isinstance(cell, Quantity):
        return cell
    return {name: value for name, value in vars(cell).items() if value is not None}


def table_of(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Table:
    """Return a table without the columns that are empty in every row.

    Raises:
        ValueError: If a row has another number of cells than there are columns.
    """
    if any(len(row) != len(columns) for row in rows):
        raise ValueError("each row needs a cell for each column")
    kept = [place for place in range(len(columns)) if any(row[place] not in (None, "") for row in rows)]
    return Table(tuple(columns[place] for place in kept), tuple(tuple(row[place] for place in kept) for row in rows))
