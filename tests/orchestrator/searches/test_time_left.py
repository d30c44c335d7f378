"""The time left of a whole experiment against what it then takes, on a clock of the test's own."""

from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.journal.history import History, Spending
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.lock import hold
from orchestrator.journal.records import EpochEnded
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.confirmation_plan import repeat
from orchestrator.searches.display import EvaluationProgress, Progress, evaluation_displayed
from orchestrator.searches.status import Followed, read_status
from orchestrator.searches.time_left import PlannedWork, TimeLeft, TrainingRate, evaluation_seconds
from orchestrator.text.values import clock_text
from orchestrator.watch.experiments import stages_of
from tests.support.commands import CommandLine
from tests.support.experiments import add_trial, make_experiment, open_test, start
from tests.support.records import append

EPOCHS, EPOCH, START, TEST = 6, 10.0, 15.0, 4.0
"""Epochs of a training, seconds of an epoch, of the start of an actor's process, and of the evaluation of a model."""

EXPERIMENT = make_experiment(
    losses=["nt_xent"],
    search={"sampler": "random", "trials": 4},
    scheduler={"name": "none"},
    confirm={"top": 1, "seeds": 2, "published": "best"},
)


class Run:
    """One start of an experiment that trains one trial after the other, and notes each forecast with its date."""

    def __init__(self, ledger: Ledger, clock: list[float]) -> None:
        self.ledger, self.clock = ledger, clock
        self.forecasts: list[tuple[float, float]] = []
        start(ledger, EXPERIMENT)
        clock[0] += START

    def stage(self, stage: Stage, total: int) -> None:
        self.progress = Progress(self.ledger.history, total, PlannedWork(EXPERIMENT), stage)
        self.ledger.listeners.append(self.progress.pace.listen)

    def search(self, number: int, epochs: int = EPOCHS) -> Trial:
        (cell,) = EXPERIMENT.cells()
        params = {"temperature": 0.1 * (number + 1)}
        return self._train(self.ledger.create(cell.name, number, params, EXPERIMENT.trial_config(cell, params)), epochs)

    def confirm(self, candidate: Trial, index: int) -> Trial:
        return self._train(self.ledger.begin(repeat(candidate, index, 100 + index)), EPOCHS)

    def resume(self, trial: Trial) -> None:
        self._train(trial, EPOCHS)

    def _train(self, trial: Trial, epochs: int) -> Trial:
        append(self.ledger, "trial_started", trial=trial.id, gpus=0.0)
        for epoch in range(trial.last_epoch + 1, epochs + 1):
            self.clock[0] += EPOCH
            metrics = {
                "val/rsum": float(epoch),
                "train/loss": 1.0,
                "time/epoch_seconds": EPOCH,
                "time/train_seconds": EPOCH - TEST / 2,
            }
            self.ledger.report(trial, epoch, metrics, TrialState.FINISHED if epoch == EPOCHS else TrialState.RUNNING)
            left = self.progress.left()
            self.forecasts.append((self.clock[0], left.seconds))
        return trial


def test_the_time_left_is_that_of_the_whole_from_the_first_epoch_on_and_resumed(
    tmp_path: Path, clock: list[float]
) -> None:
    with closing(Ledger(tmp_path / "journal.jsonl")) as ledger:
        run = Run(ledger, clock)
        run.stage(Stage.SEARCH, 4)
        first = run.search(0)
        half = run.search(1, epochs=2)
    # Two hours pass before the experiment is resumed.
    killed_at, before = clock[0], run.forecasts
    clock[0] += 7200
    with closing(Ledger(tmp_path / "journal.jsonl")) as ledger:
        resumed = Run(ledger, clock)
        resumed.stage(Stage.SEARCH, 4)
        left = resumed.progress.left()
        assert left is not None, "known before the first epoch of this start"
        at_once = clock[0], left.seconds
        resumed.resume(ledger.history.trials[half.id])
        resumed.search(2)
        resumed.search(3)
        resumed.stage(Stage.CONFIRM, 4)
        repeats = [
            resumed.confirm(trial, index)
            for trial in (ledger.history.trials[first.id], ledger.history.trials[half.id])
            for index in (0, 1)
        ]
        append(ledger, "test_opened", dataset="pets", trials=[trial.id for trial in repeats])
        for trial in repeats:
            clock[0] += TEST
            append(ledger, "test_evaluated", trial=trial.id, metrics={"rsum": 1.0})
        ended = clock[0]
        assert resumed.progress.left() == TimeLeft({})
    for date, seconds in [at_once, *resumed.forecasts]:
        assert date + seconds == pytest.approx(ended, abs=1)
    # Before the kill, nothing of the break and of the second start was known.
    for date, seconds in before:
        assert date + seconds == pytest.approx(killed_at + (ended - killed_at) - 7200 - START, abs=1)


def test_the_stages_are_named_with_their_times() -> None:
    assert str(TimeLeft({"search": 840.0, "confirm": 1200.0, "test": 60.0})) == (
        "ETA 00:35:00: search 00:14:00, confirm 00:20:00, test 00:01:00"
    )
    assert str(TimeLeft({"test": 61.0})) == "ETA 00:01:01"
    assert clock_text(100 * 3600 + 59.9) == "100:00:59"


def test_a_budget_of_hours_bounds_the_search_and_nothing_else(ledger: Ledger) -> None:
    limited = EXPERIMENT.model_copy(update={"budget": EXPERIMENT.budget.model_copy(update={"hours": 0.01})})
    add_trial(ledger, [1.0] * EPOCHS, epoch_seconds=100.0)
    stages = PlannedWork(limited).left(ledger.history, 1.0).stages
    assert stages["search"] == pytest.approx(36, abs=5)
    assert stages["confirm"] == 4 * EPOCHS * 100


def test_a_study_with_slow_epochs_has_its_own_pace(ledger: Ledger) -> None:
    two = make_experiment(search={"sampler": "random", "trials": 2})
    add_trial(ledger, [1.0] * EPOCHS, epoch_seconds=1.0)
    add_trial(ledger, [1.0] * EPOCHS, loss="triplet_sh", epoch_seconds=100.0)
    assert PlannedWork(two).left(ledger.history, 1.0).stages["search"] == EPOCHS * 101


@pytest.mark.parametrize(
    ("work", "seconds", "prior", "rate"),
    [
        pytest.param(0.0, 0.0, (0.0, 0.0), None, id="nothing was trained"),
        pytest.param(30.0, 10.0, (0.0, 0.0), 3.0, id="the first start"),
        pytest.param(0.0, 0.0, (7200.0, 3600.0), 2.0, id="a start that has not trained yet"),
        pytest.param(600.0, 540.0, (3600.0, 3600.0), 1.1, id="both, and earlier starts count for a minute"),
    ],
)
def test_earlier_starts_give_the_first_rate(
    ledger: Ledger, work: float, seconds: float, prior: tuple[float, float], rate: float | None
) -> None:
    spending = Spending(training_seconds=prior[1])
    if prior[0]:
        add_trial(ledger, [1.0], epoch_seconds=prior[0])
    pace = TrainingRate(History(spending=spending, trials=ledger.history.trials))
    spending.training_seconds += seconds
    if work:
        pace.listen(EpochEnded(trial="a", epoch=1, metrics={"time/epoch_seconds": work}, state=TrialState.RUNNING))
    assert pace.rate == (None if rate is None else pytest.approx(rate))


def test_an_evaluation_on_test_is_shown(ledger: Ledger, clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    trials = [add_trial(ledger, [float(value)], epoch_seconds=1.0) for value in (1, 2, 3)]
    with evaluation_displayed(ledger, trials, quiet=False):
        append(ledger, "test_opened", dataset="pets", trials=[trial.id for trial in trials])
        for trial in trials:
            clock[0] += 40
            append(ledger, "test_evaluated", trial=trial.id, metrics={"rsum": 1.0})
            shown = EvaluationProgress.of(ledger.history)
            assert shown is not None and shown.line() in capsys.readouterr().out.splitlines()
    assert (shown := EvaluationProgress.of(ledger.history)) is not None and (shown.evaluated, shown.total) == (3, 3)
    for quiet, due in ((True, trials), (False, trials), (False, [])):
        with evaluation_displayed(ledger, due, quiet=quiet):
            assert capsys.readouterr().out == "", "nothing is left to evaluate, or nobody looks"


def test_the_line_about_test_has_the_time_left_by_the_models_so_far(ledger: Ledger, clock: list[float]) -> None:
    trials = [add_trial(ledger, [float(value)], epoch_seconds=1.0) for value in range(12)]
    shown = EvaluationProgress(ledger.history, [trial.id for trial in trials])
    ledger.listeners.append(shown.listen)
    assert shown.line() == "test: 0 of 12 models evaluated"
    append(ledger, "test_opened", dataset="pets", trials=[trial.id for trial in trials])
    for trial in trials[:7]:
        clock[0] += 9
        append(ledger, "test_evaluated", trial=trial.id, metrics={"rsum": 1.0})
    assert shown.line() == "test: 7 of 12 models evaluated · 00:00:45 left"
    clock[0] += 4
    assert shown.line() == "test: 7 of 12 models evaluated · 00:00:41 left", "the time passes inside a model, too"


def test_status_and_live_page_show_evaluation_and_time_left(
    tmp_path: Path, clock: list[float], cli: CommandLine
) -> None:
    with closing(Ledger(tmp_path / "journal.jsonl")) as ledger, hold(tmp_path):
        run = Run(ledger, clock)
        run.stage(Stage.SEARCH, 4)
        trials = [run.search(number) for number in range(2)]
        status = read_status(Followed(tmp_path))
        assert status.left is not None and status.test is None
        # Two trials, four trainings and the evaluation of four models are left.
        assert status.left.stages == pytest.approx({"search": 120, "confirm": 240, "test": 4 * TEST})
        trials += [run.search(number) for number in (2, 3)]
        repeats = [run.confirm(trial, index) for trial in trials[:2] for index in (0, 1)]
        append(ledger, "test_opened", dataset="pets", trials=[trial.id for trial in repeats])
        clock[0] += TEST
        append(ledger, "test_evaluated", trial=repeats[0].id, metrics={"rsum": 1.0})
        status = read_status(Followed(tmp_path))
        assert status.words.startswith("test running as")
        assert status.left is not None and status.left.stages == pytest.approx({"test": 3 * TEST})
        assert stages_of(status)[-1] == ("test", 1, 4, "1 of 4 models evaluated")
        shown, said = cli.shows("status", tmp_path), cli.json("status", tmp_path)
        assert "test: 1 of 4 models evaluated\n" in shown and "ETA 00:00:12" in shown
        assert said["test"] == {"evaluated": 1, "total": 4}
        assert said["seconds_left"] == pytest.approx({"test": 12.0, "total": 12.0})


def test_status_of_an_extended_search_has_the_time_of_its_search(tmp_path: Path, clock: list[float]) -> None:
    with closing(Ledger(tmp_path / "journal.jsonl")) as ledger, hold(tmp_path):
        run = Run(ledger, clock)
        run.stage(Stage.SEARCH, 4)
        trials = [run.search(number) for number in range(4)]
        repeats = [run.confirm(trial, index) for trial in trials[:2] for index in (0, 1)]
        open_test(ledger, repeats)
        more = EXPERIMENT.search.model_copy(update={"trials": 6})
        start(ledger, EXPERIMENT.model_copy(update={"search": more}))
        status = read_status(Followed(tmp_path))
        assert status.left is not None and status.left.stages == pytest.approx({"search": 120})
        run.search(4, epochs=2)
        status = read_status(Followed(tmp_path))
        assert status.left is not None and status.left.stages == pytest.approx({"search": 100})
        run.resume(ledger.history.trials["pets-vsepp-nt_xent-0004"])
        run.search(5)
        status = read_status(Followed(tmp_path))
        assert status.left is not None and status.left.stages == {}


def test_without_a_confirmation_the_winner_of_each_dataset_is_evaluated(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0] * EPOCHS, epoch_seconds=1.0)
    open_test(ledger, [trial])
    work = PlannedWork(make_experiment(datasets=["pets", "birds"]))
    seconds = ledger.history.spending.test_seconds
    assert work.left(ledger.history, 1.0, trainings=0).stages.get("test", 0.0) == pytest.approx(seconds)
    assert evaluation_seconds(ledger.history) == seconds
