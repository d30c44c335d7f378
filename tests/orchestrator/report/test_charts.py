"""What a point under the pointer shows, colours, ticks, and the columns of the leaderboard."""

import math
from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.figures import ABOUT, Figure, Json, colour_range
from orchestrator.report.leaderboard import PARAMETER, WIDEST, about
from orchestrator.report.page import build_page
from orchestrator.report.search_figures import highest_means
from orchestrator.report.space import number_ticks
from tests.support.histories import Author, experiment, search


def traces(figure: Figure) -> list[Json]:
    return [trace for option in figure.options for panel in option.panels for trace in panel.data]


@pytest.mark.parametrize("key", ["trials", "curves", "parallel", "slices", "contours", "cocos"])
def test_a_trial_under_the_pointer_shows_its_loss_its_parameters_and_its_value(key: str) -> None:
    page = build_page(search(60))
    shown = {row.id: about(row, page.columns) for row in page.rows}
    drawn = [trace for trace in traces(page.figures[key]) if ABOUT in trace.get("hovertemplate", "")]
    names = {name for trace in drawn for name in trace["text"]}
    assert len(names) >= 15 and names <= set(shown)
    row = next(row for row in page.rows if row.study == "polynomial_relative" and row.state == "finished")
    lines = shown[row.id].split("<br>")
    assert lines[0] == f"<b>{row.shown['trial']}</b>"
    assert lines[1:] == [*(f"e{power}: {row.shown[f'parameter e{power}']}" for power in range(4)), lines[-1]]
    assert lines[-1] == f"val rsum: {row.shown['value']}"


def test_a_name_that_is_markup_is_shown_under_the_pointer_as_it_is() -> None:
    author = Author(experiment(losses=("nt_xent",)))
    for number in range(2):
        trial = author.create("nt_xent", number, {"<b>x": 1.0 + number}, "<i>pets")
        author.epoch(trial, 1, {"val/rsum": 100.0}, "finished")
    page = build_page(author.finish())
    assert "&lt;b&gt;x: 1" in about(page.rows[0], page.columns)


@pytest.mark.parametrize("key", ["slices", "contours"])
def test_slices_and_contours_are_coloured_by_value_with_one_scale(key: str) -> None:
    for option in build_page(search(60)).figures[key].options:
        for panel in option.panels:
            scale = panel.layout["coloraxis"]
            assert scale["cmin"] < scale["cmax"]
            assert scale["colorbar"]["title"]["text"] == ("val rsum" if key == "contours" else "")
            coloured = [trace for trace in panel.data if "coloraxis" in {**trace, **trace.get("marker", {})}]
            assert len(coloured) == (2 if key == "contours" else 1)
            values = next(trace["marker"]["color"] for trace in coloured if "marker" in trace)
            assert max(values) == scale["cmax"]


def test_a_trial_that_learned_nothing_leaves_the_others_their_colours() -> None:
    assert colour_range([1.0, 100.0, 101.0, 102.0, 103.0, 104.0]) == (pytest.approx(96.5), 104.0)
    assert colour_range([3.0, 1.0, 2.0]) == (1.0, 3.0)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30), st.booleans())
def test_ticks_go_from_the_lowest_value_to_the_highest_in_order(values: list[float], log: bool) -> None:
    ticks = number_ticks(values, log=log)
    if min(values) == max(values):
        assert ticks == [(0.5, f"{values[0]:.3g}")]
        return
    assert [ticks[0], ticks[-1]] == [(0.0, f"{min(values):.3g}"), (1.0, f"{max(values):.3g}")]
    assert all(low < high for (low, _), (high, _) in pairwise(ticks))


@pytest.mark.parametrize("log", [False, True])
def test_ticks_between_the_ends_are_round_and_where_their_values_are(log: bool) -> None:
    low, high = 0.0021, 0.73
    ticks = number_ticks([low, 0.1, high], log=log)[1:-1]
    assert {text for _, text in ticks} >= ({"0.01", "0.1"} if log else {"0.2", "0.4", "0.6"})
    for place, text in ticks:
        share = math.log(float(text) / low) / math.log(high / low) if log else (float(text) - low) / (high - low)
        assert place == pytest.approx(share)


def test_every_axis_of_parallel_coordinates_has_ticks_and_logarithmic_ones_where_the_space_is() -> None:
    figure = build_page(search(60, losses=("nt_xent", "polynomial_relative"))).figures["parallel"]
    for option in figure.options:
        (panel,) = option.panels
        labels: dict[int, list[float]] = {}
        for note in panel.layout["annotations"]:
            labels.setdefault(note["x"], []).append(float(note["text"]))
        assert len(labels) == len(panel.layout["xaxis"]["ticktext"])
        assert all(len(values) >= 3 and values == sorted(values) for values in labels.values())
        if option.label == "nt_xent":
            assert {0.01, 0.1} <= set(labels[0])


def test_the_best_so_far_goes_on_to_the_newest_trial() -> None:
    author = Author(experiment(losses=("nt_xent",)))
    for number, (value, state) in enumerate([(10.0, "finished"), (30.0, "finished"), (20.0, "stopped_early")]):
        author.epoch(author.create("nt_xent", number, {"temperature": 0.1 + number}), 1, {"val/rsum": value}, state)
    (best,) = [trace for trace in traces(build_page(author.finish()).figures["trials"]) if trace["mode"] == "lines"]
    assert (best["x"], best["y"]) == ([0, 1, 2], [10.0, 30.0, 30.0])


class Ended:
    """A finished training of a setting."""

    def __init__(self, setting: int, value: float) -> None:
        self.id, self.candidate, self.best_value = "", f"setting {setting}", value


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=30))
def test_the_best_so_far_is_the_highest_mean_of_a_setting(trainings: list[tuple[int, int]]) -> None:
    done: list[Any] = [Ended(setting, value) for setting, value in trainings]
    expected = []
    for count in range(1, len(done) + 1):
        settings: dict[str, list[float]] = {}
        for trial in done[:count]:
            settings.setdefault(trial.candidate, []).append(trial.best_value)
        expected.append(max(map(fmean, settings.values())))
    assert highest_means(done) == pytest.approx(expected)


def test_each_searched_parameter_has_a_column_and_further_metrics_are_switched_on() -> None:
    page = build_page(search(12))
    shown = {column.heading: column for column in page.columns if not column.off}
    assert {"temperature", "margin", "e0", "e1", "e2", "e3"} <= set(shown)
    assert all(shown[name].numeric for name in ("temperature", "e3"))
    off = [column.key for column in page.columns if column.off]
    assert "cocos/i2t_negatives_per_query" in off and "val/t2i_r10" in off
    assert off.index("cocos/t2i_queries_without_gradient") < off.index("val/i2t_r5"), "COCOS come first"
    for row in page.rows:
        searched = {key.removeprefix(PARAMETER): value for key, value in row.sort.items() if key.startswith(PARAMETER)}
        assert searched and all(isinstance(value, float) for value in searched.values())
        assert set(row.shown) <= {column.key for column in page.columns}


def test_of_many_parameters_those_of_most_trials_are_shown_at_first() -> None:
    author = Author()
    for number in range(3):
        names = [f"p{place}" for place in range(WIDEST + 3) if number < 2 or place > 2]
        trial = author.create("nt_xent", number, dict.fromkeys(names, 1.0 + number))
        author.epoch(trial, 1, {"val/rsum": 100.0}, "finished")
    page = build_page(author.finish())
    off = [column.heading for column in page.columns if column.off and column.key.startswith(PARAMETER)]
    assert off == ["p0", "p1", "p2"]
