"""A pair of runs has one difference, one p and one word in a claim, in a regression and in ``compare``: random runs."""

from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.claims.certificate import answers_to_claims
from orchestrator.claims.engine import SHARE, Outcome, decide_claims
from orchestrator.regression.answers import answers_about_suite
from orchestrator.regression.comparison import Finding
from orchestrator.regression.verdict import judge_suite
from orchestrator.results.answer import Answer, Quantity
from orchestrator.results.comparison import compare, compare_alike
from orchestrator.results.question import Direction, Question, Verdict
from orchestrator.results.runs import Runs
from tests.support.claim_rates import page_of
from tests.support.regression_results import accepted, make_suite, new, runs

# Tenths over spreads of whole points: many p-values lie near the level.
VALUES = st.lists(st.integers(4000, 4040), min_size=4, max_size=4, unique=True)


def seeds(label: str, values: list[int]) -> Runs:
    return Runs.of_seeds(label, {seed: {"rsum": value / 10} for seed, value in enumerate(values)})


def row_of(answer: Answer, place: int = 0) -> dict[str, object]:
    assert answer.table is not None
    return dict(zip([column.key for column in answer.table.columns], answer.table.rows[place], strict=True))


@settings(max_examples=40, deadline=None)
@given(first=VALUES, second=VALUES)
def test_a_claim_about_a_pair_has_the_p_and_the_word_of_the_question_about_it(
    first: list[int], second: list[int]
) -> None:
    sides = {"a": seeds("a", first), "b": seeds("b", second)}
    claims = page_of([{"kind": "beats", "loss": "a", "against": ["b"]}])
    (result,) = decide_claims(claims, {("pets", "vsepp"): sides})
    compared = compare(sides["a"], sides["b"], "rsum")
    (pair,) = Question(SHARE * claims.level, direction=Direction.ABOVE).ask([compared])
    (test,) = result.tests
    assert (test.p, test.difference, test.varies) == (pair.p, pair.difference, compared.varies)
    assert (result.outcome is Outcome.HOLDS) == (pair.verdict is Verdict.BETTER)
    about, own = answers_to_claims(claims, [result], 2)
    assert row_of(about)["verdict"] == own.verdict == str(result.outcome)
    assert row_of(about)["p"] == result.p_of_answer and row_of(own)["p"] == pair.p
    assert asdict(test)["p"] == own.numbers["p"] == pair.p
    # The two-sided test of the same pair, which ``compare`` prints, has the same lead.
    assert compared.p == pytest.approx(2 * min(pair.p or 0.0, 1 - (pair.p or 0.0)))


@settings(max_examples=40, deadline=None)
@given(old=VALUES, later=VALUES)
def test_a_rerun_has_the_difference_interval_and_p_of_one_test(old: list[int], later: list[int]) -> None:
    before, after = runs([value / 10 for value in old]), runs([value / 10 for value in later], first=11)
    reference, fresh = accepted(nt_xent=before, triplet=before), new(nt_xent=after, triplet=after)
    suite = make_suite(matters=0.5)
    result = judge_suite(suite, fresh, reference)
    cell = result.cells[0]
    score = cell.score
    assert score is not None
    sides = [side.runs("", suite.score) for side in (after, before)]
    assert sides[0] is not None and sides[1] is not None
    compared = compare_alike(sides[0], sides[1], suite.score)
    (pair,) = Question(result.levels[0], direction=Direction.BELOW).ask([compared])
    assert (score.p, score.interval) == (pair.p, pair.interval)
    assert score.difference == pytest.approx(pair.difference)
    is_worse = pair.verdict is Verdict.WORSE and pair.difference <= -suite.matters
    assert (score.finding is Finding.REGRESSION) == is_worse
    row = row_of(answers_about_suite(result, suite, fresh, reference)[0])
    shown = row["difference"]
    assert isinstance(shown, Quantity) and pair.interval is not None
    assert (shown.low, shown.high, row["p"], row["verdict"]) == (*pair.interval, pair.p, str(cell.finding))
