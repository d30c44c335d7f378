"""Races: who leaves, when a race ends, what level is left; and the arrays by which their error rates are stated."""

from itertools import pairwise

import numpy as np
import pytest

from orchestrator.results.candidates import Candidate, Departed, Departure, Verdict
from orchestrator.results.race import FIRST, LEVEL, Race, RaceRules, most_seeds, run_race
from orchestrator.results.spending import RESERVE, level_of_plan, levels_of_looks
from orchestrator.results.verdict import judge
from tests.support.race_rates import draw_both, race_studies
from tests.support.study_rates import draw, judge_studies

METRIC = "val/rsum"
SEEDS = range(100, 500)


def candidate(label, values, *, loss=None, missing=()):
    """A candidate with values by seed, in the order of ``SEEDS``; the indices of ``missing`` diverged."""
    by_seed = {SEEDS[index]: {METRIC: float(value)} for index, value in enumerate(values) if index not in missing}
    fates = {SEEDS[index]: "diverged" for index in missing}
    return Candidate("flickr8k", "vsepp", loss or label, {}, label, by_seed, fates)


def race(candidates, trainings=30, **rules) -> Race:
    return run_race(candidates, RaceRules(trainings, list(SEEDS), METRIC, **rules))


def wobble(mean, count=40, spread=1.0, seed=0):
    """Values around a mean, the same for the same arguments."""
    return mean + spread * np.random.default_rng([seed, round(mean * 10)]).standard_normal(count)


def known(candidates, counts):
    """The candidates with so many of their seeds as were given."""
    return [
        candidate(one.label, [one.values[SEEDS[i]][METRIC] for i in range(counts[one.label])]) for one in candidates
    ]


def test_a_race_begins_with_the_same_seeds_for_everybody() -> None:
    begun = race([candidate("a", []), candidate("b", [])], 10)
    assert (begun.seeds, begun.ended, begun.level, begun.rounds) == ({"a": FIRST, "b": FIRST}, None, None, ())
    assert (begun.used, begun.staying) == (2 * FIRST, ["a", "b"])


def test_one_that_trails_leaves_and_its_seeds_go_to_those_that_stay() -> None:
    entrants = [candidate(label, wobble(mean)) for label, mean in (("a", 50), ("b", 49.5), ("c", 30), ("d", 49.8))]
    done = race(entrants, 24)
    assert done.left["c"] == Departure(Departed.TRAILED, FIRST)
    assert done.seeds["c"] == FIRST < done.seeds["a"]
    assert done.used <= 24
    assert done.ended == "the trainings are used up"


def test_a_baseline_far_behind_stays_until_it_is_beaten() -> None:
    entrants = [candidate(label, wobble(mean)) for label, mean in (("a", 50), ("b", 49.8), ("old", 35))]
    done = race(entrants, 24, baseline="old")
    assert done.left["old"].how is Departed.BEATEN
    assert done.left["old"].seeds > FIRST
    trailed = race(entrants, 24)
    assert trailed.left["old"] == Departure(Departed.TRAILED, FIRST), "nobody asks for a comparison with it"


def test_the_best_of_another_loss_stays_until_it_is_beaten() -> None:
    means = (("a", 50, "x"), ("b", 49.8, "x"), ("c", 35, "y"), ("d", 34, "y"))
    done = race([candidate(label, wobble(mean), loss=loss) for label, mean, loss in means], 30)
    assert done.left["c"].how is Departed.BEATEN
    assert done.left["d"] == Departure(Departed.TRAILED, FIRST)


def test_a_clear_lead_ends_the_race_before_its_trainings_are_used() -> None:
    done = race([candidate("a", wobble(50)), candidate("b", wobble(35)), candidate("c", wobble(20))], 60)
    assert done.ended == "the leader is better than all that it is compared with"
    assert done.used < 20
    assert done.rounds[-1].leader == "a"


def test_one_that_lost_a_seed_cannot_win_and_leaves_unless_it_is_compared() -> None:
    entrants = [
        candidate("a", wobble(60), missing=(1,)),
        candidate("b", wobble(50)),
        candidate("c", wobble(49), missing=(0,)),
        candidate("d", wobble(49.9)),
    ]
    done = race(entrants, 24)
    assert all(round_.leader in "bd" for round_ in done.rounds)
    assert done.left["c"] == Departure(Departed.LOST, 1)
    assert done.left.get("a") is None, "with the highest mean, it is what the leader is compared with"
    lost = [candidate(label, wobble(50), missing=(0,)) for label in "ab"]
    assert race(lost).ended == "every candidate lost a seed"


def test_values_without_any_spread_are_told_apart_without_an_error() -> None:
    done = race([candidate("a", [5.0] * 40), candidate("b", [5.0] * 40), candidate("c", [4.0] * 40)], 12)
    assert done.left == {"c": Departure(Departed.TRAILED, FIRST)}


def test_a_lone_candidate_has_nobody_to_race_with() -> None:
    assert race([candidate("a", wobble(50))]).ended == "nobody is left to race with"


@pytest.mark.parametrize("trainings", [8, 13, 30, 100])
def test_a_race_that_is_killed_after_any_training_comes_to_the_same_end(trainings: int) -> None:
    entrants = [candidate(label, wobble(mean)) for label, mean in (("a", 50), ("b", 49.6), ("c", 49), ("d", 45))]
    whole = race(entrants, trainings)
    counts = dict.fromkeys("abcd", 0)
    for _ in range(trainings + 1):
        standing = race(known(entrants, counts), trainings)
        assert standing.rounds == whole.rounds[: len(standing.rounds)], "what was decided stays decided"
        due = [label for label in counts if counts[label] < standing.seeds[label]]
        if standing.ended:
            break
        counts[due[-1]] += 1
    assert standing == whole
    assert counts == whole.seeds
    assert sum(counts.values()) <= trainings


def test_no_candidate_gets_more_seeds_than_is_said_or_than_the_trainings_allow() -> None:
    for count, trainings in ((2, 4), (2, 31), (3, 30), (6, 30), (12, 200)):
        done = race([candidate(str(k), wobble(50 + k / 5, 100)) for k in range(count)], trainings)
        assert max(done.seeds.values()) <= most_seeds(trainings, count)
        assert done.used <= trainings


def test_later_looks_have_what_earlier_looks_left() -> None:
    done = race([candidate("a", wobble(50)), candidate("b", wobble(49.8))], 40)
    levels = [one.level for one in done.rounds]
    assert levels[0] is None, "two seeds are no look"
    # The last round may be shorter than those before, and then adds less.
    assert all(later > earlier for earlier, later in pairwise(levels[1:-1]))
    assert done.level is not None
    assert max(filter(None, levels)) <= done.level < LEVEL


@pytest.mark.parametrize(
    ("cumulative", "boundaries"),
    [
        # Jennison and Turnbull (2000), tables 2.1 and 2.3: two-sided 5 %, five equal steps.
        pytest.param("pocock", [2.413] * 5, id="Pocock"),
        pytest.param("obrien-fleming", [2.040 * np.sqrt(5 / k) for k in range(1, 6)], id="O'Brien and Fleming"),
    ],
)
def test_nominal_levels_spend_what_is_known_of_classical_boundaries(cumulative: str, boundaries: list[float]) -> None:
    """Random walks say what the classical boundaries spend at each look; the levels for it are the boundaries'."""
    from scipy.stats import norm

    from orchestrator.results.spending import nominal_levels

    steps = np.random.default_rng(1).standard_normal((200_000, 5)).cumsum(1)
    beyond = np.abs(steps) / np.sqrt(np.arange(1, 6)) > boundaries
    first = np.where(beyond.any(1), beyond.argmax(1), 9)
    spent = [float((first == look).mean()) for look in range(5)]
    assert sum(spent) == pytest.approx(0.05, abs=0.002), cumulative
    parts = tuple(look / 5 for look in range(1, 6))
    levels = nominal_levels(parts[1:], tuple(spent[1:])) if spent[0] == 0 else nominal_levels(parts, tuple(spent))
    found = norm.isf(np.array(levels) / 2)
    assert found[-3:] == pytest.approx(boundaries[-3:], abs=0.03)


def test_one_look_spends_all_and_more_plans_spend_the_reserve() -> None:
    assert levels_of_looks([5], 5, 0.04, last=True) == (pytest.approx(0.04),)
    assert level_of_plan(0.04, 0) == 0.04
    assert sum(level_of_plan(0.04, looks) for looks in range(1, 50)) <= RESERVE


KINDS = np.array([0, 0, 0, 0, 1, 1])


@pytest.mark.parametrize("lead", [0.0, 1.5])
@pytest.mark.parametrize("likeness", [1.0, 0.5])
def test_the_arrays_that_rates_are_simulated_with_follow_the_race(lead: float, likeness: float) -> None:
    """The oracle agrees with race and verdict study by study: winner, seeds, level and verdict."""
    val, test = draw_both(
        np.random.default_rng(3), 25, 6, 30, lead=lead, likeness=likeness, spreads=np.array([1.0, 2, 1, 0.5, 1, 3])
    )
    raced = race_studies(val, test, 30, kinds=KINDS)
    words = {1: Verdict.BETTER, 0: Verdict.TIE, -1: Verdict.WORSE}
    for number in range(25):
        entrants = [candidate(f"c{k}", val[number, k], loss=f"loss {KINDS[k]}") for k in range(6)]
        done = race(entrants, 30, baseline="c5")
        assert (done.used, done.level) == (raced.trainings[number], pytest.approx(raced.level[number]))
        judged = judge_race(entrants, done, test[number])
        assert judged.winner.candidate.label == f"c{raced.winner[number]}"
        assert judged.verdict is words[raced.verdicts[number]]
        against = {role: one.verdict for one in judged.comparisons for role in one.roles}
        assert against.get("baseline", Verdict.TIE) is words[raced.baseline[number]]


def judge_race(entrants, done, test):
    """The verdict on test after a race, as ``confirmed.py`` asks for it."""
    rows = []
    for k, one in enumerate(entrants):
        given = SEEDS[: done.seeds[one.label]]
        metrics = {seed: {**one.values[seed], "test/rsum": test[k, i]} for i, seed in enumerate(given)}
        rows.append(Candidate("flickr8k", "vsepp", one.loss, {}, one.label, metrics, {}, done.left.get(one.label)))
    (verdict,) = judge(rows, baseline="c5", level=done.level, resamples=1)
    return verdict


@pytest.mark.parametrize(
    ("candidates", "trainings", "spreads", "most"),
    [
        pytest.param(2, 10, 1.0, 0.035, id="two"),
        pytest.param(2, 10, [4.0, 1.0], 0.05, id="two of unequal spread"),
        pytest.param(2, 40, [4.0, 1.0], 0.045, id="two of unequal spread, a long race"),
        pytest.param(6, 30, 1.0, 0.02, id="six"),
        pytest.param(6, 30, [4.0] * 5 + [1.0], 0.03, id="six, a quiet baseline"),
        pytest.param(12, 60, 1.0, 0.02, id="twelve"),
    ],
)
def test_a_race_without_a_difference_is_a_tie_as_often_as_is_stated(candidates, trainings, spreads, most) -> None:
    val, test = draw_both(np.random.default_rng(5), 4000, candidates, trainings, spreads=np.array(spreads))
    raced = race_studies(val, test, trainings)
    error = 2 * np.sqrt(most / 4000)
    assert (raced.verdicts != 0).mean() <= most + error
    assert (raced.baseline == 1).mean() <= LEVEL + error


def test_a_race_finds_a_lead_that_a_fixed_design_of_the_same_cost_misses() -> None:
    """At most 30 trainings, six candidates, a lead of 1.5 standard deviations, no baseline; see docs/confirming.md."""
    generator = np.random.default_rng(7)
    val, test = draw_both(generator, 4000, 6, 30, lead=1.5)
    raced = race_studies(val, test, 30, baseline=False)
    fixed = judge_studies(draw(generator, 4000, 6, 5, lead=1.5), level=0.04, baseline=False)
    assert (raced.verdicts == 1).mean() == pytest.approx(0.71, abs=0.03)
    assert (fixed.verdicts == 1).mean() == pytest.approx(0.19, abs=0.03)
    assert raced.trainings.mean() < 30
    assert raced.trainings.max() <= 30


def test_a_candidate_that_left_cannot_win_though_its_few_seeds_are_higher() -> None:
    """Its mean over two seeds is one of a moment; it was left behind by the leader of that round."""
    left = Departure(Departed.BEATEN, 2)
    rows = [
        Candidate("pets", "vsepp", "a", {}, "a", {seed: {METRIC: 50.0 + seed} for seed in range(4)}),
        Candidate("pets", "vsepp", "b", {}, "b", {seed: {METRIC: 90.0 + seed} for seed in range(2)}, {}, left),
    ]
    (verdict,) = judge(rows, metric=METRIC, resamples=1)
    assert [one.candidate.label for one in verdict.standings] == ["a", "b"]
    trailed = [rows[0], rows[1], Candidate("pets", "vsepp", "c", {}, "c", rows[0].values)]
    trailed[1] = Candidate("pets", "vsepp", "b", {}, "b", rows[1].values, {}, Departure(Departed.TRAILED, 2))
    (verdict,) = judge(trailed, metric=METRIC, resamples=1)
    assert [one.candidate.label for one in verdict.standings] == ["a", "c", "b"]
    assert [one.label for one in verdict.comparisons] == ["c"], "nobody is compared with it"
