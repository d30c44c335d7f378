"""Spaces of whole studies: a loss to choose, settings beside it, and what is refused."""

from typing import Any

import optuna
import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.ledger import Ledger
from orchestrator.studies.study import Studies
from search_spaces import Range, Values
from tests.support.experiments import start
from trainables.errors import ConfigError


def experiment(**changes: Any) -> Experiment:
    values = {"name": "s", "datasets": ["pets"], "losses": ["nt_xent"], "resources": {"gpus": 0}}
    return validate(Experiment, {**values, **changes}, "s.yaml")


def suggested(found: Experiment, ledger: Ledger, count: int) -> list[Any]:
    start(ledger, found)
    studies = Studies(found, ledger)
    return [studies.next() for _ in range(count)]


def test_the_loss_is_a_parameter_on_which_others_depend(ledger: Ledger) -> None:
    found = experiment(losses=["nt_xent", "triplet_sh", "polynomial_relative"], search={"loss": "choose", "trials": 40})
    (cell,) = found.cells()
    assert (cell.name, cell.space.is_conditional) == ("pets-vsepp-any", True)
    trials = suggested(found, ledger, 40)
    first = [(trial.config.loss, trial.params) for trial in trials[:3]]
    assert first == [
        ("nt_xent", {"loss": "nt_xent", "nt_xent.temperature": 0.1}),
        ("triplet_sh", {"loss": "triplet_sh", "triplet_sh.margin": 0.2}),
        (
            "polynomial_relative",
            {
                "loss": "polynomial_relative",
                "polynomial_relative.scale": 128.0,
                "polynomial_relative.margin": 0.2,
                "polynomial_relative.degree": 2,
                "polynomial_relative.shape2": 0.5,
            },
        ),
    ]
    assert {trial.config.loss for trial in trials[3:]} == {"nt_xent", "triplet_sh", "polynomial_relative"}
    for trial in trials:
        assert trial.params["loss"] == trial.config.loss
        assert all(name == "loss" or name.startswith(f"{trial.config.loss}.") for name in trial.params)


def test_settings_beside_the_loss_are_suggested_and_reach_the_training(ledger: Ledger) -> None:
    beside = {"learning_rate": "default", "batch_size": {"values": [64, 128]}, "learning_rate_drop_epochs": [5, 9]}
    found = experiment(
        models=["wsabie"],
        losses=["warp"],
        search={"training": beside, "model_parameters": {"radius": [0.5, 5.0]}, "trials": 20},
        model_parameters={"radius": 1.0},
    )
    (cell,) = found.cells()
    assert cell.space.bounds()["training.learning_rate"] == Range(2e-5, 2e-3, log=True)
    assert cell.space.bounds()["model.radius"] == Range(0.5, 5.0, log=True)
    assert cell.space.bounds()["training.batch_size"] == Values((64, 128))
    assert cell.space.first_points() == [
        {
            "margin": 1.0,
            "training.learning_rate": 2e-4,
            "training.batch_size": 128,
            # 15, the usual number of epochs before a drop, lies outside.
            "training.learning_rate_drop_epochs": 9,
            "model.radius": 1.0,
        }
    ]
    for trial in suggested(found, ledger, 20):
        training, params = trial.config.training, trial.params
        assert trial.config.model_parameters["radius"] == params["model.radius"]
        for name in beside:
            assert getattr(training, name) == params[f"training.{name}"]
        assert isinstance(training.learning_rate_drop_epochs, int)


@pytest.mark.parametrize(
    ("about", "searched", "first"),
    [
        (
            {"models": ["wsabie"], "losses": ["warp"]},
            {"model_parameters": ["radius"], "training": ["weight_decay"]},
            {"margin": 1.0, "training.weight_decay": 1e-6, "model.radius": 1.0},
        ),
        # No clipping is nearest to the weakest.
        ({"training": {"gradient_clip": None}}, {"training": ["gradient_clip"]}, {"training.gradient_clip": 20.0}),
        (
            {"models": ["head"]},
            {"model_parameters": ["image_head", "hidden_size"]},
            {"model.image_head": "linear", "model.hidden_size": 128},
        ),
    ],
)
def test_a_study_begins_with_what_there_is_when_nobody_says_anything(about: Any, searched: Any, first: Any) -> None:
    search = {section: dict.fromkeys(names, "default") for section, names in searched.items()}
    (cell,) = experiment(**about, search=search).cells()
    (point,) = cell.space.first_points()
    assert {"temperature": 0.1, **first}.items() >= point.items() >= first.items()
    heads = cell.space.bounds().get("model.image_head")
    assert heads is None or heads.values == ("linear", "mlp", "residual")


def test_trials_of_a_study_read_the_same_inputs() -> None:
    def gsmn(edges: list[str], graph: str) -> Any:
        search = {"model_parameters": {"edges": {"values": edges}}}
        return experiment(models=["gsmn"], losses=["triplet_sh"], model_parameters={"graph": graph}, search=search)

    (cell,) = gsmn(["dense", "sparse"], "published").cells()
    assert cell.space.published_points()[0]["model.edges"] == "dense"
    with pytest.raises(ConfigError, match="trials of gsmn would read boxes or boxes and parses by their parameters"):
        gsmn(["dense", "sparse"], "paper")


def test_a_pooling_is_searched_where_the_study_reads_regions_anyway() -> None:
    search = {"model_parameters": {"pooling": {"values": ["mean", "gpo"]}}}
    with pytest.raises(ConfigError, match="search.model_parameters.pooling: the study reads global features"):
        experiment(models=["vsepp"], search=search)
    (cell,) = experiment(models=["vsepp"], search=search, model_parameters={"pooling": "gpo"}).cells()
    assert cell.space.first_points()[0]["model.pooling"] == "gpo"


def test_a_grid_of_several_losses_and_settings() -> None:
    space = {"nt_xent": {"temperature": {"values": [0.05, 0.1]}}, "triplet_sh": {"margin": {"values": [0.2]}}}
    training = {"batch_size": {"values": [32, 64]}}
    search = {"sampler": "grid", "loss": "choose", "space": space, "training": training, "trials": 100}
    (cell,) = experiment(losses=["nt_xent", "triplet_sh"], search=search).cells()
    points = cell.space.grid()
    assert len(points) == 2 * 2 + 2
    assert points[1] == {"loss": "nt_xent", "nt_xent.temperature": 0.05, "training.batch_size": 64}
    for point in points:
        assert cell.space.suggest(optuna.trial.FixedTrial(dict(point))).loss == point["loss"]


@pytest.mark.parametrize("bound", ["default", {"values": [0, 64]}])
def test_a_bank_is_searched_from_none_and_not_of_a_model_of_sets(bound: Any) -> None:
    search = {"training": {"bank": bound}}
    (cell,) = experiment(models=["vsepp"], losses=["warp"], search=search).cells()
    assert [point["training.bank"] for point in cell.space.published_points()] == [0]
    with pytest.raises(ConfigError, match=r"training\.bank: scan compares sets"):
        experiment(models=["scan"], losses=["warp"], search=search)


def test_schedules_averages_and_rates_by_group_are_searched() -> None:
    """The first trial has the usual settings; a group without a rate of its own begins with that of the others."""
    words = {"learning_rate_schedule": "default", "weight_decay_of": "default", "loss_learning_rate": [1e-4, 1e-1]}
    search = {"training": {**words, "weight_average": {"values": [0, 0.999]}}}
    (cell,) = experiment(models=["head"], losses=["nt_xent"], search=search).cells()
    usual = {"learning_rate_schedule": "drops", "weight_decay_of": "all", "weight_average": 0.0}
    expected = {**usual, "loss_learning_rate": cell.training.learning_rate}
    first = cell.space.first_points()[0]
    assert {name: first[f"training.{name}"] for name in expected} == expected


@pytest.mark.parametrize("loss", ["nt_xent", "sigmoid", "decoupled"])
def test_hardness_is_searched_where_it_is_asked_for(loss: str) -> None:
    """A study then tries the published settings without it, and NT-Xent with the 9 of LLaVE at its temperature too."""
    plain, searched = (
        experiment(models=["head"], losses=[loss], search=search).cells()[0].space
        for search in ({}, {"space": {loss: {"hardness": [0, 16]}}})
    )
    assert "hardness" not in plain.bounds() and str(searched.bounds()["hardness"]) == "[0, 16]"
    assert [point["hardness"] for point in searched.first_points()] == ([0.0, 9.0] if loss == "nt_xent" else [0.0])
