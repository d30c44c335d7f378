"""The searcher: published settings first, studies in turn, and a restart that suggests what would have come anyway."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState as OptunaState

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.studies.study import Studies
from orchestrator.tuner.issuer import Issuer
from tests.support.experiments import make_experiment, start
from tests.support.fake_workload import curve


def run(searcher: Issuer, ledger: Ledger, count: int) -> Iterator[dict[str, Any]]:
    """Take trials one after the other and finish each in three epochs."""
    for number in range(count):
        config = searcher.suggest(f"ray{number}")
        if config == "FINISHED":
            return
        trial = ledger.history.trials[config["trial"]]
        (parameter,) = trial.config.loss_parameters.values()
        for epoch in (1, 2, 3):
            state = TrialState.FINISHED if epoch == 3 else TrialState.RUNNING
            ledger.report(trial, epoch, {"val/rsum": curve(parameter, epoch)}, state)
        searcher.on_trial_complete(f"ray{number}", {})
        yield {"trial": trial.id, **trial.params}


def issuer(experiment: Experiment, ledger: Ledger) -> Issuer:
    """Return what Ray would ask."""
    return Issuer(Studies(experiment, ledger), experiment.resources.max_concurrent)


def suggestions(path: Path, experiment: Experiment, stops: list[int]) -> list[dict[str, Any]]:
    """Return all suggestions when the process ends after so many trials, again and again."""
    found: list[dict[str, Any]] = []
    for count in [*stops, 100]:
        ledger = Ledger(path)
        start(ledger, experiment)
        found += run(issuer(experiment, ledger), ledger, count)
        ledger.close()
    return found


def test_published_settings_come_first_and_studies_take_turns(ledger: Ledger) -> None:
    rows = list(run(issuer(make_experiment(), ledger), ledger, 4))
    names = [row.pop("trial") for row in rows]
    nt_xent, triplet = "pets-vsepp-nt_xent", "pets-vsepp-triplet_sh"
    assert names == [f"{nt_xent}-0000", f"{triplet}-0000", f"{nt_xent}-0001", f"{triplet}-0001"]
    assert rows[:2] == [{"temperature": 0.1}, {"margin": 0.2}]


def test_a_grid_is_walked_once(ledger: Ledger) -> None:
    space = {"nt_xent": {"temperature": {"values": [0.3, 0.1, 0.2]}}}
    experiment = make_experiment(losses=["nt_xent"], search={"sampler": "grid", "trials": 10, "space": space})
    searcher = issuer(experiment, ledger)
    assert Studies(experiment, ledger).outstanding == 3
    assert [row["temperature"] for row in run(searcher, ledger, 10)] == [0.3, 0.1, 0.2]


def test_interrupted_trials_are_issued_again_under_their_ids(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "journal.jsonl")
    start(ledger, make_experiment())
    searcher = issuer(make_experiment(), ledger)
    first = [searcher.suggest("a"), searcher.suggest("b")]
    ledger.close()
    again = Ledger(tmp_path / "journal.jsonl")
    assert Studies(make_experiment(), again).outstanding == 8
    searcher = issuer(make_experiment(), again)
    assert [searcher.suggest("c"), searcher.suggest("d")] == first
    assert searcher.suggest("e")["trial"] == "pets-vsepp-nt_xent-0001"
    again.close()


def test_no_more_trials_at_a_time_than_asked_for(ledger: Ledger) -> None:
    searcher = issuer(make_experiment(resources={"max_concurrent": 1}), ledger)
    searcher.suggest("a")
    assert searcher.suggest("b") is None
    searcher.on_trial_complete("a", error=True)
    assert searcher.suggest("b") is not None


STATES = [
    (TrialState.FINISHED, OptunaState.COMPLETE, 3.0),
    (TrialState.STOPPED_EARLY, OptunaState.PRUNED, 3.0),
    (TrialState.DIVERGED, OptunaState.FAIL, None),
    (TrialState.FAILED, OptunaState.FAIL, None),
    (TrialState.RUNNING, OptunaState.RUNNING, None),
]


@pytest.mark.parametrize(("state", "told", "value"), STATES)
@pytest.mark.parametrize("replayed", [False, True])
def test_optuna_is_told_what_happened_with_the_best_value(
    ledger: Ledger, state: TrialState, told: OptunaState, value: float | None, replayed: bool
) -> None:
    experiment = make_experiment(losses=["nt_xent"])
    studies = Studies(experiment, ledger)
    searcher = Issuer(studies)
    trial = ledger.history.trials[searcher.suggest("a")["trial"]]
    for epoch, rsum in enumerate([1.0, 3.0, 2.0], start=1):
        is_end = epoch == 3 and state in (TrialState.FINISHED, TrialState.STOPPED_EARLY)
        ledger.report(trial, epoch, {"val/rsum": rsum}, state if is_end else TrialState.RUNNING)
        searcher.on_trial_result("a", {})
    if state in (TrialState.DIVERGED, TrialState.FAILED):
        ledger.end(trial, state, "no luck")
    if replayed:
        studies = Studies(experiment, ledger)
    elif state is TrialState.FAILED:
        searcher.on_trial_complete("a", error=True)
        studies.observe(trial)
    elif state is not TrialState.RUNNING:
        searcher.on_trial_complete("a", {})
    (seen,) = studies._studies["pets-vsepp-nt_xent"].known().shown()
    assert (seen.state, seen.value) == (told, value)
    assert seen.intermediate_values == {1: 1.0, 2: 3.0, 3: 3.0}


def test_a_restart_changes_no_suggestion_of_a_study_that_is_not_shown_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.studies.study.NEWEST", 6)
    monkeypatch.setattr("orchestrator.studies.study.BEST", 3)
    experiment = make_experiment(losses=["nt_xent"], search={"sampler": "tpe", "trials": 20})
    whole = suggestions(tmp_path / "a.jsonl", experiment, [])
    assert suggestions(tmp_path / "b.jsonl", experiment, [8, 1, 5]) == whole
    monkeypatch.undo()
    assert suggestions(tmp_path / "c.jsonl", experiment, []) != whole, "what is shown decides what is suggested"
