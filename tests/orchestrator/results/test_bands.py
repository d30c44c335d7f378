"""The best settings of a study and the effects of its parameters, from journals of searches that nobody ran."""

import math

import numpy as np
import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.analyses import Analyses
from orchestrator.results.bands import FEWEST, Band, in_two_digits, searched_numbers
from tests.support.experiments import make_experiment
from trainables.config import TrainingConfig, TrialConfig

STUDY = "pets-vsepp-triplet_sh"
RATES, MARGINS = (1e-4, 1e-2), (0.05, 1.0)
BEST_RATE = 2e-3


def described() -> Experiment:
    search = {"trials": 24, "training": {"learning_rate": list(RATES)}, "space": {"triplet_sh": {"margin": MARGINS}}}
    return make_experiment(losses=["triplet_sh"], datasets=["pets"], search=search)


def add(history: History, number: int, margin: float, rate: float, value: float, **fields: object) -> Trial:
    params = {"margin": margin, "training.learning_rate": rate}
    config = TrialConfig(
        dataset="pets",
        loss="triplet_sh",
        loss_parameters={"margin": margin},
        training=TrainingConfig(learning_rate=rate),
    )
    trial = Trial(f"{STUDY}-{number:04}", STUDY, number, params, config, 0.0, state=TrialState.FINISHED)
    trial.epochs = {1: {"val/rsum": value - 20}, 2: {"val/rsum": value}}
    for name, given in fields.items():
        setattr(trial, name, given)
    history.trials[trial.id] = trial
    return trial


def history_of(trials: int, *, diverging: bool = False, noise: float = 0.5) -> History:
    """Return a search whose margin has no effect, and whose learning rate is best at ``BEST_RATE``."""
    generator = np.random.default_rng(3)
    history = History(experiment=BegunExperiment.of(described().to_dict()))
    for number in range(trials):
        margin, rate = generator.uniform(*MARGINS), 10 ** generator.uniform(-4, -2)
        value = 250 - 60 * (math.log10(rate) - math.log10(BEST_RATE)) ** 2 + noise * generator.normal()
        is_lost = diverging and rate > 4e-3
        add(history, number, margin, rate, value, **({"state": TrialState.DIVERGED} if is_lost else {}))
    return history


def band_of(history: History) -> Band:
    return Analyses(history).bands[STUDY]


def test_the_best_settings_are_a_range_of_the_rate_and_any_margin() -> None:
    band = band_of(history_of(24))
    low, high = band.ranges["training.learning_rate"]
    assert RATES[0] < low < BEST_RATE < high < RATES[1]
    assert band.whole == {"margin"} and band.matters == ["training.learning_rate"]
    assert low <= band.setting["training.learning_rate"] <= high
    best, effects = (a for a in Analyses(history_of(24)).answers("pets", None) if a.key in ("best_settings", "effects"))
    assert best.headline.startswith("Triplet SH settings with learning rate 0.00")
    assert best.headline.endswith("and any margin do not differ significantly from the best.")
    assert effects.headline.startswith("Triplet SH: learning rate changes the value by")
    assert any("no effect is shown of margin (at most" in note for note in effects.notes)
    assert best.table is not None
    rows = best.table.to_dict()["rows"]
    assert [row["parameter"] for row in rows] == list(band.bounds)
    assert rows[0]["low"] == pytest.approx(band.ranges[rows[0]["parameter"]][0])


def test_few_trials_and_lists_of_words_have_no_surface() -> None:
    assert Analyses(history_of(FEWEST - 1)).bands == {}
    words = make_experiment(losses=["gradient_weights"])
    (cell,) = words.cells()
    assert searched_numbers(cell.space) == {}


def test_a_region_that_diverges_is_not_among_the_best() -> None:
    lost = band_of(history_of(24, diverging=True))
    assert lost.diverged > 0
    places = np.array([[0.5, 1.0]])
    assert lost.expected(places[0]).value < lost.expected(lost.surface.safest).value - 10


def test_trials_that_were_stopped_count_with_an_estimate_and_failed_ones_do_not() -> None:
    history = history_of(24)
    for trial in list(history.trials.values())[:6]:
        trial.state, trial.epochs = TrialState.STOPPED_EARLY, {1: trial.epochs[1]}
    list(history.trials.values())[6].state = TrialState.FAILED
    band = band_of(history)
    assert (band.known, band.stopped, band.diverged) == (17, 6, 0)
    assert list(band.surface.observed.unsure > 0) == [False] * 17 + [True] * 6
    # Every setting gains 20 in its last epoch, so the estimates are right.
    full = band_of(history_of(24))
    assert sorted(band.surface.observed.values[17:]) == pytest.approx(sorted(full.surface.observed.values[:6]))


def test_confirmations_give_the_noise_of_seeds_and_correct_a_lucky_trial() -> None:
    history = history_of(24)
    lucky = add(history, 24, 0.5, 1.1e-4, 260.0)
    assert band_of(history).best.first is lucky
    for seed, value in enumerate((160.0, 161.0, 162.0)):
        repeat = add(history, 100 + seed, 0.5, 1.1e-4, value, stage=Stage.CONFIRM, candidate=lucky.id)
        repeat.id = f"{lucky.id}-seed{seed}"
    band = band_of(history)
    assert band.best.first is not lucky
    assert band.surface.observed.freedom == 3
    assert band.surface.observed.trainings.max() == 4


def test_coefficients_have_two_digits() -> None:
    assert [in_two_digits(value) for value in (0.002814, 118.3, 0.0, -3.14159)] == ["0.0028", "120", "0", "-3.1"]
