"""The Gaussian process beside scikit-learn's, and how often the set of best settings holds the optimum."""

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from orchestrator.results import surface
from orchestrator.results.surface import CAUTION, MOST, NEAR_TRIAL, Observed, Surface, gain_to_end, spread_of
from tests.support.simulated_surfaces import DRAWN, Simulated


def observed(count: int = 14, *, unsure: float = 0.0, seed: int = 0) -> Observed:
    generator = np.random.default_rng(seed)
    places = generator.random((count, 2))
    values = 250 - 40 * ((places - 0.4) ** 2).sum(axis=1) + generator.normal(size=count)
    return Observed(places, values, 1.0 + np.arange(count) % 3, np.full(count, unsure))


def test_each_draw_is_the_process_of_scikit_learn() -> None:
    known, fitted = observed(unsure=1.5), Surface(observed(unsure=1.5))
    places = np.random.default_rng(1).random((9, 2))
    found, reached = fitted.predict(places), np.zeros(len(places))
    best = fitted.places[fitted.best]
    for draw, scales in enumerate(fitted._scales):
        signal, *lengths, noise = np.exp(scales)
        kernel = ConstantKernel(signal**2) * Matern(lengths, nu=2.5) + ConstantKernel(surface.LEVEL**2)
        alpha = noise**2 / known.trainings + (known.unsure / fitted._spread) ** 2 + 1e-6
        oracle = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(known.places, fitted._standardised)
        mean, deviation = oracle.predict(places, return_std=True)
        assert found.mean[draw] == pytest.approx(mean, abs=1e-6)
        (at_best, *means), shared = oracle.predict(np.vstack([best, places]), return_cov=True)
        spread = np.sqrt(np.diag(shared)[1:] + shared[0, 0] - 2 * shared[0, 1:])
        reached += fitted._weights[draw] * ndtr((np.array(means) - at_best) / (CAUTION * spread))
        assert np.sqrt(found.variance[draw]) == pytest.approx(deviation, abs=1e-5)
        assert fitted._likelihood(scales[None])[0] == pytest.approx(
            oracle.log_marginal_likelihood_value_ + 0.5 * len(alpha) * np.log(2 * np.pi), abs=1e-6
        )
    assert fitted.reach(found) == pytest.approx(reached, abs=1e-5)
    assert reached.max() > 0.1


def test_values_near_the_best_are_kept_and_far_ones_can_be_read_back() -> None:
    fitted = Surface(observed())
    values = np.array([fitted._highest, fitted._highest - 0.5 * fitted._knee, fitted._lowest])
    compressed = (fitted._compress(values) - fitted._centre) / fitted._spread
    assert fitted._expand(compressed) == pytest.approx(values)
    assert fitted._compress(values)[:2] == pytest.approx(values[:2])
    assert fitted._compress(values)[2] > values[2]


def test_no_value_of_the_band_is_below_all_that_were_seen() -> None:
    fitted = Surface(observed())
    _, low, high = fitted.band(fitted.predict(np.random.default_rng(1).random((50, 2))))
    assert low.min() == fitted._lowest and (low < high).all()


@pytest.mark.parametrize(
    ("name", "dimensions", "trials", "noise", "stopping"),
    [
        ("broad", 1, 24, 5.0, False),
        ("irrelevant", 2, 24, 2.5, False),
        ("cliff", 2, 24, 1.0, False),
        ("kink", 2, 24, 2.5, True),
        ("two peaks", 2, 24, 2.5, False),
        ("broad peaks", 3, 48, 2.5, False),
        ("thin", 2, 48, 2.5, False),
        ("peaked", 3, 24, 2.5, False),
        ("plateau", 3, 48, 2.5, False),
        ("hidden peak", 2, 96, 2.5, False),
        (DRAWN, 1, 96, 2.5, False),
        (DRAWN, 2, 24, 2.5, True),
    ],
)
def test_the_set_and_the_interval_hold_the_truth(
    name: str, dimensions: int, trials: int, noise: float, stopping: bool
) -> None:
    """Of two peaks, thin ridges and plateaus as well; of places far from all trials nothing is said."""
    held, covered = [], []
    for seed in range(20):
        search = Simulated(
            name, dimensions, trials, noise, np.random.default_rng([seed, dimensions]), stopping=stopping
        )
        fitted = Surface(search.observed(), seed)
        at_optimum = fitted.predict(search.optimum[None])
        held.append(not fitted.excludes(at_optimum)[0])
        _, low, high = fitted.band(fitted.predict(fitted.safest[None]))
        covered.append(low[0] <= search.expected(fitted.safest) <= high[0])
    # With rates of 97 % and of 93 %, 20 searches have so many hits or more with a probability of 0.99.
    assert sum(held) >= 17 and sum(covered) >= 16


def test_a_second_peak_between_trials_is_not_excluded() -> None:
    """More trials on one peak make the process surer, and say nothing of what nobody tried."""
    generator = np.random.default_rng(3)
    for count in (24, 96):
        places = np.clip(0.25 + 0.1 * generator.normal(size=(count, 2)), 0, 0.45)
        values = 250 - 200 * ((places - 0.25) ** 2).sum(axis=1) + generator.normal(size=count)
        fitted = Surface(Observed(places, values, np.ones(count), np.zeros(count)))
        far = np.array([[0.8, 0.8]])
        assert not fitted.is_explored(far)[0] and not fitted.holds(fitted.predict(far))[0]
        assert fitted.unexplored > 0.6 and not fitted.is_best[~fitted.explored].any()
        assert fitted.is_explored(fitted.safest[None])[0]
    # Trials of a large study that the process sees as means of neighbours are near places of their own.
    many = Surface(Observed(np.repeat(places, 2, 0), np.repeat(values, 2), np.ones(192), np.zeros(192)))
    assert many.explored.sum() - many.explored[surface.PLACES :].sum() == fitted.explored[: surface.PLACES].sum()
    edge = places[:1] + np.array([[NEAR_TRIAL, 0]])
    assert fitted.is_explored(edge - 1e-9)[0]


def test_a_trial_excludes_a_narrow_peak_the_farther_the_lower_its_value_is() -> None:
    """The process is sure of all places beside a trial; those that a bell curve through it excludes count."""
    places = np.append(np.linspace(0, 0.45, 19), [0.6, 0.75, 0.9])[:, None]
    values = 250 - 300 * np.abs(places[:, 0] - 0.1)
    steps, distances, unsaid = np.linspace(0.001, 0.085, 85), [], 0
    for last in (100.0, 160.0, 190.0):
        fitted = Surface(Observed(places, np.append(values[:-3], [last] * 3), np.ones(22), np.zeros(22), 0.01, 200))
        predicted, seen = fitted.predict(0.75 + steps[:, None]), fitted._compress(fitted.observed.values)
        height = (seen[-1] - seen.min()) / (seen.max() - seen.min())
        # The bell passes through the trial: height = exp(-(distance / NARROWEST)^2), with some seeds' noise above.
        distances.append(surface.NARROWEST * np.sqrt(-np.log(max(height, 1e-9))))
        others, excluded = ~fitted.holds(predicted), fitted.excludes(predicted)
        clear = np.abs(steps - distances[-1]) > 0.004
        assert (excluded == others & (steps < distances[-1]))[clear].all() and excluded.any()
        unsaid += int((others & ~excluded).sum())
    assert distances[0] > distances[1] > distances[2] and unsaid > 0


def test_a_parameter_without_effect_has_none_and_the_other_has_one() -> None:
    search = Simulated("irrelevant", 2, 24, 1.0, np.random.default_rng(5))
    fitted = Surface(search.observed())
    (first, low, high), (_, other_low, other_high) = fitted.change(0), fitted.change(1)
    assert 0 < low < first < high
    assert other_low <= 0 <= other_high < first


def test_the_measured_noise_of_seeds_is_used() -> None:
    known = observed()
    quiet, loud = (
        Surface(Observed(known.places, known.values, known.trainings, known.unsure, noise, 20)) for noise in (0.5, 8.0)
    )
    for fitted, noise in ((quiet, 0.5), (loud, 8.0)):
        draws = np.exp(fitted._scales[:, -1]) * fitted._spread
        assert fitted._weights @ draws == pytest.approx(noise, rel=0.5)
    assert loud.share > quiet.share


def test_noise_of_few_repeats_binds_less_than_that_of_many() -> None:
    """Values that scatter by 1 beside a measured noise of 8: of one repeat it is hardly known, of 200 it is."""
    known = observed()
    fitted = [
        Surface(Observed(known.places, known.values, known.trainings, known.unsure, 8.0, freedom))
        for freedom in (1, 200)
    ]
    few, many = (of._weights @ np.exp(of._scales[:, -1]) * of._spread for of in fitted)
    assert few < 0.7 * many and many == pytest.approx(8.0, rel=0.2)


def test_the_setting_to_use_has_the_highest_lower_end_and_not_the_highest_upper_end() -> None:
    """A corner that nobody tried may be best, and is no place to go to: the known best has the higher lower end."""
    generator = np.random.default_rng(2)
    places = 0.7 * generator.random((14, 2))
    values = 250 - 10 * ((places - 0.35) ** 2).sum(axis=1) + generator.normal(size=14)
    surface = Surface(Observed(places, values, np.ones(14), np.zeros(14), 1.0, 20))
    mean, deviation = surface._moments(surface._predicted)
    lower, upper = (np.where(surface.is_best, mean + sign * deviation, -np.inf) for sign in (-1, 1))
    place = int(np.abs(surface.places - surface.safest).max(axis=1).argmin())
    assert lower[place] == lower.max() and upper[place] < upper.max()


def test_a_large_study_is_seen_as_means_of_neighbours() -> None:
    generator = np.random.default_rng(0)
    places, stopped = generator.random((900, 2)), generator.random(900) < 0.5
    values, ones = 100 * places[:, 0], np.ones(900)
    reduced = Observed(places, values, ones, np.where(stopped, 3.0, 0.0)).reduced(MOST)
    assert len(reduced.values) == MOST
    assert reduced.trainings.sum() == 900
    assert reduced.values == pytest.approx(100 * reduced.places[:, 0])
    assert np.average(reduced.values, weights=reduced.trainings) == pytest.approx(values.mean())
    few = observed()
    assert few.reduced(MOST) is few


def test_the_end_of_a_stopped_setting_is_estimated_from_the_others() -> None:
    finished = [{1: 10.0, 2: 20.0, 3: 24.0}, {1: 12.0, 2: 21.0, 3: 28.0}, {1: 8.0, 2: 19.0, 3: 24.0}]
    spread = 2 * max(float(np.std([4, 7, 5], ddof=1)), 2.5)
    assert gain_to_end(2, finished) == pytest.approx((5.0, spread))
    assert gain_to_end(1, finished[:2]) is None
    assert gain_to_end(0, finished) is None


def test_the_spread_over_seeds_is_pooled() -> None:
    assert spread_of([[1.0, 3.0], [5.0], [2.0, 2.0, 5.0]]) == (pytest.approx(np.sqrt((2 + 6) / 3)), 3)
    assert spread_of([[1.0], [2.0]]) == (None, 0)
