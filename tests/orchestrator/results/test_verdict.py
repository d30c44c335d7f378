"""Verdicts: simulated studies with a known truth, the cases at the edges, and what must not change them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from orchestrator.results.question import Verdict
from orchestrator.results.questions import answer_questions
from orchestrator.results.runs import RunId, Runs
from orchestrator.results.verdict import LEVEL, judge
from tests.support.question_rates import answer_studies, p_values
from tests.support.race_rates import Scores
from tests.support.study_rates import draw
from trainables.errors import ConfigError


def candidate(label, test, val=None, *, loss=None, missing=None):
    """A candidate with values by seed: a list for the seeds from 0, or a mapping."""
    test = dict(enumerate(test)) if isinstance(test, list) else test
    val = test if val is None else dict(enumerate(val))
    values = {seed: {"val/rsum": val[seed], "test/rsum": test[seed]} for seed in test}
    about = {"dataset": "flickr8k", "model": "vsepp", "loss": loss or label, "parameters": {"margin": 0.2}}
    return Runs.of_seeds(label, values, missing=missing, **about)


def lost(one, reasons):
    """A candidate without the values of lost seeds."""
    return replace(one, missing={RunId(0, seed): reason for seed, reason in reasons.items()})


def judge_one(*candidates, **arguments):
    return judge(candidates, **arguments)


def simulated(studies, candidates, seeds, *, spreads=1.0, baseline=None, seed=11):
    """Words of studies of as many losses, all equal."""
    generator = np.random.default_rng(seed)
    scores = draw(generator, studies, candidates, seeds, spreads=spreads)
    p, means = p_values(Scores(scores), seeds)
    return answer_studies(p, means, np.arange(candidates), baseline)


@pytest.mark.parametrize("candidates", [12, *(pytest.param(n, marks=pytest.mark.proof) for n in (2, 4, 31, 60, 200))])
@pytest.mark.parametrize("wide", [1.0, 4.0], ids=["equal spreads", "baseline quieter than all others"])
@pytest.mark.parametrize("seeds", [3, 5])
def test_no_number_of_candidates_beats_a_baseline_by_luck_more_often_than_stated(candidates, wide, seeds):
    spreads = np.r_[np.full(candidates - 1, wide), 1.0]
    studies, baseline = 8000 if candidates <= 60 else 2000, candidates - 1
    words = simulated(studies, candidates, seeds, spreads=spreads, baseline=baseline, seed=candidates)
    # Two standard errors above the stated 4.2 %.
    assert words.beats[:, baseline].mean() <= 0.042 + 2 * np.sqrt(0.042 / studies)


@pytest.mark.parametrize(
    ("candidates", "seeds", "spreads", "beaten"),
    [
        pytest.param(2, 5, 1.0, 0.029, id="two candidates"),
        pytest.param(2, 5, [4.0, 1.0], 0.038, id="unequal spreads"),
        pytest.param(2, 3, 1.0, 0.023, id="three seeds", marks=pytest.mark.proof),
        pytest.param(2, 10, 1.0, 0.035, id="ten seeds", marks=pytest.mark.proof),
        pytest.param(4, 5, 1.0, 0.002, id="four candidates", marks=pytest.mark.proof),
    ],
)
def test_the_rates_that_the_evidence_states(candidates, seeds, spreads, beaten):
    words = simulated(20_000, candidates, seeds, spreads=spreads)
    assert (words.beats | words.own).all(1).mean() == pytest.approx(beaten, abs=0.004)


def test_a_clear_study():
    verdict = judge_one(
        candidate("a", [350.0, 351.0, 352.0], [300.0, 301.0, 302.0]),
        candidate("b", [340.0, 341.0, 342.0], [290.0, 291.0, 292.0]),
        candidate("old", [320.0, 321.0, 322.0], [270.0, 271.0, 272.0]),
        baseline="old",
    )
    assert (verdict.verdict, verdict.winner.label, verdict.warnings) == (Verdict.BETTER, "a", ())
    assert (verdict.winner.mean("val/rsum"), verdict.winner.mean("test/rsum")) == (301, 351)
    assert verdict.winner.measure("test/rsum").std == pytest.approx((2 / 3) ** 0.5)
    near, baseline = verdict.pairs
    assert near.difference == 10
    # The winner beats both, so the larger p-value holds for the conclusion.
    assert verdict.conclusion("loss").p == max(near.p, baseline.p) == near.comparison.p


A = candidate("a", [350.0, 351.0, 352.0, 350.5, 351.5])
FAR_BELOW = candidate("b", [300.0, 301.0, 302.0, 300.5, 301.5])
TWIN = candidate("twin", [350.0, 350.5, 351.0], loss="a")
WEAK = candidate("weak", [200.0, 201.0, 202.0], loss="triplet")
STRONG = candidate("strong", [250.0, 251.0, 252.0], loss="triplet")


@pytest.mark.parametrize(
    ("candidates", "baseline", "groups"),
    [
        pytest.param([FAR_BELOW], "b", (["b"], [], ["b"]), id="one candidate in two questions"),
        pytest.param([FAR_BELOW], "a", (["b"], [], []), id="the winner is the baseline"),
        pytest.param(
            [FAR_BELOW, WEAK, STRONG],
            "triplet",
            (["b", "strong", "weak"], [], ["strong"]),
            id="the best of the baseline's loss",
        ),
        pytest.param([TWIN, FAR_BELOW], "b", (["b"], ["twin"], ["b"]), id="another setting of the winner's loss"),
        pytest.param([TWIN], None, ([], ["twin"], []), id="no other loss"),
    ],
)
def test_who_is_compared_with_the_winner_in_which_question(candidates, baseline, groups):
    verdict = judge_one(A, *candidates, baseline=baseline)
    found = ([other.label for other in verdict.others(key)] for key in ("loss", "coefficients", "published"))
    assert tuple(found) == groups


def test_welchs_test_is_on_the_metric_that_decides():
    winner, other = [350.0, 351.0, 353.0], [340.0, 346.0, 352.0]
    (pair,) = judge_one(
        candidate("a", winner, [310.0, 311.0, 312.0]), candidate("b", other, [200.0, 201.0, 202.0])
    ).pairs
    assert pair.p == pytest.approx(stats.ttest_ind(winner, other, equal_var=False).pvalue)


def test_a_winner_has_to_beat_every_candidate():
    """The last on val is of another spread, and so is not beaten although the others are."""
    quiet = [350.0, 350.1, 349.9, 350.05, 349.95]
    others = [candidate(name, [value - 5 for value in quiet]) for name in ("b", "old")]
    wild = candidate("wild", [200.0, 500.0, 250.0, 480.0, 290.0])
    verdict = judge_one(candidate("a", quiet), *others, wild, baseline="old")
    words = {"b": Verdict.BETTER, "old": Verdict.BETTER, "wild": Verdict.TIE}
    assert {pair.second: pair.verdict for pair in verdict.pairs} == words
    assert verdict.verdict is Verdict.TIE
    assert judge_one(candidate("a", quiet), *others, baseline="old").verdict is Verdict.BETTER


def test_a_lead_over_another_loss_pays_for_every_setting_of_the_winners():
    same = [candidate(f"a{n}", [value - n / 100 for value in (350.0, 351.0, 352.0)], loss="a") for n in range(8)]
    verdict = judge_one(*same, candidate("b", [346.0, 347.5, 348.0]))
    p = verdict.pair_of["b"].comparison.p
    assert verdict.pair_of["b"].p == pytest.approx(1 - (1 - p / 2) ** 8)


def test_a_candidate_that_is_far_better_on_test_shows_the_winner_to_be_worse():
    chosen = candidate("a", [350.0, 351.0, 352.0], [310.0, 311.0, 312.0])
    second = candidate("b", [340.0, 341.0, 342.0], [300.0, 301.0, 302.0])
    third = candidate("c", [390.0, 391.0, 392.0], [200.0, 201.0, 202.0])
    verdict = judge_one(chosen, second, third)
    assert (verdict.winner.label, verdict.verdict) == ("a", Verdict.WORSE)
    assert verdict.pair_of["c"].p == pytest.approx(2 * verdict.pair_of["c"].comparison.p)


def test_a_lead_of_a_setting_without_a_row_is_corrected_for_all_of_them():
    """Nobody named it before its values were known: in truth equal, it is called better in too many studies."""
    chosen = candidate("a", [350.0, 351.0, 352.0], [310.0, 311.0, 312.0])
    others = [
        candidate(f"b{n}", [351.2 + above, 352.2 + above, 353.2 + above], [300.0 - n] * 3, loss="b")
        for n, above in enumerate((0.0, 0.1, 0.2, 2.2))
    ]
    verdict = judge_one(chosen, *others)
    pair = verdict.pair_of["b3"]
    assert pair.comparison.p <= LEVEL < pair.p == pytest.approx(4 * pair.comparison.p)
    assert (pair.verdict, verdict.verdict) == (Verdict.TIE, Verdict.TIE)


def test_a_winner_that_beats_every_candidate_needs_no_correction():
    winner = candidate("a", [350.0, 351.0, 352.0])
    others = [candidate(name, [value, value + 1, value + 2]) for name, value in (("b", 347.05), ("old", 347.0))]
    verdict = judge_one(winner, *others, baseline="old")
    near, baseline = verdict.pairs
    assert baseline.comparison.p < near.comparison.p <= LEVEL < 2 * baseline.comparison.p
    assert (verdict.verdict, near.p) == (Verdict.BETTER, near.comparison.p)


ONE, RIGID = [candidate("a", [9.0]), candidate("b", [1.0])], candidate("a", [9.0, 9.0])
LOST = {5: "diverged"}
ALONE = replace(A, values={run: A.values[run] for run in A.ids[:1]})


@pytest.mark.parametrize(
    ("candidates", "verdict", "reason"),
    [
        pytest.param([A], Verdict.UNTESTED, "nothing was compared", id="alone"),
        pytest.param([ALONE, FAR_BELOW], Verdict.UNTESTED, "two seeds", id="winner with one seed"),
        pytest.param([A, ONE[1]], Verdict.UNTESTED, "at least two seeds", id="runner-up with one seed"),
        pytest.param(ONE, Verdict.UNTESTED, "at least two seeds", id="one seed each"),
        pytest.param([RIGID, candidate("b", [1.0, 1.0])], Verdict.UNTESTED, "varies over its seeds", id="rigid"),
        pytest.param([RIGID, candidate("b", [9.0, 9.0])], Verdict.TIE, "same value", id="rigid and equal"),
        pytest.param(
            [candidate("a", [400.0] * 5), FAR_BELOW], Verdict.BETTER, "at margin = 0.2 beats b", id="one rigid"
        ),
        pytest.param([lost(replace(A, values={}), LOST)], Verdict.UNTESTED, "No training", id="all diverged"),
        pytest.param(
            [lost(A, LOST), lost(FAR_BELOW, LOST)],
            Verdict.UNTESTED,
            "every candidate lost a seed",
            id="every candidate lost a seed",
        ),
        pytest.param([lost(A, LOST), FAR_BELOW], Verdict.WORSE, "worse on test than a", id="unstable rival"),
        pytest.param(
            [A, FAR_BELOW, candidate("far", {0: 100.0}, missing={1: "diverged", 2: "diverged"})],
            Verdict.BETTER,
            "a at margin = 0.2 beats b",
            id="a candidate of which one seed is left",
        ),
    ],
)
def test_edges(candidates, verdict, reason):
    got = judge_one(*candidates)
    assert got.verdict is verdict
    assert reason in answer_questions(got)[0].headline
    json.dumps(got.to_dict(), allow_nan=False)


def test_seeds_that_are_gone_are_named():
    unstable = candidate("unstable", {0: 360.0, 4: 361.0}, missing={2: "diverged", 1: "failed"})
    lone = candidate("lone", {0: 100.0}, missing={1: "diverged"})
    verdict = judge_one(A, unstable, candidate("short", [340.0, 341.0]), lone)
    assert [one.label for one in verdict.candidates] == ["a", "unstable", "short", "lone"]
    assert [text.partition("; ")[0] for text in verdict.warnings] == [
        "candidate lone has 1 of 5 seeds: seed 1 diverged, 3 not run",
        "candidate short has 2 of 5 seeds: 3 not run",
        "candidate unstable has 2 of 5 seeds: seed 1 failed, seed 2 diverged, 1 not run",
    ]
    assert "rank before it" in verdict.warnings[2] and "a test needs two" in verdict.warnings[0]
    assert verdict.candidates[1].to_dict()["missing"] == {"1": "failed", "2": "diverged"}
    gone = judge_one(A, lost(replace(FAR_BELOW, values={}), {0: "diverged"}), baseline="b")
    assert gone.warnings[-1] == "the baseline b has no finished seed, so nothing was compared with it"


@pytest.mark.parametrize(
    ("candidates", "arguments", "error", "text"),
    [
        pytest.param([A], {"metric": "test/r1"}, ConfigError, "seed 0: has no test/r1", id="missing metric"),
        pytest.param([candidate("x", [1.0, float("nan")])], {}, ValueError, "seed 1: .*finite, got nan", id="nan"),
        pytest.param([candidate("x", [float("inf")])], {}, ValueError, "finite, got inf", id="infinite"),
    ],
)
def test_refusals(candidates, arguments, error, text):
    with pytest.raises(error, match=text):
        judge(candidates, **arguments)


def test_a_metric_that_some_seeds_lack_counts_the_seeds_it_has():
    values = {run: dict(metrics) for run, metrics in A.values.items()}
    values[RunId(0, 0)]["cocos/i2t_negatives_per_query"] = 6.0
    values[RunId(0, 3)]["cocos/i2t_negatives_per_query"] = 8.0
    measured = judge_one(replace(A, values=values)).winner.measures()["cocos/i2t_negatives_per_query"]
    assert (measured.mean, measured.std, measured.seeds) == (7, 1, 2)


@st.composite
def studies(draw):
    labels = draw(st.lists(st.text("aβ<_", min_size=1, max_size=4), min_size=2, max_size=5, unique=True))
    numbers = st.lists(st.integers(2000, 2100).map(lambda tenths: tenths / 10), min_size=1, max_size=4)
    return [candidate(label, draw(numbers)) for label in labels]


@given(studies(), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_neither_order_nor_json_changes_a_verdict_and_one_seed_never_wins(candidates, random):
    shuffled = []
    for one in candidates:
        records = list(one.values.items())
        random.shuffle(records)
        shuffled.append(replace(one, values=dict(records)))
    random.shuffle(shuffled)
    verdict = judge_one(*candidates)
    assert judge_one(*shuffled).to_dict() == verdict.to_dict()
    assert json.loads(json.dumps(verdict.to_dict(), allow_nan=False))["verdict"] == verdict.verdict
    if any(len(one.values) == 1 for one in verdict.candidates[:2]):
        assert verdict.verdict is not Verdict.BETTER


@given(studies())
@settings(max_examples=50)
def test_a_worse_candidate_changes_neither_winner_nor_runner_up(candidates):
    before = judge_one(*candidates)
    after = judge_one(*candidates, candidate("a worse one", [100.0, 101.0, 102.0]))
    assert after.winner == before.winner
    assert [pair.comparison for pair in after.pairs[:-1]] == [pair.comparison for pair in before.pairs]
