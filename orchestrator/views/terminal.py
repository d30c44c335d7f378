"""Answers as lines of text: whole in a pipe, in parts on a narrow terminal, in few lines at the end of a search.

On a terminal nothing is cut off. The sentences of a table that is too wide are folded at words, or else its longest
column of texts becomes lines below. Its other columns come in parts then. Only the end of a search is short;
``orchestrator summarise`` shows what it leaves out.
"""

import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text

from orchestrator.results.answer import TAKEN_BACK, Answer, Table
from orchestrator.text.terminal import make_console, say
from orchestrator.text.values import count_text
from orchestrator.text.wording import one_line
from orchestrator.views.grid import TextColumn, grid, rows_of

FIRST = ("rsum", "verdict")
"""Headings of the most important columns, which come first where a table is in parts."""

STYLES = {
    **dict.fromkeys(("winner", "better", "holds"), "green"),
    **dict.fromkeys(("worse", "contradicted"), "red"),
    **dict.fromkeys(("tie", "untested", "unconfirmed", "not shown"), "yellow"),
    **dict.fromkeys((f"{word}{TAKEN_BACK}" for word in ("better", "tie", "worse")), "yellow"),
}
"""Text of a verdict -> style of its cell."""

BETWEEN = "  "
"""Text between two columns."""

SETTINGS = ("setting", "name")
"""Keys of the columns whose texts are shortened at the end of a search."""

LONGEST, SHORTEST = 40, 12
"""Most characters of a setting at the end of a search, and the fewest with which it is shown."""

SCREEN = 16
"""Most lines of the end of a search, on a terminal of 100 columns."""

NARROWEST = 30
"""Fewest columns of a terminal into which a sentence of a table is folded."""

MOST_ROWS, BEST_ROWS = 8, 6
"""Most rows of a table at the end of a search, and how many are shown of a longer table."""


def show(answers: Sequence[Answer]) -> None:
    """Print answers one under the other: for the width of the terminal, or in a pipe with every row on one line."""
    if not sys.stdout.isatty():
        say(render_text(answers))
        return
    console = make_console()
    for number, answer in enumerate(answers):
        for line in [Text("")] * bool(number) + lines_of(answer, console.width):
            console.print(line)


def render_text(answers: Sequence[Answer]) -> str:
    """Return answers as plain text, every row and every sentence on one line."""
    return "\n\n".join("\n".join(line.plain.rstrip() for line in lines_of(answer)) for answer in answers)


def title_of(answer: Answer) -> str:
    """Return dataset and question, such as ``flickr8k · Which loss?``."""
    return " · ".join(one_line(part) for part in (Path(answer.dataset).name, answer.question) if part)


def lines_of(answer: Answer, width: int | None = None) -> list[Text]:
    """Return an answer as lines: question, headline, table, notes; tables are in parts where a width is given."""
    said = [text for text in (answer.headline, *answer.taken_back) if text]
    lines = [Text(title_of(answer), "bold"), *(Text(one_line(text)) for text in said)]
    if answer.table is not None and answer.table.rows:
        lines += table_lines(grid(answer.table), width)
    return [*lines, *(Text(one_line(note)) for note in answer.notes)]


def table_lines(columns: Sequence[TextColumn], width: int | None = None) -> list[Text]:
    """Return a table as lines, in parts where it is wider than ``width``."""
    if width is None or width_of(columns) <= width:
        return _drawn(columns)
    for column in columns:
        room = _width(column) - (width_of(columns) - width)
        if column.column.folds and room >= NARROWEST:
            return _drawn(_folded(columns, column, room))
    common, parts, below = narrowed(columns, width)
    return [*([Text(common, "italic")] if common else []), *(line for part in parts for line in _drawn(part)), *below]


def _folded(columns: Sequence[TextColumn], wide: TextColumn, room: int) -> list[TextColumn]:
    """Return a table whose texts in one column are folded at words; a text of several lines takes as many rows."""
    folded = [textwrap.wrap(text, room) or [""] for text in wide.texts]

    def texts(column: TextColumn) -> list[str]:
        pairs = zip(column.texts, folded, strict=True)
        rows = (lines if column is wide else [text, *[""] * (len(lines) - 1)] for text, lines in pairs)
        return [line for lines in rows for line in lines]

    return [replace(column, texts=texts(column)) for column in columns]


def width_of(columns: Sequence[TextColumn]) -> int:
    """Return how many columns of a terminal a table takes."""
    return 1 + sum(map(_width, columns)) + len(BETWEEN) * (len(columns) - 1)


def _width(column: TextColumn) -> int:
    return max(map(cell_len, (column.column.group, column.heading, *column.texts)))


def narrowed(columns: Sequence[TextColumn], width: int) -> tuple[str, list[list[TextColumn]], list[Text]]:
    """Put a table in parts of at most ``width`` columns; a column that is wider by itself has its own part.

    Returns:
        The values that all rows share, such as ``dataset Flickr8k, model VSE++``. The parts from top to bottom, of
        which each begins with the columns that distinguish the rows. The longest column of texts, a line a row.
    """
    texts = list(takewhile(lambda column: not column.is_numeric, columns))
    long = max(texts[1:], key=_width, default=None)
    others = [column for column in texts if column is not long]
    keys = [column for column in others if len(set(column.texts)) > 1] or texts[:1]
    common = ", ".join(
        f"{column.heading} {column.texts[0]}" for column in others if column not in keys and column.texts[0]
    )
    parts: list[list[TextColumn]] = [[]]
    for column in sorted(columns[len(texts) :], key=lambda column: column.heading.lower() not in FIRST):
        if parts[-1] and width_of([*keys, *parts[-1], column]) > width:
            parts.append([])
        parts[-1].append(column)
    rows = zip(rows_of(keys), long.texts if long else (), strict=False)
    below = [Text(f"{' '.join(row)}: {text}") for row, text in rows if text]
    return common, [[*keys, *part] for part in parts], below


def _drawn(columns: Sequence[TextColumn]) -> list[Text]:
    groups, widths = [column.column.group for column in columns], list(map(_width, columns))

    def line(texts: Sequence[str], style: str = "") -> Text:
        drawn = Text(" ")
        for place, (text, column) in enumerate(zip(texts, columns, strict=True)):
            filling = " " * (widths[place] - cell_len(text))
            drawn.append(BETWEEN if place else "")
            drawn.append(f"{filling}{text}" if column.is_numeric else f"{text}{filling}", style or STYLES.get(text, ""))
        drawn.rstrip()
        return drawn

    heads = [groups] * any(groups) + [[column.heading for column in columns]]
    return [*(line(head, "bold") for head in heads), *(line(row) for row in rows_of(columns))]


def screen(
    answer: Answer, about: Sequence[str], beside: str, sentences: Sequence[str], commands: Sequence[str], width: int
) -> list[Text]:
    """Return the end of a search in at most ``SCREEN`` lines, where the terminal has 100 columns.

    Of ``answer`` the best rows of its table and, below, its headline with what takes it back are shown. ``about`` is
    before the question in the first line, and ``beside`` at its right, if there is room. Further sentences are folded
    at words; commands at the end are not folded, so that they can be pasted.
    """
    question = f"{answer.question[:1].lower()}{answer.question[1:]}"
    title = " · ".join(one_line(part) for part in (*about, question) if part)
    texts = (answer.headline, *answer.taken_back, *sentences)
    said = [line for text in texts for line in textwrap.wrap(text, width)]
    left = SCREEN - 2 - len(said) - sum(1 + (cell_len(command) - 1) // width for command in commands)
    table = [] if answer.table is None else _best_rows(answer, answer.table, left, width)
    lines = [*table, *map(Text, said), *map(Text, commands)]
    right = min(width, max(line.cell_len for line in lines))
    gap = max(len(BETWEEN), right - cell_len(title) - cell_len(beside))
    first = f"{title}{' ' * gap}{beside}"
    return [Text(first if cell_len(first) <= width else title, "bold"), *lines]


def _best_rows(answer: Answer, table: Table, room: int, width: int) -> list[Text]:
    count = len(table.rows)
    most = count if count <= min(room, MOST_ROWS) else max(1, min(room - 1, BEST_ROWS))
    lines, rest = _drawn(fitted(replace(table, rows=table.rows[:most]), width)), table.to_dict()["rows"][most:]
    if not rest:
        return lines
    noun = {"winners": "dataset", "loss": "loss"}.get(answer.key, "setting")
    number, plural = count_text(len(rest), noun).split()
    verdicts = " or ".join(dict.fromkeys(row["verdict"] for row in rest if row.get("verdict")))
    return [*lines, Text(f" … and {number} more {plural}{', ' * bool(verdicts)}{verdicts}")]


def fitted(table: Table, width: int) -> list[TextColumn]:
    """Return a table for the end of a search: settings are shortened, and columns left out, as the width demands."""
    columns = (replace(column, shows=column.shows if column.signed else "value") for column in table.columns)
    means = replace(table, columns=tuple(columns))
    candidates: list[tuple[Table, int, tuple[str, ...]]] = [
        (table, LONGEST, ()),
        *((means, longest, ()) for longest in range(LONGEST, SHORTEST - 1, -1)),
        (means, LONGEST, ("setting",)),
        (means, LONGEST, ("setting", "seeds")),
    ]
    grids = (_shortened(*candidate) for candidate in candidates)
    return next((layout for layout in grids if width_of(layout) <= width), _shortened(*candidates[-1]))


def _shortened(table: Table, longest: int, without: Sequence[str]) -> list[TextColumn]:
    """Return the columns that are not left out, with short settings, or names where no column has settings."""
    columns = [column for column in grid(table) if column.column.key not in without]
    keys = [column.column.key for column in columns]
    key = next((key for key in SETTINGS if key in keys), None)
    return [
        replace(column, texts=[short_setting(text, longest) for text in column.texts])
        if column.column.key == key
        else column
        for column in columns
    ]


def short_setting(text: str, longest: int) -> str:
    """Return a setting without coefficients that follow from others, and cut at ``longest`` characters.

    Example:
        >>> short_setting("degree = 2, push = 0.49, coefficients = [1, 2], learning rate = 0.002", 24)
        'degree = 2, push = 0.49…'
    """
    text = re.sub(r"(?:^|, )[\w ]*coefficients = \[[^]]*\]", "", text).removeprefix(", ")
    if cell_len(text) <= longest:
        return text
    cut = text[: longest - 1]
    whole = cut[: cut.rfind(",")] if "," in cut and text[longest - 1] != "," else cut
    return f"{(whole if len(whole) >= SHORTEST - 1 else cut).rstrip(', ')}…"
