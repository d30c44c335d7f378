"""Population-based training whose driver is killed, also while it decides: nothing comes out otherwise."""

import random
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.trial import Stage, Trial
from orchestrator.results.winner import find_winners
from orchestrator.tracking import default_uri
from tests.faults.driver import MOMENTS, Death
from tests.faults.invariants import assert_ended_once, assert_nothing_left, assert_sound, assert_tracked_once
from tests.faults.searches import Searches
from tests.orchestrator.studies.test_populations import outcome, population, search, temperatures
from tests.support.drifting_workload import EPOCHS, DriftingWorkload, learned

pytestmark = pytest.mark.proof

EXPERIMENT = population(8, confirm={"top": 1, "seeds": 2})


ALL = tuple(death for moment in MOMENTS for death in (Death("population_moved", moment), Death("trial_paused", moment)))


# What holds at every record is proved in CI by tests/faults/test_every_record.py, without processes.
@pytest.mark.proof
@pytest.mark.parametrize("deaths", [ALL[:1], ALL], ids=["once", "at all moments"])
def test_a_population_moves_on_as_if_its_driver_had_never_been_killed(
    searches: Searches, tmp_path: Path, deaths: tuple[Death, ...]
) -> None:
    undisturbed = search(tmp_path / "undisturbed", population(8))
    workload = DriftingWorkload(seconds=0.05, log=tmp_path / "trained.jsonl")
    for death in deaths:
        searches.die(EXPERIMENT, workload, death)
    if deaths == ALL:
        kill_at_random(searches, workload)
    searches.finish(EXPERIMENT, workload)
    history = searches.history()
    searched = History(trials={trial.id: trial for trial in history.stage(Stage.SEARCH)})
    assert outcome(searched) == outcome(undisturbed)
    records = read_journal(searches.output / "tiny" / "journal.jsonl")
    assert_ended_once(records, history)
    assert_tracked_once(default_uri(searches.output), history)
    assert_sound(searches.output, history)
    assert_nothing_left(searches.output, strays=False)
    assert_confirmed(history)
    assert_told(default_uri(searches.output), history)


def kill_at_random(searches: Searches, workload: DriftingWorkload) -> None:
    process = searches.start(EXPERIMENT, workload)
    seen = searches.records() + random.Random(0).randrange(3, 20)
    searches.wait_for(lambda history: searches.records() > seen, process)
    process.kill()
    process.join()


def assert_confirmed(history: History) -> None:
    """The winner's schedule was trained again, and comes to the same."""
    winner = find_winners(history)["pets"]
    repeats = [trial for trial in history.stage(Stage.CONFIRM) if trial.candidate == winner.id]
    assert [trial.best_value for trial in repeats] == pytest.approx([winner.best_value] * 2)
    assert learned(temperatures(winner.config)) == pytest.approx(winner.best_value)


def assert_told(uri: str, history: History) -> None:
    """MLflow has the temperature of every epoch as it was trained, and whose models a trial took over."""
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("tiny")
    assert experiment is not None
    runs = {run.data.tags.get("trial"): run for run in client.search_runs([experiment.experiment_id])}
    for trial in history.trials.values():
        run = runs[trial.id]
        told = {point.step: point.value for point in client.get_metric_history(run.info.run_id, "schedule/temperature")}
        assert told == {epoch: float(f"{in_epoch(trial, epoch):.6g}") for epoch in range(1, EPOCHS + 1)}
        names = [step.split(" after epoch ") for step in run.data.tags.get("lineage", "").split("; ") if step]
        assert names == [[move.source, str(move.epoch)] for move in trial.moves]
        files = [file.path for file in client.list_artifacts(run.info.run_id)]
        assert ("schedule.json" in files) == bool(trial.config.schedule)
        assert run.data.params["temperature"] == str(in_epoch(trial, 1))


def in_epoch(trial: Trial, epoch: int) -> float:
    """Return the temperature that a trial had in an epoch."""
    return temperatures(trial.config_in(epoch))[epoch - 1]
