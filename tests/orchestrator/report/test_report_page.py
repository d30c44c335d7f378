"""The page model: who leads, what is said about it, and that every number of it is in the history."""

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.journal.directory import read_history
from orchestrator.journal.history import History
from orchestrator.report.figures import Figure, plain, scaled
from orchestrator.report.leaderboard import PARAMETER, WIDEST
from orchestrator.report.loss_figures import counted_epoch
from orchestrator.report.page import Page
from orchestrator.report.render import render_page
from orchestrator.report.space_figures import SearchedTrials
from orchestrator.report.studies import leaders_of, studies_of
from orchestrator.results.answer import Answer
from orchestrator.text.values import duration_text, visible
from orchestrator.views.html import templates
from tests.support.confirmed_experiments import write
from tests.support.histories import Author, experiment, search

FORM = "%Y-%m-%d %H:%M:%S UTC"


def author_with(*trials: tuple[str, float, str]) -> Author:
    """Return an author of one-epoch trials: loss, rsum, state."""
    author = Author()
    numbers: dict[str, int] = {}
    for loss, rsum, state in trials:
        numbers[loss] = numbers.get(loss, -1) + 1
        trial = author.create(loss, numbers[loss], {"temperature": 0.1 + numbers[loss]})
        ended = state in ("finished", "stopped_early", "running")
        author.epoch(trial, 1, {"val/rsum": rsum, "time/epoch_seconds": 2.0}, state if ended else "running")
        if not ended:
            author.end(trial, state, "it broke")
    return author


def rows_of(answer: Answer) -> list[Any]:
    return list(answer.table.rows)


def points(figure: Figure) -> int:
    """Return how many dots a figure's first option draws."""
    traces = [trace for panel in figure.options[0].panels for trace in panel.data]
    return sum(len(trace["x"]) for trace in traces if trace.get("mode") == "markers")


def test_history_without_a_start_still_has_a_page() -> None:
    page = Page(History())
    assert page.answers == {}
    assert not any(figure.options for figure in page.figures.values())


def test_the_best_of_a_search_is_called_unconfirmed() -> None:
    page = Page(author_with(("nt_xent", 150, "finished"), ("triplet_sh", 140, "finished")).finish())
    answer, *_ = page.answers["flickr8k"]
    assert (answer.verdict, answer.headline[:8]) == ("unconfirmed", "NT-Xent ")
    assert [row[-3] for row in rows_of(answer)] == [150.0, 140.0]
    assert page.measure == "rsum: sum of six recalls, 0–600", "the queries of val are not known"


@pytest.mark.parametrize("state", ["stopped_early", "diverged", "failed", "running"])
def test_only_a_finished_trial_can_lead_and_the_page_says_so(state: str) -> None:
    page = Page(author_with(("nt_xent", 200, state), ("nt_xent", 100, "finished")).history)
    answer, *_, caveats = page.answers["flickr8k"]
    assert answer.numbers["value"] == 100.0
    assert caveats.key == "caveats" and caveats.notes


def test_before_a_trial_has_finished_the_values_so_far_are_shown() -> None:
    author = author_with(("nt_xent", 200, "running"), ("triplet_sh", 250, "running"), ("nt_xent", 300, "diverged"))
    answer, *_ = Page(author.history).answers["flickr8k"]
    assert answer.headline.startswith("Triplet SH") and "so far, 250.0; no trial" in answer.headline
    assert [(row[2], row[-1]) for row in rows_of(answer)] == [("triplet_sh", "running"), ("nt_xent", "running")]
    author.epoch("flickr8k-vsepp-nt_xent-0000", 2, {"val/rsum": 210.0, "time/epoch_seconds": 2.0}, "finished")
    answer, *_ = Page(author.history).answers["flickr8k"]
    assert [(row[2], row[-1]) for row in rows_of(answer)] == [("nt_xent", "unconfirmed"), ("triplet_sh", "running")]


def test_the_time_of_the_newest_record_moves_with_each_epoch() -> None:
    author = author_with(("nt_xent", 200, "running"))
    before = Page(author.history).as_of
    author.epoch("flickr8k-vsepp-nt_xent-0000", 2, {"val/rsum": 210.0, "time/epoch_seconds": 60.0})
    after = Page(author.history).as_of
    assert datetime.strptime(after, FORM) - datetime.strptime(before, FORM) == timedelta(seconds=60)


def test_of_equal_trials_the_earlier_one_leads_and_its_weights_are_drawn_first() -> None:
    history = author_with(("triplet_sh", 100, "finished"), ("nt_xent", 100, "finished")).history
    assert [study.loss for study, _ in leaders_of(studies_of(history))] == ["triplet_sh", "nt_xent"]
    (panel,) = Page(history).figures["weights"].options[0].panels
    assert [trace["name"] for trace in panel.data] == ["Triplet SH", "NT-Xent", "Triplet, margin = 0.2"]


def test_the_confirmation_names_the_winner_and_is_no_part_of_the_search(tmp_path: Path) -> None:
    page = Page(read_history(write(tmp_path, "tiny", confirmed=True)))
    assert list(page.answers) == ["", "pets"]
    answer, *_, caveats = page.answers["pets"]
    assert answer.headline.startswith("Triplet SH at margin = 0.2 beats NT-Xent at τ = 0.1 by 10.0 rsum")
    assert any("40.0" in note and "stopped early" in note for note in caveats.notes), caveats.notes
    assert points(page.figures["trials"]) == 3
    assert {row.id: len([name for name, _ in row.details if name.startswith("seed ")]) for row in page.rows} == {
        "pets-vsepp-nt_xent-0000": 3,
        "pets-vsepp-triplet_sh-0000": 3,
        "pets-vsepp-nt_xent-0001": 0,
    }
    drawn = [trace["name"] for trace in page.figures["weights"].options[0].panels[0].data]
    assert drawn == ["Triplet SH", "NT-Xent", "Triplet, margin = 0.2"]
    facts = {label: (value, note) for label, value, note in page.facts}
    assert facts["Trials"][0] == "3"
    assert facts["Confirmation"] == ("6 trainings", "2 candidates, fresh seeds")
    assert facts["Test opened"] == ("1", "pets: 1")


def test_a_switch_is_a_word_in_the_table_and_on_the_axes() -> None:
    author = Author(experiment(losses=("nt_xent",)))
    for number, switch in enumerate([True, False, True]):
        trial = author.create("nt_xent", number, {"temperature": 0.1 + number, "switch": switch})
        author.epoch(trial, 1, {"val/rsum": 10.0 + number}, "finished")
    page = Page(author.finish())
    assert [(column.heading, column.numeric) for column in page.columns[3:5]] == [("τ", True), ("switch", False)]
    slices = page.figures["slices"].options[0].panels
    assert [panel.layout["xaxis"].get("type") for panel in slices] == ["log", "category"]


def test_a_trial_without_a_limit_has_a_dot_of_its_own_name() -> None:
    author = Author(experiment(losses=("nt_xent",)))
    for number, gate in enumerate([None, 0.2, None]):
        trial = author.create("nt_xent", number, {"gate": gate})
        author.epoch(trial, 1, {"val/rsum": 10.0 + number}, "finished")
    (panel,) = Page(author.finish()).figures["slices"].options[0].panels
    assert panel.data[0]["x"] == ["None", 0.2, "None"], "Plotly draws no dot where a value is null"


def test_every_trial_is_a_dot_of_the_search_and_every_counted_one_of_cocos() -> None:
    history = search(150)
    page = Page(history)
    assert points(page.figures["trials"]) == 150
    usable = [trial for trial in history.trials.values() if trial.state.value in ("finished", "stopped_early")]
    assert points(page.figures["cocos"]) == 2 * len(usable)


def test_cocos_are_paired_with_the_metric_of_their_own_epoch() -> None:
    author = Author()
    trial = author.create("nt_xent", 0, {"temperature": 0.1})
    for epoch, rsum in enumerate([100.0, 120.0, 130.0, 110.0, 105.0], start=1):
        counted = {"cocos/i2t_negatives_per_query": 5.0 + epoch} if epoch in (2, 4, 5) else {}
        author.epoch(trial, epoch, {"val/rsum": rsum, **counted}, "finished" if epoch == 5 else "running")
    other = author.create("nt_xent", 1, {"temperature": 0.2})
    author.epoch(other, 1, {"val/rsum": 90.0, "cocos/t2i_queries_without_gradient": 0.5}, "finished")
    history = author.finish()
    assert counted_epoch(history.trials[trial]) == 4, "of two epochs that are as near, the later"
    panels = [panel for option in Page(history).figures["cocos"].options for panel in option.panels]
    dots = [(panel.data[0]["x"], panel.data[0]["y"]) for panel in panels]
    assert dots == [([9.0], [110.0]), ([0.5], [90.0])], "a chart of each count that any trial has"


def test_a_count_that_all_trials_have_is_a_sentence_and_no_chart() -> None:
    author = Author()
    for number in range(3):
        trial = author.create("nt_xent", number, {"temperature": 0.1 + number})
        counts = {"cocos/i2t_negatives_per_query": 127.0, "cocos/t2i_negatives_per_query": 1.0 + number}
        author.epoch(trial, 1, {"val/rsum": 100.0 + number, **counts}, "finished")
    (option,) = Page(author.finish()).figures["cocos"].options
    same, other = option.panels
    assert (same.caption, same.data) == ("image to captions · all 3 trials have the same count, 127", [])
    assert other.data and other.caption.startswith("caption to images · ρ = ")


def test_leaderboard_puts_the_best_first_and_trials_without_a_value_last() -> None:
    author = author_with(("nt_xent", 100, "finished"), ("nt_xent", 120, "stopped_early"))
    author.end(author.create("nt_xent", 2, {"temperature": 1.0}), "failed", "out of memory")
    rows = Page(author.history).rows
    assert [row.sort["value"] for row in rows] == [120, 100, None]
    assert [row.shown["value"] for row in rows] == ["120.0", "100.0", "–"]
    assert ("ended by", "out of memory") in rows[2].details


def test_no_column_moves_when_another_loss_takes_the_lead() -> None:
    author = Author(experiment(losses=("nt_xent", "triplet_sh")))
    orders = []
    for number, (loss, name, value) in enumerate(
        [("nt_xent", "temperature", 50.0), ("triplet_sh", "margin", 40.0), ("triplet_sh", "margin", 60.0)]
    ):
        trial = author.create(loss, number, {name: 0.1})
        author.epoch(trial, 1, {"val/rsum": value, f"loss/{name}": 0.1}, "finished")
        orders.append([column.key for column in Page(author.history).columns])
    assert orders[1] == orders[2]


def test_each_searched_parameter_has_a_column_and_further_metrics_are_switched_on() -> None:
    page = Page(search(12))
    shown = {column.heading: column for column in page.columns if not column.off}
    assert {"τ", "margin", "e0", "e1", "e2", "e3"} <= set(shown)
    assert all(shown[name].numeric for name in ("τ", "e3"))
    off = [column.key for column in page.columns if column.off]
    assert "cocos/i2t_negatives_per_query" in off and "val/t2i_r10" in off
    assert off.index("cocos/t2i_queries_without_gradient") < off.index("val/i2t_r5"), "COCOS come first"
    for row in page.rows:
        searched = {key.removeprefix(PARAMETER): value for key, value in row.sort.items() if key.startswith(PARAMETER)}
        assert searched and all(isinstance(value, float) for value in searched.values())
        assert set(row.shown) <= {column.key for column in page.columns}


def test_the_maximised_metric_has_one_column() -> None:
    author = Author(experiment(losses=("nt_xent",)))
    fields = {"dataset": "flickr8k", "model": "vsepp", "loss": "nt_xent", "loss_parameters": {"temperature": 0.1}}
    config = {**fields, "training": {"epochs": 1}, "metric": "val/i2t_r1", "seed": 0}
    study = {"study": "flickr8k-vsepp-nt_xent", "number": 0, "params": {"temperature": 0.1}}
    author.apply("trial_created", trial="first", stage="search", candidate=None, config=config, **study)
    author.epoch("first", 1, {"val/rsum": 30.0, "val/i2t_r1": 3.0, "val/t2i_r1": 2.0}, "finished")
    page = Page(author.finish())
    shown = [(column.heading, page.rows[0].shown.get(column.key)) for column in page.columns if column.numeric]
    assert [text for heading, text in shown if heading.endswith("i2t R@1")] == ["3.0"]
    assert ("t2i R@1", "2.0") in shown


def test_of_many_parameters_those_of_most_trials_are_shown_at_first() -> None:
    author = Author()
    for number in range(3):
        names = [f"p{place}" for place in range(WIDEST + 3) if number < 2 or place > 2]
        trial = author.create("nt_xent", number, dict.fromkeys(names, 1.0 + number))
        author.epoch(trial, 1, {"val/rsum": 100.0}, "finished")
    page = Page(author.finish())
    off = [column.heading for column in page.columns if column.off and column.key.startswith(PARAMETER)]
    assert off == ["p0", "p1", "p2"]


def test_cost_counts_what_the_trials_reported_and_what_early_stopping_saved() -> None:
    page = Page(author_with(("nt_xent", 100, "finished"), ("nt_xent", 90, "failed")).history)
    facts = {label: (value, note) for label, value, note in page.cost}
    assert facts["Trial time"][1].startswith("4 trial-seconds")
    assert (facts["GPU hours"][0], facts["Epochs"][0]) == ("0.00", "2") and "Early stopping saved" not in facts
    page = Page(author_with(("nt_xent", 100, "stopped_early")).history)
    assert {label: value for label, value, _ in page.cost}["Early stopping saved"] == duration_text(29 * 2.0)
    author = Author({**experiment(), "resources": {"gpus": "auto"}})
    assert "GPU hours" not in {label for label, _, _ in Page(author.finish()).cost}, "their number is not known"


def test_reproduction_names_command_digests_and_versions() -> None:
    shown = Page(search(1))
    assert shown.digests == {"flickr8k": "3f" * 32}
    assert shown.versions["torch"] == "2.15.0"
    assert shown.versions["git revision"] == "0123456789abcdef"
    assert "losses:" in shown.experiment


@pytest.mark.parametrize("trials", [2, 4, 30, 300])
def test_best_trials_are_drawn_last_and_strongest_in_parallel_coordinates(trials: int) -> None:
    history = search(trials, losses=("nt_xent",))
    (panel,) = Page(history).figures["parallel"].options[0].panels
    best = max((trial.best_value, trial.id) for trial in history.trials.values() if trial.state.value == "finished")
    assert best[1] in panel.data[-1]["text"]
    assert panel.data[-1]["line"]["color"] == "--scale4"
    assert panel.data[-1]["opacity"] == max(trace["opacity"] for trace in panel.data)
    drawn = {name for trace in panel.data for name in trace["text"]}
    assert drawn == {t.id for t in history.trials.values() if t.state.value in ("finished", "stopped_early")}


def test_losses_among_which_a_study_chose_are_kept_apart() -> None:
    described = experiment(losses=("nt_xent", "triplet_sh"))
    described["search"]["loss"] = "choose"
    author = Author(described)
    for number, value in enumerate((0.1, 0.2, 0.05, 0.4, 0.02)):
        loss, name = (("nt_xent", "temperature"), ("triplet_sh", "margin"))[number % 2]
        fields = {"dataset": "flickr8k", "model": "vsepp", "loss": loss, "loss_parameters": {name: value}}
        config = {**fields, "training": {"epochs": 1}, "metric": "val/rsum", "seed": 0}
        params = {"loss": loss, f"{loss}.{name}": value}
        trial, study = f"any-{number}", {"study": "flickr8k-vsepp-any", "number": number, "params": params}
        author.apply("trial_created", trial=trial, stage="search", candidate=None, config=config, **study)
        author.epoch(trial, 1, {"val/rsum": 100.0 + number}, "finished")
    studies = studies_of(author.history)
    assert [(study.label, len(study.trials)) for study in studies] == [("NT-Xent", 3), ("Triplet SH", 2)]
    assert [space.logs for space in map(SearchedTrials, studies)] == [{"nt_xent.temperature"}, set()]
    assert [list(space.parameters) for space in map(SearchedTrials, studies)] == [
        ["nt_xent.temperature"],
        ["triplet_sh.margin"],
    ]
    assert "NT-Xent 0000" in render_page(Page(author.history))


def test_studies_of_several_datasets_are_kept_apart() -> None:
    author = Author()
    for dataset, rsum in (("flickr8k", 150.0), ("coco", 90.0)):
        trial = author.create("nt_xent", 0, {"temperature": 0.1}, dataset)
        author.epoch(trial, 1, {"val/rsum": rsum}, "finished")
    page = Page(author.finish())
    assert [answer.key for answer in page.answers[""]][:1] == ["winners"]
    assert {name: answers[0].numbers.get("value") for name, answers in page.answers.items() if name} == {
        "flickr8k": 150.0,
        "coco": 90.0,
    }
    assert [option.label for option in page.figures["trials"].options] == ["Flickr8k", "MS-COCO"]


def test_a_command_in_a_sentence_is_code_and_markup_is_text() -> None:
    coded = templates().filters["coded"]
    assert coded("set `a: <b>`; <i>") == "set <code>a: &lt;b&gt;</code>; &lt;i&gt;"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a\x00b\x1b[31m", "a\\x00b\\x1b[31m", id="control"),
        pytest.param("\u202egnp", "\\u202egnp", id="right-to-left"),
        pytest.param("x\ud800", "x\ufffd", id="lone-surrogate"),
        pytest.param("two\nlines\tand tab", "two\nlines\tand tab", id="whitespace-stays"),
        pytest.param("naïve 图 ✓", "naïve 图 ✓", id="other-scripts-stay"),
    ],
)
def test_what_cannot_be_seen_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(categories=None)))
def test_visible_text_can_be_written_and_holds_no_control_character_and_on_a_chart_no_tag(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert "<" not in plain(text)
    assert not any(ord(character) < 32 and character not in "\n\t" for character in shown)
    assert visible(shown) == shown


@given(st.lists(st.floats(1e-6, 1e6), min_size=1), st.booleans())
def test_scaled_values_keep_their_order_within_the_unit_interval(values: list[float], log: bool) -> None:
    places = scaled(values, log=log)
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
    ordered = sorted(zip(values, places, strict=True))
    assert all(x <= y for (_, x), (_, y) in pairwise(ordered))
