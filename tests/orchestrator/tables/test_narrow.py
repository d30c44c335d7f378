"""Tables in parts: every column is there once, no part is wider than asked for, and nothing is cut off."""

from io import StringIO

import pytest
from rich.console import Console

from orchestrator.tables import retrieval_table
from orchestrator.tables.cells import grid
from orchestrator.tables.terminal import draw, narrowed, width_of
from tests.support.rows import ROWS

WIDTHS = (80, 100, 160)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], ROWS[1:3]], ids=["all", "one", "two"])
def test_parts_hold_every_number_and_are_no_wider_than_asked_for(rows: list, width: int) -> None:
    whole = grid(retrieval_table(rows))
    found = narrowed(whole, width)
    assert max(map(width_of, found.grids)) <= width
    numbers = [heading for part in found.grids for heading in part.headings[part.texts :]]
    assert sorted(numbers) == sorted(whole.headings[whole.texts :])
    # The column that says most is in the first part.
    assert "rsum" in found.grids[0].headings
    for part in found.grids:
        assert len(part.rows) == len(rows)
    told = found.common + "".join(found.lines) + str([part.rows for part in found.grids])
    assert all(text in told for row in whole.rows for text in row if text)


def test_a_table_that_fits_stays_whole() -> None:
    whole = grid(retrieval_table(ROWS))
    assert narrowed(whole, width_of(whole)).grids == (whole,)
    assert narrowed(whole, width_of(whole) - 1).grids != (whole,)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_drawn_is_as_wide_as_is_said(width: int) -> None:
    table = retrieval_table(ROWS)
    console = Console(file=StringIO(), width=width)
    console.print(draw(table, width))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    for part in narrowed(grid(table), width).grids:
        for row in part.rows:
            cells = [text for text in row if text]
            assert any(all(cell in line for cell in cells) for line in text.splitlines()), row
