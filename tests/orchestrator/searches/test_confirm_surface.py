"""A search that ends with the setting to use of its surface, and confirms it beside its best trials."""

from pathlib import Path

import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage
from orchestrator.results.bands import setting_to_use
from orchestrator.results.confirmation_plan import surface_trials
from orchestrator.searches.resuming import confirm_experiment
from orchestrator.searches.search import run_search
from tests.support.experiments import make_experiment
from tests.support.fake_workload import FakeWorkload
from tests.support.in_process import without_ray

WORKLOAD = FakeWorkload(noise=1.0)


def experiment(trials: int = 14, **confirm: object) -> Experiment:
    chosen = {"top": 1, "seeds": 2, **confirm}
    return make_experiment(losses=["nt_xent"], search={"trials": trials}, scheduler={"name": "none"}, confirm=chosen)


def searched(wanted: Experiment, folder: Path, places: int = 1, *, confirm_alone: bool = False) -> History:
    with without_ray(places):
        return run_search(wanted, WORKLOAD, folder, quiet=True, confirm_alone=confirm_alone).history


@pytest.mark.parametrize("places", [1, 4])
def test_the_last_trial_has_the_setting_to_use_and_is_confirmed(tmp_path: Path, places: int) -> None:
    wanted = experiment(surface=True)
    history = searched(wanted, tmp_path, places)
    (cell,) = wanted.cells()
    trials = history.study(cell.name)
    assert len(trials) == wanted.trials_in(cell) == 15
    setting = setting_to_use(cell, trials[:-1])
    assert setting is not None and trials[-1].params == pytest.approx(setting)
    assert all(trial.ended_after <= trials[-1].created_after for trial in trials[:-1]), "it waits for the others"
    (candidate,) = surface_trials(wanted, history)
    assert candidate.params == trials[-1].params
    confirmed = {trial.candidate for trial in history.stage(Stage.CONFIRM)}
    assert candidate.id in confirmed and len(confirmed) >= 2
    assert wanted.most_confirmations() == {cell.name: 6}


def test_a_search_that_is_over_gets_the_setting_afterwards(tmp_path: Path) -> None:
    without = searched(experiment(), tmp_path)
    wanted = confirm_experiment(tmp_path / "tiny", without, {"surface": True})
    history = searched(wanted, tmp_path)
    (cell,) = wanted.cells()
    assert len(without.study(cell.name)) == 14
    assert [trial.id for trial in history.study(cell.name)][:14] == [trial.id for trial in without.study(cell.name)]
    (candidate,) = surface_trials(wanted, history)
    assert candidate.id in {trial.candidate for trial in history.stage(Stage.CONFIRM)}


def test_without_a_surface_the_last_trial_is_no_candidate(tmp_path: Path) -> None:
    wanted = experiment(trials=4, surface=True)
    history = searched(wanted, tmp_path)
    (cell,) = wanted.cells()
    assert len(history.study(cell.name)) == 5
    assert surface_trials(wanted, history) == []


def test_the_last_trial_of_a_grid_without_a_surface_repeats_a_point(tmp_path: Path) -> None:
    values = {"nt_xent": {"temperature": {"values": [0.05, 0.1, 0.2]}}}
    wanted = make_experiment(
        losses=["nt_xent"],
        search={"sampler": "grid", "trials": 16, "space": values},
        scheduler={"name": "none"},
        confirm={"top": 1, "seeds": 2, "surface": True},
    )
    history = searched(wanted, tmp_path)
    (cell,) = wanted.cells()
    *grid, last = history.study(cell.name)
    assert [trial.params for trial in grid] == cell.space.grid()
    assert last.params in cell.space.grid() and last.candidate in {trial.id for trial in grid}
    assert surface_trials(wanted, history) == []
