"""Answers at equal budget, from a journal to sentences, tables and figures."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.report.page import Page
from orchestrator.report.render import render_page
from orchestrator.results.answers import Summary, analyses_of
from orchestrator.results.equal_budget import (
    FEWEST,
    Curve,
    best_quantiles,
    crossings,
    equal_budgets,
    expected_best,
    optimism_of,
    searched_losses,
)
from tests.support.experiments import add_repeats, make_experiment, open_test, start

STEADY, LUCKY = (50.0, 51.0, 52.0, 53.0), (20.0, 30.0, 40.0, 60.0)


def begin(folder: Path, **changes: object) -> Ledger:
    ledger = Ledger(folder / "journal.jsonl")
    start(ledger, make_experiment(confirm={"top": 1, "seeds": 2}, **changes))
    return ledger


def add(
    ledger: Ledger,
    loss: str,
    value: float | None,
    *,
    epochs: int = 2,
    setting: float | None = None,
    seed: int = 0,
    end: TrialState = TrialState.FINISHED,
) -> Trial:
    """A trial with a setting of its own, or a given one; without a value, it diverged."""
    experiment = make_experiment(losses=["nt_xent", "triplet_sh", "triplet"])
    cell = next(cell for cell in experiment.cells() if cell.loss == loss)
    number = len(ledger.history.study(cell.name))
    name = "temperature" if loss == "nt_xent" else "margin"
    params = {name: 0.1 + number / 100 if setting is None else setting}
    config = replace(experiment.trial_config(cell, params), seed=seed)
    trial = ledger.create(cell.name, number, params, config)
    for epoch in range(1, epochs + 1):
        state = end if epoch == epochs and value is not None else TrialState.RUNNING
        metrics = {"val/rsum": (value or 10.0) - epochs + epoch, "time/epoch_seconds": 36.0}
        ledger.report(trial, epoch, metrics, state)
    if value is None:
        ledger.end(trial, TrialState.DIVERGED, "train/loss is nan")
    return trial


def searched(folder: Path, **changes: object) -> Ledger:
    ledger = begin(folder, **changes)
    for value in STEADY:
        add(ledger, "nt_xent", value)
    for value in LUCKY:
        add(ledger, "triplet_sh", value, epochs=4)
    return ledger


def said_of(ledger: Ledger) -> dict[str, list[str]]:
    """Return the sentences of each answer of the analyses."""
    return {answer.key: answer.sentences for answer in analyses_of(Summary(ledger.history), "pets")}


def test_curves_costs_and_crossings_of_two_losses(tmp_path: Path) -> None:
    summary = Summary(searched(tmp_path).history)
    found = summary.to_dict()["equal_budget"]["pets"]
    (table,) = (answer.table for answer in summary.answers if answer.key == "equal_budget")
    assert [column.key for column in table.columns][5:8] == ["best_of_1", "best_of_2", "best_of_4"]
    assert (found["metric"], found["hours_are"]) == ("val/rsum", "trial hours")
    lucky, steady = found["losses"]
    assert (lucky["label"], lucky["model"], lucky["loss"]) == ("triplet_sh", "vsepp", "triplet_sh")
    assert lucky["trials"] == [1, 2, 3, 4]
    assert lucky["expected"] == pytest.approx([37.5, np.mean([30, 40, 60, 40, 60, 60]), (40 + 60 * 3) / 4, 60.0])
    assert (lucky["epochs"], lucky["hours"]) == ([4, 8, 12, 16], pytest.approx([0.04, 0.08, 0.12, 0.16]))
    assert (steady["epochs"][0], steady["low"][0], steady["high"][0]) == (2, 50.0, 53.0)
    (comparison,) = found["comparisons"]
    assert (comparison["first"], comparison["other"], comparison["trials"]) == ("triplet_sh", "nt_xent", 4)
    assert comparison["difference"] == pytest.approx(7.0)
    (crossing,) = comparison["crossings"]["trials"]
    assert 2 < crossing["at"] < 3 or 3 < crossing["at"] < 4
    assert crossing["ahead"] == "triplet_sh"
    assert comparison["crossings"]["epochs"] == [], "at 8 epochs, which is all of it, nt_xent is still ahead"


def test_gpu_hours_are_those_of_the_share_that_a_trial_has(tmp_path: Path) -> None:
    found = equal_budgets(searched(tmp_path, resources={"cpus": 1, "gpus": 0.5}).history)["pets"]
    assert found["hours_are"] == "GPU hours"
    assert found["losses"][0]["hours"][0] == pytest.approx(0.02)


def test_trials_of_one_setting_are_one_candidate_and_failures_count_as_the_worst(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    add(ledger, "nt_xent", 40.0, setting=0.5, seed=1)
    add(ledger, "nt_xent", 60.0, setting=0.5, seed=2)
    for value in (30.0, 20.0, None):
        add(ledger, "nt_xent", value)
    (loss,) = searched_losses(list(ledger.history.trials.values()), "val/rsum", 1.0)
    assert loss.values.tolist() == [50.0, 30.0, 20.0, 20.0]
    assert loss.costs["epochs"] == 10 / 4


def test_with_few_trials_nothing_is_said(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    for value in range(FEWEST - 1):
        add(ledger, "nt_xent", float(value))
    add(ledger, "triplet_sh", None)
    assert equal_budgets(ledger.history) == {}
    add(ledger, "nt_xent", 9.0)
    assert equal_budgets(ledger.history) == {}, "one loss has no other to be compared with"
    assert not any(answer.key == "equal_budget" for answer in analyses_of(Summary(ledger.history), "pets"))
    assert Page(ledger.history).figures["budget"].options == []


def test_a_candidate_that_the_search_stopped_early_says_nothing_about_its_optimism(tmp_path: Path) -> None:
    ledger = searched(tmp_path)
    best = ledger.history.trials["pets-vsepp-triplet_sh-0003"]
    stopped = add(ledger, "nt_xent", 10.0, end=TrialState.STOPPED_EARLY)
    open_test(ledger, add_repeats(ledger, [(trial, [55.0] * 2) for trial in (best, stopped)]))
    assert optimism_of(ledger.history)["pets"]["excess"] == pytest.approx(60 - 55)


def test_a_search_too_small_for_curves_still_tells_its_optimism(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    best = add(ledger, "nt_xent", 60.0)
    open_test(ledger, add_repeats(ledger, [(best, [57.0] * 2)]))
    assert equal_budgets(ledger.history) == {}
    assert optimism_of(ledger.history)["pets"]["candidates"] == [{"trial": best.id, "search": 60.0, "fresh": 57.0}]
    (said,) = said_of(ledger)["optimism"]
    assert "the winner lost 3.0 val rsum (60.0 to 57.0)" in said


def test_a_setting_that_was_trained_twice_has_the_mean_by_which_the_search_chose_it(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    best = add(ledger, "nt_xent", 60.0)
    add(ledger, "nt_xent", 50.0, setting=0.1, seed=1).candidate = best.id
    open_test(ledger, add_repeats(ledger, [(best, [52.0] * 2)]))
    assert optimism_of(ledger.history)["pets"]["candidates"] == [{"trial": best.id, "search": 55.0, "fresh": 52.0}]


def test_the_leads_of_a_search_and_what_fresh_seeds_gave(tmp_path: Path) -> None:
    ledger = searched(tmp_path)
    best = ledger.history.trials["pets-vsepp-triplet_sh-0003"]
    steady = ledger.history.trials["pets-vsepp-nt_xent-0003"]
    open_test(ledger, add_repeats(ledger, [(best, (54.0, 56.0)), (steady, (52.0, 53.0))]))
    found = optimism_of(ledger.history)["pets"]
    assert found["excess"] == pytest.approx((60 - 55 + 53 - 52.5) / 2)
    said = said_of(ledger)
    first, second = said["optimism"]
    assert "the winner lost 5.0 val rsum (60.0 to 55.0)" in first and "2 candidates lost 2.8 val rsum" in second
    lead, crossing, further, band = said["equal_budget"]
    assert lead == "With 4 trials each, trials of Triplet SH lead those of NT-Xent by 7.0 val rsum on average."
    assert "probability" not in equal_budgets(ledger.history)["pets"]["comparisons"][0], "it would be no forecast"
    assert crossing.startswith("Trials of Triplet SH lead from 3 trials")
    assert crossing.endswith(" on; with less, those of NT-Xent lead.")
    assert further.startswith("4 further trials of NT-Xent") and "8 of 10 draws" in band
    page = Page(ledger.history)
    assert "Equal budget" in render_page(page)
    budgets = page.figures["budget"].options
    assert [option.label for option in budgets] == ["pets: trials", "pets: epochs", "pets: trial hours"]
    band, line = budgets[0].panels[0].data[:2]
    assert (line["name"], line["y"][-1], max(band["y"])) == ("Triplet SH", 60.0, 60.0)


@pytest.mark.parametrize(
    ("epochs", "leads"),
    [
        pytest.param(2, ["Trials of Triplet SH lead at every budget that both losses had."], id="equal costs"),
        pytest.param(
            40,
            [
                "Trials of Triplet SH lead at every budget in trials that both losses had.",
                "Trials of NT-Xent lead at every budget in epochs and hours that both losses had.",
            ],
            id="the loss ahead with equal trials is slow",
        ),
    ],
)
def test_the_loss_with_the_highest_value_need_not_lead_at_any_budget(
    tmp_path: Path, epochs: int, leads: list[str]
) -> None:
    ledger = begin(tmp_path)
    for value in (60.0, *range(10, 30)):
        add(ledger, "nt_xent", value)
    for value in STEADY:
        add(ledger, "triplet_sh", value if epochs == 2 else value - 20, epochs=epochs)
    lead, *crossing, _, _ = said_of(ledger)["equal_budget"]
    assert "trials of NT-Xent trail those of Triplet SH" in lead and crossing == leads


def test_of_losses_that_the_leader_leads_as_surely_the_closest_is_named(tmp_path: Path) -> None:
    ledger = begin(tmp_path, losses=["nt_xent", "triplet_sh", "triplet"])
    for lead, lucky, near in zip((60, 61, 62, 63), (49, 10, 11, 12), (45, 46, 44, 43), strict=True):
        add(ledger, "nt_xent", lead)
        add(ledger, "triplet_sh", lucky)
        add(ledger, "triplet_sh", lucky - 5 if lucky < 49 else 9)
        add(ledger, "triplet", near)
    # Triplet SH has the higher value, and the lower expected best.
    assert "trials of NT-Xent lead those of Triplet by 17.0 val rsum" in said_of(ledger)["equal_budget"][0]


LISTS = st.lists(st.integers(-50, 50), min_size=1, max_size=7).map(lambda values: np.array(values, dtype=float))


@given(LISTS)
def test_it_is_the_mean_over_all_subsets(values: np.ndarray) -> None:
    for drawn in range(1, len(values) + 1):
        bests = [max(subset) for subset in combinations(values, drawn)]
        assert expected_best(values, [drawn])[0] == pytest.approx(np.mean(bests), abs=1e-9)
        low, high = best_quantiles(values, [drawn])[:, 0]
        assert np.mean(np.array(bests) <= low) >= 0.1 - 1e-9
        assert np.mean(np.array(bests) < low) < 0.1
        assert np.mean(np.array(bests) <= high) >= 0.9 - 1e-9
    two_searches = expected_best(np.stack([values, -values]), [1])
    assert two_searches[:, 0] == pytest.approx([values.mean(), -values.mean()])


def test_between_whole_numbers_of_trials_a_budget_is_on_a_straight_line() -> None:
    values = np.array([1.0, 2.0, 4.0])
    found = Curve(values).at_budgets(10.0, np.array([10.0, 15.0, 20.0, 30.0]))
    assert found == pytest.approx([7 / 3, (7 / 3 + 10 / 3) / 2, 10 / 3, 4.0])


def test_a_loss_that_is_good_on_average_is_overtaken_by_one_with_the_best_trial() -> None:
    steady, lucky = Curve(np.array([5.0, 5.1, 5.2, 5.3])), Curve(np.array([1.0, 2.0, 3.0, 9.0]))
    (crossing,) = crossings(steady, lucky, (1.0, 1.0))
    assert crossing[1] is False
    at = crossing[0]
    assert steady.at_budgets(1.0, np.array([at - 0.1]))[0] > lucky.at_budgets(1.0, np.array([at - 0.1]))[0]
    assert steady.at_budgets(1.0, np.array([at + 0.1]))[0] < lucky.at_budgets(1.0, np.array([at + 0.1]))[0]
    assert crossings(steady, Curve(np.array([4.0, 4.1, 4.2, 4.3])), (1.0, 1.0)) == []
    assert crossings(steady, lucky, (1.0, 100.0)) == [], "no budget pays for a trial of both"
    # The first has 1 to 2 epochs, the second 4 to 8: no budget is of both.
    rising, level = Curve(np.array([0.0, 10.0])), Curve(np.array([8.0, 8.0]))
    assert crossings(rising, level, (1.0, 4.0)) == []
    assert crossings(rising, level, (0.0, 0.0)) == [], "trials that took no time have no budget"
    assert len(crossings(rising, level, (1.0, 1.0))) == 1


def test_repeated_searches_are_compared_at_the_budget_of_one_search(tmp_path: Path) -> None:
    ledger = searched(tmp_path)
    for loss, values in (("nt_xent", (1.0, 2.0, 3.0, 4.0)), ("triplet_sh", (5.0, 6.0, 7.0, 8.0))):
        for value in values:
            add(ledger, loss, value).search = 2
    (comparison,) = equal_budgets(ledger.history)["pets"]["comparisons"]
    assert comparison["trials"] == 4
