"""What every sampler has to do, and what each is for."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.journal import JournalError, read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import WarmStarted
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.analyses import pareto_fronts
from orchestrator.results.answers import summarise
from orchestrator.studies.past_searches import read_sources, start_warm
from orchestrator.studies.study import ShownTrials, Studies
from tests.support.experiments import begun, make_experiment, start
from trainables.errors import ConfigError

EVERY = ["tpe", "cmaes", "gp", "random", "qmc"]
SPACE = {"nt_xent": {"temperature": [0.01, 0.4]}}
COUNT = "cocos/i2t_queries_without_gradient"


def make(epochs: int = 2, beside: dict[str, Any] | None = None, **search: Any) -> Experiment:
    search = {"trials": 12, "space": SPACE, "training": {"learning_rate": "default"}, **search}
    return make_experiment(losses=["nt_xent"], training={"epochs": epochs, **(beside or {})}, search=search)


def value(trial: Trial) -> float:
    """Highest at a temperature of 0.05 and a learning rate of 2e-4."""
    temperature, rate = trial.params["temperature"], trial.params["training.learning_rate"]
    return 300 - 400 * abs(temperature - 0.05) - 2e4 * abs(rate - 2e-4)


def run(studies: Studies, ledger: Ledger, count: int, state: TrialState = TrialState.FINISHED) -> Iterator[Trial]:
    """Take trials one after the other; each ends after two epochs."""
    for _ in range(count):
        trial = studies.next()
        if trial is None:
            return
        for epoch in (1, 2):
            verdict = state if epoch == 2 else TrialState.RUNNING
            metrics = {"val/rsum": value(trial) - (2 - epoch), COUNT: 100 * trial.params["temperature"]}
            ledger.report(trial, epoch, metrics, verdict)
            studies.observe(trial)
        yield trial


def points(path: Path, experiment: Experiment, stops: list[int]) -> list[Any]:
    """Return what is suggested when the process ends after so many trials, again and again."""
    found: list[Any] = []
    for count in [*stops, 100]:
        ledger = Ledger(path)
        start(ledger, experiment)
        found += [dict(trial.params) for trial in run(Studies(experiment, ledger), ledger, count)]
        ledger.close()
    return found


@pytest.mark.parametrize("sampler", EVERY)
def test_a_restart_changes_nothing_and_no_suggestion_leaves_the_bounds(tmp_path: Path, sampler: str) -> None:
    experiment = make(sampler=sampler)
    whole = points(tmp_path / "a.jsonl", experiment, [])
    assert points(tmp_path / "b.jsonl", experiment, [1, 5, 0, 3]) == whole
    assert len(whole) == len({str(point) for point in whole}) == 12
    (cell,) = experiment.cells()
    for point in whole:
        assert all(cell.space.bounds()[name].contains(got) for name, got in point.items())


@pytest.mark.parametrize("sampler", EVERY)
def test_another_seed_suggests_something_else(tmp_path: Path, sampler: str) -> None:
    found = [points(tmp_path / f"{seed}.jsonl", make(sampler=sampler, seed=seed), [])[1:] for seed in (0, 1)]
    assert found[0] != found[1]


@pytest.mark.parametrize("sampler", EVERY)
@pytest.mark.parametrize("state", [TrialState.STOPPED_EARLY, TrialState.DIVERGED])
def test_trials_without_a_value_are_taken_in(ledger: Ledger, sampler: str, state: TrialState) -> None:
    studies = Studies(make(sampler=sampler), ledger)
    for trial in (studies.next() for _ in range(11)):
        if state is TrialState.DIVERGED:
            ledger.end(trial, state, "train/loss is nan")
        else:
            ledger.report(trial, 1, {"val/rsum": value(trial)}, state)
        studies.observe(trial)
    assert studies.next() is not None


@pytest.mark.parametrize("sampler", ["tpe", "cmaes", "gp"])
def test_models_beat_chance(tmp_path: Path, sampler: str) -> None:
    """Means of the last ten of thirty trials over three seeds; random search is the measure."""

    def late(name: str) -> float:
        total = 0.0
        for seed in range(3):
            ledger = Ledger(tmp_path / f"{name}{seed}.jsonl")
            experiment = make(sampler=name, seed=seed, trials=30)
            start(ledger, experiment)
            trials = list(run(Studies(experiment, ledger), ledger, 30))
            total += sum(map(value, trials[20:])) / 30
            ledger.close()
        return total

    assert late(sampler) > late("random")


def test_a_sobol_sequence_fills_the_box(tmp_path: Path) -> None:
    experiment = make(sampler="qmc", trials=34, space={"nt_xent": {"temperature": [0.01, 0.4]}})
    found = points(tmp_path / "q.jsonl", experiment, [])[2:]
    middles = {"temperature": math.sqrt(0.01 * 0.4), "training.learning_rate": math.sqrt(2e-5 * 2e-3)}
    halves = [tuple(point[name] > middle for name, middle in middles.items()) for point in found]
    assert len(set(halves)) == 4
    for index in range(2):
        assert abs(sum(half[index] for half in halves) - 16) <= 2


def test_known_points_come_right_after_the_published_ones(ledger: Ledger) -> None:
    studies = Studies(make(enqueue={"nt_xent": [{"temperature": 0.03}, {"temperature": 0.2}]}), ledger)
    first = [trial.params["temperature"] for trial in run(studies, ledger, 4)]
    assert first[:3] == [0.1, 0.03, 0.2] and first[3] not in first[:3]


@pytest.mark.parametrize("sampler", ["tpe", "gp", "random", "qmc"])
def test_several_objectives(tmp_path: Path, sampler: str) -> None:
    experiment = make(sampler=sampler, objectives=[{"metric": COUNT, "direction": "minimize"}])
    path = tmp_path / "journal.jsonl"
    whole = points(path, experiment, [4])
    assert len(whole) == 12
    ledger = Ledger(path)
    (study,) = Studies(experiment, ledger)._studies.values()
    told = study.known().shown()
    assert [trial.values for trial in told] == [
        [value(trial), 100 * trial.params["temperature"]] for trial in ledger.history.trials.values()
    ]
    front = pareto_fronts(ledger.history, experiment.search.goals)["pets"]
    goals = experiment.search.goals
    seen = optuna.create_study(storage=ShownTrials(told), directions=[goal.direction for goal in goals])
    # Optuna counts the trials from 1 here.
    assert {point.first.number + 1 for point in front} == {trial.number for trial in seen.best_trials}
    assert [row["trial"] for row in summarise(ledger.history)["pareto"]["pets"]] == [point.first.id for point in front]
    ledger.close()


def test_several_objectives_and_trials_that_end_otherwise(ledger: Ledger) -> None:
    studies = Studies(make(objectives=[{"metric": COUNT, "direction": "minimize"}]), ledger)
    list(run(studies, ledger, 2, TrialState.STOPPED_EARLY))
    list(run(studies, ledger, 9))
    (study,) = studies._studies.values()
    states = [trial.state for trial in study.known().shown()]
    assert states == [optuna.trial.TrialState.PRUNED] * 2 + [optuna.trial.TrialState.COMPLETE] * 9


def write_past(output: Path, **search: Any) -> Experiment:
    past = make(trials=8, sampler="random", seed=5, **search)
    with begun(output / "past", past) as ledger:
        list(run(Studies(past, ledger), ledger, 8))
    return past


def test_a_past_experiment_warms_a_new_one_and_is_then_no_longer_needed(tmp_path: Path) -> None:
    write_past(tmp_path)
    experiment = make(warm_start_from=["past"], space={"nt_xent": {"temperature": [0.01, 0.15]}})
    path = tmp_path / "journal.jsonl"
    ledger = Ledger(path)
    start(ledger, experiment)
    sources = read_sources(experiment, tmp_path)
    (told,) = start_warm(experiment, sources, ledger)
    assert start_warm(experiment, sources, ledger) == []
    fitting = [trial for trial in sources["past"].trials.values() if 0.01 <= trial.params["temperature"] <= 0.15]
    assert 0 < len(fitting) < 8
    assert ledger.history.warmed_by == {"past": len(fitting)}
    assert told.startswith(f"search.warm_start_from: past: {len(fitting)} trials taken, {8 - len(fitting)} passed over")
    (record,) = [record for record in read_journal(path) if isinstance(record, WarmStarted)]
    assert record.passed_over == 8 - len(fitting)
    first = [dict(trial.params) for trial in run(Studies(experiment, ledger), ledger, 3)]
    ledger.close()

    again = Ledger(path)
    (study,) = Studies(experiment, again)._studies.values()
    known = study.known().shown()
    assert [trial.value for trial in known[: len(fitting)]] == [value(trial) for trial in fitting]
    assert len(known) == len(fitting) + 3
    assert first[0]["temperature"] == 0.1
    again.close()


def test_a_past_experiment_that_does_not_fit_is_refused_or_passed_over(tmp_path: Path, ledger: Ledger) -> None:
    write_past(tmp_path)
    with pytest.raises(JournalError, match="no experiment of that name"):
        read_sources(make(warm_start_from=["nowhere"]), tmp_path)
    with pytest.raises(ConfigError, match="search.metric val/rsum, not val/i2t_r1"):
        read_sources(make(warm_start_from=["past"], metric="val/i2t_r1"), tmp_path)
    other = make(warm_start_from=["past"], training={})
    start_warm(other, read_sources(other, tmp_path), ledger)
    assert ledger.history.warmed_by == {"past": 0}


@pytest.mark.parametrize(
    ("changes", "images", "taken"),
    [
        ({}, None, 8),
        ({"beside": {"learning_rate": 1e-4}}, None, 8),
        ({"beside": {"cocos_every": 1}}, None, 8),
        ({"epochs": 30}, None, 0),
        ({"beside": {"embedding_size": 256}}, None, 0),
        ({"beside": {"batches": "images"}}, None, 0),
        ({}, 1000, 0),
    ],
    ids=str,
)
def test_trials_that_were_trained_or_rated_otherwise_are_passed_over_and_that_is_said(
    tmp_path: Path, ledger: Ledger, changes: dict[str, Any], images: int | None, taken: int
) -> None:
    write_past(tmp_path)
    other = make(**changes, warm_start_from=["past"]).model_copy(update={"val_images": images})
    (told,) = start_warm(other, read_sources(other, tmp_path), ledger)
    assert ledger.history.warmed_by == {"past": taken}
    assert told.startswith(f"search.warm_start_from: past: {taken} trials taken")
    assert ("8 passed over" in told) == (taken == 0)
