"""A study whose best settings lie at an end of a range says so, where the range can be wider."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.epochs import Epochs
from orchestrator.journal.history import History
from orchestrator.journal.points import points_by_study
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.analyses import ENOUGH, space_edges
from orchestrator.results.answers import summarise
from search_spaces import Range
from tests.support.experiments import make_experiment
from trainables.config import TrialConfig

LOSS = "triplet_sh"
STUDY = f"pets-vsepp-{LOSS}"
RATE = "training.learning_rate"


def experiment_of(**search: Any) -> Experiment:
    given = {"sampler": "random", "training": {"learning_rate": [1e-4, 1e-2]}, "space": {LOSS: {"margin": [0.0, 1.0]}}}
    return make_experiment(losses=[LOSS], search={**given, "trials": 20, **search})


def history_of(
    experiment: Experiment, points: list[Mapping[str, Any]], unfinished: int = 0, loss: str = LOSS
) -> History:
    """Return a study of these points, the best first; so many more points, better than all, were stopped early."""
    history = History(experiment=BegunExperiment.of(experiment.to_dict()))
    for number, params in enumerate(points):
        state = TrialState.FINISHED if number >= unfinished else TrialState.STOPPED_EARLY
        config, study = TrialConfig(dataset="pets", loss=loss), f"pets-vsepp-{loss}"
        trial = Trial(f"{study}-{number}", study, number, params, config, 0.0, state=state)
        trial.epochs = Epochs({1: {"val/rsum": 100.0 - number}})
        history.trials[trial.id] = trial
    return history


def points_with(best: list[tuple[float, float]]) -> list[Mapping[str, Any]]:
    """Return points with these margins and learning rates, and then others in the middle of both ranges."""
    others = [(0.5, 1e-3)] * (ENOUGH - len(best))
    return [{"margin": margin, RATE: rate} for margin, rate in [*best, *others]]


def found(
    points: list[Mapping[str, Any]], experiment: Experiment | None = None, unfinished: int = 0
) -> list[dict[str, Any]]:
    history = history_of(experiment or experiment_of(), points, unfinished)
    return space_edges(history, points_by_study(history.trials.values())).get(STUDY, [])


def test_the_best_learning_rates_at_the_upper_end_are_told_with_the_key_that_widens_the_range() -> None:
    points = points_with([(0.5, 9e-3), (0.4, 5e-3), (0.6, 8e-3)])
    range_of = {"loss": LOSS, "parameter": RATE, "key": "search.training.learning_rate", "bound": "[0.0001, 0.01] log"}
    assert found(points) == [{**range_of, "lowest": 5e-3, "highest": 9e-3, "is_upper": True, "settings": 3}]
    caveats = summarise(history_of(experiment_of(), points))["caveats"]["pets"]
    place = caveats.index(
        "Triplet SH: the 3 best settings have learning rate 0.005 to 0.009, at the upper end of [0.0001, 0.01]."
    )
    assert caveats[place + 1] == "Widen `search.training.learning_rate`."


@pytest.mark.parametrize(
    ("best", "told"),
    [
        pytest.param([(0.5, 9e-3), (0.4, 5e-3), (0.6, 1e-3)], [], id="one of three elsewhere"),
        pytest.param([(0.5, 9e-3), (0.4, 1.1e-4), (0.6, 9e-3)], [], id="both ends"),
        pytest.param([(0.5, 1.2e-4), (0.4, 1e-4), (0.6, 2e-4)], [(RATE, False)], id="lower end"),
        pytest.param([(0.9, 1e-3), (1.0, 2e-3), (0.81, 1e-3)], [("margin", True)], id="margin above"),
        pytest.param([(0.9, 9e-3), (1.0, 9e-3), (0.81, 9e-3)], [("margin", True), (RATE, True)], id="both of them"),
        pytest.param([(0.9, 3.9e-3), (1.0, 3.9e-3), (0.79, 3.9e-3)], [], id="just inside"),
    ],
)
def test_which_ends_are_told(best: list[tuple[float, float]], told: list[tuple[str, bool]]) -> None:
    assert [(edge["parameter"], edge["is_upper"]) for edge in found(points_with(best))] == told


def test_nothing_is_told_of_an_end_beyond_which_the_loss_takes_nothing() -> None:
    experiment = make_experiment(losses=["nt_xent"], search={"sampler": "random", "trials": 20})
    space = experiment.cells()[0].space
    assert space.takes("temperature", 2.0) and not space.takes("temperature", -0.1)
    polynomial = make_experiment(losses=["polynomial_relative"], search={"sampler": "random"}).cells()[0].space
    assert not polynomial.takes("shape2", 1.1) and polynomial.takes("scale", 1e4)
    assert polynomial.key_of("shape2") == "search.space.polynomial_relative.shape2"
    # A share of [0, 1] whose best settings all lie at 1: nothing can be wider.
    points = [{"margin": 0.5, "scale": 20.0, "degree": 2, "shape2": 1.0}] * ENOUGH
    described = make_experiment(losses=["polynomial_relative"], search={"sampler": "random"})
    history = history_of(described, points, loss="polynomial_relative")
    assert space_edges(history, points_by_study(history.trials.values())) == {}


def test_few_settings_and_settings_that_were_stopped_early_say_nothing() -> None:
    points = points_with([(0.5, 9e-3), (0.4, 9e-3), (0.6, 9e-3)])
    assert found(points) != []
    assert found(points[:-1]) == []
    assert found([*points, *points_with([])], unfinished=3) == []


def test_where_the_loss_is_chosen_its_own_hyper_parameters_have_keys_of_their_own() -> None:
    experiment = make_experiment(
        models=["wsabie"], losses=[LOSS, "nt_xent"], search={"sampler": "random", "loss": "choose"}
    )
    space = experiment.cells()[0].space
    assert space.key_of(f"{LOSS}.margin") == "search.space.triplet_sh.margin"
    assert space.key_of("training.batch_size") == "search.training.batch_size"
    assert space.key_of("model.radius") == "search.model_parameters.radius"
    assert not space.takes(f"{LOSS}.margin", "wide") and space.takes("model.radius", 2.0)


def test_no_range_is_advised_that_a_setting_or_a_model_refuses() -> None:
    """The factor of the drops is at most 1, and a share that is dropped below 1."""
    (cell, *_) = make_experiment(models=["hgr"]).cells()
    assert cell.space.takes("training.learning_rate_drop_factor", 1.0)
    assert not cell.space.takes("training.learning_rate_drop_factor", 1.2)
    assert not cell.space.takes("training.warmup_epochs", -1) and cell.space.takes("training.warmup_epochs", 0)
    assert cell.space.takes("model.graph_dropout", 0.9) and not cell.space.takes("model.graph_dropout", 1.05)


@pytest.mark.proof
def test_a_random_search_whose_results_are_luck_seldom_tells_anything() -> None:
    draw = random.Random(0)
    margin, rate = Range(0.0, 1.0), Range(1e-4, 1e-2, log=True)
    told = 0
    for _ in range(400):
        points = [{"margin": margin.at(draw.random()), RATE: rate.at(draw.random())} for _ in range(12)]
        told += bool(found(points))
    # Two ranges of two ends, 0.2 ** 3 each: 3.2 %, of which margins below 0 are none. Here 13 of 400 at most.
    assert told <= 0.05 * 400
