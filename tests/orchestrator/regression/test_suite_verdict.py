"""What a rerun of a suite comes to, and how it is told."""

import dataclasses
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from orchestrator.experiment.experiment import load_experiment
from orchestrator.reference.published import RETRIEVAL, published_row
from orchestrator.regression.accepted import (
    Accepted,
    AcceptedError,
    CellRecord,
    read_accepted,
    what_changed,
    write_accepted,
)
from orchestrator.regression.answers import answers_about_suite, headline
from orchestrator.regression.comparison import Finding
from orchestrator.regression.notices import to_junit
from orchestrator.regression.rerun import first_references
from orchestrator.regression.suite import load_suite, shipped_suites
from orchestrator.regression.verdict import SuiteResult, blind_cells, judge_suite
from orchestrator.results.answer import Answer
from orchestrator.views.html import sections_page
from tests.support.regression_rates import sensitive_suite, share_with_alarms
from tests.support.regression_results import CONDITIONS, accepted, make_suite, new, runs
from trainables.config import TrainingConfig
from trainables.errors import ConfigError

OLD = [300.0, 303.0, 298.0, 301.0, 302.0, 299.0]
SAME = [301.0, 299.0, 302.0]


LOW = [score - 40 for score in SAME]
BOTH = accepted(nt_xent=runs(OLD), triplet=runs(OLD))


def rerun(
    nt_xent: CellRecord, triplet: CellRecord, reference: Accepted | None = BOTH, **changes: Any
) -> tuple[SuiteResult, list[Answer]]:
    """Return what a rerun of two cells comes to, both accepted with the scores ``OLD``, and how it is told."""
    both, suite = new(nt_xent=nt_xent, triplet=triplet), make_suite(**changes)
    result = judge_suite(suite, both, reference)
    return result, answers_about_suite(result, suite, both, reference)


def all_text(answers: list[Answer]) -> str:
    return "\n".join(sentence for answer in answers for sentence in answer.sentences)


def test_nothing_accepted_is_nothing_known() -> None:
    result, _ = rerun(runs(SAME), runs(SAME), None)
    assert result.finding is Finding.UNKNOWN
    assert "regress accept" in result.cells[0].notes[0]


def test_one_cell_that_regressed_makes_the_suite_a_regression() -> None:
    result, (about, *_) = rerun(runs(SAME), runs(LOW))
    assert (result.finding, [cell.finding for cell in result.cells]) == ("regression", ["ok", "regression"])
    assert "2 cells: 1 regression and 1 ok" in about.headline


def test_gradients_that_changed_are_a_change_though_recall_is_the_same() -> None:
    cell = rerun(runs(SAME, count=35), runs(SAME))[0].cells[0]
    assert cell.score is not None and cell.score.finding is Finding.OK
    assert ([one.finding for one in cell.gradients], cell.finding) == (["changed"], Finding.CHANGED)


@pytest.mark.parametrize("further", [[], [250.0], [350.0], [250.0, 251.0, 252.0]], ids=str)
@pytest.mark.parametrize("shared", [1, 2, 3])
def test_a_cell_with_equal_shared_seeds_is_identical_despite_further_seeds(shared: int, further: list[float]) -> None:
    old, again = runs(OLD[:shared]), runs([*OLD[:shared], *further])
    result, answers = rerun(again, again, accepted(nt_xent=old, triplet=old), matters=1.0)
    assert {cell.finding for cell in result.cells} == {result.finding} == {Finding.IDENTICAL}
    assert all(cell.needed is None and not cell.is_alarm for cell in result.cells)
    assert all(cell.score is None or cell.score.difference == 0 for cell in result.cells)
    text = all_text(answers)
    assert all("p" not in row or row["p"] is None for row in answers[0].table.to_dict()["rows"])
    assert f"identical to the accepted runs in {shared} of {shared} shared seeds" in text
    assert "inconclusive" not in text


def test_a_score_that_rose_with_other_gradients_is_changed_and_not_worse() -> None:
    risen = runs([score + 50.5 for score in OLD], count=1.8)
    reference = accepted(nt_xent=runs(OLD, count=210), triplet=runs(OLD))
    result, (about, changed, *_) = rerun(risen, runs(SAME), reference)
    assert result.cells[0].score is not None and result.cells[0].score.finding is Finding.IMPROVEMENT
    assert (result.finding, result.cells[0].finding) == (Finding.CHANGED, Finding.CHANGED)
    assert headline(result) == "changed: val rsum +50.5"
    assert about.headline.startswith("quick: changed: val rsum +50.5")
    moved = "NT-Xent on pets changed: val rsum +50.5; last cocos i2t negatives per query 210.3 → 2.15. Accept it"
    assert changed.headline.startswith(moved)
    assert moved in to_junit("quick", [about, changed], 1.0)
    assert "regression" not in changed.headline.lower()


def test_a_seed_that_diverged_and_a_count_that_is_no_longer_reported_are_named() -> None:
    broken = CellRecord(CONDITIONS, runs(SAME[:2]).values, {3: "diverged: train/loss is nan"})
    silent = CellRecord(CONDITIONS, {seed: {"val/rsum": value} for seed, value in enumerate(SAME)}, {})
    failed, lacking = rerun(broken, silent)[0].cells
    assert (failed.finding, failed.notes) == (Finding.FAILED, ("seed 3: diverged: train/loss is nan",))
    assert "no longer reported: last/cocos/i2t_negatives_per_query" in lacking.notes


def test_the_papers_decide_where_nothing_was_accepted() -> None:
    suite = make_suite(
        published=True, cells=[{"dataset": "scenes", "loss": "nt_xent"}, {"dataset": "f30k", "loss": "nt_xent"}]
    )
    values = {seed: {"val/rsum": 400.0, "test/rsum": 300.0 + seed} for seed in (1, 2, 3)}
    ours = CellRecord(CONDITIONS, values, {})
    result = judge_suite(suite, {"scenes-vsepp-nt_xent": ours, "f30k-vsepp-nt_xent": ours}, None)
    unknown, known = result.cells
    assert (unknown.published, unknown.finding) == (None, Finding.UNKNOWN)
    assert (known.published.accepted, known.published.seeds, known.finding) == (337.1, (5, 3), Finding.REGRESSION)


def test_what_changed_is_named() -> None:
    later = replace(
        CONDITIONS,
        config={"loss": "nt_xent", "training": {"epochs": 3, "gradient_clip": None}},
        data_digest="e" * 64,
        git_revision="b" * 40 + "-dirty",
        versions={"torch": "2.16.0", "ray": "2.60.0"},
        machine={"host": "two", "cpus": 2},
    )
    assert what_changed(CONDITIONS, CONDITIONS) == []
    assert what_changed(CONDITIONS, later) == [
        "config: training.gradient_clip was 2.0, it is absent",
        f"data: the digest was {'d' * 12}, it is {'e' * 12}",
        f"code: the revision was {'a' * 12}, it is {'b' * 12}-dirty",
        "version: torch was 2.15.0, it is 2.16.0",
        "hardware: host was one, it is two",
    ]


def test_a_setting_that_an_older_record_does_not_know_is_no_cause() -> None:
    older = replace(CONDITIONS, config={"loss": "nt_xent", "training": {"epochs": 3, "gradient_clip": 2.0}})
    whole = dataclasses.asdict(TrainingConfig(epochs=3))
    newer = replace(CONDITIONS, config={"loss": "nt_xent", "training": whole})
    assert whole["gradient_clip"] == 2.0 and what_changed(older, newer) == []
    halved = replace(newer, config={"loss": "nt_xent", "training": {**whole, "precision": "bf16"}})
    empty = replace(older, config={**older.config, "loss_parameters": {}})
    assert what_changed(empty, older) == ["config: loss_parameters was {}, it is absent"]
    assert what_changed(older, halved) == ["config: training.precision was float32, it is bf16"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda text: text[:-40], "damaged", id="cut off"),
        pytest.param(lambda text: text.replace("300.0", "NaN"), "not finite", id="not a number"),
        pytest.param(lambda text: text.replace('"format": 1', '"format": 2'), "format 2", id="another format"),
        pytest.param(lambda text: text.replace('"quick"', '"slow"'), "accepted for suite 'slow'", id="another suite"),
        pytest.param(lambda text: "[]", "damaged", id="no object"),
        pytest.param(lambda text: text.replace("300.0", "9" * 400), "damaged .ValidationError", id="400 digits"),
    ],
)
def test_a_reference_that_is_wrong_is_named(tmp_path: Path, change, message: str) -> None:
    path = tmp_path / "quick.accepted.json"
    write_accepted(path, accepted(nt_xent=runs(OLD)))
    path.write_text(change(path.read_text()))
    with pytest.raises(AcceptedError, match=message) as caught:
        read_accepted(path, "quick")
    assert str(path) in str(caught.value)


def test_junit_tells_failures_from_what_is_unknown() -> None:
    _, answers = rerun(runs(SAME), runs(LOW), accepted(triplet=runs(OLD)))
    suite = ElementTree.fromstring(to_junit("quick", answers, 12.34))
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["2", "1", "0", "1"]
    failure = suite.find("testcase[@name='pets-vsepp-triplet']/failure")
    assert failure is not None and "val rsum 260.7, accepted 300.5 (−39.8" in failure.get("message", "")


def test_the_page_shows_strangers_text_as_text() -> None:
    why = "<script>alert(1)</script>"
    _, answers = rerun(runs(SAME), runs(LOW), replace(BOTH, why=why))
    page = sections_page("quick", "Regression rerun", [("", "", "", answers)], facts=[("again", "a\x00b", "")])
    assert why not in page and "&lt;script&gt;" in page and "a\\x00b" in page
    assert "quick: regression: val rsum −39.8" in page


def test_suites_that_ship_are_sound() -> None:
    of_papers = {"flickr8k-baselines", "f30k-published", "coco-published"}
    assert set(shipped_suites()) == {"scenes-quick", "languages-quick", *of_papers}
    for name in shipped_suites():
        suite, path = load_suite(name)
        assert suite.name == name
        assert suite.experiment().name == name
        read_accepted(path.with_name(f"{name}.accepted.json"), name)


@pytest.mark.parametrize(("name", "rows"), [("f30k-published", "1."), ("coco-published", "2.")])
def test_every_cell_of_the_published_suites_has_its_row_and_settings(name: str, rows: str) -> None:
    suite, _ = load_suite(name)
    dataset = suite.cells[0].dataset
    found = [published_row(RETRIEVAL, dataset, cell.model, cell.loss, cell.loss_parameters) for cell in suite.cells]
    assert [row and row.number for row in found] == [f"{rows}{number}" for number in range(1, 9)]
    experiment = load_experiment(f"{dataset}-baselines")
    for cell, study in zip(suite.cells, experiment.cells(), strict=True):
        ours = suite.config(cell, 0)
        theirs = experiment.trial_config(study, cell.loss_parameters)
        training = dataclasses.replace(ours.training, cocos_every=0)
        assert dataclasses.replace(ours, training=training) == theirs


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("cells=[]", "cells"),
        ("seeds=1", "seeds"),
        ("max_seeds=2", "max_seeds: must be at least seeds"),
        ("matters=0", "matters"),
        ("score=val/medr", "score"),
        ("cells=[{dataset: scenes, loss: nt_xnet}]", "did you mean 'nt_xent'"),
        (
            "cells=[{dataset: scenes, loss: nt_xent, loss_parameters: {temperature: 0}}]",
            r"cells\.0\.loss_parameters: temperature.*above 0",
        ),
        ("cells=[{dataset: scenes, loss: nt_xent, training: {epoch: 3}}]", "epoch"),
        ("cells=[{dataset: a, loss: nt_xent}, {dataset: b/a, loss: nt_xent}]", "cells.0: 2 cells are called"),
    ],
)
def test_a_suite_that_is_wrong_is_refused(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_suite("scenes-quick", [setting])


@pytest.mark.proof
def test_whole_suites_without_any_change_raise_no_more_alarms_than_stated() -> None:
    """Scores and counts of four cells, drawn alike for reference, rerun and past; every difference matters."""
    suites, suite = 600, sensitive_suite(4, 0.1)
    share = share_with_alarms(np.random.default_rng(3), suite, [1.0] * 4, suites, nights=2)
    assert share * suites <= stats.binom.ppf(0.999, suites, suite.false_alarms)


def test_the_rate_of_false_alarms_is_divided_between_groups_tests_and_looks() -> None:
    first = first_references(BOTH, new(nt_xent=runs(SAME), triplet=runs(SAME)))
    alone = {"pets-vsepp-triplet": first["pets-vsepp-triplet"]}
    # Two scores and two counts.
    for most, reference, levels in (
        (6, BOTH, (0.03 / 2 / 2, 0.03 / 2 / 2, None)),
        (3, BOTH, (0.03 / 2, 0.03 / 2, None)),
        (3, replace(BOTH, first=first), (0.01, 0.01, 0.01)),
        (3, replace(BOTH, first=alone), (0.01, 0.01, 0.02)),
    ):
        result, _ = rerun(runs(SAME), runs(SAME), reference, false_alarms=0.06, seeds=3, max_seeds=most)
        assert result.levels == pytest.approx(levels)


def test_what_changed_is_said_once_beside_an_alarm_and_as_good_news_without_one() -> None:
    later = replace(CONDITIONS, versions={"torch": "2.16.0", "ray": "2.60.0"})
    clipped = replace(later, config={"loss": "nt_xent", "training": {"epochs": 3, "gradient_clip": None}})
    result, answers = rerun(runs(LOW, conditions=clipped), runs(LOW, conditions=later))
    assert result.causes == ("version: torch was 2.15.0, it is 2.16.0",)
    assert "torch was 2.15.0" in answers[0].notes[0]
    text = all_text(answers)
    assert text.count("torch was 2.15.0") == text.count("gradient_clip was 2.0") == 1
    assert "those of the accepted runs" in rerun(runs(LOW), runs(SAME))[1][0].notes[0]
    _, answers = rerun(runs(OLD[:3], conditions=later), runs(SAME, conditions=later))
    said = [note for note in answers[0].notes if "torch was" in note]
    line = "version: torch was 2.15.0, it is 2.16.0."
    assert said == [f"Changed, while 1 cell stayed {words}: {line}" for words in ("identical", "not worse")], (
        "the numbers of the new torch"
    )
    assert all_text(answers).count("torch was") == 2
    assert "torch was" not in all_text(rerun(runs(OLD[:3]), runs(SAME))[1])


def test_a_suite_that_cannot_see_a_drop_that_matters_says_so() -> None:
    loud, quiet = [300.0, 340.0, 260.0], [300.0, 301.0, 299.0]
    reference = accepted(nt_xent=runs(loud), triplet=runs(quiet))
    (name, drop), *others = blind_cells(make_suite(seeds=3), reference).items()
    assert (name, others) == ("pets-vsepp-nt_xent", []) and drop > 100
    _, (about, *_) = rerun(runs(loud), runs(quiet), reference)
    (note,) = [note for note in about.notes if "matters, and these seeds detect" in note]
    assert note.startswith("A drop of 10.0 matters, and these seeds detect: NT-Xent on pets ")
    assert blind_cells(make_suite(seeds=3, matters=200), reference) == {}
    _, (about, *_) = rerun(runs(quiet), runs(quiet), accepted(nt_xent=runs(quiet), triplet=runs(quiet)))
    assert not any("these seeds detect" in note for note in about.notes)


def test_a_changed_cell_names_what_moved_most_and_calls_no_large_move_well() -> None:
    old = {1: (20.0, 3.0, 50.0), 2: (20.2, 3.4, 90.0), 3: (20.4, 3.2, 10.0)}
    moved = {1: (1.0, 9.0, 0.5), 2: (1.2, 9.4, 1.0), 3: (1.4, 9.2, 0.0)}
    names = ("last/cocos/i2t_negatives_per_query", "last/train/loss", "last/cocos/i2t_negatives_per_batch")

    def cell(rows: dict[int, tuple[float, ...]]) -> CellRecord:
        values = {seed: {"val/rsum": 300.0 + seed, **dict(zip(names, row, strict=True))} for seed, row in rows.items()}
        return CellRecord(CONDITIONS, values, {})

    _, (_, changed, _) = rerun(cell(moved), runs(OLD[:3]), accepted(nt_xent=cell(old), triplet=runs(OLD[:3])))
    assert changed.verdict == "changed"
    assert changed.headline.endswith(" train loss 3.2 → 9.2 and 1 further number. Accept it or find out why.")
    rows = {row["metric"]: row for row in changed.table.to_dict()["rows"]}
    assert [rows[name]["verdict"] for name in names] == ["changed", "changed", "not significant"]
    assert rows[names[2]]["share"] < -0.9, "most of it is gone, in three seeds that scatter"
    assert any("of this cell's gradients, one changed where it moved by" in note for note in changed.notes)


def test_a_regression_is_said_with_its_interval_and_every_row_shows_what_the_seeds_detect() -> None:
    cells = runs([200.0, 201.0, 202.0]), runs(SAME)
    result, (about, worst, well) = rerun(*cells, matters=30)
    drop = "val rsum 201.0, accepted 300.5 (−99.5, 95 % CI [−102.3, −96.7], p < 0.001). Regression."
    assert worst.headline == f"NT-Xent on pets: {drop}"
    *_, unsure = rerun(*cells, matters=1)[1]
    assert [one.headline.rpartition("). ")[2] for one in (well, unsure)] == ["No regression.", "Inconclusive."]
    rows = {row["name"]: row for row in about.table.to_dict()["rows"]}
    interval = rows["NT-Xent on pets"]["difference"]
    # Student's interval of the pooled spread, by hand: s^2 = (5 * 3.5 + 2 * 1) / 7, t(0.975, 7) = 2.3646.
    reach = 2.364624 * ((5 * 3.5 + 2 * 1) / 7 * (1 / 6 + 1 / 3)) ** 0.5
    assert interval["high"] == pytest.approx(-99.5 + reach, abs=1e-4)
    assert rows["Triplet on pets"]["detectable"] == pytest.approx(result.cells[1].score.detectable)  # type: ignore[union-attr]
