"""The engine of claims is proved on the paper's own tables, on exchanged rows, and on pages without effects."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from orchestrator.claims import engine
from orchestrator.claims.cells import published_cells
from orchestrator.claims.claims import Claims, load_claims
from orchestrator.claims.engine import Groups, Missing, Outcome, decide_claims
from orchestrator.experiment.yaml_files import validate
from orchestrator.reference.published import shipped_claims
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import Measure
from tests.benchmarks.claims import COMPARISONS, held, truths
from tests.support.claim_pages import (
    NOT_IN_THE_TABLES,
    answerable_claims,
    false_claims,
    false_holds,
    runs_of,
    shuffled,
    truth_of_the_paper,
)
from trainables.errors import ConfigError


def page(*claims: Mapping[str, object], level: float = 0.05) -> Claims:
    listed = [
        {"id": f"c{number}", "number": number, "statement": "s", "where": "w", "holds_if": [part]}
        for number, part in enumerate(claims, start=1)
    ]
    return validate(Claims, {"name": "p", "source": "s", "level": level, "claims": listed}, "p.yaml")


def cells(**means: tuple[float, float | None, int]) -> Groups:
    return runs_of({("pets", "vsepp"): {loss: {"rsum": Measure(*values)} for loss, values in means.items()}})


def test_the_claims_that_the_paper_draws_from_its_tables_hold_on_its_tables() -> None:
    claims = load_claims("ecir-2022")
    outcomes = {finding.claim.id: finding.outcome for finding in decide_claims(claims, published_cells(claims))}
    assert {name for name, outcome in outcomes.items() if outcome is Outcome.NOT_RUN} == set(NOT_IN_THE_TABLES)
    assert {outcome for name, outcome in outcomes.items() if name not in NOT_IN_THE_TABLES} == {Outcome.HOLDS}


def test_with_exchanged_rows_they_do_not() -> None:
    generator, claims = np.random.default_rng(0), answerable_claims()
    compare = {claim.id for claim in claims.claims if claim.holds_if[0].kind in COMPARISONS}
    for _ in range(10):
        found = held(claims, shuffled(published_cells(claims), generator))
        assert "triplet-sh-is-best" not in found
        assert not found & compare, found


@pytest.mark.parametrize("case", list(truths(truth_of_the_paper())))
def test_a_page_calls_a_false_claim_true_in_at_most_one_page_of_twenty(case: str) -> None:
    claims, pages, truth = answerable_claims(), 40, truths(truth_of_the_paper())[case]
    assert false_claims(claims, truth) and not false_claims(claims, truth_of_the_paper())
    false, _ = false_holds(claims, truth, pages, np.random.default_rng(1))
    assert false <= stats.binom.ppf(0.999, pages, claims.level)


OPPOSED = {"kind": "opposed", "losses": list("abcd"), "metrics": ["n"], "and_metrics": ["rsum"]}


def orders(counts: Sequence[float], scores: Sequence[float], std: float = 0.1, count_std: float = 1e-3) -> Groups:
    losses = zip("abcd", counts, scores, strict=True)
    measures = {loss: {"n": Measure(n, count_std, 5), "rsum": Measure(score, std, 5)} for loss, n, score in losses}
    return runs_of({("pets", "vsepp"): measures})


def test_opposed_is_the_slope_of_scores_over_the_ranks_of_counts() -> None:
    """Where the order of the counts is certain, the test is Welch's of the contrast with centred ranks."""
    counts, scores, std = [1.0, 2.0, 4.0, 3.0], [5.0, 3.0, 3.0, 1.0], 2.0
    (finding,) = decide_claims(page(OPPOSED), orders(counts, scores, std))
    (test,) = finding.tests
    weights = stats.rankdata(counts) - 2.5
    assert test.difference == pytest.approx(stats.linregress(weights, scores).slope)
    parts = weights**2 * std**2 / 4
    freedom = parts.sum() ** 2 / (parts**2 / 4).sum()
    assert test.p == pytest.approx(2 * stats.t.sf(-(weights @ scores) / np.sqrt(parts.sum()), freedom))
    assert (test.group, test.measures, test.varies) == (("pets", "vsepp"), "slope", "seeds")


def test_opposed_holds_only_for_every_order_that_the_first_metric_leaves_possible() -> None:
    """Scores fall over the measured counts, and rise where the two nearly equal ones change places."""
    counts, scores = [1.0, 1.01, 1.02, 1.03], [9.0, 3.0, 2.0, 1.0]
    (sure,) = decide_claims(page(OPPOSED), orders(counts, scores))
    (open_order,) = decide_claims(page(OPPOSED), orders(counts, scores, count_std=0.1))
    assert (sure.outcome, open_order.outcome) == (Outcome.HOLDS, Outcome.NOT_SHOWN)
    (turned,) = decide_claims(page(OPPOSED), orders(counts, scores[::-1]))
    assert turned.outcome is Outcome.CONTRADICTED and turned.tests[0].p_against == pytest.approx(sure.tests[0].p)


def test_opposed_cells_are_one_statement_about_the_mean_slope() -> None:
    falls, rises = orders([1, 2, 3, 4], [9, 6, 4, 1]), orders([1, 2, 3, 4], [4.0, 4.1, 4.2, 4.3])
    both = {("d1", "m"): falls["pets", "vsepp"], ("d2", "m"): rises["pets", "vsepp"]}
    (found,) = decide_claims(page(OPPOSED), both)
    assert (found.outcome, found.tests[0].group) == (Outcome.HOLDS, ("all", "all"))
    assert found.tests[0].difference == pytest.approx((-2.6 + 0.1) / 2)


def test_a_lead_is_tested_as_scipy_tests_it() -> None:
    generator = np.random.default_rng(3)
    first, second = generator.normal(10, 1, 5), generator.normal(9, 2, 4)
    both = cells(a=(first.mean(), first.std(), 5), b=(second.mean(), second.std(), 4))
    (finding,) = decide_claims(page({"kind": "beats", "loss": "a", "against": ["b"], "metrics": ["rsum"]}), both)
    expected = stats.ttest_ind(first, second, equal_var=False, alternative="greater").pvalue
    assert finding.p == pytest.approx(expected)


@pytest.mark.parametrize(
    ("part", "first", "outcome"),
    [
        ({"kind": "beats", "against": ["b"]}, 12.0, Outcome.HOLDS),
        ({"kind": "beats", "against": ["b"]}, 8.0, Outcome.CONTRADICTED),
        ({"kind": "beats", "against": ["b"]}, 10.1, Outcome.NOT_SHOWN),
        ({"kind": "beats", "against": ["b"], "by": 1.0}, 12.0, Outcome.HOLDS),
        ({"kind": "beats", "against": ["b"], "by": 1.9}, 12.0, Outcome.NOT_SHOWN),
        ({"kind": "alike", "against": ["b"], "margin": 2.0}, 10.1, Outcome.HOLDS),
        ({"kind": "alike", "against": ["b"], "margin": 0.2}, 10.1, Outcome.NOT_SHOWN),
        ({"kind": "alike", "against": ["b"], "margin": 2.0}, 15.0, Outcome.CONTRADICTED),
        ({"kind": "alike", "against": ["b"], "margin": 2.0}, 5.0, Outcome.CONTRADICTED),
        ({"kind": "alike", "against": ["b"], "margin": 2.0}, 8.1, Outcome.NOT_SHOWN),
        ({"kind": "not_better", "against": ["b"], "margin": 1.0}, 10.0, Outcome.HOLDS),
        ({"kind": "not_better", "against": ["b"], "margin": 1.0}, 13.0, Outcome.CONTRADICTED),
        ({"kind": "best", "against": ["b"], "margin": 1.0}, 10.1, Outcome.HOLDS),
        ({"kind": "best", "against": ["b"], "margin": 1.0}, 9.9, Outcome.NOT_SHOWN),
        ({"kind": "above", "than": 9.0}, 10.0, Outcome.HOLDS),
        ({"kind": "below", "than": 9.0}, 10.0, Outcome.CONTRADICTED),
    ],
)
def test_each_kind_of_part(part: dict[str, object], first: float, outcome: Outcome) -> None:
    both = cells(a=(first, 0.4, 5), b=(10.0, 0.4, 5))
    (finding,) = decide_claims(page({"loss": "a", "metrics": ["rsum"], **part}), both)
    assert finding.outcome is outcome


def test_values_that_differ_by_rounding_alone_show_nothing() -> None:
    equal = {
        loss: Runs.of_seeds(loss, {seed: {"rsum": 7.4} for seed in range(seeds)})
        for loss, seeds in (("nt_xent", 10), ("triplet", 7))
    }
    beats = {"kind": "beats", "loss": "nt_xent", "against": ["triplet"], "metrics": ["rsum"]}
    (found,) = decide_claims(page(beats), {("pets", "vsepp"): equal})
    assert (found.outcome, found.p) == (Outcome.NOT_SHOWN, 1.0)
    above = {"kind": "above", "loss": "nt_xent", "metrics": ["rsum"]}
    (at_the_bound, below) = decide_claims(
        page({**above, "than": 7.4}, {**above, "than": 7.3}), {("pets", "vsepp"): equal}
    )
    assert (at_the_bound.outcome, below.outcome) == (Outcome.NOT_SHOWN, Outcome.HOLDS)


def test_a_claim_over_cells_holds_only_where_every_cell_holds() -> None:
    both = {("d1", "m"): cells(a=(12.0, 0.4, 5), b=(10.0, 0.4, 5))["pets", "vsepp"]}
    both |= {("d2", "m"): cells(a=(10.0, 0.4, 5), b=(10.0, 0.4, 5))["pets", "vsepp"]}
    part = {"kind": "beats", "loss": "a", "against": ["b"], "metrics": ["rsum"]}
    (finding,) = decide_claims(page(part), both)
    assert finding.outcome is Outcome.NOT_SHOWN
    assert finding.deciding.group == ("d2", "m")
    (alone,) = decide_claims(page({**part, "datasets": ["d1"]}), both)
    assert alone.outcome is Outcome.HOLDS


def test_several_claims_of_a_page_are_corrected() -> None:
    both = cells(a=(10.6, 0.4, 5), b=(10.0, 0.4, 5))
    part = {"kind": "beats", "loss": "a", "against": ["b"], "metrics": ["rsum"]}
    (alone,) = decide_claims(page(part), both)
    first, second, third = decide_claims(page(part, part, part), both)
    assert alone.p is not None and first.p == second.p == third.p == pytest.approx(3 * alone.p)


def test_a_contradiction_pays_for_all_tests_of_the_claim_and_for_all_claims() -> None:
    """A part over two metrics is two tests; an opposite that one of them shows is corrected for both."""
    numbers = {"a": (9.4, 0.4, 5), "b": (10.0, 0.4, 5)}
    both = runs_of({("pets", "vsepp"): {loss: dict.fromkeys("xy", Measure(*of)) for loss, of in numbers.items()}})
    part = {"kind": "beats", "loss": "a", "against": ["b"], "metrics": ["x"]}
    (alone,) = decide_claims(page(part), both)
    (twice,) = decide_claims(page({**part, "metrics": ["x", "y"]}), both)
    first, *_ = decide_claims(page(part, part, part), both)
    assert alone.p_against is not None and alone.outcome is Outcome.CONTRADICTED
    assert twice.p_against == pytest.approx(2 * alone.p_against)
    assert first.p_against == pytest.approx(3 * alone.p_against)
    near = {loss: (of[0] + 0.02 * (loss == "a"), *of[1:]) for loss, of in numbers.items()}
    close = runs_of({("pets", "vsepp"): {loss: dict.fromkeys("xy", Measure(*of)) for loss, of in near.items()}})
    assert (
        decide_claims(page(part, part, part, level=2 * alone.p_against / engine.SHARE), close)[0].outcome
        is Outcome.NOT_SHOWN
    )


SAME_BEST = {"kind": "same_best", "losses": ["a", "b"], "metrics": ["x"], "and_metrics": ["y"], "margin": 0.8}


def bests(**means: tuple[float, float]) -> Groups:
    measures = {loss: {"x": Measure(x, 0.3, 5), "y": Measure(y, 0.3, 5)} for loss, (x, y) in means.items()}
    return runs_of({("pets", "vsepp"): measures})


def test_the_same_best_is_the_best_of_the_first_metric() -> None:
    """By the second metric another loss is ahead, far enough to contradict that the first is as good there."""
    (found,) = decide_claims(page(SAME_BEST), bests(a=(12.0, 9.0), b=(10.0, 12.0)))
    assert (found.outcome, found.tests[0].subject) == (Outcome.CONTRADICTED, "a - b")
    assert found.tests[0].difference == pytest.approx(-3.0)


@pytest.mark.parametrize(
    ("means", "outcome", "subject"),
    [
        # The best by x is clear, and b's place in y does not matter.
        ({"a": (12.0, 12.0), "b": (10.0, 9.0)}, Outcome.HOLDS, "a - b"),
        # Either may be the best by x, and b is far behind by y.
        ({"a": (12.0, 12.0), "b": (11.95, 9.0)}, Outcome.NOT_SHOWN, "a - b"),
        # Either may be the best by x, and both are alike by y.
        ({"a": (12.0, 12.0), "b": (11.95, 12.0)}, Outcome.HOLDS, "a - b"),
        ({"a": (12.0, 12.0), "b": (11.95, 12.0), "c": (8.0, 1.0)}, Outcome.HOLDS, "b - a"),
    ],
)
def test_the_same_best_holds_for_every_loss_that_may_be_the_best(
    means: dict[str, tuple[float, float]], outcome: Outcome, subject: str
) -> None:
    (found,) = decide_claims(page({**SAME_BEST, "losses": list(means)}), bests(**means))
    assert found.outcome is outcome
    assert {found.tests[0].subject} <= {subject, " - ".join(reversed(subject.split(" - ")))}


def test_a_cell_that_was_not_run_is_named() -> None:
    part = {"kind": "beats", "loss": "a", "against": ["c"], "metrics": ["rsum"]}
    (finding,) = decide_claims(page(part), cells(a=(10.0, 0.4, 5), c=(9.0, None, 1)))
    assert finding.outcome is Outcome.NOT_RUN
    assert finding.missing == (Missing(("pets", "vsepp"), "c", "rsum", "has a single run of"),)


def test_the_shipped_claims_are_sound_and_others_are_refused_in_words() -> None:
    assert set(shipped_claims()) >= {"ecir-2022", "universal-weighting", "wsabie"}
    for name in shipped_claims():
        assert load_claims(name).name == name
    with pytest.raises(ConfigError, match="did you mean 'ecir-2022'"):
        load_claims("ecir-202")
    with pytest.raises(ConfigError, match="alike needs margin"):
        page({"kind": "alike", "loss": "a", "against": ["b"], "metrics": ["rsum"]})


def test_claims_whose_name_is_no_folder_are_refused(tmp_path: Path) -> None:
    text = shipped_claims()["ecir-2022"].read_text(encoding="utf-8")
    own = tmp_path / "own.yaml"
    own.write_text(text.replace("name: ecir-2022", "name: ../../elsewhere"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"name: must be 1 to 100 letters .* '/' is none of these"):
        load_claims(str(own))


@pytest.mark.parametrize("kind", ["same_best", "opposed"])
def test_one_loss_that_is_listed_twice_has_no_order(kind: str) -> None:
    part = {"kind": kind, "losses": ["nt_xent", "nt_xent"], "metrics": ["rsum"], "and_metrics": ["i2t_r1"]}
    with pytest.raises(ConfigError, match=f"{kind} needs two losses or more"):
        page(part)
