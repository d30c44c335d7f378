"""Tables in parts hold every number and are as wide as asked for; the end of a search is short and says the answer."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.results.answer import Answer, Column, Quantity, Table
from orchestrator.results.tables import RETRIEVAL_LAYOUT, layout_table
from orchestrator.views.grid import grid, rows_of
from orchestrator.views.terminal import (
    BEST_ROWS,
    MOST_ROWS,
    SCREEN,
    narrowed,
    screen,
    short_setting,
    table_lines,
    width_of,
)
from tests.support.rows import ROWS

WIDTHS = (80, 100, 160)


def whole_table(rows: list) -> Table:
    return layout_table(RETRIEVAL_LAYOUT, rows).table


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], ROWS[1:3]], ids=["all", "one", "two"])
def test_parts_hold_every_number_and_are_no_wider_than_asked_for(rows: list, width: int) -> None:
    whole = grid(whole_table(rows))
    common, parts, below = narrowed(whole, width)
    assert max(map(width_of, parts)) <= width
    numbers = [column.heading for part in parts for column in part if column.is_numeric]
    assert sorted(numbers) == sorted(column.heading for column in whole if column.is_numeric)
    # The columns that say most are in the first part.
    assert {"rsum", "Verdict"} <= {column.heading for column in parts[0]}
    drawn = common + "".join(line.plain for line in below) + str([rows_of(part) for part in parts])
    assert all(text in drawn for column in whole for text in column.texts if text)
    lines = [line.plain for line in table_lines(whole, width)]
    for row in (row for part in parts for row in rows_of(part)):
        assert any(all(cell in line for cell in row if cell) for line in lines), row


def test_a_table_that_fits_stays_whole() -> None:
    whole = grid(whole_table(ROWS))
    lines = table_lines(whole, width_of(whole))
    assert [line.plain for line in lines] == [line.plain for line in table_lines(whole)]
    assert max(len(line.plain) for line in lines) <= width_of(whole)
    assert len(table_lines(whole, width_of(whole) - 1)) > len(lines)


LONG = "scale = 486.1, margin = 0.217, degree = 2, coefficients = [105.5, 607.1, -120.9], learning rate = 0.00911"


def answer_about(losses: int) -> Answer:
    """Return which of so many losses is best; all but the first two are worse."""
    columns = (
        Column("name", "loss"),
        Column("setting", "best setting"),
        Column("seeds", "seeds", unit="count"),
        Column("result", "mean ± sd", unit="test/rsum", shows="apart"),
        Column("difference", "against the winner", unit="test/rsum", signed=True, shows="both"),
        Column("p", "p", unit="p"),
        Column("verdict", "verdict"),
    )
    verdicts = ["winner", "tie", *["worse"] * losses][:losses]
    mean, gap = Quantity(197.8, 2.2, 192.4, 203.2), Quantity(-15.4, None, -19.8, -10.9)
    rows = tuple(
        (f"Decoupled number {place:02d}", LONG, 5, mean, gap if place else None, 0.02, verdict)
        for place, verdict in enumerate(verdicts)
    )
    return Answer("loss", "flickr8k", "Which loss?", FIRST, "better", table=Table(columns, rows))


FIRST = "NT-Xent beats Triplet SH by 115.4 rsum, 95 % CI [110.9, 119.8], p < 0.001 (3 seeds × 1,000 test images)."
SECOND = (
    "Which τ? 0.1 and 0.0079 do not differ significantly: +4.9, 95 % CI [−3.2, 13.0], p = 0.21. "
    "12 seeds each would detect 4.9, and more test images would help little, as far as these runs show."
)
COMMANDS = (
    "2 caveats; all answers: orchestrator summarise flickr8k-quick",
    "registered: icr-flickr8k version 1, the champion; in the browser: orchestrator ui",
    "next: orchestrator report flickr8k-quick",
)
ABOUT = ("flickr8k", "VSE++")
BESIDE = "test rsum: sum of six recalls, 0–600, chance 3.2"


def drawn(answer: Answer, width: int) -> Iterator[str]:
    for line in screen(answer, ABOUT, BESIDE, [SECOND], COMMANDS, width):
        yield line.plain


@given(losses=st.integers(1, 30), width=st.integers(100, 250))
def test_the_end_of_a_search_fits_a_screen(losses: int, width: int) -> None:
    lines = list(drawn(answer_about(losses), width))
    assert len(lines) <= SCREEN
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("flickr8k · VSE++ · which loss? ") and lines[0].endswith(BESIDE)
    assert lines[-3:] == list(COMMANDS)
    assert sum(" 197.8 ± 2.2" in line for line in lines) == losses or any("… and" in line for line in lines)


@pytest.mark.parametrize(
    ("losses", "shown", "rest"),
    [
        pytest.param(2, 2, None, id="two"),
        pytest.param(BEST_ROWS, 6, None, id="six"),
        pytest.param(MOST_ROWS + 3, BEST_ROWS, " … and 5 more losses, worse", id="eleven"),
    ],
)
def test_the_best_losses_are_shown_and_the_others_counted(losses: int, shown: int, rest: str | None) -> None:
    lines = list(drawn(answer_about(losses), 100))
    assert sum("Decoupled number" in line for line in lines) == shown
    assert [line for line in lines if "… and" in line] == ([rest] if rest else [])


def test_intervals_are_shown_at_the_end_of_a_search_where_there_is_room() -> None:
    shown = ["[192.4, 203.2]" in "\n".join(drawn(answer_about(2), width)) for width in (100, 160)]
    assert shown == [False, True]


@pytest.mark.parametrize(
    ("text", "longest", "shown"),
    [
        ("τ = 0.1", 12, "τ = 0.1"),
        (LONG, 200, "scale = 486.1, margin = 0.217, degree = 2, learning rate = 0.00911"),
        (LONG, 40, "scale = 486.1, margin = 0.217…"),
        ("positive coefficients = [1, 2], push = 0.4", 40, "push = 0.4"),
        ("temperature = 0.123456789", 12, "temperature…"),
    ],
)
def test_settings_are_short_at_the_end_of_a_search(text: str, longest: int, shown: str) -> None:
    assert short_setting(text, longest) == shown
