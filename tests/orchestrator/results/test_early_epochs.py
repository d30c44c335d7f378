"""What early epochs tell of the end: Kendall's tau by counting pairs, and what a reader is advised."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.epochs import Epochs
from orchestrator.journal.history import History
from orchestrator.journal.points import points_by_study, points_of
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.analyses import FEWEST, describe_early_epochs, early_answer, early_epochs, rank_correlations
from orchestrator.results.answers import summarise
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
        trial.epochs = Epochs({epoch: {"val/rsum": float(value)} for epoch, value in enumerate(curve, start=1)})
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
    first, second = [said for said in summary["caveats"]["pets"] if "rank" in said or "stopped the best" in said]
    assert first.startswith("Epoch 1 of NT-Xent hardly ranks trials like the last epoch: Kendall's τ = ")
    assert second.endswith("set `overrides: [{losses: [nt_xent], grace_epochs: 3}]`.")
    told = summary["early_epochs"][STUDY]
    assert (told["settings"], told["grace_epochs"], told["first_telling_epoch"]) == (8, 1, 3)
    assert told["tau"]["3"] == pytest.approx(1.0)


@pytest.mark.parametrize("scheduler", ["asha", "none"])
def test_epochs_that_rank_trials_well_and_trials_that_nobody_stops_need_no_caveat(scheduler: str) -> None:
    curves = LATE if scheduler == "none" else [[10.0 + number, 20.0 + number, 30.0 + number] for number in range(8)]
    experiment = make_experiment(training={"epochs": len(curves[0])}, scheduler={"name": scheduler})
    summary = summarise(history_of(curves, experiment))
    assert summary["early_epochs"][STUDY]["settings"] == 8
    assert not [said for said in summary["caveats"]["pets"] if "rank" in said]


ADVICE = [
    ({3: 0.7, 6: 0.8}, 3, "Epoch 3 of NT-Xent ranks", "τ = 0.70 over 9 of 10 settings."),
    ({3: 0.1, 6: 0.2}, 3, "The scheduler may have stopped", "`scheduler.name: none` stops none."),
    ({3: 0.6, 6: 0.2, 9: 0.9}, None, "From epoch 9 of NT-Xent on", "at least 0.5 over 9 of 10 settings."),
    ({3: 0.1}, None, "No epoch of NT-Xent ranks", "below 0.5 over 9 of 10 settings."),
    ({3: 0.1, 6: 0.8}, 7, "From epoch 6 of NT-Xent on", "at least 0.5 over 9 of 10 settings."),
]


def early(tau: dict[int, float], grace: int | None, *, loss: str = "nt_xent", begun: int = 10) -> dict[str, object]:
    """Return what ``early_epochs`` says of a study of which 9 settings were trained to their end."""
    last_weak = max((epoch for epoch, value in tau.items() if value < 0.5), default=0)
    return {
        "loss": loss,
        "settings": 9,
        "begun": begun,
        "grace_epochs": grace,
        "first_telling_epoch": min((epoch for epoch in tau if epoch > last_weak), default=None),
        "tau": {str(epoch): value for epoch, value in tau.items()},
    }


@pytest.mark.parametrize(("tau", "grace", "begins", "ends"), ADVICE)
def test_what_is_said_fits_the_numbers(tau: dict[int, float], grace: int | None, begins: str, ends: str) -> None:
    last = describe_early_epochs("s", early(tau, grace))[-1]
    assert last.startswith(begins) and last.endswith(ends)


def test_the_few_that_the_scheduler_chose_are_no_evidence_against_an_epoch() -> None:
    first, second = describe_early_epochs("s", early({1: 0.0, 2: 0.9}, 1, begun=20))
    assert first.endswith("Kendall's τ = 0.00 over 9 of 20 settings.")
    assert second == "The scheduler chose these settings, which lowers τ; `scheduler.name: none` avoids this."


def test_a_search_that_chose_the_loss_is_advised_of_one_grace() -> None:
    first, second = describe_early_epochs("s", early({1: 0.0, 2: 0.9}, 1, loss="any", begun=9))
    assert first.startswith("Epoch 1 of s hardly ranks trials") and first.endswith(" over 9 settings.")
    assert second.endswith("set `scheduler.grace_epochs: 2`.")


def test_the_grace_of_some_studies_differs() -> None:
    changes = [{"losses": ["triplet_sh"], "grace_epochs": 3}]
    experiment = make_experiment(overrides=changes)
    assert {cell.loss: cell.scheduler.grace_epochs for cell in experiment.cells()} == {"nt_xent": 1, "triplet_sh": 3}
    histories = history_of([[1.0, 2.0]] * FEWEST, experiment)
    assert early_epochs(histories, points_by_study(histories.trials.values())) == {}, "all alike: there is no order"


def test_searches_of_a_loss_that_say_the_same_are_counted() -> None:
    curves = [[float(number), 10.0 + number] for number in range(FEWEST)]
    history = history_of(curves, make_experiment(losses=["nt_xent"], scheduler={"name": "none"}))
    (early,) = early_epochs(history, points_by_study(history.trials.values())).values()
    said = "From epoch 1 of NT-Xent on, trials rank like in the last epoch: Kendall's τ is at least 0.5 over 6 settings"
    late = early | {"first_telling_epoch": 2}
    cases = {"a": early, "b": late, "c": early, "d": early | {"loss": "circle"}}
    answer = early_answer("pets", cases)
    assert answer is not None
    assert [answer.headline, *answer.notes] == [
        f"{said}, in 2 of 3 studies.",
        f"{said}, in 1 of 3 studies.".replace("epoch 1", "epoch 2"),
        f"{said}.".replace("NT-Xent", "Circle"),
    ]
