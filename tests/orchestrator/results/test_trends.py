"""The trend of a confirmed parameter: values to read, its error rate, and what has none."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from optuna.trial import FixedTrial

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.results.answers import Summary
from orchestrator.results.trends import describe_trend, find_trend, trend_answer, trends_of
from tests.support.experiments import add_repeats, make_experiment, open_test, start

VALUES = (1.0, 2.0, 4.0, 16.0, 64.0, 255.0)


def samples(means: list[float], *, seeds: int = 5, spread: Any = 1.0, seed: int = 0) -> dict[float, np.ndarray]:
    """Return values of a mean each; all have one spread, or each its own."""
    generator = np.random.default_rng(seed)
    drawn = zip(VALUES, means, np.broadcast_to(spread, len(means)), strict=False)
    return {x: mean + own * generator.standard_normal(seeds) for x, mean, own in drawn}


def trend(means: list[float], **settings: Any):
    return find_trend(samples(means, **settings), "negatives", "test/rsum", "triplet", "vsepp")


def test_a_line_in_the_logarithm_is_a_slope_and_no_bend() -> None:
    found = trend([200 + 2 * float(np.log2(x)) for x in VALUES], spread=0.5)
    assert found["slope"]["estimate"] == pytest.approx(2, abs=0.2)
    assert found["slope"]["interval"]["low"] < 2 < found["slope"]["interval"]["high"]
    assert found["slope"]["p"] < 0.001
    assert found["bend"]["p"] > 0.05


def test_a_curve_that_is_highest_inside_bends_down() -> None:
    found = trend([192.8, 199.4, 200.1, 201.4, 194.2, 185.0], spread=0.5)
    assert found["bend"]["estimate"] < 0
    assert found["bend"]["p"] < 0.001
    first, second = describe_trend(found, "Triplet")
    assert first.startswith("Triplet: rsum falls by ") and "a doubling of negatives, 95 % CI [−" in first
    assert second.startswith("Triplet: the curve bends down, p ")
    assert second.endswith("; the highest mean is at 16.")


def test_trends_of_several_models_name_their_models() -> None:
    found = [find_trend(samples([1.0, 2.0, 3.0]), "degree", "test/rsum", "triplet", model) for model in ("hgr", "ce")]
    answer = trend_answer("pets", found)
    assert answer.table is not None
    assert [row[1] for row in answer.table.rows] == ["HGR Triplet"] * 3 + ["CE Triplet"] * 3
    assert [sentence.partition(":")[0] for sentence in answer.sentences[:4]] == ["HGR Triplet"] * 2 + ["CE Triplet"] * 2
    one = trend_answer("pets", found[:1])
    assert one.sentences[0].startswith("Triplet: ")


def test_without_a_trend_the_sentences_say_so() -> None:
    found = trend([200.0] * 6)
    first, second = describe_trend(found, "Triplet")
    assert first.startswith("Triplet: rsum has no significant slope: ")
    assert second.startswith("Triplet: no significant bend, p = ")


def test_contrasts_are_the_least_squares_coefficients() -> None:
    groups = samples([1.0, 5.0, 2.0, 7.0, 3.0, 0.0])
    found = find_trend(groups, "negatives", "test/rsum", "triplet", "vsepp")
    x, means = np.log2(VALUES), [group.mean() for group in groups.values()]
    assert found["slope"]["estimate"] == pytest.approx(np.polyfit(x, means, 1)[0])
    assert found["bend"]["estimate"] == pytest.approx(np.polyfit(x, means, 2)[0])


def test_the_best_setting_of_each_value_above_0_is_on_the_curve() -> None:
    """The axis is logarithmic: 0 has no place on it."""
    about = {"model": "vsepp", "loss": "triplet"}
    candidates = [
        SimpleNamespace(**about, parameters={"negatives": value}, unit="seed", sample=lambda metric, unit, one=one: one)
        for value, one in [(2.0, np.array([5.0, 6.0])), (0, np.zeros(2)), *samples([1.0, 2.0, 3.0], seeds=2).items()]
    ]
    (found,) = trends_of(SimpleNamespace(candidates=candidates, metric="test/rsum"), "negatives")
    assert [point["value"] for point in found["curve"]] == [1.0, 2.0, 4.0]
    assert found["curve"][1]["mean"] == 5.5


def test_a_parameter_of_a_loss_that_the_search_chose_has_a_trend(ledger: Ledger) -> None:
    """Samplers name it after its loss; among the parameters of a candidate it has its own name alone."""
    each_of = "nt_xent.temperature"
    search = {"sampler": "random", "trials": 4, "loss": "choose"}
    experiment = make_experiment(search=search, confirm={"top": 1, "seeds": 3, "each_of": each_of})
    start(ledger, experiment)
    (cell,) = experiment.cells()
    for number, temperature in enumerate((0.1, 0.2, 0.4)):
        params = {"loss": "nt_xent", each_of: temperature}
        config = experiment.suggested(cell, cell.space.suggest(FixedTrial(params)))
        trial = ledger.create(cell.name, number, params, config)
        ledger.report(trial, 1, {"val/rsum": 100.0 + number}, TrialState.FINISHED)
        open_test(ledger, add_repeats(ledger, [(trial, [100.0 + number, 101.0 + number, 102.0 + number])]))
    (found,) = Summary(ledger.history).trends["pets"]
    assert (found["parameter"], found["slope"]["estimate"]) == (each_of, pytest.approx(1.0))


@pytest.mark.proof
@pytest.mark.parametrize(("seeds", "spread"), [(5, 1.0), (3, np.arange(1.0, 7.0))], ids=["equal spreads", "unequal"])
def test_equal_means_have_a_significant_trend_in_at_most_one_experiment_of_twenty(seeds: int, spread: Any) -> None:
    significant = outside = 0
    for seed in range(1000):
        found = trend([200.0] * 6, seeds=seeds, spread=spread, seed=seed)
        significant += min(found["slope"]["p"], found["bend"]["p"]) <= 0.05
        outside += not all(point["band"]["low"] <= 200 <= point["band"]["high"] for point in found["curve"])
    # Three standard deviations of a share of 5 % in 1,000 experiments are 2 %.
    assert significant / 1000 < 0.07
    assert seeds == 3 or 0.035 < outside / 1000 < 0.07


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param({1.0: np.array([1.0, 2.0]), 2.0: np.array([1.0, 3.0])}, id="two values"),
        pytest.param({x: np.array([1.0]) for x in VALUES}, id="one seed"),
        pytest.param({x: np.array([x, x]) for x in VALUES}, id="no spread"),
        pytest.param({x: np.array([x, x + (x == 2)]) for x in VALUES[:3]}, id="a spread in the middle alone"),
    ],
)
def test_too_little_for_a_trend(groups: dict) -> None:
    assert find_trend(groups, "negatives", "test/rsum", "triplet", "vsepp") is None
