"""The scheduler: like is compared with like, on the best value so far, and a restart judges as before."""

import json
import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.sections import Scheduler
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.caveats import without_graphs
from orchestrator.results.confirmation_plan import repeat
from orchestrator.tuner.actor import Step
from orchestrator.tuner.scheduler import Halving, Median, RecordingScheduler, StudyScheduler
from tests.support.experiments import add_trial, make_experiment, reopened, start

STOP, CONTINUE = "STOP", "CONTINUE"


def running(ledger: Ledger, loss: str = "nt_xent") -> Trial:
    return add_trial(ledger, [], loss=loss, state=TrialState.RUNNING)


def report(scheduler: StudyScheduler, trial: Trial, epoch: int, value: float) -> str:
    ray_trial = SimpleNamespace(config={"trial": trial.id})
    return scheduler.on_trial_result(None, ray_trial, {"step": Step(epoch, {"val/rsum": value})})  # type: ignore[arg-type]


def test_a_trial_finishes_with_its_last_epoch(ledger: Ledger) -> None:
    scheduler, trial = StudyScheduler(make_experiment(), ledger), running(ledger)
    assert [report(scheduler, trial, epoch, float(epoch)) for epoch in range(1, 7)] == [CONTINUE] * 5 + [STOP]
    assert trial.state is TrialState.FINISHED


def test_an_epoch_of_a_trial_that_has_ended_is_not_recorded_and_judges_no_other(ledger: Ledger) -> None:
    scheduler, gone, other = StudyScheduler(make_experiment(), ledger), running(ledger), running(ledger)
    report(scheduler, gone, 1, 50.0)
    ledger.end(gone, TrialState.FAILED, "its machine is gone")
    assert report(scheduler, gone, 2, 99.0) == STOP
    assert (gone.state, gone.last_epoch, gone.best_value) == (TrialState.FAILED, 1, 50.0)
    assert [report(scheduler, other, epoch, 60.0) for epoch in (1, 2)] == [CONTINUE, CONTINUE]


def test_the_worse_half_of_a_study_is_stopped_and_other_studies_do_not_count(ledger: Ledger) -> None:
    scheduler = StudyScheduler(make_experiment(), ledger)
    good, bad, other = running(ledger), running(ledger), running(ledger, "triplet_sh")
    assert report(scheduler, good, 1, 100.0) == CONTINUE
    assert report(scheduler, other, 1, 1.0) == CONTINUE
    assert report(scheduler, bad, 1, 99.0) == STOP
    assert (good.state, bad.state, other.state) == ("running", "stopped_early", "running")


def test_the_best_value_so_far_counts_not_the_last(ledger: Ledger) -> None:
    scheduler = StudyScheduler(make_experiment(), ledger)
    first, second = running(ledger), running(ledger)
    for epoch, value in ((1, 50.0), (2, 60.0)):
        report(scheduler, first, epoch, value)
    assert report(scheduler, second, 1, 70.0) == CONTINUE
    assert report(scheduler, second, 2, 10.0) == CONTINUE


def test_without_a_scheduler_nothing_is_stopped(ledger: Ledger) -> None:
    scheduler = StudyScheduler(make_experiment(scheduler={"name": "none"}), ledger)
    first, second = running(ledger), running(ledger)
    assert [report(scheduler, first, 1, 9.0), report(scheduler, second, 1, 1.0)] == [CONTINUE, CONTINUE]


@pytest.mark.parametrize(
    ("step", "state", "error"),
    [
        (Step(2, diverged="train/loss is nan"), TrialState.DIVERGED, "train/loss is nan"),
        (Step(0, refused="no such dataset"), TrialState.FAILED, "no such dataset"),
    ],
)
def test_what_is_no_epoch_ends_the_trial(ledger: Ledger, step: Step, state: TrialState, error: str) -> None:
    scheduler, trial = StudyScheduler(make_experiment(), ledger), running(ledger)
    report(scheduler, trial, 1, 100.0)
    assert scheduler.judge(trial, step) is state
    assert (trial.error, trial.last_epoch) == (error, 1)


def test_a_damaged_checkpoint_is_written_down_once(ledger: Ledger) -> None:
    scheduler, trial = StudyScheduler(make_experiment(), ledger), running(ledger)
    for _ in range(2):
        scheduler.judge(trial, Step(1, {"val/rsum": 1.0}, damage=("epoch_0002/state.pt: damaged",)))
    assert trial.damage == ("epoch_0002/state.pt: damaged",)


def test_a_repeated_report_is_dropped(ledger: Ledger) -> None:
    scheduler, trial = StudyScheduler(make_experiment(), ledger), running(ledger)
    for epoch in (1, 2, 1, 2, 3):
        assert report(scheduler, trial, epoch, 10.0 * epoch) == CONTINUE
    assert {epoch: metrics["val/rsum"] for epoch, metrics in trial.epochs.items()} == {1: 10.0, 2: 20.0, 3: 30.0}


def play(path: Path, experiment: Experiment, stops: set[int]) -> dict[str, str]:
    """Let eight trials of two studies report in a fixed random order; after some reports, begin with a new process."""
    ledger = Ledger(path)
    start(ledger, experiment)
    for loss in ("nt_xent", "triplet_sh") * 4:
        running(ledger, loss)
    scheduler = StudyScheduler(experiment, ledger)
    draw = random.Random(0)
    epochs: dict[str, int] = defaultdict(int)
    for moment in range(60):
        if moment in stops:
            ledger.close()
            ledger = Ledger(path)
            scheduler = StudyScheduler(experiment, ledger)
        trial_id, value = draw.choice(list(ledger.history.trials)), draw.uniform(0, 100)
        trial = ledger.history.trials[trial_id]
        if trial.state is TrialState.RUNNING:
            epochs[trial_id] += 1
            report(scheduler, trial, epochs[trial_id], value)
    ledger.close()
    return {trial.id: f"{trial.state} {trial.last_epoch}" for trial in ledger.history.trials.values()}


def test_a_restart_changes_no_verdict(tmp_path: Path) -> None:
    experiment = make_experiment()
    whole = play(tmp_path / "a.jsonl", experiment, set())
    assert play(tmp_path / "b.jsonl", experiment, {5, 17, 18, 40}) == whole
    assert {"stopped_early", "finished"} <= {row.split()[0] for row in whole.values()}


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
def test_a_trial_continues_unless_it_is_below_the_median(others: list[float], value: float, continues: bool) -> None:
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
    with reopened(ledger) as again:
        scheduler, trial = StudyScheduler(make_experiment(), again), again.history.trials[candidate.id]
        assert scheduler.judge(trial, Step(1, {"val/rsum": 1.0})) is TrialState.RUNNING


def test_a_trial_whose_patience_is_over_has_finished_also_after_a_restart(ledger: Ledger) -> None:
    trial = add_trial(ledger, [], state=TrialState.RUNNING)
    trial.config = replace(trial.config, training=replace(trial.config.training, epochs=9, patience=2))
    scheduler = RecordingScheduler(ledger)
    values = [10.0, 12.0, 12.0, 11.0]
    states = [scheduler.judge(trial, Step(epoch, {"val/rsum": value})) for epoch, value in enumerate(values, 1)]
    assert states == [TrialState.RUNNING] * 3 + [TrialState.FINISHED]
    with reopened(ledger) as again:
        found = again.history.trials[trial.id]
        assert (found.state, found.last_epoch) == (TrialState.FINISHED, 4)


def test_why_no_graph_replays_the_steps_is_recorded_once_and_said(ledger: Ledger) -> None:
    scheduler, trial, other = RecordingScheduler(ledger), running(ledger), running(ledger)
    why = "pixels are decoded by the CPU"
    for epoch, step in enumerate((None, why, why), start=1):
        scheduler.judge(trial, Step(epoch, {"val/rsum": 1.0}, not_replayed=step))
    scheduler.judge(other, Step(1, {"val/rsum": 1.0}))
    recorded = [json.loads(line).get("not_replayed") for line in ledger.path.read_text().splitlines() if why in line]
    assert recorded == [why]
    with reopened(ledger) as again:
        trials = again.history.trials
        assert [trials[each.id].not_replayed for each in (trial, other)] == [why, None]
        assert without_graphs(trials.values()) == [f"1 trial trained without CUDA graphs: {why}."]
