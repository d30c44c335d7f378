"""The verdict: only finished trials win, ties go to the earlier, and nothing but the trials matters."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.results.answers import summarise
from orchestrator.results.winner import find_winners
from tests.support.experiments import add_trial, make_experiment
from tests.support.records import append
from tests.support.unwritten_ledger import UnwrittenLedger

TRIAL = st.tuples(
    st.sampled_from(["pets", "birds"]),
    st.sampled_from(list(TrialState)),
    st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=3),
)


@settings(deadline=None)
@given(trials=st.lists(TRIAL, max_size=12))
def test_the_winner_is_the_first_finished_trial_with_the_highest_value(trials) -> None:
    ledger = UnwrittenLedger(make_experiment())
    expected: dict[str, tuple[float, str]] = {}
    for dataset, state, values in trials:
        trial = add_trial(ledger, values, dataset=dataset, state=state)
        if state is TrialState.FINISHED and max(values) > expected.get(dataset, (0.0, ""))[0]:
            expected[dataset] = (max(values), trial.id)
    found = {dataset: trial.id for dataset, trial in find_winners(ledger.history).items()}
    assert found == {dataset: name for dataset, (_, name) in expected.items()}


@settings(deadline=None)
@given(trials=st.lists(TRIAL, min_size=1, max_size=8), seed=st.integers(0, 100))
def test_adding_trials_that_cannot_win_changes_nothing(trials, seed: int) -> None:
    ledger = UnwrittenLedger(make_experiment())
    for dataset, state, values in trials:
        add_trial(ledger, values, dataset=dataset, state=state)
    before = summarise(ledger.history)["winners"]
    draw = random.Random(seed)
    others = [state for state in TrialState if state is not TrialState.FINISHED]
    for _ in range(4):
        add_trial(ledger, [99.0], dataset=draw.choice(["pets", "birds"]), state=draw.choice(others))
        add_trial(ledger, [0.5], dataset=draw.choice(list(before) or ["pets"])) if before else None
    assert summarise(ledger.history)["winners"] == before


def test_the_summary_says_what_a_person_asks(ledger: Ledger) -> None:
    add_trial(ledger, [1.0, 5.0, 4.0])
    add_trial(ledger, [2.0], state=TrialState.DIVERGED, error="train/loss is nan")
    add_trial(ledger, [3.0], state=TrialState.STOPPED_EARLY, loss="triplet_sh")
    append(ledger, "test_opened", dataset="pets", trials=["pets-vsepp-nt_xent-0000"])
    append(ledger, "test_evaluated", trial="pets-vsepp-nt_xent-0000", metrics={"rsum": 4.5})
    summary = summarise(ledger.history)
    winner = summary["winners"]["pets"]
    assert (winner["trial"], winner["loss"], winner["params"]) == (
        "pets-vsepp-nt_xent-0000",
        "nt_xent",
        {"temperature": 0.1},
    )
    assert winner["best_epoch"] == 2
    assert winner["val"] == {"rsum": 5.0, "i2t_r1": 0.5}
    assert winner["test"] == {"rsum": 4.5}
    assert winner["test_opened_for"] == ["pets-vsepp-nt_xent-0000"]
    rows = {row["trial"]: (row["state"], row["epochs"], row["error"]) for row in summary["trials"]}
    assert rows == {
        "pets-vsepp-nt_xent-0000": ("finished", 3, None),
        "pets-vsepp-nt_xent-0001": ("diverged", 1, "train/loss is nan"),
        "pets-vsepp-triplet_sh-0000": ("stopped_early", 1, None),
    }
