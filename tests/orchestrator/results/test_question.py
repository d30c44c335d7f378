"""Questions: one p-value and one word a pair, by direction, family and level; and conclusions over pairs."""

from collections.abc import Sequence

import pytest

from orchestrator.results.comparison import Comparison, compare
from orchestrator.results.question import Bonferroni, Direction, Question, Verdict, conclude, holm_adjusted, only_worse
from orchestrator.results.runs import Runs

METRIC = "test/rsum"


def runs(label: str, *values: float, **about: object) -> Runs:
    return Runs.of_seeds(label, {seed: {METRIC: value} for seed, value in enumerate(values)}, **about)


WINNER = runs("w", 350.0, 351.0, 352.0)
OTHERS = (runs("far", 300.0, 301.0, 302.0), runs("near", 348.5, 349.0, 350.5), runs("above", 353.0, 354.0, 355.5))


def comparisons(*others: Runs) -> list[Comparison]:
    return [compare(WINNER, other, METRIC) for other in others]


def words(question: Question, compared: Sequence[Comparison]) -> list[str]:
    return [str(pair.verdict) for pair in question.ask(compared)]


def test_each_pair_has_the_word_of_its_p_value_at_the_level() -> None:
    compared = comparisons(*OTHERS)
    p = [float(one.p or 0) for one in compared]
    assert p[0] < 0.001 < p[2] < 0.05 < p[1] < 0.2
    assert words(Question(0.05), compared) == ["better", "tie", "worse"]
    assert words(Question(0.2), compared) == ["better", "better", "worse"]
    assert words(Question(p[1]), compared)[1] == "better", "a p-value at the level counts"


def test_a_family_corrects_all_its_pairs_and_leaves_out_the_untested() -> None:
    compared = comparisons(OTHERS[0], runs("lone", 1.0), *OTHERS[1:])
    pairs = Question(0.05, family=holm_adjusted).ask(compared)
    p = [one.p for one in compared]
    assert [pair.p for pair in pairs] == [pytest.approx(3 * p[0]), None, pytest.approx(p[2]), pytest.approx(2 * p[3])]
    assert pairs[1].verdict is Verdict.UNTESTED
    assert Question(0.05, family=Bonferroni(4)).ask(compared)[0].p == pytest.approx(4 * p[0])
    assert Question(0.05, family=Bonferroni(100)).ask(compared)[2].p == 1.0


def test_a_direction_has_a_one_sided_p_value_and_one_word() -> None:
    compared = comparisons(*OTHERS)
    above = Question(0.1, direction=Direction.ABOVE).ask(compared)
    below = Question(0.1, direction=Direction.BELOW).ask(compared)
    assert [str(pair.verdict) for pair in above] == ["better", "better", "tie"]
    assert [str(pair.verdict) for pair in below] == ["tie", "tie", "worse"]
    assert above[2].p == pytest.approx(1 - (compared[2].p or 0) / 2)
    assert below[2].p == pytest.approx((compared[2].p or 0) / 2)
    assert words(Question(0.05, direction=Direction.ABOVE, bound=60.0), compared) == ["tie"] * 3
    assert words(Question(0.05, direction=Direction.BELOW, bound=60.0), compared)[0] == "worse"


def test_an_exact_difference_has_its_word_without_a_p_value() -> None:
    exact = [runs(label, value, has_seeds=False) for label, value in (("w", 9.0), ("b", 1.0), ("c", 9.0))]
    pairs = Question(0.05).ask([compare(exact[0], other, METRIC) for other in exact[1:]])
    assert [(pair.verdict, pair.p) for pair in pairs] == [(Verdict.BETTER, None), (Verdict.TIE, None)]
    above = Question(0.05, direction=Direction.ABOVE, bound=10.0).ask([compare(exact[0], exact[1], METRIC)])
    assert above[0].verdict is Verdict.TIE


def test_a_conclusion_is_better_only_where_every_pair_is() -> None:
    far, near, above = Question(0.2).ask(comparisons(*OTHERS))
    both = conclude([far, near])
    assert (both.verdict, both.deciding, both.p) == (Verdict.BETTER, near, near.p)
    assert conclude([far, near, above]).deciding == above
    tie = Question(0.05).ask(comparisons(*OTHERS[:2]))
    assert (conclude(tie).verdict, conclude(tie).deciding) == (Verdict.TIE, tie[1])
    (lone,) = Question(0.05).ask(comparisons(runs("lone", 1.0)))
    assert conclude([*tie, lone]).verdict is Verdict.UNTESTED
    assert conclude([far, lone, above]).verdict is Verdict.WORSE
    assert conclude([]).verdict is Verdict.UNTESTED
    assert [str(pair.verdict) for pair in only_worse([far, near, above])] == ["untested", "untested", "worse"]


def test_a_pair_turned_has_the_other_word_and_the_same_p_value() -> None:
    far, _, above = Question(0.05).ask(comparisons(*OTHERS))
    assert (far.turned().verdict, far.turned().p, far.turned().first) == (Verdict.WORSE, far.p, "far")
    assert above.turned().verdict is Verdict.BETTER
    assert far.interval is not None and far.turned().interval == (-far.interval.high, -far.interval.low)
