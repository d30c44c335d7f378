"""Studies: published settings first, in turns, and a restart that suggests what would have come anyway."""

from contextlib import closing
from pathlib import Path

import pytest
from optuna.trial import TrialState as OptunaState

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.studies.study import Studies
from tests.orchestrator.studies.test_samplers import make, points
from tests.support.experiments import make_experiment, start

NT_XENT, TRIPLET = "pets-vsepp-nt_xent", "pets-vsepp-triplet_sh"


def test_published_settings_come_first_and_studies_take_turns(ledger: Ledger) -> None:
    studies = Studies(make_experiment(), ledger)
    trials = [trial for _ in range(4) if (trial := studies.next())]
    assert [trial.id for trial in trials] == [f"{study}-{n}" for n in ("0000", "0001") for study in (NT_XENT, TRIPLET)]
    assert [trial.params for trial in trials[:2]] == [{"temperature": 0.1}, {"margin": 0.2}]


def test_a_grid_is_walked_once(ledger: Ledger) -> None:
    space = {"nt_xent": {"temperature": {"values": [0.3, 0.1, 0.2]}}}
    experiment = make_experiment(losses=["nt_xent"], search={"sampler": "grid", "trials": 10, "space": space})
    studies = Studies(experiment, ledger)
    assert studies.outstanding == 3
    assert [trial.params["temperature"] for trial in iter(studies.next, None)] == [0.3, 0.1, 0.2]


def test_interrupted_trials_are_issued_again_under_their_ids(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path / "journal.jsonl")) as ledger:
        start(ledger, make_experiment())
        studies = Studies(make_experiment(), ledger)
        first = [(trial.id, trial.params) for _ in range(2) if (trial := studies.next())]
    with closing(Ledger(tmp_path / "journal.jsonl")) as ledger:
        studies = Studies(make_experiment(), ledger)
        assert studies.outstanding == 8
        *again, third = [(trial.id, trial.params) for _ in range(3) if (trial := studies.next())]
        assert again == first
        assert third[0] == f"{NT_XENT}-0001"


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
    trial = studies.next()
    assert trial is not None
    for epoch, rsum in enumerate([1.0, 3.0, 2.0], start=1):
        is_end = epoch == 3 and state in (TrialState.FINISHED, TrialState.STOPPED_EARLY)
        ledger.report(trial, epoch, {"val/rsum": rsum}, state if is_end else TrialState.RUNNING)
    if state in (TrialState.DIVERGED, TrialState.FAILED):
        ledger.end(trial, state, "no luck")
    studies.observe(trial)
    if replayed:
        studies = Studies(experiment, ledger)
    (seen,) = studies._studies[NT_XENT].known().shown()
    assert (seen.state, seen.value) == (told, value)
    assert seen.intermediate_values == {1: 1.0, 2: 3.0, 3: 3.0}


def test_a_restart_changes_no_suggestion_of_a_study_that_is_not_shown_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.studies.study.NEWEST", 6)
    monkeypatch.setattr("orchestrator.studies.study.BEST", 3)
    experiment = make(sampler="tpe", trials=20)
    whole = points(tmp_path / "a.jsonl", experiment, [])
    assert points(tmp_path / "b.jsonl", experiment, [8, 1, 5]) == whole
    monkeypatch.undo()
    assert points(tmp_path / "c.jsonl", experiment, []) != whole, "what is shown decides what is suggested"
