"""An experiment with a trial in each state, and what exports make of it."""

from pathlib import Path

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.searches.loaded import LoadedExperiment, load
from tests.support.experiments import add_repeat, add_trial, begun, make_experiment, open_test


def write_experiment(folder: Path) -> LoadedExperiment:
    """Write six trials: one in each state, and a confirmation of the best with two seeds, evaluated on test."""
    with begun(folder, make_experiment(confirm={"top": 1, "seeds": 2})) as ledger:
        good, *_ = add_one_in_each_state(ledger)
        open_test(ledger, [add_repeat(ledger, good, index, 10 + index, 5.0 + index) for index in range(2)])
    return load(folder)


def add_one_in_each_state(ledger: Ledger) -> list[Trial]:
    """Write down a finished trial, one that was stopped early, one that diverged and one of another loss that runs."""
    return [
        add_trial(ledger, [1.0, 3.0, 2.0]),
        add_trial(ledger, [0.5, 0.25], state=TrialState.STOPPED_EARLY),
        add_trial(ledger, [0.5], state=TrialState.DIVERGED, error="train/loss is nan"),
        add_trial(ledger, [1.5], state=TrialState.RUNNING, loss="triplet_sh"),
    ]
