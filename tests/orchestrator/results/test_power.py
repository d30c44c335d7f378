"""From the journal to the verdict, the statistics keep what they promise; a tie after few seeds says so."""

from collections import Counter

import numpy as np
import pytest

from orchestrator.results import confirmed
from orchestrator.results.power import FOUND, weakness_of_tie
from orchestrator.results.verdict import LEVEL, Verdict, judge
from tests.support.experiments import add_repeat, add_trial, make_experiment, open_test
from tests.support.study_rates import draw, judge_studies
from tests.support.unwritten_ledger import UnwrittenLedger

STUDIES = 500


def study(generator: np.random.Generator, seeds: int, lead: float) -> Verdict:
    """Search two losses with their published settings, and confirm them; the first leads, in standard deviations."""
    ledger = UnwrittenLedger(make_experiment(confirm={"top": 1, "seeds": 5}))
    trials = [add_trial(ledger, [350.0 + generator.normal()], loss=loss) for loss in ("nt_xent", "triplet_sh")]
    repeats = [
        add_repeat(ledger, trial, seed, seed, 350 + 1.6 * (generator.standard_normal() + lead * (trial is trials[0])))
        for trial in trials
        for seed in range(1, seeds + 1)
    ]
    open_test(ledger, repeats)
    (verdict,) = confirmed.verdicts_of(ledger.history).values()
    return verdict.verdict


def rates(monkeypatch: pytest.MonkeyPatch, seeds: int, lead: float) -> Counter[Verdict]:
    # The intervals decide nothing, and take most of the time.
    monkeypatch.setattr(confirmed, "judge", lambda *given, **rules: judge(*given, **rules, resamples=10))
    generator = np.random.default_rng(20220405)
    return Counter(study(generator, seeds, lead) for _ in range(STUDIES))


@pytest.mark.parametrize("seeds", [3, 5])
def test_from_the_journal_on_no_difference_is_a_tie(monkeypatch: pytest.MonkeyPatch, seeds: int) -> None:
    assert rates(monkeypatch, seeds, 0.0)[Verdict.TIE] >= 0.94 * STUDIES


@pytest.mark.parametrize("seeds", [3, 4, 5])
def test_from_the_journal_on_three_standard_deviations_are_found_as_often_as_is_said(
    monkeypatch: pytest.MonkeyPatch, seeds: int
) -> None:
    share = rates(monkeypatch, seeds, 3.0)[Verdict.BETTER] / STUDIES
    assert share == pytest.approx(FOUND[1][2][seeds], abs=0.05)
    assert share >= 0.9 or seeds < 5


ROWS = [(comparisons, candidates) for comparisons, rows in FOUND.items() for candidates in rows]


@pytest.mark.parametrize(("comparisons", "candidates"), ROWS, ids=str)
def test_every_share_of_the_table_is_what_the_rules_find(comparisons: int, candidates: int) -> None:
    generator = np.random.default_rng(comparisons)
    kinds = (np.arange(candidates) >= (candidates + 1) // 2).astype(int) if comparisons == 3 else None
    for seeds, share in FOUND[comparisons][candidates].items():
        scores = draw(generator, 4000 if candidates < 24 else 2000, candidates, seeds, lead=3.0)
        found = judge_studies(scores, level=LEVEL, baseline=comparisons > 1, kinds=kinds).verdicts == 1
        assert found.mean() == pytest.approx(share, abs=0.035), seeds


@pytest.mark.parametrize(
    ("comparisons", "candidates", "seeds", "said"),
    [
        pytest.param(1, 2, 3, "is found in about 61% of such studies, with 5 seeds in about 97%", id="two"),
        pytest.param(2, 3, 3, "in about 33% of such studies", id="the next larger number"),
        pytest.param(2, 12, 5, "in about 72% of such studies, with 6 seeds in about 90%", id="twelve"),
        pytest.param(3, 60, 7, "in at most 58% of such studies, with 8 seeds in at most 90%", id="beyond the table"),
        pytest.param(1, 2, 5, None, id="enough"),
        pytest.param(2, 12, 30, None, id="more seeds than the table has"),
    ],
)
def test_a_tie_after_few_seeds_says_what_it_is_worth(
    comparisons: int, candidates: int, seeds: int, said: str | None
) -> None:
    sentence = weakness_of_tie(comparisons, candidates, seeds)
    assert sentence is None if said is None else said in str(sentence)
