"""What a sampler knows of the trials so far, and which studies get another one."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.studies.study import Studies
from search_spaces.space import Range
from tests.support.experiments import make_experiment, start

TEMPERATURES = [0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.4]
RISING, FALLING = list(range(1, 9)), list(range(8, 0, -1))


def suggest(path: Path, values: Sequence[float], state: TrialState) -> float:
    """Return what CMA-ES suggests after trials that reached some values in their second of three epochs."""
    experiment = make_experiment(losses=["nt_xent"], search={"sampler": "cmaes", "trials": 20})
    (cell,) = experiment.cells()
    ledger = Ledger(path)
    start(ledger, experiment)
    for number, (temperature, value) in enumerate(zip(TEMPERATURES, values, strict=True)):
        params = {"temperature": temperature}
        trial = ledger.create(cell.name, number, params, experiment.trial_config(cell, params))
        for epoch, rsum in enumerate((0.0, float(value), 0.5), start=1):
            ledger.report(trial, epoch, {"val/rsum": rsum}, state if epoch == 3 else TrialState.RUNNING)
    suggested = Studies(experiment, ledger).next()
    ledger.close()
    assert suggested is not None
    return float(suggested.params["temperature"])


def test_a_trial_that_was_stopped_early_counts_with_its_best_value(tmp_path: Path) -> None:
    stopped = {
        name: suggest(tmp_path / f"{name}.jsonl", values, TrialState.STOPPED_EARLY)
        for name, values in {"rising": RISING, "falling": FALLING}.items()
    }
    assert stopped["rising"] > stopped["falling"], "the distribution moves to where values are high"
    assert stopped["rising"] == suggest(tmp_path / "finished.jsonl", RISING, TrialState.FINISHED)


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_further_objectives_are_those_of_the_best_epoch(ledger: Ledger, direction: str) -> None:
    search = {
        "sampler": "random",
        "trials": 4,
        "objectives": [{"metric": "cocos/i2t_negatives_per_query", "direction": direction}],
    }
    experiment = make_experiment(losses=["nt_xent"], search=search)
    studies = Studies(experiment, ledger)
    trial = studies.next()
    assert trial is not None
    for epoch, (rsum, negatives) in enumerate([(1.0, 70.0), (3.0, 50.0), (2.0, 60.0)], start=1):
        state = TrialState.FINISHED if epoch == 3 else TrialState.RUNNING
        ledger.report(trial, epoch, {"val/rsum": rsum, "cocos/i2t_negatives_per_query": negatives}, state)
    studies.observe(trial)
    (study,) = studies._studies.values()
    (told,) = study.known().shown()
    assert told.values == [3.0, 50.0]


BOUNDS = {
    "logarithmic": Range(0.001, 10.0, log=True),
    "linear": Range(-2.0, 6.0),
    "whole": Range(2, 50, whole=True),
    "whole and logarithmic": Range(2, 50, log=True, whole=True),
}


@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)
def test_a_place_between_the_ends_of_a_range_goes_to_a_value_and_back(bound: Range) -> None:
    assert (bound.at(0.0), bound.at(1.0)) == (bound.low, bound.high)
    assert (bound.share_of(bound.low), bound.share_of(bound.high)) == (0.0, 1.0)
    for place in (0.1, 0.5, 0.8):
        value = bound.at(place)
        assert isinstance(value, int) == bound.whole
        assert bound.at(bound.share_of(value)) == pytest.approx(value)
    middle = (bound.low * bound.high) ** 0.5 if bound.log else (bound.low + bound.high) / 2
    assert bound.share_of(middle) == pytest.approx(0.5)


def test_a_study_that_is_closed_gets_no_new_trial_until_it_is_open_again(ledger: Ledger) -> None:
    nt_xent, triplet = (cell.name for cell in make_experiment().cells())
    closed = {nt_xent}
    studies = Studies(make_experiment(), ledger, closed.__contains__)
    assert studies.outstanding == 4, "of two studies of four trials"
    issued = [trial.study for _ in range(4) if (trial := studies.next())]
    assert issued == [triplet] * 4
    assert studies.next() is None
    closed.clear()
    again = studies.next()
    assert again is not None and again.study == nt_xent
