"""What early epochs tell of the end: Kendall's tau by counting pairs, and what a reader is advised."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.history import History
from orchestrator.journal.points import points_by_study, points_of
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.answers import summarise
from orchestrator.results.early_epochs import (
    FEWEST,
    EarlyEpochs,
    describe_early_epochs,
    early_epochs,
    rank_correlations,
)
from tests.support.experiments import make_experiment
from trainables.config import TrialConfig

STUDY = "pets-vsepp-nt_xent"
CURVES = st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=FEWEST, max_size=9)


def history_of(curves: list[list[float]], experiment: Experiment | None = None, stopped: int = 0) -> History:
    """Return a study of one trial a curve, of which the last few were stopped early."""
    history = History(experiment=BegunExperiment.of((experiment or make_experiment(losses=["nt_xent"])).to_dict()))
    for number, curve in enumerate(curves):
        state = TrialState.FINISHED if number < len(curves) - stopped else TrialState.STOPPED_EARLY
        config = TrialConfig(dataset="pets", loss="nt_xent")
        trial = Trial(f"{STUDY}-{number}", STUDY, number, {}, config, 0.0, state=state)
        trial.epochs = {epoch: {"val/rsum": float(value)} for epoch, value in enumerate(curve, start=1)}
        history.trials[trial.id] = trial
    return history


def tau_b(first: list[int], second: list[int]) -> float | None:
    """Return tau-b by counting pairs; ``None`` where one of the two is constant."""
    agreeing = ties_first = ties_second = pairs = 0
    for (a, b), (c, d) in itertools.combinations(zip(first, second, strict=True), 2):
        pairs += 1
        ties_first, ties_second = ties_first + (a == c), ties_second + (b == d)
        agreeing += ((a > c) - (a < c)) * ((b > d) - (b < d))
    scale = ((pairs - ties_first) * (pairs - ties_second)) ** 0.5
    return agreeing / scale if scale else None


@given(curves=CURVES)
def test_tau_counts_the_pairs_that_stay_in_order(curves: list[list[int]]) -> None:
    best = [list(itertools.accumulate(curve, max)) for curve in curves]
    expected = {epoch: tau_b([one[epoch - 1] for one in best], [one[3] for one in best]) for epoch in (1, 2, 3)}
    settings, tau = rank_correlations(points_of(history_of(curves).trials.values()))
    assert settings == len(curves)
    assert tau == {epoch: pytest.approx(value) for epoch, value in expected.items() if value is not None}


def test_trials_that_were_stopped_early_and_too_few_trials_say_nothing() -> None:
    curves = [[float(number), 10.0 + number] for number in range(FEWEST + 2)]
    enough, few = (points_of(history_of(curves, stopped=stopped).trials.values()) for stopped in (2, 3))
    assert rank_correlations(enough) == (FEWEST, {1: pytest.approx(1.0)})
    assert rank_correlations(few) == (FEWEST - 1, {})


LATE = [[1.0 * (7 * number % 8), 2.0 * (5 * number % 8) + 7, 20.0 + number, 30.0 + number] for number in range(8)]
"""Curves whose order is another one until epoch 3."""


def test_a_grace_before_an_epoch_that_tells_is_warned_of() -> None:
    experiment = make_experiment(losses=["nt_xent"], training={"epochs": 4})
    summary = summarise(history_of(LATE, experiment))
    (sentence,) = [said for said in summary["caveats"]["pets"] if "Kendall" in said]
    assert sentence.startswith(f"{STUDY}: epoch 1 ranks trials as the end does with Kendall's tau ")
    assert sentence.endswith("so let the next search have overrides: [{losses: [nt_xent], grace_epochs: 3}].")
    told = summary["early_epochs"][STUDY]
    assert (told["settings"], told["grace_epochs"], told["first_telling_epoch"]) == (8, 1, 3)
    assert told["tau"]["3"] == pytest.approx(1.0)


ADVICE = [
    ({3: 0.7, 6: 0.8}, 3, "epoch 3 ranks trials as the end does with Kendall's tau 0.70 over 9 of 10 settings"),
    ({3: 0.1, 6: 0.2}, 3, "no later epoch before the last tells"),
    ({3: 0.6, 6: 0.2, 9: 0.9}, None, "epoch 9 is the first from which on Kendall's tau"),
    ({3: 0.1}, None, "no epoch before the last ranks trials as the end does"),
    ({3: 0.1, 6: 0.8}, 7, "epoch 6 is the first from which on"),
]


@pytest.mark.parametrize(("tau", "grace", "words"), ADVICE)
def test_what_is_said_fits_the_numbers(tau: dict[int, float], grace: int | None, words: str) -> None:
    (sentence,) = describe_early_epochs({"s": EarlyEpochs("nt_xent", 9, 10, tau, grace)})
    assert words in sentence


def test_the_few_that_the_scheduler_chose_are_no_evidence_against_an_epoch() -> None:
    (sentence,) = describe_early_epochs({"s": EarlyEpochs("nt_xent", 9, 20, {1: 0.0, 2: 0.9}, 1)})
    assert "over 9 of 20 settings" in sentence
    assert "overrides" not in sentence
    assert "a search with scheduler.name: none would tell" in sentence


def test_a_search_that_chose_the_loss_is_advised_of_one_grace() -> None:
    (sentence,) = describe_early_epochs({"s": EarlyEpochs("any", 9, 9, {1: 0.0, 2: 0.9}, 1)})
    assert "scheduler.grace_epochs: 2" in sentence


def test_the_grace_of_some_studies_differs() -> None:
    changes = [{"losses": ["triplet_sh"], "grace_epochs": 3}]
    experiment = make_experiment(overrides=changes)
    assert {cell.loss: cell.scheduler.grace_epochs for cell in experiment.cells()} == {"nt_xent": 1, "triplet_sh": 3}
    histories = history_of([[1.0, 2.0]] * FEWEST, experiment)
    assert early_epochs(histories, points_by_study(histories.trials.values())) == {}, "all alike: there is no order"
