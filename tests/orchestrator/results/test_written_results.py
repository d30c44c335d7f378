"""The JSON of results, word for word: `summary.json` and `--json` are read by programs, and by other versions."""

import json
from typing import Any

import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.results.answers import summarise
from orchestrator.results.candidates import (
    Candidate,
    Comparison,
    DatasetVerdict,
    Detectable,
    OverImages,
    Standing,
    Verdict,
)
from orchestrator.results.early_epochs import EarlyEpochs
from orchestrator.results.equal_budget import Crossing, EqualBudget, LossComparison, LossCurve
from orchestrator.results.judged import JudgedVerdict
from orchestrator.results.optimism import Incumbent, Optimism
from orchestrator.results.race import Race, Round
from orchestrator.results.statistics import Interval, Measure
from tests.support.experiments import add_trial, make_experiment, start

IMAGES = OverImages(Interval(1.0, 3.0), 0.01, 0.99, 1.0, 0.9, Verdict.TIE, 0.2, 0.5, 0.6, 0.3)
POWER = Detectable(1.1, 1.0, 0.8, 12)
ANSWERED = DatasetVerdict(
    dataset="pets",
    metric="test/rsum",
    selection="val/rsum",
    verdict=Verdict.BETTER,
    reason="why",
    standings=(
        Standing(
            Candidate("pets", "vsepp", "warp", {"margin": 0.2}, "a", {7: {}, 3: {}}, {9: "failed"}, True),
            rank=1,
            selected_by=4.0,
            result=Measure(2.0, 1.0, 2),
            bootstrap=None,
            student=Interval(1.0, 3.0),
            measures={"val/rsum": Measure(4.0, None, 1)},
        ),
    ),
    comparisons=(
        Comparison(
            "b", ("runner_up", "baseline"), 2.0, None, 0.1, 0.2, None, 2, 1.5, Verdict.BETTER, "", IMAGES, POWER
        ),
    ),
    warnings=("beware",),
    level=0.04,
    decided_by="seeds_and_images",
    compared="two",
    found=("it is",),
    would_change=("more",),
)
WRITTEN_ANSWER: dict[str, Any] = {
    "dataset": "pets",
    "winner": "a",
    "verdict": "better",
    "reason": "why",
    "metric": "test/rsum",
    "selection": "val/rsum",
    "decided_by": "seeds_and_images",
    "level": 0.04,
    "comparisons": [
        {
            "label": "b",
            "roles": ["runner_up", "baseline"],
            "difference": 2.0,
            "interval": None,
            "welch_p": 0.1,
            "holm_p": 0.2,
            "paired_p": None,
            "pairs": 2,
            "effect": 1.5,
            "verdict": "better",
            "reason": "",
            "over_images": {
                "interval": {"low": 1.0, "high": 3.0},
                "p": 0.01,
                "probability": 0.99,
                "smallest_difference": 1.0,
                "probability_of_smallest": 0.9,
                "on_this_test_set": "tie",
                "on_this_test_set_p": 0.2,
                "error": 0.5,
                "share_of_images": 0.6,
                "share_of_seeds": 0.3,
            },
            "detectable": {"smallest": 1.1, "with_twice_the_seeds": 1.0, "on_twice_the_images": 0.8, "seeds": 12},
        }
    ],
    "standings": [
        {
            "label": "a",
            "dataset": "pets",
            "model": "vsepp",
            "loss": "warp",
            "parameters": {"margin": 0.2},
            "seeds": [3, 7],
            "missing": {"9": "failed"},
            "left": True,
            "rank": 1,
            "selected_by": 4.0,
            "result": {"mean": 2.0, "std": 1.0, "seeds": 2, "sample_std": 2**0.5},
            "bootstrap": None,
            "student": {"low": 1.0, "high": 3.0},
            "measures": {"val/rsum": {"mean": 4.0, "std": None, "seeds": 1}},
        }
    ],
    "compared": "two",
    "found": ["it is"],
    "would_change": ["more"],
    "warnings": ["beware"],
}

RACE = Race(
    rounds=(Round({"a": 3, "b": 2}, {"a": 5.0, "b": 4.0}, "a", "b", 0.2),),
    seeds={"a": 3, "b": 2},
    ended="it is decided",
    trainings=9,
)
WRITTEN_RACE = {
    "trainings": 9,
    "used": 5,
    "ended": "it is decided",
    "older": False,
    "seeds": {"a": 3, "b": 2},
    "rounds": [{"seeds": {"a": 3, "b": 2}, "means": {"a": 5.0, "b": 4.0}, "leader": "a", "closest": "b", "p": 0.2}],
}

BUDGET = EqualBudget(
    metric="val/rsum",
    hours_are="GPU hours",
    losses=[LossCurve("x", "vsepp", "warp", 1, [1.0], [6.0], [0.5], [3.0], [2.0], [4.0])],
    comparisons=[
        LossComparison("x", "y", 4, 7.0, 0.8, {"trials": [Crossing(2.5, "x")], "epochs": [], "hours": []}, 4, 0.5)
    ],
)
WRITTEN_BUDGET = {
    "metric": "val/rsum",
    "hours_are": "GPU hours",
    "losses": [
        {
            "label": "x",
            "model": "vsepp",
            "loss": "warp",
            "candidates": 1,
            "trials": [1.0],
            "epochs": [6.0],
            "hours": [0.5],
            "expected": [3.0],
            "low": [2.0],
            "high": [4.0],
        }
    ],
    "comparisons": [
        {
            "first": "x",
            "other": "y",
            "trials": 4,
            "difference": 7.0,
            "probability": 0.8,
            "crossings": {"trials": [{"at": 2.5, "ahead": "x"}], "epochs": [], "hours": []},
            "further_trials": 4,
            "chance": 0.5,
        }
    ],
}


@pytest.mark.parametrize(
    ("result", "written"),
    [
        pytest.param(ANSWERED, WRITTEN_ANSWER, id="verdict"),
        pytest.param(RACE, WRITTEN_RACE, id="race"),
        pytest.param(BUDGET, WRITTEN_BUDGET, id="equal budget"),
        pytest.param(
            Optimism("val/rsum", 8, [Incumbent(1, "a", 3.0, None, 0)], 0.25),
            {
                "metric": "val/rsum",
                "ended": 8,
                "incumbents": [{"after": 1, "trial": "a", "value": 3.0, "confirmed": None, "seeds": 0}],
                "excess": 0.25,
            },
            id="optimism",
        ),
        pytest.param(
            JudgedVerdict("eccv", True, {"rsum": ANSWERED}, 0.5),
            {
                "name": "eccv",
                "title": "ECCV Caption",
                "survives": True,
                "known": 0.5,
                "verdicts": {"rsum": WRITTEN_ANSWER},
            },
            id="judged",
        ),
        pytest.param(
            EarlyEpochs("warp", 6, 9, {1: 0.25, 2: 0.75}, 1),
            {
                "settings": 6,
                "begun": 9,
                "grace_epochs": 1,
                "first_telling_epoch": 2,
                "tau": {"1": 0.25, "2": 0.75},
            },
            id="early epochs",
        ),
    ],
)
def test_a_result_is_written_as_before(result: Any, written: dict[str, Any]) -> None:
    assert json.dumps(result.to_dict()) == json.dumps(written)


def test_a_summary_has_the_keys_that_it_had(ledger: Ledger) -> None:
    start(ledger, make_experiment())
    trial = add_trial(ledger, [10.0, 30.0])
    summary = summarise(ledger.history)
    assert list(summary) == [
        "experiment",
        "pareto",
        "metric",
        "objectives",
        "ended_by",
        "winners",
        "verdicts",
        "races",
        "equal_budget",
        "optimism",
        "trends",
        "judged",
        "confirm_looks",
        "test_openings",
        "caveats",
        "early_epochs",
        "trials",
    ]
    assert summary["winners"]["pets"] == {
        "trial": trial.id,
        "confirmed": False,
        "seeds": 1,
        "model_of": trial.id,
        "study": "pets-vsepp-nt_xent",
        "dataset": "pets",
        "model": "vsepp",
        "loss": "nt_xent",
        "params": {"temperature": 0.1},
        "parameters": {"temperature": 0.1},
        "seed": 0,
        "best_epoch": 2,
        "val": {"rsum": 30.0, "i2t_r1": 3.0},
        "test": None,
        "test_opened_for": [],
    }
