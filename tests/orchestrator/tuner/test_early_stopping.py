"""The rules that end trials early, at their boundaries: medians, minimum numbers, grace and brackets."""

from dataclasses import replace

import pytest

from orchestrator.experiment.sections import Scheduler
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.results.confirmation_plan import repeat
from orchestrator.tuner.actor import Step
from orchestrator.tuner.scheduler import Halving, Median, RecordingScheduler, StudyScheduler
from tests.support.experiments import add_trial, make_experiment

EPOCHS = 27


def median_rule(grace: int = 1, least: int = 1) -> Median:
    return Median(Scheduler(name="median", grace_epochs=grace, min_trials=least))


@pytest.mark.parametrize(
    ("others", "value", "continues"),
    [
        pytest.param([10.0, 20.0, 30.0], 20.0, True, id="equal to the median"),
        pytest.param([10.0, 20.0, 30.0], 19.9, False, id="below it"),
        pytest.param([10.0, 20.0], 15.0, True, id="the mean of the middle two"),
        pytest.param([10.0, 20.0], 14.9, False, id="below the mean of the middle two"),
        pytest.param([10.0, 10.0, 90.0], 11.0, True, id="below the mean, above the median"),
    ],
)
def test_a_trial_continues_while_it_is_no_lower_than_the_median_of_the_others(
    others: list[float], value: float, continues: bool
) -> None:
    rule = median_rule()
    for number, other in enumerate(others):
        rule.may_continue(f"other{number}", number, 3, other)
    rule.may_continue("elsewhere", 8, 4, 1000.0)
    assert rule.may_continue("own", 9, 3, value) is continues
    assert rule.may_continue("own", 9, 3, value) is continues, "its own value is not among those of the others"


def test_the_median_stops_nobody_before_the_grace_is_over_or_beside_too_few_others() -> None:
    rule = median_rule(grace=3, least=2)
    for epoch in (2, 3):
        rule.may_continue("first", 0, epoch, 100.0)
        assert rule.may_continue("second", 1, epoch, 1.0), "beside one other"
    assert rule.may_continue("third", 2, 2, 0.5), "in its grace"
    assert not rule.may_continue("third", 2, 3, 0.5), "in the last epoch of the grace, beside two others"


def rungs(rule: Halving, number: int) -> list[int]:
    """Return the epochs at which a trial that is worse than all others of its number is stopped."""
    stopped = []
    for epoch in range(1, EPOCHS):
        for other in range(3):
            rule.may_continue(f"good{number}-{epoch}-{other}", number, epoch, 100.0)
        if not rule.may_continue(f"bad{number}-{epoch}", number, epoch, 1.0):
            stopped.append(epoch)
    return stopped


def test_trials_take_turns_in_brackets_that_begin_to_judge_one_after_the_other() -> None:
    rules = Scheduler(name="hyperband", grace_epochs=1, reduction_factor=3, brackets=3)
    brackets = Halving(EPOCHS, rules)
    assert [rungs(brackets, number)[0] for number in range(4)] == [1, 3, 9, 1]


def test_a_confirmation_that_is_in_the_journal_judges_no_trial_of_the_search(ledger: Ledger) -> None:
    """Values of a confirmation's epochs would raise the bar for the search after a restart."""
    candidate = add_trial(ledger, [], state=TrialState.RUNNING)
    for index in range(4):
        ledger.report(ledger.begin(repeat(candidate, index, 100 + index)), 1, {"val/rsum": 500.0}, TrialState.RUNNING)
    ledger.close()
    again = Ledger(ledger.path)
    scheduler = StudyScheduler(make_experiment(), again)
    trial = again.history.trials[candidate.id]
    assert scheduler.judge(trial, Step(1, {"val/rsum": 1.0})) is TrialState.RUNNING
    again.close()


def test_a_trial_whose_patience_is_over_has_finished_also_after_a_restart(ledger: Ledger) -> None:
    trial = add_trial(ledger, [], state=TrialState.RUNNING)
    trial.config = replace(trial.config, training=replace(trial.config.training, epochs=9, patience=2))
    scheduler = RecordingScheduler(ledger)
    values = [10.0, 12.0, 12.0, 11.0]
    assert [scheduler.judge(trial, Step(epoch, {"val/rsum": value})) for epoch, value in enumerate(values, 1)] == [
        TrialState.RUNNING,
        TrialState.RUNNING,
        TrialState.RUNNING,
        TrialState.FINISHED,
    ]
    ledger.close()
    again = Ledger(ledger.path)
    assert again.history.trials[trial.id].state is TrialState.FINISHED
    assert again.history.trials[trial.id].last_epoch == 4
    again.close()
