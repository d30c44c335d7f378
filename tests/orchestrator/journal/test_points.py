"""Which epoch, and which mean of several trainings, stands for a setting, and by which metric settings are compared."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.experiment.sections import Budget
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.points import best_points, points_of
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.answers import summarise
from orchestrator.results.caveats import remarks
from orchestrator.results.confirmation import confirmations, metrics_of
from orchestrator.results.confirmation_plan import choose_candidates
from orchestrator.results.confirmation_plan import repeat as repeat_of
from orchestrator.results.winner import find_winners
from orchestrator.searches.budget import BudgetMeter
from orchestrator.searches.display import Progress
from orchestrator.tuner.actor import Step
from orchestrator.tuner.scheduler import StudyScheduler
from tests.support.experiments import add_trial, make_experiment, open_test, plan, reopened, start
from tests.support.records import append
from trainables.config import TrialConfig

STUDY = "pets-vsepp-nt_xent"


def add(ledger: Ledger, temperature: float, values: list[float], state: TrialState = TrialState.FINISHED) -> Trial:
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
    assert point.newest_best == (2, 60.0)


def test_a_reader_is_told_of_replicates_and_by_how_much_they_differ(lucky: Ledger) -> None:
    trials = lucky.history.study(STUDY)
    # Deviations from the means 94 and 101: 14, 26, 12, and 1, 1; three degrees of freedom.
    expected = ((14**2 + 26**2 + 12**2 + 1 + 1) / 3) ** 0.5
    repeated = "3 trials repeated 2 settings with other seeds; each setting has their mean"
    assert remarks(trials) == [f"{repeated}, with a standard deviation of {expected:.2g}."]


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
    with reopened(ledger) as again:
        for meter in (live, BudgetMeter(budget, again.history)):
            assert (meter.limit(), meter.since_best(STUDY)) == (limit, 1), "the means are 80, 100 and 94"


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


def trial_of(values: list[float], **fields: object) -> Trial:
    plain = TrialConfig(dataset="pets", loss="nt_xent", loss_parameters={"temperature": 0.1}).to_dict()
    config = TrialConfig.from_dict({**plain, **fields})
    trial = Trial("a", "s", 0, {}, config, 0.0)
    trial.epochs.update({epoch: {"val/rsum": value} for epoch, value in enumerate(values, start=1)})
    return trial


@pytest.mark.parametrize(
    ("values", "epoch", "best"),
    [
        ([1.0, 3.0, 3.0, 2.0], 2, [1.0, 3.0, 3.0, 3.0]),
        ([3.0, 3.0], 1, [3.0, 3.0]),
        ([-2.0, -1.0], 2, [-2.0, -1.0]),
        ([], None, []),
    ],
)
def test_of_equal_epochs_the_first_is_the_best(values: list[float], epoch: int | None, best: list[float]) -> None:
    trial = trial_of(values)
    assert trial.best_epoch == epoch
    assert trial.best_value == (max(values) if values else None)
    assert list(trial.running_best().values()) == best


@pytest.mark.parametrize(("values", "found"), [([1.0, 9.0, 1.0], {"temperature": 0.06}), ([], {})])
def test_a_learned_parameter_has_the_value_that_it_had_reached(values: list[float], found: dict[str, float]) -> None:
    trial = trial_of(values, loss_parameters={"temperature": "learned", "gate": None})
    for epoch, metrics in trial.epochs.items():
        trial.epochs[epoch] = {**metrics, "loss/temperature": 0.08 - epoch / 100}
    assert trial.loss_parameters_at_best == pytest.approx({"gate": None, **found})
    assert trial.parameters["temperature"] == "learned"
    assert trial.parameters_at_best["temperature"] == pytest.approx(found.get("temperature", "learned"))


def test_setbacks_are_counted_since_the_newest_epoch_and_without_those_for_want_of_memory(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0], state=TrialState.RUNNING)

    def counts() -> tuple[int, int, int]:
        return trial.retries, trial.setbacks, trial.memory_retries

    for cause in (None, "memory", None):
        append(ledger, "trial_retried", trial=trial.id, cause=cause, error="")
    assert counts() == (3, 2, 1)
    ledger.report(trial, 2, {"val/rsum": 1.0}, TrialState.RUNNING)
    assert counts() == (3, 0, 1)


def other_metric(ledger: Ledger, study: str, rsum: float, own: float) -> Trial:
    """Write down a trial whose study selects its epochs by another metric than the experiment."""
    number = len(ledger.history.trials)
    config = replace(add_trial(ledger, [1.0], state=TrialState.FAILED).config, metric="val/i2t_r1")
    trial = ledger.create(study, number, {}, config)
    metrics = {"val/rsum": rsum, "val/i2t_r1": own}
    ledger.report(trial, 1, metrics, TrialState.FINISHED)
    return trial


def test_winners_are_compared_by_the_metric_of_the_experiment(ledger: Ledger) -> None:
    other_metric(ledger, "a", 10.0, 90.0)
    better = other_metric(ledger, "b", 20.0, 50.0)
    assert find_winners(ledger.history) == {"pets": better}


def test_the_best_so_far_is_that_of_the_metric_of_the_experiment(ledger: Ledger) -> None:
    other_metric(ledger, "a", 10.0, 90.0)
    better = other_metric(ledger, "b", 20.0, 50.0)
    progress = Progress(ledger.history, 5, 6)
    assert progress.best().first is better
    assert "best NT-Xent 20.0 (τ = 0.1)" in progress.counts()


def test_a_target_is_a_value_of_the_metric_of_the_experiment(ledger: Ledger) -> None:
    meter = BudgetMeter(Budget(target=60.0), ledger.history)
    ledger.listeners.append(meter.listen)
    other_metric(ledger, "a", 50.0, 90.0)
    assert meter.limit() is None
    other_metric(ledger, "a", 60.0, 1.0)
    assert meter.limit() == "target"


def repeat(ledger: Ledger, candidate: Trial, seed: int, values: list[float]) -> Trial:
    trial = ledger.begin(repeat_of(candidate, seed, seed))
    for epoch, value in enumerate(values, start=1):
        state = TrialState.FINISHED if epoch == len(values) else TrialState.RUNNING
        ledger.report(trial, epoch, {"val/rsum": value, "val/rsum_best": max(values[:epoch])}, state)
    return trial


def test_a_confirmation_neither_reaches_a_target_nor_fills_a_plateau(ledger: Ledger) -> None:
    meter = BudgetMeter(Budget(target=60.0, plateau=2), ledger.history)
    ledger.listeners.append(meter.listen)
    candidate = add_trial(ledger, [50.0])
    for seed in (5, 6, 7):
        repeat(ledger, candidate, seed, [70.0 - 10 * seed])
    repeat(ledger, candidate, 8, [99.0])
    assert (meter.limit(), meter.since_best(candidate.study)) == (None, 0)


def test_a_confirmed_trial_counts_with_its_best_epoch(ledger: Ledger) -> None:
    start(ledger, make_experiment(confirm={"top": 1, "seeds": 2}))
    candidate = add_trial(ledger, [50.0])
    plan(ledger, candidate)
    fades, lasts = repeat(ledger, candidate, 0, [10.0, 90.0, 20.0]), repeat(ledger, candidate, 6, [10.0, 20.0, 80.0])
    open_test(ledger, [fades, lasts])
    assert metrics_of(trial_of([]), ledger.history) == {}, "before the first epoch"
    assert metrics_of(fades, ledger.history) == {"val/rsum": 90.0, "test/rsum": 90.0}
    confirmation = confirmations(ledger.history)["pets"]
    assert confirmation.champion == fades
    assert confirmation.verdict.candidates[0].mean("val/rsum") == 85.0
