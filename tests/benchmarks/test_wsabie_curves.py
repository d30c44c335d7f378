"""Curves that were measured: what a simulated training draws from them, and what a search over them can come to."""

import itertools
from statistics import fmean

import pytest

from tests.benchmarks.noisy_search import EPOCHS, bounds_of
from tests.benchmarks.replicates import solve
from tests.benchmarks.wsabie_curves import SPACE, Measured, make_grid
from trainables.config import TrainingConfig, TrialConfig

SETTINGS = list(itertools.product(*(bound["values"] for bound in bounds_of(SPACE).values())))
CURVES = {
    setting: [[rank + luck - abs(epoch - 10) for epoch in range(1, EPOCHS + 1)] for luck in (-2.0, 0.0, 2.0)]
    for rank, setting in enumerate(SETTINGS)
}
"""Of three seeds, each best after epoch 10; settings are a point apart."""


def config_of(setting, seed):
    temperature, learning_rate = setting
    training = TrainingConfig(learning_rate=learning_rate)
    return TrialConfig(dataset="x", loss_parameters={"temperature": temperature}, training=training, seed=seed)


def test_a_training_is_one_of_the_measured_ones_and_stays_the_same():
    objective, setting = Measured(CURVES, 3), SETTINGS[7]
    drawn = [[objective.value(config_of(setting, seed), epoch) for epoch in (1, 10, 15)] for seed in range(40)]
    assert {tuple(values) for values in drawn} == {(-4, 5, 0), (-2, 7, 2), (0, 9, 4)}
    assert drawn == [[Measured(CURVES, 3).value(config_of(setting, s), e) for e in (1, 10, 15)] for s in range(40)]


def test_what_is_expected_is_the_mean_of_the_best_epochs():
    objective = Measured(CURVES, 0)
    assert objective.expected(config_of(SETTINGS[7], 0)) == 7
    assert objective.best(SPACE) == len(SETTINGS) - 1
    assert objective.noise == pytest.approx(2)


def test_a_search_finds_better_settings_than_chance_and_the_grid_trains_them_all():
    found = [solve("replicates=1", SPACE, Measured(CURVES, number), 150, 2) for number in range(3)]
    assert all(0 <= outcome.chosen <= len(SETTINGS) - 1 for outcome in found)
    assert fmean(outcome.chosen for outcome in found) < fmean(range(len(SETTINGS)))
    (cell,) = make_grid("scenes", 0).cells()
    assert len(SETTINGS) == make_grid("scenes", 0).search.trials == 30
    assert cell.space.bounds().keys() == {"temperature", "training.learning_rate"}
