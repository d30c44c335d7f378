"""A table on a page: each interval is drawn where its axis says, and what programs read is left out."""

import pytest

from orchestrator.results.answer import Answer, Column, Quantity, Table
from orchestrator.views.forms import render_json, render_markdown
from orchestrator.views.html import PageColumn, named_number, page_columns, render_html


def axis_of(*cells: Quantity, unit: str = "test/rsum") -> PageColumn | None:
    table = Table((Column("result", "mean ± sd", unit=unit, shows="apart"),), tuple((cell,) for cell in cells))
    return next((column for column in page_columns(table) if column.kind == "axis"), None)


def test_marks_and_ticks_of_an_axis_share_one_scale() -> None:
    axis = axis_of(Quantity(197.8, 2.2, 190.0, 202.8), Quantity(81.0, 1.2, 74.8, 87.6))
    (first_left, first_width, first), (left, width, place) = (mark for mark in axis.marks if mark is not None)
    per_unit = (first - place) / (197.8 - 81.0)
    assert (left, width) == pytest.approx((place - 6.2 * per_unit, 12.8 * per_unit), abs=0.02)
    assert 0 < left < first_left + first_width < 100
    assert [text for _, text in axis.ticks] == ["100", "150", "200"]
    for tick, text in axis.ticks:
        assert tick == pytest.approx(place + (float(text) - 81.0) * per_unit, abs=0.02)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ((0.2, 0.2021), ["0.2000", "0.2010", "0.2020"]),
        ((-3.0, 6.0), ["−2.5", "0.0", "2.5", "5.0"]),
        ((160.0, 253.0), ["175", "200", "225", "250"]),
    ],
)
def test_ticks_are_round_and_differ(values: tuple[float, float], texts: list[str]) -> None:
    axis = axis_of(*map(Quantity, values))
    assert [text for _, text in axis.ticks] == texts


def test_equal_values_have_no_axis_and_a_row_without_a_value_has_no_mark() -> None:
    assert axis_of(Quantity(5.0), Quantity(5.0)) is None
    table = Table((Column("result", "mean", unit="val/rsum", shows="apart"),), ((1.0,), (None,), (3.0,)))
    assert [mark is None for mark in page_columns(table)[-1].marks] == [False, True, False]


def test_the_columns_of_people_come_in_their_order_with_the_interval_behind_its_value() -> None:
    columns = (
        Column("candidate", "candidate", hidden=True),
        Column("name", "loss"),
        Column("result", "mean ± sd", unit="test/rsum", shows="apart"),
        Column("verdict", "verdict"),
    )
    rows = (("a-0", "A", Quantity(3.0, 0.5, 2.0, 4.0), "winner"), ("b-0", "B", Quantity(1.0), "worse"))
    shown = page_columns(Table(columns, rows))
    assert [(column.heading, column.kind) for column in shown] == [
        ("loss", "text brief"),
        ("mean ± sd", "number"),
        ("95 % CI", "number"),
        ("", "axis"),
        ("verdict", "verdict"),
    ]
    (long,) = page_columns(Table(columns[1:2], (("A",), ("a name of many words",))))
    assert long.kind == "text"
    assert [list(column.texts) for column in shown[:3]] == [["A", "B"], ["3.0 ± 0.5", "1.0"], ["[2.0, 4.0]", "–"]]


def test_a_number_is_shown_by_the_unit_that_its_name_says() -> None:
    assert named_number("probability_on_new_images", 0.9996) == "above 0.99"
    assert named_number("seeds_needed", 12) == "12"


def test_a_p_is_on_one_line_with_its_value_on_a_page_and_a_plain_space_elsewhere() -> None:
    said = "A and B do not differ significantly: +4.9, p = 0.21; A beats C, p < 0.001, step = 3."
    answer = Answer("loss", "", "Which loss?", said, "tie", notes=("Round 1: C is worse, p = 0.003.",))
    page = render_html([answer])
    assert "+4.9, p\u00a0=\u00a00.21; A beats C, p\u00a0&lt;\u00a00.001, step = 3." in page
    assert "worse, p\u00a0=\u00a00.003." in page
    assert "p = 0.21" in render_markdown([answer]) and "p = 0.003" in render_json([answer])
