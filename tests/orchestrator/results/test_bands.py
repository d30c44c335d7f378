"""The best settings of a study and the effects of its parameters, from journals of searches that nobody ran."""

from dataclasses import replace

import numpy as np
import pytest

from orchestrator.journal.epochs import Epochs
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.results.answers import Summary
from orchestrator.results.bands import FEWEST, Band, band_answers, place_of, searched_numbers, value_at
from orchestrator.text.wording import printed
from search_spaces.space import Values
from tests.support.experiments import make_experiment
from tests.support.two_coefficients import BEST_RATE, RATES, STUDY, add, history_of


def band_of(history: History) -> Band:
    return Summary(history).bands[STUDY]


def test_the_best_settings_are_a_range_of_the_rate_and_any_margin() -> None:
    band = band_of(history_of(24))
    low, high = band.ranges["training.learning_rate"]
    assert RATES[0] < low < BEST_RATE < high < RATES[1]
    assert band.whole == {"margin"} and band.matters == ["training.learning_rate"]
    assert low <= band.setting["training.learning_rate"] <= high
    answers = {answer.key: answer for answer in Summary(history_of(24)).answers}
    best, effects = answers["best_settings"], answers["effects"]
    assert best.headline.startswith("Triplet SH settings with learning rate 0.00")
    assert best.headline.endswith("and any margin do not differ significantly from the best.")
    assert effects.headline.startswith("Triplet SH: learning rate changes the value by")
    assert any("no effect is shown of margin (at most" in note for note in effects.notes)
    rows = best.table.to_dict()["rows"]
    assert [row["parameter"] for row in rows] == list(band.bounds)
    assert rows[0]["low"] == pytest.approx(band.ranges[rows[0]["parameter"]][0])


def test_coefficients_that_belong_together_are_named() -> None:
    band = band_of(history_of(48, tilt=0.6))
    ((first, second, likeness),) = band.together
    assert (first, second) == ("margin", "training.learning_rate") and likeness > 0.5
    (answer,) = (one for one in Summary(history_of(48, tilt=0.6)).answers if one.key == "best_settings")
    assert "Choose margin and learning rate together: a larger margin needs a larger learning rate." in answer.notes
    assert band_of(history_of(24)).together == []


def test_the_winners_loss_comes_first_and_another_loss_says_so() -> None:
    (band,) = Summary(history_of(24)).bands.values()
    other = replace(band, cell=replace(band.cell, loss="nt_xent", name="pets-vsepp-nt_xent"))
    for winner, named in (("triplet_sh", "Triplet SH settings"), ("nt_xent", "NT-Xent settings")):
        answer, effects = band_answers("pets", [band, other], (band.of[0], winner))
        assert answer.headline.startswith(named) and effects.headline.startswith(printed(winner))
        assert not any("the winner's loss" in note for note in answer.notes)
    answer = band_answers("pets", [band], (band.of[0], "nt_xent"))[0]
    assert answer.notes[0].startswith("NT-Xent, the winner's loss, has no surface")


def test_losses_are_named_after_their_models_where_the_experiment_has_several() -> None:
    (band,) = Summary(history_of(24)).bands.values()
    both = [
        replace(band, several_models=True),
        replace(band, cell=replace(band.cell, model="hgr"), several_models=True),
    ]
    best, effects = band_answers("pets", both, ("ce", "triplet_sh"))
    for answer in (best, effects):
        assert {row["name"] for row in answer.table.to_dict()["rows"]} == {"VSE++ Triplet SH", "HGR Triplet SH"}
    assert best.notes[0].startswith("CE Triplet SH, the winner's loss, has no surface")
    assert effects.headline.startswith("VSE++ Triplet SH: learning rate changes")
    history = history_of(24)
    assert Summary(history).bands[STUDY].several_models is (len(history.experiment.models) > 1)


def test_studies_with_metrics_of_their_own_have_columns_of_their_own() -> None:
    (band,) = Summary(history_of(24)).bands.values()
    cell = replace(band.cell, loss="nt_xent", name="pets-vsepp-nt_xent", metric="val/i2t_map5")
    for answer, key in zip(
        band_answers("pets", [band, replace(band, cell=cell)], band.of), ("expected", "change"), strict=True
    ):
        columns = {column.key: column for column in answer.table.columns if column.key.startswith(key)}
        assert {name: column.unit for name, column in columns.items()} == {
            key: "val/rsum",
            f"{key}_i2t_map5": cell.metric,
        }
        first, _, other, _ = answer.table.to_dict()["rows"]
        assert [first[name] is None for name in columns] == [False, True]
        assert [other[name] is None for name in columns] == [True, False]


def test_few_trials_and_lists_of_words_have_no_surface() -> None:
    assert Summary(history_of(FEWEST - 1)).bands == {}
    words = make_experiment(losses=["gradient_weights"])
    (cell,) = words.cells()
    assert searched_numbers(cell.space) == {}


def test_listed_numbers_are_spaced_evenly_from_the_lowest_on() -> None:
    bound = Values((8.0, 1.0, 2.0))
    (trial, *_) = history_of(24).trials.values()
    for value, share in ((1.0, 0.0), (2.0, 0.5), (8.0, 1.0)):
        trial.params = {"margin": value}
        assert place_of({"margin": bound}, trial) == [share]
        assert value_at(bound, share) == value


def test_a_region_that_diverges_is_not_among_the_best() -> None:
    lost = band_of(history_of(24, diverging=True))
    assert lost.diverged > 0
    places = np.array([[0.5, 1.0]])
    assert lost.expected(places[0]).value < lost.expected(lost.surface.safest).value - 10


def test_diverged_trials_are_places_of_the_surface_with_the_lowest_value() -> None:
    history = history_of(24, diverging=True)
    band, lost = band_of(history), [t for t in history.trials.values() if t.state is TrialState.DIVERGED]
    observed = band.surface.observed
    assert len(lost) == band.diverged > 0 and len(observed.values) == len(history.trials)
    assert set(observed.values[-len(lost) :]) == {observed.values[: -len(lost)].min()}
    assert (observed.unsure[-len(lost) :] > 10).all()


def test_trials_that_were_stopped_count_with_an_estimate_and_failed_ones_do_not() -> None:
    history = history_of(24)
    for trial in list(history.trials.values())[:6]:
        trial.state, trial.epochs = TrialState.STOPPED_EARLY, Epochs({1: trial.epochs[1]})
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
