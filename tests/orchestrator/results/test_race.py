"""Races: who gets seeds, when a race ends; and the arrays by which the error rates of all designs are stated."""

from collections.abc import Sequence

import numpy as np
import pytest

from orchestrator.results.crossed import crossed_test
from orchestrator.results.question import Verdict
from orchestrator.results.race import CLEAR, LEVEL, Ended, Race, first_seeds, run_race
from orchestrator.results.runs import Runs
from orchestrator.results.verdict import judge
from tests.support.race_rates import Scores, crossed_lead_p, draw_values, fixed, race

METRIC = "val/rsum"
SEEDS = tuple(range(100, 500))


def entrant(label: str, values: Sequence[float], lost: Sequence[int] = ()) -> tuple[str, Ended]:
    """A candidate with values in the order of ``SEEDS``; the seeds at the indices ``lost`` diverged."""
    return label, {SEEDS[index]: None if index in lost else float(value) for index, value in enumerate(values)}


def raced(*entrants: tuple[str, Ended], trainings: int = 30) -> Race:
    return run_race(dict(entrants), first_seeds(trainings, len(entrants)), trainings, SEEDS)


def wobble(mean: float, count: int = 60, seed: int = 0) -> np.ndarray:
    """Values around a mean, the same for the same arguments."""
    return mean + np.random.default_rng([seed, round(mean * 10)]).standard_normal(count)


def test_a_race_begins_with_the_same_seeds_for_every_candidate() -> None:
    begun = raced(entrant("a", []), entrant("b", []), trainings=30)
    assert (begun.seeds, begun.ended, begun.rounds, begun.used) == ({"a": 10, "b": 10}, None, (), 20)
    assert [first_seeds(trainings, 6) for trainings in (12, 18, 30, 60, 120)] == [2, 3, 3, 6, 13]


def test_later_seeds_go_to_the_leader_and_the_candidate_closest_to_it() -> None:
    done = raced(*(entrant(label, wobble(mean)) for label, mean in (("a", 50), ("b", 49.9), ("c", 30), ("d", 35))))
    assert (done.seeds["c"], done.seeds["d"]) == (5, 5)
    assert done.seeds["a"] == done.seeds["b"] == 10
    assert (done.used, done.ended) == (30, "the trainings are used up")
    assert {(one.leader, one.closest) for one in done.rounds} <= {("a", "b"), ("b", "a")}


def test_a_candidate_that_fell_back_gets_seeds_again_when_it_is_the_closest() -> None:
    noise = wobble(0, 13)
    third = [*(49.6 + noise), *(46 + wobble(0, 47, seed=1))]
    entrants = [
        entrant("a", wobble(50, seed=2)),
        entrant("b", [*(49.2 + noise), *wobble(49.2, 47)]),
        entrant("c", third),
    ]
    done = raced(*entrants, trainings=60)
    closest = [one.closest for one in done.rounds]
    assert (closest[0], closest[-1]) == ("c", "b"), closest


def test_a_clear_lead_ends_the_race_before_its_trainings_are_used() -> None:
    done = raced(entrant("a", wobble(50)), entrant("b", wobble(35)), entrant("c", wobble(20)), trainings=60)
    assert done.ended == f"its leader is ahead of every candidate on val, p ≤ {CLEAR:g}"
    assert done.used < 60
    assert done.rounds[-1].p <= CLEAR


def test_a_candidate_that_lost_a_seed_cannot_lead_but_has_to_be_beaten() -> None:
    done = raced(entrant("a", wobble(60), lost=(1,)), entrant("b", wobble(50)), entrant("c", wobble(40)))
    assert {(one.leader, one.closest) for one in done.rounds} == {("b", "a")}
    lone = raced(entrant("a", wobble(50)), entrant("b", wobble(60, 10), lost=range(1, 10)))
    assert lone.ended == "there is no other candidate with two seeds", "a single seed has no spread"
    assert raced(*(entrant(label, wobble(50), lost=(0,)) for label in "ab")).ended == "every candidate lost a seed"
    assert raced(entrant("a", wobble(50))).ended == "there is no other candidate with two seeds"
    without_spread = raced(entrant("a", [5.0] * 40), entrant("b", [5.0] * 40), entrant("c", [4.0] * 40), trainings=12)
    assert without_spread.ended == "the trainings are used up"


@pytest.mark.parametrize("trainings", [8, 13, 30, 100])
def test_a_race_that_is_killed_after_any_training_comes_to_the_same_end(trainings: int) -> None:
    values = {label: wobble(mean) for label, mean in (("a", 50), ("b", 49.6), ("c", 49), ("d", 45))}
    whole = raced(*(entrant(label, of) for label, of in values.items()), trainings=trainings)
    counts = dict.fromkeys(values, 0)
    for _ in range(trainings + 1):
        so_far = raced(*(entrant(label, values[label][: counts[label]]) for label in values), trainings=trainings)
        assert so_far.rounds == whole.rounds[: len(so_far.rounds)], "what was decided stays decided"
        due = [label for label in counts if counts[label] < so_far.seeds[label]]
        if so_far.ended:
            break
        counts[due[-1]] += 1
    assert so_far == whole
    assert counts == whole.seeds
    assert sum(counts.values()) <= trainings


@pytest.mark.parametrize("lead", [0.0, 1.5])
def test_the_arrays_that_rates_are_simulated_with_follow_the_race(lead: float) -> None:
    """The oracle agrees with race and verdict study by study: seeds, winner and whether it is better."""
    spreads = np.array([1.0, 2, 1, 0.5, 1, 3])
    generator = np.random.default_rng(3)
    scores = spreads[:, None] * generator.standard_normal((40, 6, 18)) + lead * (np.arange(6) == 0).reshape(6, 1)
    outcome = race(Scores(scores), 60)
    for number in range(40):
        done = raced(*(entrant(f"c{k}", scores[number, k]) for k in range(6)), trainings=60)
        assert list(done.seeds.values()) == outcome.counts[number].tolist()
        rows = [
            Runs.of_seeds(f"c{k}", values, loss=f"c{k}", planned=count)
            for k, count in enumerate(done.seeds.values())
            for values in [{seed: {METRIC: float(scores[number, k, seed])} for seed in range(count)}]
        ]
        verdict = judge(rows, metric=METRIC, level=LEVEL)
        assert verdict.winner.label == f"c{outcome.winner[number]}"
        assert (verdict.verdict is Verdict.BETTER) == outcome.better[number]
        assert verdict.warnings == ()


def test_the_arrays_over_seeds_and_images_are_the_crossed_test() -> None:
    """Of raw runs, in which a candidate has as many seeds as a race gave it."""
    generator, counts, images = np.random.default_rng(4), np.array([5, 3, 7]), 30
    for _ in range(20):
        runs = [50 + k + generator.standard_normal((count, images)) * (k + 1) for k, count in enumerate(counts)]
        runs = [of + generator.standard_normal((len(of), 1)) + generator.standard_normal(images) for of in runs]
        by_image = np.array([of.mean(0) for of in runs])
        left = [of - of.mean(0) - of.mean(1, keepdims=True) + of.mean() for of in runs]
        residuals = np.array([[len(of) * of.mean(1).var() for of in runs]])
        squares = np.array([[(of**2).sum() for of in left]])
        leader = int(by_image.mean(1).argmax())
        p = crossed_lead_p(by_image[None], residuals, squares, counts[None], np.array([leader]))[0]
        expected = [-1.0 if k == leader else crossed_test(runs[leader], runs[k]).p for k in range(3)]
        assert p == pytest.approx(expected)


def test_studies_over_images_have_the_spreads_of_their_runs() -> None:
    """The sufficient statistics are those of runs whose effects of seed, image and both are as large as stated."""
    count, images = np.array([[4, 4]]), 20
    values = draw_values(np.random.default_rng(8), 20_000, np.zeros(2), 8, likeness=0.5, images=images)
    rows = np.arange(values.studies)
    counts = np.repeat(count, values.studies, 0)
    # Over the seeds: half a variance of its own, half from the mean of the joint effects over the images.
    assert values.alone.errors(counts, rows).mean() == pytest.approx(1 / 4, rel=0.02)
    apart = values.alone.means(counts, rows)
    assert (apart[:, 0] - apart[:, 1]).var() == pytest.approx(2 / 4 + 2 * 0.5, rel=0.03)
    assert values.left.var(-1, ddof=1).mean() == pytest.approx(images / 2, rel=0.02)


STUDIES = 2000

IN_EVERY_RUN = [
    pytest.param([0, 0], 5, {"spreads": [4.0, 1.0]}, id="two, one wide"),
    pytest.param([0, 0, -1], 10, {}, id="two bests of three"),
]
PROVED = [
    pytest.param([0, 0], 5, {}, id="two"),
    pytest.param([0, 0, -1], 20, {}, id="two bests of three, more seeds"),
    pytest.param([0, 0, -1, -1, -1, -1], 10, {}, id="two bests of six"),
    pytest.param([0, 0, -1.4, -1.4, -1.4, -1.4], 10, {"spreads": [4.0, 1, 1, 1, 1, 1]}, id="one best wide"),
    pytest.param([0, 0, -6, -6, -6, -6], 10, {"spreads": [4.0, 4, 1, 1, 1, 1]}, id="bests wide"),
    pytest.param([0, 0, -6, -6, -6, -6], 10, {"spreads": [1.0, 1, 4, 4, 4, 4]}, id="others wide"),
    pytest.param([0, 0, -1, -1, -1, -1], 10, {"tails": "t3"}, id="heavy tails"),
    pytest.param([0, 0] + [-2] * 10, 5, {}, id="two bests of twelve"),
    pytest.param([0, 0] + [-1] * 28, 5, {}, id="two bests of thirty"),
    pytest.param([0, 0, 0, 0, 0, 0], 10, {}, id="six equals"),
]


@pytest.mark.parametrize(
    ("means", "seeds", "how"),
    IN_EVERY_RUN + [pytest.param(*case.values, id=case.id, marks=pytest.mark.proof) for case in PROVED],
)
def test_a_winner_with_an_equal_is_called_better_as_rarely_as_is_stated(means, seeds, how) -> None:
    studies = STUDIES if len(means) < 30 else 500
    values = draw_values(np.random.default_rng(5), studies, means, seeds * len(means), **how)
    for design in (fixed, race):
        assert design(values, seeds * len(means)).better.mean() <= 0.04 + 2 * np.sqrt(0.04 / studies), design


@pytest.mark.proof
@pytest.mark.parametrize("likeness", [0.5, 0.9, 0.99])
def test_over_seeds_and_images_a_winner_with_an_equal_is_rarely_called_better(likeness: float) -> None:
    means = [0, 0, -1, -1]
    values = draw_values(np.random.default_rng(6), 400, means, 24, likeness=likeness, images=40)
    for design in (fixed, race):
        assert design(values, 24).better.mean() <= 0.04 + 2 * np.sqrt(0.04 / 400), design


@pytest.mark.proof
def test_a_race_finds_leads_that_a_fixed_design_of_the_same_cost_misses() -> None:
    """Six candidates and 60 trainings; see docs/evidence/verdict-errors.md."""
    generator = np.random.default_rng(7)
    for means, least in (([1.5, 0, 0, 0, 0, 0], 0.1), ([1.0, 0, -2, -2, -2, -2], 0.15)):
        values = draw_values(generator, STUDIES, means, 60)
        ours = race(values, 60).found
        assert ours > fixed(values, 60).found + least
