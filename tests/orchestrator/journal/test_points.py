"""Points: trainings of one setting count with their mean, and the lucky one of several never wins."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.points import best_points, points_of
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.answers import summarise
from orchestrator.results.caveats import caveats
from orchestrator.results.confirmation_plan import choose_candidates, published_default
from orchestrator.results.winner import find_winners
from orchestrator.searches.budget import BudgetMeter
from orchestrator.tuner.actor import Step
from orchestrator.tuner.scheduler import StudyScheduler
from tests.support.experiments import make_experiment, start

STUDY = "pets-vsepp-nt_xent"


def add(ledger: Ledger, temperature: float, values: list[float], state: TrialState = TrialState.FINISHED) -> Trial:
    """Write down a trial, which is a replicate where its temperature was tried before."""
    experiment = make_experiment()
    cell = next(cell for cell in experiment.cells() if cell.name == STUDY)
    trials = ledger.history.study(STUDY)
    same = [trial for trial in trials if trial.params["temperature"] == temperature]
    config = replace(experiment.trial_config(cell, {"temperature": temperature}), seed=len(same))
    candidate = same[0].id if same else None
    trial = ledger.create(STUDY, len(trials), {"temperature": temperature}, config, candidate)
    for epoch, value in enumerate(values, start=1):
        ends = epoch == len(values) and state is not TrialState.RUNNING
        ledger.report(trial, epoch, {"val/rsum": value}, state if ends else TrialState.RUNNING)
    return trial


@pytest.fixture
def lucky(ledger: Ledger) -> Ledger:
    """A setting with one lucky training of three, and another whose every training is better than their mean."""
    start(ledger, make_experiment())
    for value in (80.0, 120.0, 82.0):
        add(ledger, 0.1, [value - 5, value])
    for value in (100.0, 102.0):
        add(ledger, 0.3, [value, value - 9])
    return ledger


def test_the_luckiest_of_several_trainings_does_not_win(lucky: Ledger) -> None:
    history = lucky.history
    assert [(point.first.number, point.value) for point in best_points(history.study(STUDY))] == [(3, 101.0), (0, 94.0)]
    assert find_winners(history)["pets"].number == 3
    assert [trial.number for trial in choose_candidates(history, 1)] == [3, 0], "and the published settings"
    winner: dict[str, Any] = summarise(history)["winners"]["pets"]
    assert (winner["trial"], winner["seeds"], winner["val"]) == (f"{STUDY}-0003", 2, {"rsum": 101.0})


def test_the_published_settings_are_one_candidate(lucky: Ledger) -> None:
    default = published_default(lucky.history, "pets")
    assert default is not None
    assert default.number == 0


def test_trainings_that_did_not_finish_are_not_in_the_mean(ledger: Ledger) -> None:
    for values, state in (
        ([10.0], TrialState.STOPPED_EARLY),
        ([50.0, 60.0], TrialState.FINISHED),
        ([99.0], TrialState.RUNNING),
    ):
        add(ledger, 0.1, values, state)
    (point,) = points_of(ledger.history.study(STUDY))
    assert (point.state, point.value, len(point.finished)) == (TrialState.FINISHED, 60.0, 1)
    assert point.running_best() == {1: pytest.approx(53.0), 2: 60.0}


def test_a_reader_is_told_of_replicates_and_by_how_much_they_differ(lucky: Ledger) -> None:
    trials = lucky.history.study(STUDY)
    # Deviations from the means 94 and 101: 14, 26, 12, and 1, 1; three degrees of freedom.
    expected = ((14**2 + 26**2 + 12**2 + 1 + 1) / 3) ** 0.5
    repeated = "3 trials repeated 2 settings with other seeds; each setting has their mean"
    assert caveats(trials) == [f"{repeated}, with a standard deviation of {expected:.2g}."]


@pytest.mark.parametrize(("target", "limit"), [(105.0, None), (99.0, "target")])
def test_a_target_is_met_by_a_mean_and_a_later_process_counts_alike(
    ledger: Ledger, target: float, limit: str | None
) -> None:
    start(ledger, make_experiment())
    budget = make_experiment(budget={"target": target}).budget
    live = BudgetMeter(budget, ledger.history)
    ledger.listeners.append(live.listen)
    for value in (80.0, 120.0, 82.0):
        add(ledger, 0.1, [value])
    ledger.close()
    again = Ledger(ledger.path)
    for meter in (live, BudgetMeter(budget, again.history)):
        assert (meter.limit(), meter.since_best(STUDY)) == (limit, 1), "the means are 80, 100 and 94"
    again.close()


def test_a_replicate_is_judged_by_the_mean_and_after_a_finish_not_at_all(ledger: Ledger) -> None:
    start(ledger, make_experiment())
    scheduler = StudyScheduler(make_experiment(), ledger)

    def report(trial: Trial, epoch: int, value: float) -> TrialState:
        return scheduler.judge(trial, Step(epoch, {"val/rsum": value}))

    leader, bad = add(ledger, 0.1, [], TrialState.RUNNING), add(ledger, 0.3, [], TrialState.RUNNING)
    assert report(leader, 1, 100.0) is TrialState.RUNNING
    assert report(bad, 1, 20.0) is TrialState.STOPPED_EARLY
    again = add(ledger, 0.3, [], TrialState.RUNNING)
    assert report(again, 1, 110.0) is TrialState.RUNNING, "the mean, 65, is above the median of 100 and 20"
    for epoch in range(2, 7):
        report(leader, epoch, 100.0 + epoch)
    assert leader.state is TrialState.FINISHED
    unlucky = add(ledger, 0.1, [], TrialState.RUNNING)
    assert [report(unlucky, epoch, 1.0) for epoch in (1, 2)] == [TrialState.RUNNING] * 2
