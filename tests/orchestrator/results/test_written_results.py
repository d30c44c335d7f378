"""The JSON of results, word for word: `summary.json` and `--json` are read by programs, and by other versions."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.results.answers import Summary, headline_of, summarise
from orchestrator.results.comparison import Comparison
from orchestrator.results.judged import judged_answer
from orchestrator.results.question import Pair, Verdict
from orchestrator.results.race import Race, Round
from orchestrator.results.runs import Runs, Unit
from orchestrator.results.statistics import DifferenceTest, around
from orchestrator.results.tables import tables_of
from orchestrator.results.verdict import DatasetVerdict, deprecated_verdict
from orchestrator.results.winner import find_winners
from tests.support.experiments import add_trial, begun, make_experiment, start
from tests.support.records import append
from tests.support.unwritten_ledger import UnwrittenLedger

IMAGES = DifferenceTest(2.0, (0.0, 0.0), (0.0, 0.0), (2, 2), 1.0, 100)
WINNER = Runs.of_seeds(
    "a",
    {7: {"test/rsum": 1.0, "val/rsum": 5.0}, 3: {"test/rsum": 3.0, "val/rsum": 3.0}},
    missing={9: "failed"},
    dataset="pets",
    model="vsepp",
    loss="warp",
    parameters={"margin": 0.2},
)
OTHER = Runs.of_seeds("b", {7: {"test/rsum": 0.0, "val/rsum": 1.0}}, dataset="pets", model="vsepp", loss="triplet")
COMPARED = Comparison("a", "b", "test/rsum", 2.0, Unit.SEED, IMAGES)
ANSWERED = DatasetVerdict(
    dataset="pets",
    metric="test/rsum",
    selection="val/rsum",
    candidates=(WINNER, OTHER),
    pairs=(Pair(COMPARED, 0.02, Verdict.BETTER),),
    warnings=("beware",),
    level=0.04,
    images=100,
    baseline="b",
    smallest_difference=1.0,
)
WRITTEN_PAIR = {
    "first": "a",
    "second": "b",
    "metric": "test/rsum",
    "difference": 2.0,
    "interval": {"low": IMAGES.interval.low, "high": IMAGES.interval.high},
    "varies": "seeds_and_images",
    "p_unadjusted": IMAGES.p,
    "reason": "",
    "p": 0.02,
    "verdict": "better",
    "on_new_images": {
        "probability": IMAGES.probability_beyond(0.0),
        "smallest_difference": 1.0,
        "probability_of_smallest": IMAGES.probability_beyond(1.0),
        "error": 1.0,
        "share_of_images": 1.0,
        "share_of_seeds": 0.0,
    },
}
STANDINGS = [
    {
        "label": "a",
        "dataset": "pets",
        "model": "vsepp",
        "loss": "warp",
        "parameters": {"margin": 0.2},
        "seeds": [3, 7],
        "missing": {"9": "failed"},
        "measures": {
            "test/rsum": {"mean": 2.0, "std": 1.0, "seeds": 2},
            "val/rsum": {"mean": 4.0, "std": 1.0, "seeds": 2},
        },
        "rank": 1,
        "verdict": "winner",
        "selected_by": 4.0,
        "result": {"mean": 2.0, "std": 1.0, "seeds": 2, "sample_std": 2**0.5},
        "student": {"low": 0.0, "high": around(2.0, 1.0, 1).high},
    },
    {
        "label": "b",
        "dataset": "pets",
        "model": "vsepp",
        "loss": "triplet",
        "parameters": {},
        "seeds": [7],
        "missing": {},
        "measures": {
            "test/rsum": {"mean": 0.0, "std": None, "seeds": 1},
            "val/rsum": {"mean": 1.0, "std": None, "seeds": 1},
        },
        "rank": 2,
        "verdict": "worse",
        "selected_by": 1.0,
        "result": {"mean": 0.0, "std": None, "seeds": 1, "sample_std": None},
        "student": None,
    },
]
WRITTEN_ANSWER: dict[str, Any] = {
    "dataset": "pets",
    "winner": "a",
    "verdict": "better",
    "metric": "test/rsum",
    "selection": "val/rsum",
    "decided_by": "seeds_and_images",
    "level": 0.04,
    "baseline": "b",
    "pairs": [WRITTEN_PAIR],
    "standings": STANDINGS,
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
    "seeds": {"a": 3, "b": 2},
    "rounds": [{"seeds": {"a": 3, "b": 2}, "means": {"a": 5.0, "b": 4.0}, "leader": "a", "closest": "b", "p": 0.2}],
}


@pytest.mark.parametrize(
    ("result", "written"),
    [pytest.param(ANSWERED, WRITTEN_ANSWER, id="verdict"), pytest.param(RACE, WRITTEN_RACE, id="race")],
)
def test_a_result_is_written_word_for_word(result: Any, written: dict[str, Any]) -> None:
    assert json.dumps(result.to_dict()) == json.dumps(written)


def test_the_deprecated_verdict_says_so_and_has_the_numbers_of_the_pairs() -> None:
    written = deprecated_verdict(ANSWERED)
    assert written["deprecated"] == "use datasets" and "pairs" not in written
    (compared,) = written["comparisons"]
    assert (compared["label"], compared["verdict"], compared["holm_p"]) == ("b", "better", 0.02)
    assert (compared["interval"], compared["welch_p"]) == (WRITTEN_PAIR["interval"], IMAGES.p)


def test_a_judged_verdict_is_written_word_for_word() -> None:
    answer = judged_answer(ANSWERED, {"eccv": {"rsum": ANSWERED}})
    about = {"name": "eccv", "title": "ECCV Caption", "survives": True, "known": None}
    about["sentence"] = answer.headline
    assert answer.data == {"judged": [{**about, "verdicts": {"rsum": WRITTEN_ANSWER}}]}


def test_a_summary_has_the_keys_that_it_had(ledger: Ledger) -> None:
    start(ledger, make_experiment())
    trial = add_trial(ledger, [1.0, 5.0, 4.0])
    add_trial(ledger, [2.0], state=TrialState.DIVERGED, error="train/loss is nan")
    add_trial(ledger, [3.0], state=TrialState.STOPPED_EARLY, loss="triplet_sh")
    before = summarise(ledger.history)["winners"]["pets"]
    assert (before["test"], before["test_opened_for"]) == (None, [])
    append(ledger, "test_opened", dataset="pets", trials=[trial.id])
    append(ledger, "test_evaluated", trial=trial.id, metrics={"rsum": 4.5})
    summary = summarise(ledger.history)
    assert " ".join(summary) == (
        "experiment pareto metric objectives ended_by winners datasets verdicts races equal_budget optimism trends "
        "judged confirm_looks test_openings caveats remarks early_epochs answers trials"
    )
    assert summary["winners"]["pets"] == {
        "trial": trial.id,
        "confirmed": False,
        "seeds": 1,
        "model_of": trial.id,
        "study": "pets-vsepp-nt_xent",
        "dataset": "pets",
        "model": "vsepp",
        "loss": "nt_xent",
        "parameters": {"temperature": 0.1},
        "seed": 0,
        "best_epoch": 2,
        "val": {"rsum": 5.0, "i2t_r1": 0.5},
        "test": {"rsum": 4.5},
        "test_opened_for": [trial.id],
    }
    assert [(row["trial"], row["state"], row["epochs"], row["error"]) for row in summary["trials"]] == [
        ("pets-vsepp-nt_xent-0000", "finished", 3, None),
        ("pets-vsepp-nt_xent-0001", "diverged", 1, "train/loss is nan"),
        ("pets-vsepp-triplet_sh-0000", "stopped_early", 1, None),
    ]


TRIAL = st.tuples(
    st.sampled_from(["pets", "birds"]),
    st.sampled_from(list(TrialState)),
    st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=3),
)


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


def test_an_unconfirmed_search_is_ordered_by_the_metric_of_the_experiment(tmp_path: Path) -> None:
    """A study chooses by its own metric, which has another scale."""
    experiment = make_experiment(overrides=[{"losses": ["nt_xent"], "metric": "val/i2t_r1"}])
    with begun(tmp_path, experiment) as ledger:
        for cell, ended, running in zip(experiment.cells(), (220.0, 90.0), (200.0, 80.0), strict=True):
            for number, (rsum, state) in enumerate([(ended, TrialState.FINISHED), (running, TrialState.RUNNING)]):
                params = {"temperature" if cell.loss == "nt_xent" else "margin": 0.1 + number / 10}
                trial = ledger.create(cell.name, number, params, experiment.trial_config(cell, params))
                ledger.report(trial, 1, {"val/rsum": rsum, "val/i2t_r1": rsum / 10}, state)
        history, of_search = ledger.history, Summary(ledger.history)
        answer, (table,) = headline_of(of_search, "pets"), tables_of([of_search])
        assert answer.headline.startswith("NT-Xent (τ = 0.1) has the best val rsum of its search, 220.0")
        assert [row["value"] for row in answer.table.to_dict()["rows"]] == [220.0, 90.0]
        assert [row["number"] for row in table.table.to_dict()["rows"] if row["loss"] == "nt_xent"] == ["1"]
        for trial in history.trials.values():
            trial.state = TrialState.RUNNING
        so_far = headline_of(Summary(history), "pets")
        assert so_far.headline.startswith("NT-Xent (τ = 0.1) has the best val rsum so far, 220.0")
