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
    Standing,
    Verdict,
)
from orchestrator.results.judged import judged_answer
from orchestrator.results.race import Race, Round
from orchestrator.results.statistics import DifferenceTest, Interval, Measure, Variances
from tests.support.experiments import add_trial, make_experiment, start

IMAGES = DifferenceTest(2.0, Variances((0.0, 0.0), (0.0, 0.0), (2, 2), 1.0, 100))
ANSWERED = DatasetVerdict(
    dataset="pets",
    metric="test/rsum",
    selection="val/rsum",
    verdict=Verdict.BETTER,
    standings=(
        Standing(
            Candidate("pets", "vsepp", "warp", {"margin": 0.2}, "a", {7: {}, 3: {}}, {9: "failed"}, True),
            rank=1,
            selected_by=4.0,
            result=Measure(2.0, 1.0, 2),
            student=Interval(1.0, 3.0),
            measures={"val/rsum": Measure(4.0, None, 1)},
        ),
    ),
    comparisons=(
        Comparison(
            "test/rsum", "b", ("runner_up", "baseline"), 2.0, None, IMAGES, 0.2, Verdict.BETTER, "", Verdict.TIE, 0.2
        ),
    ),
    warnings=("beware",),
    level=0.04,
    decided_by="seeds_and_images",
    smallest_difference=1.0,
)
WRITTEN_ANSWER: dict[str, Any] = {
    "dataset": "pets",
    "winner": "a",
    "verdict": "better",
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
            "welch_p": None,
            "holm_p": 0.2,
            "verdict": "better",
            "reason": "",
            "over_images": {
                "interval": {"low": IMAGES.interval.low, "high": IMAGES.interval.high},
                "p": IMAGES.p,
                "probability": IMAGES.probability_beyond(0.0),
                "smallest_difference": 1.0,
                "probability_of_smallest": IMAGES.probability_beyond(1.0),
                "on_this_test_set": "tie",
                "on_this_test_set_p": 0.2,
                "error": 1.0,
                "share_of_images": 1.0,
                "share_of_seeds": 0.0,
            },
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
            "student": {"low": 1.0, "high": 3.0},
            "measures": {"val/rsum": {"mean": 4.0, "std": None, "seeds": 1}},
        }
    ],
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


@pytest.mark.parametrize(
    ("result", "written"),
    [
        pytest.param(ANSWERED, WRITTEN_ANSWER, id="verdict"),
        pytest.param(RACE, WRITTEN_RACE, id="race"),
    ],
)
def test_a_result_is_written_as_before(result: Any, written: dict[str, Any]) -> None:
    assert json.dumps(result.to_dict()) == json.dumps(written)


def test_a_judged_verdict_is_written_as_before() -> None:
    answer = judged_answer(ANSWERED, {"eccv": {"rsum": ANSWERED}})
    assert answer is not None
    about = {"name": "eccv", "title": "ECCV Caption", "survives": True, "known": None}
    assert answer.data == {"judged": [{**about, "verdicts": {"rsum": WRITTEN_ANSWER}}]}


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
        "answers",
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
