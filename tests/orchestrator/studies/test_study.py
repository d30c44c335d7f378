"""Studies: published settings first, in turns; a restart suggests the same; what a sampler is shown; planned trials."""

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from optuna.distributions import FloatDistribution
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import TrialCreated
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.studies.samplers import make_sampler
from orchestrator.studies.study import BEST, Known, Studies
from orchestrator.tuner.actor import Step
from orchestrator.tuner.scheduler import RecordingScheduler
from orchestrator.tuner.source import PlannedTrials
from search_spaces import SPACES
from search_spaces.space import Range
from tests.orchestrator.studies.test_samplers import make, points
from tests.support.experiments import make_experiment, reopened, start
from trainables.config import TrainingConfig, TrialConfig

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


def test_interrupted_trials_are_issued_again_under_their_ids(ledger: Ledger) -> None:
    studies = Studies(make_experiment(), ledger)
    first = [(trial.id, trial.params) for _ in range(2) if (trial := studies.next())]
    with reopened(ledger) as again:
        studies = Studies(make_experiment(), again)
        assert studies.outstanding == 8
        *known, third = [(trial.id, trial.params) for _ in range(3) if (trial := studies.next())]
        assert known == first
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


def test_restarts_change_no_suggestion_of_a_partly_shown_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.studies.study.NEWEST", 6)
    monkeypatch.setattr("orchestrator.studies.study.BEST", 3)
    experiment = make(sampler="tpe", trials=20)
    whole = points(tmp_path / "a.jsonl", experiment, [])
    assert points(tmp_path / "b.jsonl", experiment, [8, 1, 5]) == whole
    monkeypatch.undo()
    assert points(tmp_path / "c.jsonl", experiment, []) != whole, "what is shown decides what is suggested"


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
    assert studies.next().study == nt_xent


def plan(count: int = 3) -> list[TrialCreated]:
    config = TrialConfig(dataset="pets", training=TrainingConfig(epochs=2)).to_dict()
    planned = TrialCreated(
        trial="", stage=Stage.CONFIRM, candidate=None, study="pets-vsepp-nt_xent", number=0, params={}, config=config
    )
    return [structs.replace(planned, trial=f"best-seed{seed}", number=seed) for seed in range(count)]


def test_planned_trials_come_once_in_their_order(ledger: Ledger) -> None:
    source, judge = PlannedTrials(plan, ledger), RecordingScheduler(ledger)
    assert source.outstanding == 3
    first, second = source.next(), source.next()
    assert [judge.judge(first, Step(epoch, {"val/rsum": 5.0 - epoch})) for epoch in (1, 2)] == ["running", "finished"]
    assert judge.judge(second, Step(1, {"val/rsum": 1.0})) is TrialState.RUNNING
    with reopened(ledger) as again:
        source = PlannedTrials(plan, again)
        assert source.outstanding == 2
        issued = [source.next(), source.next(), source.next()]
        assert [trial and trial.id for trial in issued] == ["best-seed1", "best-seed2", None]
        assert len(again.history.trials) == 3


def test_the_search_knows_nothing_of_planned_trials(ledger: Ledger) -> None:
    experiment = make_experiment()
    start(ledger, experiment)
    PlannedTrials(plan, ledger).next()
    studies = Studies(experiment, ledger)
    assert studies.outstanding == 8
    first = studies.next()
    assert (first.id, first.stage) == ("pets-vsepp-nt_xent-0000", Stage.SEARCH)
    assert ledger.history.study("pets-vsepp-nt_xent") == [first]


COMPLETE, PRUNED, RUNNING, FAIL = OptunaState.COMPLETE, OptunaState.PRUNED, OptunaState.RUNNING, OptunaState.FAIL

VALUES = st.integers(0, 4).map(float)
"""Few different values, so that many are equal."""


def frozen(number: int, state: OptunaState, *values: float, epoch: int = 1) -> FrozenTrial:
    return FrozenTrial(
        number=number,
        trial_id=number,
        state=state,
        value=None,
        values=list(values) if state is COMPLETE else None,
        datetime_start=None,
        datetime_complete=None,
        params={"x": 0.5},
        distributions={"x": FloatDistribution(0, 1)},
        user_attrs={},
        system_attrs={},
        intermediate_values={epoch: values[0]} if len(values) == 1 and state is PRUNED else {},
    )


@st.composite
def studies(draw: st.DrawFn, goals: int) -> list[FrozenTrial]:
    states = draw(st.lists(st.sampled_from([COMPLETE, PRUNED, RUNNING, FAIL]), max_size=25))
    return [
        frozen(number, state, *(draw(VALUES) for _ in range(goals)), epoch=draw(st.integers(1, 3)))
        for number, state in enumerate(states, start=1)
    ]


def numbers(trials: list[FrozenTrial]) -> list[int]:
    return [trial.number for trial in trials]


def fill(directions: list[str], trials: list[FrozenTrial], order: random.Random) -> Known:
    """Take in trials that all run at first, and end in some order, some of them with another value before their own."""
    known = Known(directions)
    for trial in trials:
        known.put(frozen(trial.number, RUNNING))
    for trial in order.sample(trials, len(trials)):
        if order.random() < 0.3:
            known.put(frozen(trial.number, COMPLETE, *(order.random() * 4 for _ in directions)))
        known.put(trial)
    return known


@given(trials=studies(1), order=st.randoms(use_true_random=False), direction=st.sampled_from(["maximize", "minimize"]))
def test_the_best_the_newest_and_the_running_are_shown(
    trials: list[FrozenTrial], order: random.Random, direction: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.studies.study.NEWEST", 6)
        patch.setattr("orchestrator.studies.study.BEST", 3)
        known = fill([direction], trials, order)
        sign = 1 if direction == "maximize" else -1
        complete = sorted((one for one in trials if one.state is COMPLETE), key=lambda one: -sign * (one.value or 0))
        pruned = sorted(
            (one for one in trials if one.state is PRUNED),
            key=lambda one: min((-epoch, -sign * value) for epoch, value in one.intermediate_values.items()),
        )
        running = [one for one in trials if one.state is RUNNING]
        expected = {*numbers((complete + pruned)[:3]), *numbers(trials[-6:]), *numbers(running)}
        assert numbers(known.shown()) == (sorted(expected) if len(trials) > 6 else numbers(trials))
        assert known.all() == trials


def betters(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(value >= than for value, than in zip(one, other, strict=True))


@given(trials=studies(2), order=st.randoms(use_true_random=False))
def test_of_several_objectives_the_front_is_shown(trials: list[FrozenTrial], order: random.Random) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.studies.study.NEWEST", 4)
        known = fill(["maximize", "minimize"], trials, order)
        values = {one.number: (one.values[0], -one.values[1]) for one in trials if one.state is COMPLETE}
        front = {number for number, own in values.items() if not any(betters(than, own) for than in values.values())}
        running = {one.number for one in trials if one.state is RUNNING}
        expected = {*front, *running, *numbers(trials[-4:])}
        assert numbers(known.shown()) == (sorted(expected) if len(trials) > 4 else numbers(trials))


def test_the_best_that_are_shown_are_all_that_optunas_tpe_takes_for_good_ones() -> None:
    """So that the density of the good ones is that of the whole study."""
    assert optuna.samplers._tpe.sampler.default_gamma(5000) == BEST


ENDS = [TrialState.FINISHED, TrialState.STOPPED_EARLY, TrialState.FINISHED, TrialState.DIVERGED]
TOLD = {TrialState.FINISHED: COMPLETE, TrialState.STOPPED_EARLY: PRUNED, TrialState.DIVERGED: FAIL}


def test_suggestions_are_those_of_a_study_that_optuna_keeps_itself(ledger: Ledger) -> None:
    """The oracle is told of each trial as it ends, as Optuna is meant to be used."""
    search = {"sampler": "tpe", "trials": 24, "training": {"learning_rate": [1e-5, 1e-2]}}
    experiment = make_experiment(losses=["nt_xent"], search=search)
    (cell,) = experiment.cells()
    oracle = optuna.create_study(direction="maximize")
    source, live = Studies(experiment, ledger), []
    first = list(cell.space.first_points())
    for number, end in zip(range(24), itertools.cycle(ENDS)):
        trial = source.next()
        if number < len(first):
            oracle.sampler = RandomSampler(seed=0)
            oracle.enqueue_trial(dict(first[number]))
        else:
            oracle.sampler = make_sampler("tpe", cell.space, cell.seed, number, 24)
        asked = oracle.ask()
        cell.space.suggest(asked)
        assert asked.params == trial.params, f"trial {number}"
        live.append((trial, asked, end))
        if len(live) == 3:
            # The middle one of three that run at a time ends first.
            trial, asked, end = live.pop(1)
            value = 100 - abs(trial.params["temperature"] - 0.05) * 100 + number % 3
            for epoch in (1, 2):
                ledger.report(trial, epoch, {"val/rsum": value * epoch}, end if epoch == 2 else TrialState.RUNNING)
                asked.report(value * epoch, epoch)
            if end is TrialState.DIVERGED:
                ledger.end(trial, end, "not finite")
            source.observe(trial)
            oracle.tell(asked, value * 2 if TOLD[end] is COMPLETE else None, state=TOLD[end])


@pytest.mark.parametrize("loss", SPACES)
def test_a_trial_of_the_journal_has_the_distributions_with_which_it_was_drawn(ledger: Ledger, loss: str) -> None:
    experiment = make_experiment(losses=[loss], models=["head"], search={"sampler": "random", "trials": 8})
    source = Studies(experiment, ledger)
    trials = list(iter(source.next, None))
    (study,) = source._studies.values()
    for trial, known in zip(trials, study.known().shown(), strict=True):
        drawn: Any = optuna.create_study(sampler=RandomSampler(seed=1))
        drawn.enqueue_trial(dict(trial.params))
        asked = drawn.ask()
        study.cell.space.suggest(asked)
        assert (known.params, known.distributions) == (asked.params, asked.distributions)
