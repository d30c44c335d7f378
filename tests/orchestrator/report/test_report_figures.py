"""What the report draws: fronts, curves, learned hyper-parameters, colours, axes, and several experiments."""

import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.report.experiment_report import report_experiments
from orchestrator.report.figures import ABOUT, Figure, colour_range
from orchestrator.report.leaderboard import texts_on_charts
from orchestrator.report.loss_figures import rank_correlation
from orchestrator.report.page import Page
from orchestrator.report.search_figures import FEW, highest_means
from orchestrator.report.space_figures import SearchedTrials, number_ticks
from orchestrator.report.studies import studies_of
from orchestrator.results.analyses import log_ranges
from orchestrator.results.answer import Answer, Column, Json, table_of
from orchestrator.results.answers import Summary
from orchestrator.results.surface import REACH
from orchestrator.views.html import sections_page, stylesheet
from tests.support.commands import CommandLine
from tests.support.confirmed_experiments import write
from tests.support.experiments import make_experiment, start
from tests.support.histories import Author, experiment, repeated, search

NEGATIVES = "cocos/gradient_negatives"


def two_goals(points: list[tuple[float, float]]) -> History:
    """Return a search for a high ``val/rsum`` and few negatives, with a trial at each point."""
    described = experiment(losses=("nt_xent",))
    described["search"]["objectives"] = [
        {"metric": "val/rsum", "direction": "maximize"},
        {"metric": NEGATIVES, "direction": "minimize"},
    ]
    author = Author(described)
    for number, (rsum, negatives) in enumerate(points):
        trial = author.create("nt_xent", number, {"temperature": 0.1})
        author.epoch(trial, 1, {"val/rsum": rsum, NEGATIVES: negatives}, "finished")
    return author.finish()


def test_a_front_is_drawn_with_all_that_it_beats() -> None:
    assert Page(search(3)).figures["front"].options == [], "one objective has none"
    page = Page(two_goals([(100.0, 5.0), (90.0, 2.0), (80.0, 4.0), (70.0, 1.0)]))
    (option,) = page.figures["front"].options
    beaten, front = option.panels[0].data
    assert (beaten["name"], beaten["x"], beaten["y"]) == ("beaten", [4.0], [80.0])
    # From few negatives to many, so that the line goes from member to member.
    assert (front["x"], front["y"]) == ([1.0, 2.0, 5.0], [70.0, 90.0, 100.0])
    assert option.panels[0].layout["xaxis"]["title"]["text"].endswith("(lower is better)")


@pytest.mark.parametrize(
    ("trials", "losses", "label", "curves"),
    [
        (12, ("nt_xent", "triplet_sh"), "All trials on Flickr8k", 12),
        (10, ("nt_xent",), "NT-Xent", 10),
        (2 * FEW, ("nt_xent", "triplet_sh"), "Leaders on Flickr8k", 2),
    ],
    ids=["few of two studies", "few of one", "many"],
)
def test_all_curves_are_shown_where_they_are_few(trials: int, losses: tuple[str, ...], label: str, curves: int) -> None:
    option = Page(search(trials, losses=losses)).figures["curves"].options[0]
    assert option.label == label
    assert len(option.panels[0].data) == curves


def test_a_learned_hyper_parameter_and_the_drift_of_a_bank_are_drawn_over_the_epochs() -> None:
    author = Author(experiment(losses=("nt_xent",)))
    for number, temperatures in enumerate([[0.1, 0.08, 0.07], [0.2, 0.1, 0.001]]):
        trial = author.create("nt_xent", number, {"temperature": "learned"})
        for epoch, temperature in enumerate(temperatures, start=1):
            state = "finished" if epoch == len(temperatures) else "running"
            values = {
                "val/rsum": 10.0 * number + epoch,
                "loss/temperature": temperature,
                "bank/image_drift": 0.1 * epoch,
            }
            author.epoch(trial, epoch, values, state)
    _, option, drift = Page(author.finish()).figures["curves"].options
    assert option.label == "NT-Xent: τ"
    first, leader = option.panels[0].data
    assert (first["x"], first["y"]) == ([1, 2, 3], [0.1, 0.08, 0.07])
    assert (leader["y"], leader["line"]["width"]) == ([0.2, 0.1, 0.001], 3)
    assert option.panels[0].layout["yaxis"]["type"] == "log"
    assert drift.label == "NT-Xent: image drift"
    assert drift.panels[0].data[0]["y"] == pytest.approx([0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("loss", "name", "values", "is_log"),
    [
        # The values tried span less than a factor of 20, which says nothing about the space.
        ("nt_xent", "temperature", (0.1, 0.11, 0.12), True),
        # And these lie as if the space were logarithmic, which it is not.
        ("triplet_sh", "margin", (0.01, 0.02, 0.9), False),
    ],
)
def test_an_axis_is_logarithmic_where_the_space_is(
    ledger: Ledger, loss: str, name: str, values: tuple[float, ...], is_log: bool
) -> None:
    asked = make_experiment(search={"sampler": "random", "trials": 4, "training": {"learning_rate": "default"}})
    start(ledger, asked)
    cell = next(cell for cell in asked.cells() if cell.loss == loss)
    for number, value in enumerate(values):
        params = {name: value, "training.learning_rate": 1e-4 * (1 + number)}
        trial = ledger.create(cell.name, number, params, asked.trial_config(cell, {name: value}))
        ledger.report(trial, 1, {"val/rsum": 1.0 * number}, TrialState.FINISHED)
    assert log_ranges(ledger.history)[cell.name] == {name: is_log, "training.learning_rate": True}
    (study,) = studies_of(ledger.history)
    space = SearchedTrials(study)
    assert space.logs == {"training.learning_rate", *([name] if is_log else [])}
    places, ticks = space.on_axis("training.learning_rate")
    assert places == pytest.approx([0, math.log(2) / math.log(3), 1])
    assert ticks == number_ticks([1e-4, 2e-4, 3e-4], log=True)


def traces(figure: Figure) -> list[Json]:
    return [trace for option in figure.options for panel in option.panels for trace in panel.data]


@pytest.mark.parametrize("key", ["trials", "curves", "parallel", "slices", "contours", "cocos"])
def test_a_trial_under_the_pointer_shows_its_loss_its_parameters_and_its_value(key: str) -> None:
    page = Page(search(60))
    shown = texts_on_charts(page.columns, page.rows)
    drawn = [trace for trace in traces(page.figures[key]) if ABOUT in trace.get("hovertemplate", "")]
    names = {name for trace in drawn for name in trace["text"]}
    assert len(names) >= 15 and names <= set(shown)
    row = next(row for row in page.rows if row.study == "Polynomial (relative)" and row.state == "finished")
    lines = shown[row.id].split("<br>")
    assert lines[0] == f"<b>{row.shown['trial']}</b>"
    assert lines[1:] == [*(f"e{power}: {row.shown[f'parameter e{power}']}" for power in range(4)), lines[-1]]
    assert lines[-1] == f"val rsum: {row.shown['value']}"
    marked = replace(row, shown={**row.shown, "trial": "<i>one</i>", "value": "<i>two</i>"})
    assert "<i>" not in texts_on_charts(page.columns, [marked])[row.id]


def test_a_trial_that_repeats_a_setting_shows_the_setting_under_the_pointer() -> None:
    history, again = repeated()
    page = Page(history)
    assert again in [name for trace in traces(page.figures["trials"]) for name in trace.get("text", ())]
    assert texts_on_charts(page.columns, page.rows)[again].endswith("<br>val rsum: 31.0 (mean of 2)")


SURFACE_WORDS = {"slices": ("The line is", "grey area"), "contours": ("The line surrounds", "cross")}


def test_lines_of_a_surface_that_is_not_known_are_not_described() -> None:
    page = Page(search(8))
    for key, words in SURFACE_WORDS.items():
        assert page.figures[key].options and not any(word in page.figures[key].note for word in words)
    assert page.figures["contours"].title == "Pairs of parameters"


@pytest.mark.parametrize("key", ["slices", "contours"])
def test_slices_and_contours_are_coloured_by_value_with_one_scale(key: str) -> None:
    for option in Page(search(60)).figures[key].options:
        for panel in option.panels:
            scale = panel.layout["coloraxis"]
            assert scale["cmin"] < scale["cmax"]
            assert scale["colorbar"]["title"]["text"] == ("val rsum" if key == "contours" else "")
            coloured = [trace for trace in panel.data if "coloraxis" in {**trace, **trace.get("marker", {})}]
            assert len(coloured) == 1
            values = next(trace["marker"]["color"] for trace in coloured if "marker" in trace)
            assert max(values) == scale["cmax"]


def test_a_surface_is_drawn_with_its_band_and_its_best_settings() -> None:
    described = experiment(losses=("nt_xent",))
    described["search"]["training"] = {"learning_rate": [1e-4, 1e-2]}
    random, author = np.random.default_rng(0), Author(described)
    for number in range(24):
        temperature, rate = 10 ** random.uniform(-2, -0.5), 10 ** random.uniform(-4, -2)
        trial = author.create("nt_xent", number, {"temperature": temperature, "training.learning_rate": rate})
        value = 200 - 50 * (math.log10(rate) + 3) ** 2 + random.normal()
        author.epoch(trial, 1, {"val/rsum": value}, "finished")
    history = author.finish()
    page, (found,) = Page(history), Summary(history).bands.values()
    flat, interval, mean, dots = page.figures["slices"].options[0].panels[0].data
    assert flat["x"] == [*found.ranges["training.learning_rate"], *reversed(found.ranges["training.learning_rate"])]
    assert len(interval["x"]) == 2 * len(mean["x"]) and len(dots["x"]) == 24
    assert all(
        low <= middle <= high for low, middle, high in zip(interval["y"][::-1], mean["y"], interval["y"], strict=False)
    )
    assert all(word in page.figures[key].note for key, words in SURFACE_WORDS.items() for word in words)
    expected, edge, setting, _ = page.figures["contours"].options[0].panels[0].data
    assert np.shape(expected["z"]) == np.shape(edge["z"]) == (len(expected["y"]), len(expected["x"]))
    assert setting["x"] == [found.setting["training.learning_rate"]]
    assert edge["contours"]["start"] == REACH


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour such as ``#0a5c94``, as WCAG defines it."""
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out(scheme: int) -> None:
    pairs = re.findall(r"(--[a-z]+\d*): light-dark\((#\w{6}), (#\w{6})\)", stylesheet())
    colours = {name: luminance(pair[scheme]) for name, *pair in pairs}
    surface = colours["--surface"]
    words, marks = ["ink", "muted", "accent", "good", "warn", "bad"], [f"c{place}" for place in range(1, 8)]
    for names, least in ((words, 4.5), (marks, 3.0)):
        ends = [sorted((colours[f"--{name}"], surface)) for name in names]
        assert min((high + 0.05) / (low + 0.05) for low, high in ends) >= least


def test_a_trial_that_learned_nothing_leaves_the_others_their_colours() -> None:
    assert colour_range([1.0, 100.0, 101.0, 102.0, 103.0, 104.0]) == (pytest.approx(96.5), 104.0)
    assert colour_range([3.0, 1.0, 2.0]) == (1.0, 3.0)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30), st.booleans())
def test_ticks_go_from_the_lowest_value_to_the_highest_in_order(values: list[float], log: bool) -> None:
    ticks = number_ticks(values, log=log)
    if min(values) == max(values):
        assert [(place, float(text.replace("−", "-"))) for place, text in ticks] == [(0.5, float(f"{values[0]:.3g}"))]
        return
    ends = [(place, float(text.replace("−", "-"))) for place, text in (ticks[0], ticks[-1])]
    assert ends == [(0.0, float(f"{min(values):.3g}")), (1.0, float(f"{max(values):.3g}"))]
    assert all(low < high for (low, _), (high, _) in pairwise(ticks))


@pytest.mark.parametrize("log", [False, True])
def test_ticks_between_the_ends_are_round_and_where_their_values_are(log: bool) -> None:
    low, high = 0.0021, 0.73
    ticks = number_ticks([low, 0.1, high], log=log)[1:-1]
    assert {text for _, text in ticks} >= ({"0.01", "0.1"} if log else {"0.2", "0.4", "0.6"})
    for place, text in ticks:
        share = math.log(float(text) / low) / math.log(high / low) if log else (float(text) - low) / (high - low)
        assert place == pytest.approx(share)


def test_the_best_so_far_goes_on_to_the_newest_trial() -> None:
    author = Author(experiment(losses=("nt_xent",)))
    for number, (value, state) in enumerate([(10.0, "finished"), (30.0, "finished"), (20.0, "stopped_early")]):
        author.epoch(author.create("nt_xent", number, {"temperature": 0.1 + number}), 1, {"val/rsum": value}, state)
    drawn = traces(Page(author.finish()).figures["trials"])
    (best,) = [trace for trace in drawn if trace["mode"] == "lines"]
    assert (best["x"], best["y"]) == ([0, 1, 2], [10.0, 30.0, 30.0])
    # Plotly draws a legend for one trace only where the trace asks for it.
    assert [trace.get("showlegend") for trace in drawn] == [None, False, False]


@pytest.mark.parametrize(
    ("losses", "question"), [(("nt_xent",), "Which coefficients?"), (("nt_xent", "triplet_sh"), "Which setting?")]
)
def test_before_the_first_epoch_nothing_is_drawn_and_the_question_is_that_of_the_search(
    losses: tuple[str, ...], question: str
) -> None:
    author = Author(experiment(losses=losses))
    for loss in losses:
        author.create(loss, 0, {"temperature": 0.1} if loss == "nt_xent" else {"margin": 0.2})
    page = Page(author.history)
    assert page.answers["flickr8k"][0].question == question
    assert [option for key in ("trials", "curves") for option in page.figures[key].options] == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=30))
def test_the_best_so_far_is_the_highest_mean_of_a_setting(trainings: list[tuple[int, int]]) -> None:
    done: list[Any] = [
        SimpleNamespace(candidate=f"setting {setting}", best_value=value) for setting, value in trainings
    ]
    expected = []
    for count in range(1, len(done) + 1):
        settings: dict[str, list[float]] = {}
        for trial in done[:count]:
            settings.setdefault(trial.candidate, []).append(trial.best_value)
        expected.append(max(map(fmean, settings.values())))
    assert highest_means(done) == pytest.approx(expected)


def test_a_page_over_several_experiments_is_written(tmp_path: Path, cli: CommandLine) -> None:
    for name in ("one", "two"):
        write(tmp_path, name, confirmed=True)
    said = cli.shows("report", "one", "two", "--output", tmp_path, "--no-queries")
    written = [line.partition(": ")[2] for line in said.splitlines()]
    paths = [tmp_path / name for name in ("one/report.html", "two/report.html", "report.html")]
    assert written == [str(path) for path in paths]
    text = paths[-1].read_text(encoding="utf-8")
    assert 'href="one/report.html">one</a>' in text and 'href="two/report.html">two</a>' in text
    assert text.count("Triplet SH at margin = 0.2 beats NT-Xent at τ = 0.1 by") == 2, "each shows its headline"
    assert "plotly" not in text
    assert "different versions" not in text
    write(tmp_path, "three", confirmed=False, data="d2")
    report_experiments([tmp_path / "one", tmp_path / "three"], tmp_path, data_root=None)
    assert "different versions of pets" in paths[-1].read_text(encoding="utf-8")


def test_an_experiment_that_is_named_twice_is_reported_once(tmp_path: Path, cli: CommandLine) -> None:
    write(tmp_path, "one", confirmed=True)
    said = cli.shows("report", "one", tmp_path / "one", "--output", tmp_path, "--no-queries")
    assert said == f"report: {tmp_path / 'one' / 'report.html'}\n"


def test_answers_alone_are_a_page_without_plotly_whose_texts_are_no_markup() -> None:
    table = table_of(
        [Column("name", "<i>cell"), Column("difference", "difference", "val/rsum", signed=True)], [("a<b", -2.0)]
    )
    answer = Answer("cell", "", "Is <b> slower?", "Yes & no.", "tie", numbers={"p": 0.0001, "low": None}, table=table)
    sections = [("", "", "", [answer])]
    text = sections_page("suite <x>", "Rerun", sections, facts=[("Cells", "1", "")], notes=["<script>"])
    parts = ("Is &lt;b&gt; slower?", "Yes &amp; no.", "&lt;i&gt;cell", "a&lt;b", "−2.0", "&lt; 0.001", "&lt;script&gt;")
    assert [part for part in parts if part not in text] == []
    assert '<span class="badge tie">tie</span>' in text and "<dt>Cells</dt>" in text and "<dt>low</dt>" not in text
    assert text.count("<script>") == 1 and "default-src 'none'" in text and "plotly" not in text


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=40))
def test_rank_correlation_is_spearmans(pairs: list[tuple[int, int]]) -> None:
    x, y = zip(*pairs, strict=True)
    found = rank_correlation(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
