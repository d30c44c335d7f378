"""Drift: what was accepted first is remembered, nights count once, and the stated rates hold on simulated histories."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.regression.accepted import AcceptedError, CellRecord, read_accepted, write_accepted
from orchestrator.regression.answers import answers_about_suite
from orchestrator.regression.comparison import POWER, Finding, detectable, level_of
from orchestrator.regression.rerun import first_references
from orchestrator.regression.reruns import SUMMARY, read_nights
from orchestrator.regression.verdict import WINDOW, comparable, compare_drift, judge_suite
from orchestrator.results.statistics import standard_error
from tests.support.regression_rates import is_found
from tests.support.regression_results import CONDITIONS, accepted, make_suite, new, runs

FIRST = [300.0, 303.0, 298.0, 301.0, 302.0, 299.0]
CELL = "pets-vsepp-nt_xent"
OTHER_CODE = replace(CONDITIONS, git_revision="b" * 40)
OTHER_CONFIG = replace(CONDITIONS, config={"loss": "nt_xent", "training": {"epochs": 4, "gradient_clip": 2.0}})
OTHER_DATA = replace(CONDITIONS, data_digest="e" * 64)


def test_a_slow_decline_that_each_new_reference_hides_is_found_against_the_first() -> None:
    """Every acceptance lies 6 below the one before, and every rerun agrees with what was accepted last."""
    suite = make_suite(matters=10, cells=[{"dataset": "pets", "loss": "nt_xent"}])
    reference, nights = accepted(nt_xent=runs(FIRST)), {}
    findings = []
    for step in range(1, 5):
        lower = runs([score - 6 * step for score in FIRST])
        findings.append(judge_suite(suite, new(nt_xent=lower), reference, nights).cells[0])
        reference = replace(accepted(nt_xent=lower), first=first_references(reference, new(nt_xent=lower)))
        nights[f"2026010{step}T000000Z"] = {CELL: lower}
    assert all(cell.score is not None and cell.score.finding is not Finding.REGRESSION for cell in findings)
    last = findings[-1]
    assert last.finding is last.drift.finding is Finding.REGRESSION
    assert (last.drift.accepted, last.drift.new) == (300.5, pytest.approx(300.5 - 15))
    assert "since 2026-01-02 (mean of the newest 4 reruns" in last.drift.metric
    assert [name for name, _ in last.trend] == [f"2026010{step}T000000Z" for step in range(1, 4)]
    result = judge_suite(suite, new(nt_xent=lower), reference, nights)
    cell = next(one for one in answers_about_suite(result, suite, new(nt_xent=lower), reference) if one.closest == CELL)
    for part in ("rsum of the newest reruns: ", "since 2026-01-02 (mean of the newest"):
        assert any(part in note for note in cell.notes)


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [(CONDITIONS, True), (OTHER_CODE, True), (OTHER_CONFIG, False), (OTHER_DATA, False)],
    ids=["the same", "other code", "another config", "other data"],
)
def test_what_was_accepted_first_is_kept_while_config_and_data_stay(conditions, kept: bool, tmp_path: Path) -> None:
    before = accepted(nt_xent=runs(FIRST), triplet=runs(FIRST))
    again = first_references(before, new(nt_xent=runs([290.0, 291.0], conditions=conditions)))
    assert list(again) == ([CELL] if kept else [])
    third = first_references(replace(before, first=again), new(nt_xent=runs([280.0, 281.0])))
    first = third[CELL]
    assert first.when == before.when and set(first.values[1]) == {"val/rsum"}
    written = replace(before, first=third)
    write_accepted(tmp_path / "quick.accepted.json", written)
    assert read_accepted(tmp_path / "quick.accepted.json", "quick") == written
    result = judge_suite(make_suite(), new(nt_xent=runs(FIRST, conditions=conditions), triplet=runs(FIRST)), written)
    assert (result.cells[0].drift is not None) == kept


def test_a_reference_that_was_never_replaced_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "quick.accepted.json"
    assert read_accepted(path, "quick") is None
    write_accepted(path, accepted(nt_xent=runs(FIRST)))
    assert read_accepted(path, "quick") == accepted(nt_xent=runs(FIRST))


def test_nights_are_read_from_summaries_and_only_comparable_ones_count(tmp_path: Path) -> None:
    def write(name: str, conditions, scores: list[float], *, missing: dict[str, str] | None = None) -> Path:
        one = runs(scores, conditions=conditions)
        cell = {"values": {str(seed): run for seed, run in one.values.items()}, "missing": missing or {}}
        directory = tmp_path / name
        directory.mkdir()
        (directory / JOURNAL_FILE).touch()
        cell["conditions"] = msgspec.to_builtins(conditions)
        (directory / SUMMARY).write_text(json.dumps({"ended": 1.0, "finding": "pass", "runs": {CELL: cell}}))
        return directory

    finished = [
        write("1", OTHER_CODE, [310.0, 312.0]),
        write("2", OTHER_CONFIG, [400.0, 402.0]),
        write("4", CONDITIONS, [404.0], missing={"2": "diverged"}),
        write("5", CONDITIONS, [290.0, 292.0]),
    ]
    found = comparable(read_nights(finished), CELL, runs([300.0, 301.0]))
    means = {name: one.runs(name, "val/rsum").measure("val/rsum") for name, one in found.items()}
    assert {name: mean and mean.mean for name, mean in means.items()} == {"1": 311.0, "5": 291.0}


def test_only_the_newest_nights_and_the_seeds_that_all_of_them_have_are_averaged() -> None:
    past = [[0.0, 0.0], *[[290.0, 292.0, 999.0]] * (WINDOW - 2), [280.0, 282.0]]
    nights = {str(number): {CELL: runs(scores)} for number, scores in enumerate(past)}
    reference = accepted(nt_xent=runs(FIRST))
    first = {CELL: replace(runs(FIRST), when="2026-01-02T03:04:05Z")}
    suite = make_suite(cells=[{"dataset": "pets", "loss": "nt_xent"}])
    newest = new(nt_xent=runs([270.0, 272.0, 999.0]))
    change = judge_suite(suite, newest, replace(reference, first=first), nights).cells[0].drift
    assert change.new == pytest.approx((291 * (WINDOW - 2) + 281 + 271) / WINDOW)
    assert change.seeds == (6, 2)


HISTORIES = 20_000


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0], ids="{} of the variance of a seed is the same every night".format)
@pytest.mark.parametrize(
    "seeds",
    [(6, 3), pytest.param((3, 6), marks=pytest.mark.proof), pytest.param((2, 2), marks=pytest.mark.proof)],
    ids=str,
)
@pytest.mark.parametrize("same_seeds", [True, False], ids=["the reference has the nights' seeds", "it has others"])
def test_no_drift_is_called_one_as_seldom_as_stated(shared: float, seeds: tuple[int, int], *, same_seeds: bool) -> None:
    """Nights that agree to the last digit, nights that share nothing, and between; every drop matters here."""
    rng = np.random.default_rng(8)
    level = 0.02
    of_seed = rng.standard_normal((HISTORIES, max(seeds) * 2))
    noise = rng.standard_normal((HISTORIES, WINDOW + 1, max(seeds) * 2))
    scores = np.sqrt(shared) * of_seed[:, None] + np.sqrt(1 - shared) * noise
    reference = scores[:, 0, : seeds[0]]
    start = 0 if same_seeds else seeds[0]
    nights = scores[:, 1:, start : start + seeds[1]]
    freedom = sum(seeds) - 2
    spread = np.sqrt((reference.var(-1) * seeds[0] + nights[:, -1].var(-1) * seeds[1]) / freedom)
    drop = reference.mean(-1) - nights.mean((1, 2))
    found = is_found(drop, standard_error(1.0, seeds) * spread, freedom, matters=0.0, level=level)
    assert found.mean() <= level + 2 * np.sqrt(level / HISTORIES)
    for index in range(20):
        window: list[CellRecord] = [runs(list(values), first=1 + start) for values in nights[index]]
        first = replace(runs(list(reference[index])), when="2026-01-02")
        one = compare_drift(first, window, "val/rsum", matters=1e-9, level=level_of(level, 1))
        assert one is not None and (one.finding is Finding.REGRESSION) == found[index]


@pytest.mark.parametrize("shared", [0.0, 1.0], ids=["nights share nothing", "nights agree to the last digit"])
def test_a_drift_as_large_as_the_detectable_is_found_at_least_as_often_as_stated(shared: float) -> None:
    rng = np.random.default_rng(9)
    seeds, freedom, rule = (6, 3), 7, {"matters": 1.0, "level": 0.01}
    drift = detectable(standard_error(1.0, seeds), freedom, **rule)
    reference = rng.standard_normal((HISTORIES, 6))
    of_seed, noise = rng.standard_normal((HISTORIES, 1, 3)), rng.standard_normal((HISTORIES, WINDOW, 3))
    nights = np.sqrt(shared) * of_seed + np.sqrt(1 - shared) * noise - drift
    spread = np.sqrt((5 * reference.var(-1, ddof=1) + 2 * nights[:, -1].var(-1, ddof=1)) / freedom)
    drop = reference.mean(-1) - nights.mean((1, 2))
    found = is_found(drop, standard_error(1.0, seeds) * spread, freedom, **rule)
    assert found.mean() >= POWER - 0.01


def test_a_reference_that_cannot_be_written_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(AcceptedError, match=r"missing/suite.json: cannot be written: No such file or directory"):
        write_accepted(tmp_path / "missing" / "suite.json", accepted())
