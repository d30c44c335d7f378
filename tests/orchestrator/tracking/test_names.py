"""How MLflow names trials and metrics."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.tracking.description import LONGEST, candidate_name, run_name, stored_metric, stored_value, tags_of
from tests.support.experiments import add_repeat, add_trial, make_experiment, start


def named(ledger: Ledger, *, parameters: dict[str, Any] | None = None, **settings: Any) -> str:
    start(ledger, make_experiment(**settings))
    trial = add_trial(ledger, [1.0])
    trial.config = replace(trial.config, loss_parameters={**trial.config.loss_parameters, **(parameters or {})})
    return run_name(trial, ledger.history)


@pytest.mark.parametrize(
    ("settings", "parameters", "expected"),
    [
        ({}, {}, "0000 nt_xent τ=0.1"),
        ({"models": ["vsepp", "vsrn"]}, {}, "0000 vsepp nt_xent τ=0.1"),
        ({"datasets": ["pets", "cars"]}, {}, "0000 pets nt_xent τ=0.1"),
        ({}, {"coefficients": [0.2, 1.0, 1 / 3]}, "0000 nt_xent τ=0.1 coefficients=[0.2, 1, 0.3333]"),
        ({}, {"word": "a\x1b[31m"}, "0000 nt_xent τ=0.1 word=a\\x1b[31m"),
    ],
)
def test_a_run_is_named_by_what_tells_trials_apart(
    ledger: Ledger, settings: dict[str, Any], parameters: dict[str, Any], expected: str
) -> None:
    assert named(ledger, parameters=parameters, **settings) == expected


def test_a_trial_has_the_versions_with_which_it_was_trained(ledger: Ledger) -> None:
    trials = [add_trial(ledger, [1.0])]
    start(ledger, make_experiment(), environment={"git_revision": "def", "versions": {"torch": "3"}})
    trials += [add_trial(ledger, [1.0]), add_trial(ledger, [], state=TrialState.RUNNING)]
    tags = [tags_of(trial, ledger.history) for trial in trials]
    assert [(tag["version.torch"], tag["git_revision"]) for tag in tags] == [("2", "abc"), ("3", "def"), ("3", "def")]


def test_a_long_name_is_cut_and_says_so(ledger: Ledger) -> None:
    name = named(ledger, parameters={"coefficients": [1 / 3] * 40})
    assert len(name) == LONGEST
    assert name.endswith("0.3333…")


def test_a_searched_setting_is_named_without_its_section_unless_two_would_be_alike(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0])
    trial.params = {**trial.params, "training.learning_rate": 1e-3}
    assert run_name(trial, ledger.history).startswith("0000 nt_xent τ=0.1 learning_rate=")
    # No model has such a parameter now.
    vars(trial.config)["model_parameters"] = {"learning_rate": 2}
    trial.params = {**trial.params, "model.learning_rate": 2}
    assert "training.learning_rate=" in run_name(trial, ledger.history)
    assert "model.learning_rate=2" in run_name(trial, ledger.history)


def test_repeats_and_their_mean_have_the_number_of_what_they_repeat(ledger: Ledger) -> None:
    add_trial(ledger, [1.0])
    trial = add_trial(ledger, [2.0])
    repeat = add_repeat(ledger, trial, 0, 7, 2.0)
    assert run_name(repeat, ledger.history) == "seed=7 0001 nt_xent τ=0.1"
    assert candidate_name(trial, ledger.history, 3) == "mean of 3 seeds 0001 nt_xent τ=0.1"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("val/rsum", "val/rsum"),
        ("cocos/i2t_negatives_per_query", "cocos/i2t_negatives_per_query"),
        ("cocos/i2t_negatives_per_query_std", "variation/i2t_negatives_per_query"),
        ("cocos_start/i2t_negatives_per_query", "cocos_start/i2t_negatives_per_query"),
        ("cocos_start/i2t_negatives_per_query_std", "variation_start/i2t_negatives_per_query"),
        ("time/epoch_seconds", "wall_time/epoch_seconds"),
        ("epoch", "epoch"),
    ],
)
def test_what_is_looked_at_last_stands_behind_the_recalls(name: str, expected: str) -> None:
    assert stored_metric(name) == expected
    assert (stored_metric(name) > "val/rsum") == (expected != name)


@pytest.mark.parametrize(("value", "expected"), [(447.79998779296875, 447.8), (0.24504166666, 0.245042), (12.0, 12.0)])
def test_metrics_have_the_digits_that_mean_something(value: float, expected: float) -> None:
    assert stored_value(value) == expected
