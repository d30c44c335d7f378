"""Verdicts over seeds and images: what is said, when the seeds decide instead, and how the whole procedure errs."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.results.answers import Summary, dataset_answers, summarise
from orchestrator.results.question import Verdict
from orchestrator.results.questions import answer_questions
from orchestrator.results.runs import Runs
from orchestrator.results.verdict import LEVEL, DatasetVerdict, judge
from tests.support.crossed_runs import Effects, candidates_of, draw_runs
from tests.support.experiments import confirm_two_losses, make_experiment, start
from tests.support.ranked import draw_ranks, metrics_of
from tests.support.records import append
from trainables.errors import DataError

STUDIES = 300


def study(seed: int, effects: Effects, seeds: tuple[int, ...]) -> list[Runs]:
    val, test = draw_runs(np.random.default_rng(seed), effects, seeds, splits=2)
    return candidates_of(val, test, seeds)


def judge_one(candidates: list[Runs], **rules: Any) -> DatasetVerdict:
    return judge(candidates, **{"over_images": True, **rules})


def rates(effects: Effects, seeds: tuple[int, ...], **rules: Any) -> Counter[Verdict]:
    return Counter(judge_one(study(k, effects, seeds), **rules).verdict for k in range(STUDIES))


@pytest.mark.parametrize(
    ("effects", "seeds"),
    [
        pytest.param(Effects(), (5, 5), id="two candidates"),
        pytest.param(Effects(seeds=4.0), (3, 3), id="three seeds that matter most"),
        pytest.param(Effects(spreads=(4.0, 1.0)), (5, 5), id="unequal spreads"),
        pytest.param(Effects(), (5,) * 6, id="six candidates"),
        pytest.param(Effects(), (5, 0), id="one without seeds"),
    ],
)
def test_no_true_difference_is_a_tie(effects: Effects, seeds: tuple[int, ...]) -> None:
    found = rates(effects, seeds, baseline=f"c{len(seeds) - 1}")
    assert found[Verdict.TIE] >= (1 - LEVEL - 2 * np.sqrt(LEVEL / STUDIES)) * STUDIES


def test_seeds_alone_take_the_test_images_for_the_world() -> None:
    """With images that say most, the verdict of the seeds is of this test set, and not of new images."""
    effects = Effects(seeds=0.2, both=0.2)
    assert rates(effects, (5, 5), over_images=False)[Verdict.TIE] < 0.5 * STUDIES
    assert rates(effects, (5, 5))[Verdict.TIE] > 0.9 * STUDIES


def test_a_lead_is_better() -> None:
    assert rates(Effects(lead=6.0), (5, 5, 5), baseline="c2")[Verdict.BETTER] > 0.9 * STUDIES


def test_what_is_said_of_a_comparison() -> None:
    verdict = judge_one(study(3, Effects(lead=6.0), (5, 5)), baseline="c1", smallest_difference=4)
    (pair,) = verdict.pairs
    assert (verdict.verdict, verdict.decided_by) == (Verdict.BETTER, "seeds_and_images")
    written = verdict.to_dict()["pairs"][0]["on_new_images"]
    assert written["probability"] > written["probability_of_smallest"] > 0.5
    assert written["smallest_difference"] == 4
    test = pair.comparison.test
    assert test is not None and pair.interval == test.interval
    assert pair.p is not None and pair.p >= test.p


def test_a_tie_has_the_differences_that_it_would_detect() -> None:
    verdict = judge_one(study(3, Effects(), (5, 5)))
    test = verdict.pairs[0].comparison.test
    assert (verdict.verdict, verdict.warnings) == (Verdict.TIE, ()) and test is not None
    settled = {answer.key: answer.headline for answer in answer_questions(verdict)}["settle"]
    assert f"the smallest detectable difference is {test.detectable(LEVEL):.1f}" in settled


@pytest.mark.parametrize("over_images", [True, False])
def test_one_run_without_seeds_is_judged(over_images: bool) -> None:
    """A closed-form model: its one run says all, so it is neither short of seeds nor untested."""
    verdict = judge_one(study(5, Effects(lead=9.0), (5, 0)), over_images=over_images)
    (pair,) = verdict.pairs
    assert (verdict.verdict, verdict.warnings) == (Verdict.BETTER, ())
    assert pair.comparison.p is not None


@pytest.mark.parametrize(
    ("lead", "over_images", "said"),
    [(9.0, True, Verdict.BETTER), (0.0, True, Verdict.TIE), (0.0, False, Verdict.BETTER)],
)
def test_two_runs_without_seeds_are_exact_on_this_test_set(lead: float, over_images: bool, said: Verdict) -> None:
    candidates = study(5, Effects(lead=lead), (0, 0))
    best = max(candidates, key=lambda one: one.mean("test/rsum"))
    # Selected by val, so that the winner leads on test as well.
    picked = [
        replace(one, values={run: {**values, "val/rsum": float(one is best)} for run, values in one.values.items()})
        for one in candidates
    ]
    verdict = judge_one(picked, over_images=over_images)
    (pair,) = verdict.pairs
    assert verdict.verdict is said
    assert ("neither candidate has seeds" in pair.comparison.reason) == (not over_images)


def test_one_seed_of_many_is_not_judged() -> None:
    first, second = study(1, Effects(), (5, 5))
    lone = replace(second, values={run: second.values[run] for run in second.ids[:1]})
    assert judge_one([first, lone]).verdict is Verdict.UNTESTED


def test_without_the_images_of_one_candidate_the_seeds_decide_and_a_sentence_says_why() -> None:
    first, second = study(1, Effects(lead=30.0), (5, 5))
    verdict = judge_one([first, replace(second, images={})])
    alone = judge_one([first, second], over_images=False)
    assert (verdict.decided_by, verdict.pairs) == ("seeds", alone.pairs)
    assert verdict.warnings[0].startswith("the verdict holds for these test images alone: ")
    assert "the ranks of 1 of 2 candidates were not kept" in verdict.warnings[0]


def test_images_of_another_metric_are_refused() -> None:
    first, second = study(1, Effects(), (5, 5))
    moved = replace(first, images={"test/rsum": {run: of + 1 for run, of in first.images["test/rsum"].items()}})
    with pytest.raises(ValueError, match="but its images have the mean"):
        judge_one([moved, second])


def test_the_order_of_candidates_changes_nothing() -> None:
    candidates = study(8, Effects(lead=2.0), (5, 5, 5))
    assert judge_one(candidates, baseline="c2") == judge_one(candidates[::-1], baseline="c2")


CAPTIONS = np.repeat(np.arange(60, dtype=np.int32), 5)


def confirmed(ledger: Ledger, kept: range | list[int] = range(6), queries: str = "ab" * 32) -> DatasetVerdict:
    """Confirm two losses with three seeds each; the ranks of some of the six evaluations are kept."""
    repeats = confirm_two_losses(ledger)
    for number, repeat in enumerate(repeats):
        ranks = draw_ranks(number, 3.0 if number < 3 else 9.0, CAPTIONS, queries if number == 5 else "ab" * 32)
        text = {"ranks": ranks.to_text()} if number in kept else {}
        append(ledger, "test_evaluated", trial=repeat.id, metrics=metrics_of(ranks), **text)
    (verdict,) = Summary(ledger.history).verdicts.values()
    return verdict


CONFIRM: dict[str, Any] = {"top": 1, "seeds": 3}


def test_from_the_journal_on_images_are_judged(ledger: Ledger) -> None:
    start(ledger, make_experiment(confirm={**CONFIRM, "smallest_difference": 5}))
    verdict = confirmed(ledger)
    assert (verdict.verdict, verdict.decided_by) == (Verdict.BETTER, "seeds_and_images")
    assert verdict.smallest_difference == 5
    notes = dataset_answers(Summary(ledger.history), "pets")[0].notes
    said = "with probability above 0.99, by at least 5 rsum with probability above 0.99"
    assert any(said in note for note in notes)


@pytest.mark.parametrize(
    "lost",
    [pytest.param({"kept": [0, 1, 2, 3, 4]}, id="not kept"), pytest.param({"queries": "cd" * 32}, id="other queries")],
)
def test_from_the_journal_on_a_verdict_without_all_ranks_says_so(ledger: Ledger, lost: dict[str, Any]) -> None:
    start(ledger, make_experiment(confirm=CONFIRM))
    verdict = confirmed(ledger, **lost)
    assert verdict.decided_by == "seeds"
    assert any("the ranks of 1 of 2 candidates were not kept" in warning for warning in verdict.warnings)


def test_seeds_alone_decide_where_they_are_asked_to(ledger: Ledger) -> None:
    start(ledger, make_experiment(confirm={**CONFIRM, "verdict": "seeds"}))
    verdict = confirmed(ledger)
    assert verdict.decided_by == "seeds"
    assert not any("new images" in warning for warning in verdict.warnings)


@pytest.mark.parametrize(("given", "kept"), [({}, "seeds"), ({"verdict": "seeds_and_images"}, "seeds_and_images")])
def test_a_new_start_keeps_the_rule_unless_it_is_changed(ledger: Ledger, given: dict[str, Any], kept: str) -> None:
    start(ledger, make_experiment(confirm={**CONFIRM, "verdict": "seeds"}))
    for _ in range(2):
        start(ledger, make_experiment(confirm={**CONFIRM, **given}).as_begun(ledger.history.experiment))
        assert ledger.history.experiment.values["confirm"]["verdict"] == kept


def measured_as(runs: Runs, metric: str) -> Runs:
    """Return a candidate whose rsum on test has another name."""
    values = {
        run: {metric if name == "test/rsum" else name: value for name, value in of_run.items()}
        for run, of_run in runs.values.items()
    }
    return replace(runs, values=values, images={metric: runs.images["test/rsum"]})


@pytest.mark.parametrize(("metric", "said"), [("test/rsum", True), ("test/i2t_map5", False), ("test/i2t_r1", True)])
def test_no_fraction_leads_by_one(metric: str, said: bool) -> None:
    """The smallest difference that matters is 1 by default, in the unit of the metric."""
    candidates = [measured_as(runs, metric) for runs in study(3, Effects(lead=6.0), (5, 5))]
    verdict = judge_one(candidates, baseline="c1", smallest_difference=1, metric=metric)
    assert any("by at least 1" in sentence for sentence in answer_questions(verdict)[0].notes) is said


def test_damaged_ranks_are_named(ledger: Ledger) -> None:
    start(ledger, make_experiment(confirm=CONFIRM))
    confirmed(ledger)
    name, text = next(iter(ledger.history.test_ranks.items()))
    ledger.history.test_ranks[name] = {**text, "packed": "AAAA"}
    with pytest.raises(DataError, match="kept ranks are damaged"):
        summarise(ledger.history)
