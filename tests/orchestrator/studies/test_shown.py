"""What a sampler is shown: a short study whole, as Optuna itself would know it, and of a long study no more."""

import itertools
import random
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.studies.samplers import make_sampler
from orchestrator.studies.study import BEST, NEWEST, Known, Studies
from search_spaces import SPACES
from tests.support.experiments import make_experiment

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


def test_a_study_of_thousands_shows_no_more_than_one_of_hundreds() -> None:
    chance = random.Random(0)
    known = Known(["maximize"], [frozen(number, COMPLETE, chance.random()) for number in range(1, 5001)])
    found = known.shown()
    assert len(found) <= NEWEST + BEST
    best = sorted((trial.value or 0.0 for trial in known.all() if trial.state is not RUNNING), reverse=True)[:BEST]
    # All that Optuna's TPE takes for good ones, so that their density is that of the whole study.
    assert sorted((trial.value or 0.0 for trial in found), reverse=True)[:BEST] == best
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
        assert trial is not None
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
    experiment = make_experiment(losses=[loss], search={"sampler": "random", "trials": 8})
    source = Studies(experiment, ledger)
    trials = list(iter(source.next, None))
    (study,) = source._studies.values()
    for trial, known in zip(trials, study.known().shown(), strict=True):
        drawn: Any = optuna.create_study(sampler=RandomSampler(seed=1))
        drawn.enqueue_trial(dict(trial.params))
        asked = drawn.ask()
        study.cell.space.suggest(asked)
        assert (known.params, known.distributions) == (asked.params, asked.distributions)
