"""The answers to a dataset's questions: against scipy and Holm by hand, their language, and their error rates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.results.answer import Answer
from orchestrator.results.question import Verdict
from orchestrator.results.questions import answer_questions
from orchestrator.results.runs import RunId, Runs
from orchestrator.results.verdict import LEVEL, WHICH_COEFFICIENTS, WHICH_LOSS, judge
from tests.lost_words import lost_words, words_of
from tests.support.question_rates import answer_studies, false_rates, p_values, true_means
from tests.support.race_rates import Scores

SEEDS = (11, 12, 13, 14, 15)
NOISE = (-1.0, -0.5, 0.0, 0.5, 1.0)


def candidate(
    label: str,
    loss: str,
    test: Sequence[float] | np.ndarray,
    *,
    val: float | None = None,
    missing: Mapping[int, str] | None = None,
    **parameters: float,
) -> Runs:
    """Return a candidate with these values on test; on val it has their mean, or a given value."""
    chosen = float(np.mean(test)) if val is None else val
    values = {seed: {"val/rsum": chosen, "test/rsum": value} for seed, value in zip(SEEDS, test, strict=False)}
    return Runs.of_seeds(
        label, values, missing=missing, dataset="pets", model="vsepp", loss=loss, parameters=parameters
    )


def around(mean: float, spread: float = 1.0, shift: int = 0) -> list[float]:
    """Return five values with a mean, in another order for another shift."""
    return [mean + spread * value for value in (*NOISE[shift:], *NOISE[:shift])]


def ask(candidates: Sequence[Runs], *, baseline: str | None = None, **rules: object) -> dict[str, Answer]:
    verdict = judge(candidates, baseline=baseline, **rules)  # type: ignore[arg-type]
    return {answer.key: answer for answer in answer_questions(verdict)}


def rows(answer: Answer) -> dict[str, dict[str, object]]:
    return {row["candidate"]: row for row in answer.table.to_dict()["rows"]}


def outcomes(answer: Answer) -> dict[str, object]:
    return {label: row["verdict"] for label, row in rows(answer).items()}


def luckiest(p: float, chances: int) -> float:
    """Return how likely the luckiest of several leads as far."""
    return max(p, 1 - (1 - p / 2) ** chances)


THREE_LOSSES = (
    candidate("n1", "nt_xent", around(100.0), temperature=0.1),
    candidate("n2", "nt_xent", around(98.5, 1.5, 1), temperature=0.05),
    candidate("t1", "triplet_sh", around(97.0, 0.8, 2), margin=0.2),
    candidate("c1", "circle", around(90.0, 2.0, 3), margin=0.4),
)


def welch(first: Runs, second: Runs) -> float:
    both = (first.sample("test/rsum"), second.sample("test/rsum"))
    return float(scipy.stats.ttest_ind(*both, equal_var=False).pvalue)


def test_a_winner_beats_the_other_losses_by_an_intersection_of_welchs_tests() -> None:
    answer = ask(THREE_LOSSES)["setting"]
    p = {other.label: welch(THREE_LOSSES[0], other) for other in THREE_LOSSES[2:]}
    # Either setting of NT-Xent could have been the winner.
    assert (answer.verdict, answer.closest) == ("better", "t1")
    assert answer.numbers["p"] == pytest.approx(max(luckiest(value, 2) for value in p.values()))
    assert answer.numbers["p_unadjusted"] == pytest.approx(p["t1"])
    assert outcomes(answer) == {"n1": "winner", "t1": "worse", "c1": "worse"}


def test_a_loss_is_named_with_its_model_where_models_differ() -> None:
    candidates = [THREE_LOSSES[0], replace(THREE_LOSSES[0], label="s1", model="scan", values=THREE_LOSSES[3].values)]
    answer = ask(candidates)["setting"]
    assert answer.question == "Which model and setting?"
    assert answer.headline.startswith("VSE++ NT-Xent at τ = 0.1 beats SCAN NT-Xent at τ = 0.1 by 10.0 rsum")
    assert [row["name"] for row in rows(answer).values()] == ["VSE++ NT-Xent", "SCAN NT-Xent"]


def test_rows_of_a_tie_are_adjusted_by_holm_for_the_choice_of_the_winner() -> None:
    candidates = [*THREE_LOSSES[:2], candidate("t1", "triplet_sh", around(99.5, 0.8, 2), margin=0.2), THREE_LOSSES[3]]
    answer = ask(candidates)["setting"]
    near, far = (luckiest(welch(candidates[0], other), 3) for other in candidates[2:])
    assert far < near
    assert (answer.verdict, answer.closest) == ("tie", "t1")
    # The headline and its row have the p-value of the intersection, the other row Holm's of two.
    shown = rows(answer)
    assert answer.numbers["p"] == pytest.approx(luckiest(welch(candidates[0], candidates[2]), 2))
    assert shown["t1"]["p"] == answer.numbers["p"]
    assert shown["c1"]["p"] == pytest.approx(2 * far)
    assert outcomes(answer) == {"n1": "winner", "t1": "tie", "c1": "worse"}
    assert answer.notes[0] == "NT-Xent at τ = 0.1 beats Circle at margin = 0.4."


def test_the_coefficients_pay_for_losses_that_the_winner_does_not_beat() -> None:
    pairs = [*THREE_LOSSES[:2], *(candidate(f"t{n}", "triplet_sh", around(99.8, 1, n), margin=n / 10) for n in (1, 2))]
    p = welch(*pairs[:2])
    assert ask(pairs[:2])["coefficients"].numbers["p"] == pytest.approx(p)
    # Twice as much as its two losses, because which loss is best is open too.
    assert ask(pairs)["coefficients"].numbers["p"] == pytest.approx(luckiest(p, 8))
    # Of a loss with a single candidate no setting can win by luck within its loss.
    assert ask(pairs[:3])["coefficients"].numbers["p"] == pytest.approx(luckiest(p, 4))
    # Nothing is paid where the winner beats all other losses.
    behind = [*pairs[:2], *(candidate(f"t{n}", "triplet_sh", around(80.0, 1, n), margin=n / 10) for n in (1, 2))]
    assert ask(behind)["setting"].verdict == "better"
    assert ask(behind)["coefficients"].numbers["p"] == pytest.approx(p)


@pytest.mark.parametrize(("zero_shot", "verdict"), [(90.0, "better"), (110.0, "worse"), (99.9, "tie")])
def test_it_is_said_whether_fine_tuning_is_better_or_worse_than_zero_shot(zero_shot: float, verdict: str) -> None:
    """The zero-shot model has one value, whatever the seed; the winner was chosen on val, where it is lower."""
    as_published = replace(
        candidate("z", "zero_shot", [zero_shot] * 5, val=80.0), model="clip", parameters={"model.trained": "none"}
    )
    tuned = replace(THREE_LOSSES[0], model="clip")
    answer = ask([tuned, as_published], baseline="z")["published"]
    assert answer.verdict == verdict and "published settings (Zero-shot, trained = none)" in answer.headline
    assert "The published settings are the pretrained model, which was not trained (zero-shot)." in answer.notes
    # Where it is best on val too, it wins.
    best = replace(as_published, values=candidate("z", "zero_shot", [120.0] * 5).values)
    won = ask([tuned, best], baseline="z")["published"]
    assert won.headline == "The published settings (Zero-shot, trained = none) win."
    assert won.notes[-1] == "No confirmed training was better than the pretrained model on val."
    assert not any("zero-shot" in note for note in ask([*THREE_LOSSES[:3]], baseline="t1")["published"].notes)


def test_the_published_settings_are_beaten_by_the_luckiest_of_all() -> None:
    answer = ask(THREE_LOSSES, baseline="t1")["published"]
    assert answer.verdict == "better"
    # The pair is also one of those of the other losses, of which the winner beats all: it has one p-value.
    p = [luckiest(welch(THREE_LOSSES[0], other), 2) for other in THREE_LOSSES[2:]]
    assert answer.numbers["p"] == pytest.approx(max(p)) == ask(THREE_LOSSES, baseline="t1")["setting"].numbers["p"]
    # Where it beats not all of them, the luckiest of all candidates could have been the winner, twice over.
    wild = candidate("c1", "circle", around(90.0, 12.0, 3), margin=0.4)
    answers = ask([*THREE_LOSSES[:3], wild], baseline="t1")
    # It is also one of the bests of two other losses, which costs less here.
    assert answers["published"].numbers["p"] == pytest.approx(2 * luckiest(welch(THREE_LOSSES[0], THREE_LOSSES[2]), 3))
    rows = (("t1", around(99.8, 1, 2)), ("t2", around(98, 1, 4)), ("t3", around(90, 30, 5)))
    settings = [candidate(label, "triplet_sh", of, margin=place / 10) for place, (label, of) in enumerate(rows)]
    named = ask([THREE_LOSSES[0], *settings], baseline="t2")["published"]
    assert named.numbers["p"] == pytest.approx(luckiest(welch(THREE_LOSSES[0], settings[1]), 8))
    assert (answers["setting"].verdict, answers["published"].verdict) == ("tie", "better")
    # A winner that is the baseline has nothing to beat, and nothing is open.
    assert "settle" not in ask([THREE_LOSSES[0], *THREE_LOSSES[2:]], baseline="n1")


def field(*about: tuple[str, str, float, float]) -> list[Runs]:
    """Candidates from label, loss, mean on test and mean on val."""
    return [
        candidate(label, loss, around(mean, 1.0, place), val=val, margin=place / 10)
        for place, (label, loss, mean, val) in enumerate(about)
    ]


NT = ("n1", "nt_xent", 100.0, 100.0)
LOST = {12: "diverged", 13: "failed"}
LOST_RUNS = {RunId(0, seed): reason for seed, reason in LOST.items()}


@pytest.mark.parametrize(
    ("candidates", "verdict", "closest", "of_rows"),
    [
        pytest.param(
            field(NT, ("t1", "triplet_sh", 90, 99), ("t2", "triplet_sh", 99.6, 98)),
            "tie",
            "t2",
            {"n1": "winner", "t1": "worse", "t2": "tie"},
            id="a setting that val ranks lower is closest, and has a row",
        ),
        pytest.param(
            field(NT, ("t1", "triplet_sh", 80, 80), ("t2", "triplet_sh", 85, 70), ("c1", "circle", 60, 60)),
            "better",
            "t2",
            {"n1": "winner", "t1": "worse", "t2": "worse", "c1": "worse"},
            id="the setting whose p-value is that of the headline has a row",
        ),
        pytest.param(
            field(("c1", "circle", 90, 101), ("t1", "triplet_sh", 97, 100)),
            "worse",
            "t1",
            {"c1": "winner", "t1": "better"},
            id="best on val and worse on test",
        ),
        pytest.param(
            [replace(one, missing=LOST_RUNS) for one in field(NT, ("t1", "triplet_sh", 97, 97))],
            "untested",
            "t1",
            {"n1": "winner", "t1": "untested"},
            id="a winner that lost seeds beats nobody",
        ),
        pytest.param(
            [*field(NT, ("t1", "triplet_sh", 97, 97)), candidate("c1", "circle", [79.9], missing=LOST)],
            "better",
            "t1",
            {"n1": "winner", "t1": "worse", "c1": "untested"},
            id="a loss that could not be compared is not beaten",
        ),
    ],
)
def test_each_row_says_how_its_candidate_compares(
    candidates: Sequence[Runs], verdict: str, closest: str, of_rows: dict[str, str]
) -> None:
    answer = ask(candidates)["setting"]
    assert (answer.verdict, answer.closest, outcomes(answer)) == (verdict, closest, of_rows)


def test_the_detectable_difference_is_that_of_the_test_that_decides() -> None:
    """Simulated studies with this true difference find it in 80 %: a property of the number, not of the formula."""
    first, second = THREE_LOSSES[0], candidate("t1", "triplet_sh", around(99.6, 1.0, 2), margin=0.2)
    answers = ask([first, second])
    smallest = float(answers["setting"].numbers["smallest_detectable_difference"] or 0.0)
    spread = float(first.sample("test/rsum").std(ddof=1))
    rng = np.random.default_rng(0)
    leads = rng.normal(smallest, spread, (4000, 5)), rng.normal(0.0, spread, (4000, 5))
    p = scipy.stats.ttest_ind(*leads, axis=1, equal_var=False).pvalue
    assert np.mean(p <= LEVEL) == pytest.approx(0.8, abs=0.04)
    assert f"the smallest detectable difference is {smallest:.1f}; " in answers["settle"].headline
    # More chances need a larger difference.
    others = [candidate(f"n{n}", "nt_xent", around(95.0, 1.0, 1), temperature=n) for n in (3, 4, 5)]
    assert smallest < ask([first, second, *others])["setting"].numbers["smallest_detectable_difference"]  # type: ignore[operator]


VALUES = st.lists(st.integers(0, 8), min_size=3, max_size=3)
FIELDS = st.lists(st.tuples(st.sampled_from(["nt_xent", "triplet_sh", "circle"]), VALUES), min_size=1, max_size=7)


@settings(max_examples=60)
@given(drawn=FIELDS, order=st.randoms(use_true_random=False))
def test_neither_order_nor_labels_change_an_answer(drawn: list[tuple[str, list[int]]], order: object) -> None:
    # Distinct means on val, so that no label has to break a tie.
    candidates = [
        candidate(f"c{place}", loss, [100.0 + value for value in values], val=100.0 - place, margin=place / 10)
        for place, (loss, values) in enumerate(drawn)
    ]
    turned = [replace(one, label=f"z{9 - int(one.label[1:])}") for one in candidates]
    order.shuffle(turned)  # type: ignore[attr-defined]
    first, second = ask(candidates, baseline="c0"), ask(turned, baseline="z9")
    assert [(key, one.headline, one.verdict, one.numbers) for key, one in first.items()] == [
        (key, one.headline, one.verdict, one.numbers) for key, one in second.items()
    ]
    for answer in first.values():
        for sentence in answer.sentences:
            if not any("seed" in sentence and word in sentence for word in ("made no difference", "has no spread")):
                assert words_of(sentence) <= 30
            assert not lost_words(sentence)


@pytest.mark.parametrize("studies", [40, pytest.param(200, marks=pytest.mark.proof)])
def test_the_simulated_rules_are_those_of_the_product(studies: int) -> None:
    """Studies of seven candidates of three losses, with close and with distant means."""
    kinds, baseline = np.array([0, 0, 0, 1, 1, 2, 2]), 3
    rng = np.random.default_rng(5)
    distances = rng.choice([0.0, 1.0, 4.0], (200, 7)) * rng.random((200, 7))
    scores = distances[..., None] + rng.standard_normal((200, 7, 4))
    p, means = p_values(Scores(scores), 4)
    words = answer_studies(p, means, kinds, baseline)
    for study in range(studies):
        candidates = [
            candidate(f"c{place}", f"loss{kinds[place]}", 300 + values) for place, values in enumerate(scores[study])
        ]
        verdict = judge(candidates, baseline=f"c{baseline}")
        beats, own = words.beats[study], words.own[study]
        beaten = {pair.second for pair in verdict.pairs if pair.verdict is Verdict.BETTER}
        assert beaten == {f"c{place}" for place in np.flatnonzero(beats)}
        for key, group in ((WHICH_LOSS, ~own), (WHICH_COEFFICIENTS, own & (np.arange(7) != words.winner[study]))):
            conclusion = verdict.conclusion(key)
            assert (conclusion.verdict is Verdict.BETTER) == (bool(group.any()) and bool(beats[group].all()))


@pytest.mark.parametrize(
    ("losses", "of_each", "null"),
    [
        (3, 2, "all equal"),
        pytest.param(5, 1, "all equal", marks=pytest.mark.proof),
        pytest.param(1, 6, "all equal", marks=pytest.mark.proof),
        pytest.param(6, 5, "many against one", marks=pytest.mark.proof),
    ],
)
def test_a_winner_beats_its_equal_in_at_most_five_percent_of_studies(losses: int, of_each: int, null: str) -> None:
    means = true_means(null, losses, of_each, 2.0)
    rates = false_rates(np.random.default_rng(1), 4000, means, losses, 5)
    # 5 % and two standard errors of 4,000 studies.
    assert max(rates[question] for question in "abc") <= 0.05 + 2 * (0.05 * 0.95 / 4000) ** 0.5


def test_the_table_names_a_loss_once_and_its_setting_beside_it() -> None:
    """A setting that val ranks lower decides, so that one loss has two rows."""
    worse = candidate("t2", "triplet_sh", around(99.0, 6.0), val=90.0, margin=0.4)
    answer = ask([candidate("n1", "nt_xent", around(100.0), temperature=0.1), THREE_LOSSES[2], worse])["setting"]
    assert answer.closest == "t2"
    table = [(row["name"], row["setting"]) for row in rows(answer).values()]
    assert table == [("NT-Xent", "τ = 0.1"), ("Triplet SH", "margin = 0.2"), ("Triplet SH", "margin = 0.4")]
    assert answer.table is not None and answer.table.columns[4].heading == "setting"
    lone = ask(THREE_LOSSES)["setting"].table
    assert lone is not None and lone.columns[4].heading == "best setting"


def test_a_tie_by_the_choice_of_the_winner_says_why_its_interval_leaves_out_0() -> None:
    many = [candidate(f"c{n}", "circle", around(100.0 - n / 10, 1.0, n % 5), margin=n / 10) for n in range(12)]
    answer = ask([*many, candidate("t1", "triplet_sh", around(98.2, 1.0, 2), margin=0.2)])["setting"]
    low, high = answer.numbers["low"], answer.numbers["high"]
    assert answer.verdict == "tie" and 0 < low < high
    note = "An interval is of its pair alone; p also counts the choice of the winner among its candidates."
    assert note in answer.notes and answer.headline.endswith(" at a level of 0.035.")
    assert note not in ask([many[0], candidate("t1", "triplet_sh", around(100.1), margin=0.2)])["setting"].notes


def test_a_tie_of_two_with_a_p_value_below_5_percent_says_the_level() -> None:
    """Nothing was adjusted, so no note speaks of a choice."""
    pair = [
        candidate(label, loss, around(100.0 - gap)) for label, loss, gap in (("a", "circle", 0.0), ("b", "warp", 1.19))
    ]
    answer = ask(pair)["setting"]
    p, low = answer.numbers["p"], answer.numbers["low"]
    assert answer.verdict == "tie" and 0.035 < p < 0.05 and low > 0
    assert answer.headline.endswith(f", p = {p:.3f} at a level of 0.035.")
    assert not any("of its pair alone" in note or "An interval" in note for note in answer.notes)


def test_a_row_that_ties_with_an_interval_without_0_says_from_which_p_a_difference_counts() -> None:
    """Another pair decides, so that the headline does not say the level; its p is not adjusted, as the largest."""
    others = [candidate("b", "warp", around(101.19), val=95.0), candidate("c", "triplet", around(105.0), val=90.0)]
    answer = ask([candidate("a", "circle", around(100.0)), *others])["setting"]
    tie = rows(answer)["b"]
    assert answer.verdict == "worse" and answer.closest == "c" and tie["verdict"] == "tie"
    assert tie["difference"]["low"] > 0 and 0.035 < tie["p"] < 0.05
    assert "An interval has 95 %; a difference counts where p is at most 0.035." in answer.notes


def test_a_tie_has_no_probability_of_its_pair_alone() -> None:
    """With a p-value of 0.02 before the choice is counted, it would be better with probability 0.99."""
    rng = np.random.default_rng(0)
    shared = rng.normal(0, 20, 400)

    def with_images(label: str, loss: str, mean: float, margin: float) -> Runs:
        noise = rng.normal(0, 3, (5, 400))
        noise -= noise.mean(1, keepdims=True)
        kept = {seed: mean + shift + shared + row for seed, shift, row in zip(SEEDS, NOISE, noise, strict=True)}
        values = {seed: {"val/rsum": mean, "test/rsum": float(row.mean())} for seed, row in kept.items()}
        return Runs.of_seeds(label, values, images={"test/rsum": kept}, loss=loss, parameters={"margin": margin})

    many = [with_images(f"c{n}", "circle", 100.0 - n / 10, n / 10) for n in range(12)]
    tied = ask([*many, with_images("t1", "triplet_sh", 98.4, 0.2)], over_images=True)["setting"]
    assert tied.verdict == "tie" and tied.numbers["probability_on_new_images"] > 0.98
    assert not any("with probability" in note for note in tied.notes)
    led = ask([many[0], with_images("t1", "triplet_sh", 90.0, 0.2)], over_images=True)["setting"]
    assert led.verdict == "better" and any("with probability above 0.99" in note for note in led.notes)


def test_the_p_value_of_a_winner_over_all_is_a_bound() -> None:
    """It is the largest of all leads; the lead over the candidate that is named may have a smaller one."""
    steady = candidate("b", "warp", around(97.4, 0.2))
    answer = ask([candidate("a", "circle", around(100.0)), steady, candidate("c", "triplet", around(95.0, 4.0))])[
        "setting"
    ]
    p = answer.numbers["p"]
    assert answer.verdict == "better" and answer.closest == "b" and p >= 0.001
    assert f"beats the settings of all other losses, p ≤ {p:.3f}; closest is WARP: " in answer.headline
