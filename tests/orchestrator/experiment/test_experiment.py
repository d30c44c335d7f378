"""Experiment files: what ships loads, wrong ones are refused in one line, harmless changes pass."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from orchestrator.experiment.experiment import (
    changed_keys,
    experiment_of,
    known_experiment,
    load_experiment,
    shipped_experiments,
)
from orchestrator.experiment.values import METRICS
from orchestrator.experiment.yaml_files import Document, override
from orchestrator.journal.history import History
from orchestrator.journal.records import ExperimentStarted
from orchestrator.workload.single import read_config
from search_spaces import Range, Values
from tests.support.commands import run_command
from tests.support.experiments import make_experiment
from trainables.config import TrialConfig
from trainables.errors import ConfigError

REFUSED = [
    ("training.epoch=3", "training.epoch: unknown key; did you mean 'epochs'?"),
    ("confirm.training=30", "confirm.training: unknown key; did you mean 'trainings'? As 'training', it belongs under"),
    ("training.epochs=ten", 'training.epochs: should be a valid integer, got "ten"'),
    ("training.epochs=true", "training.epochs: should be a valid integer, got true"),
    ("training.epochs=0", "training.epochs: must be at least 1, got 0"),
    ("training=3", "training: should be an object, got 3"),
    (
        "training.epochs.x=1",
        "--set training.epochs.x=1: training.epochs holds 30, which has no keys; set training.epochs whole",
    ),
    ("training.epochs", "--set training.epochs: must be KEY=VALUE"),
    ("training.epochs=[", "--set training.epochs=[: expected the node content, but found '<stream end>'"),
    ("datasets=[]", "datasets: should have at least 1 item"),
    ("models=[vsep]", "models.0: unknown name 'vsep'; did you mean 'vsepp'?"),
    ("losses=[ntxent]", "losses.0: unknown name 'ntxent'; did you mean 'nt_xent'?"),
    ("losses=[nt_xent, nt_xent]", "list each dataset, model and loss once"),
    ("datasets=[a/flickr8k, b/flickr8k]", "two studies would be called 'flickr8k-vsepp-nt_xent'"),
    ("search.metric=val/rsumm", "search.metric: unknown name 'val/rsumm'; did you mean 'val/rsum'?"),
    ("search.sampler=tpf", "search.sampler: unknown name 'tpf'; did you mean 'tpe'?"),
    ("val_images=0", "val_images: should be greater than or equal to 1, got 0"),
    ("search.trials=0", "search.trials: should be greater than or equal to 1, got 0"),
    ("search.seed=-1", "search.seed: should be greater than or equal to 0, got -1"),
    ("search.sampler=grid", "search.space.nt_xent.temperature: a grid needs values"),
    ("search.space.nt_xent.temperature=[-1, 0.1]", "must start above 0, got [-1.0, 0.1]"),
    ("search.space.nt_xent.temperature={values: []}", "temperature.values: should have at least 1 item"),
    ("search.space.nt_xent.temperature={values: [0]}", "a number above 0, or 'learned', got 0"),
    ("search.space.nt_xent.temperature={values: [1, 1]}", "values must be listed, each once, got [1, 1]"),
    ("search.space.nt_xent.temperture=[0.1, 0.2]", "unknown name 'temperture'; did you mean 'temperature'?"),
    ("search.space.triplet.margin=[0.1, 0.2]", "search.space: unknown name 'triplet'; known: nt_xent"),
    ("search.fixed.nt_xent.temperature=-1", "temperature must be a number above 0, or 'learned', got -1"),
    ("scheduler.reduction_factor=1", "scheduler.reduction_factor: should be greater than 1, got 1"),
    ("resources.gpus=many", "resources.gpus: should be a valid number or 'auto', got \"many\""),
    ("resources.fuse=foo", "resources.fuse: should be a valid integer or 'auto', got \"foo\""),
    ("resources.fuse=0", "resources.fuse: should be greater than or equal to 1 or 'auto', got 0"),
    ("budget.hours=0", "budget.hours: should be greater than 0, got 0"),
    ("budget.gpu_hours=-1", "budget.gpu_hours: should be greater than 0, got -1"),
    ("budget.hours=.inf", "budget.hours: should be a finite number, got Infinity"),
    ("budget.target=.nan", "budget.target: should be a finite number, got NaN"),
    ("budget.plateau=0", "budget.plateau: should be greater than or equal to 1, got 0"),
    ("patience.epoch_minutes=0", "patience.epoch_minutes: should be greater than 0, got 0"),
    ("patience.memory_retries=-1", "patience.memory_retries: should be greater than or equal to 0, got -1"),
    ("resources.cpus=0", "resources.cpus: should be greater than 0, got 0"),
]


@pytest.mark.parametrize(("setting", "message"), [pytest.param(*row, id=row[0]) for row in REFUSED])
def test_a_wrong_setting_is_refused_in_one_line(setting: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_experiment("flickr8k-temperature", [setting])
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


FILES = [
    ("name: [", ":1:8: expected the node content"),
    ("- 1", ": must hold keys with values, got [1]"),
    ("", ": must hold keys with values, got null"),
    ("name: !!python/object/apply:os.system [ls]", ":1:7: the tag !!python/object/apply:os.system is not read"),
    ("name: a\nlosses: [nt_xent]", ": datasets: missing; it has no default"),
]


@pytest.mark.parametrize(("text", "message"), FILES)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load_experiment(str(path))
    assert str(refusal.value).startswith(f"{path}{message}")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("scenes-smok", "did you mean 'scenes-smoke'?"),
        ("zzz", "experiments that ship: .*flickr8k-baselines"),
        ("nowhere/a.yaml", "cannot be read: No such file"),
    ],
)
def test_an_unknown_experiment_has_a_way_out(source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        load_experiment(source)


def test_what_ships_loads_and_opens_with_its_manual() -> None:
    shipped = shipped_experiments()
    assert {"scenes-smoke", "flickr8k-temperature", "flickr8k-baselines"} <= set(shipped)
    for name, path in shipped.items():
        assert load_experiment(name).name == name
        manual = path.read_text().split("name:")[0]
        assert f"orchestrator search {name}" in manual
        assert all(line.startswith("#") for line in manual.strip().splitlines())


def test_the_resolved_copy_is_the_same_experiment(tmp_path: Path) -> None:
    import yaml

    experiment = load_experiment("flickr8k-temperature", ["search.fixed.nt_xent.temperature=0.05"])
    path = tmp_path / "resolved.yaml"
    path.write_text(yaml.safe_dump(experiment.to_dict()))
    assert load_experiment(str(path)) == experiment


def test_an_override_changes_a_copy() -> None:
    values: dict[str, Any] = {"a": {"b": 1, "c": 2}}
    changed = override(Document("a.yaml", values), ["a.b=[1, x]", "d.e=2"]).values
    assert changed == {"a": {"b": [1, "x"], "c": 2}, "d": {"e": 2}}
    assert values == {"a": {"b": 1, "c": 2}}


def test_bounds_keep_the_scale_of_the_default_and_fixed_parameters_stand_still() -> None:
    space = {"nt_xent": {"temperature": [0.01, 0.2]}, "triplet_sh": {"margin": {"values": [0.1, 0.3]}}}
    first, second = make_experiment(search={"space": space}).cells()
    assert first.space.losses["nt_xent"].bounds["temperature"] == Range(0.01, 0.2, log=True)
    assert second.space.losses["triplet_sh"].bounds["margin"] == Values((0.1, 0.3))
    fixed = make_experiment(losses=["nt_xent"], search={"fixed": {"nt_xent": {"temperature": 0.05}}}).cells()[0]
    assert fixed.space.losses["nt_xent"].bounds["temperature"] == Values((0.05,))


CHANGES = [
    ({}, []),
    ({"description": "other"}, []),
    ({"resources": {"cpus": 2}}, []),
    ({"budget": {"hours": 2, "plateau": 3}, "patience": {"epoch_minutes": 5}}, []),
    ({"search": {"sampler": "random", "trials": 9}}, []),
    ({"search": {"sampler": "random", "trials": 3}}, ["search.trials"]),
    ({"search": {"sampler": "random", "trials": 4, "seed": 1}}, ["search.seed"]),
    ({"training": {"epochs": 7}}, ["training.epochs"]),
    ({"losses": ["nt_xent"]}, ["losses"]),
    (
        {"search": {"sampler": "random", "trials": 4, "fixed": {"nt_xent": {"temperature": 1}}}},
        ["search.fixed.nt_xent.temperature"],
    ),
]


@pytest.mark.parametrize(("changes", "keys"), CHANGES)
def test_changes_that_make_trials_incomparable_are_named(changes: dict, keys: list[str]) -> None:
    assert list(changed_keys(make_experiment().to_dict(), make_experiment(**changes).to_dict())) == keys


def test_val_images_are_those_of_every_training() -> None:
    experiment = make_experiment(val_images=1000)
    config = experiment.trial_config(experiment.cells()[0], {})
    assert config.val_images == 1000
    assert TrialConfig.from_dict(config.to_dict()) == config
    assert list(changed_keys(make_experiment().to_dict(), experiment.to_dict())) == ["val_images"]


def test_what_an_older_version_did_not_know_has_not_changed() -> None:
    old, new = make_experiment().to_dict(), make_experiment().to_dict()
    del old["training"]["precision"], old["search"]["enqueue"], old["val_images"]
    # Settings of population-based training, which earlier versions wrote into each experiment.
    old["scheduler"] |= {"perturbation_epochs": 2, "quantile": 0.25}
    assert changed_keys(old, new) == {}
    new["training"]["precision"] = "bf16"
    assert changed_keys(old, new) == {"training.precision": ("float32", "bf16")}


def test_what_is_not_taken_any_more_is_compared_as_it_stands() -> None:
    old, new = make_experiment().to_dict(), make_experiment().to_dict()
    old["training"]["momentum"] = 0.9
    assert changed_keys(old, new) == {"training.momentum": (0.9, None)}


def test_a_training_without_file_has_the_defaults() -> None:
    config = read_config(None, ["dataset=x", "loss=nt_xent", "loss_parameters.temperature=5e-2"])
    assert (config.model, config.loss_parameters, config.metric) == ("vsepp", {"temperature": 0.05}, "val/rsum")


def test_what_can_be_maximised_is_what_a_trial_reports() -> None:
    from tests.trainables.tiny import tiny_config, tiny_dataset
    from trainables.trial import run_trial

    report = next(iter(run_trial(tiny_config(epochs=1), tiny_dataset(), device="cpu")))
    assert set(METRICS) <= set(report.metrics)


def test_what_can_be_maximised_on_val_is_known_of_test_as_well() -> None:
    """A confirmation is judged by the metric of test that selected on val; none may be missing after its trainings."""
    from trainables.metrics import embedding_metrics

    vectors = torch.eye(3)
    known = embedding_metrics(vectors, vectors, torch.arange(3))
    assert {name.removeprefix("val/") for name in METRICS if name.startswith("val/")} <= known.keys()


def test_a_named_pipe_as_an_experiment_file_is_refused_without_waiting_for_a_writer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "tiny.yaml"
    os.mkfifo(pipe)
    assert run_command(["search", str(pipe), "--dry-run"]) == 2
    assert f"{pipe}: is no regular file; name a YAML file" in capsys.readouterr().err


def history_of(**changes: Any) -> History:
    experiment = make_experiment().to_dict() | changes
    return History.of([ExperimentStarted(experiment=experiment, data={}, environment={})])


def test_it_is_the_experiment_that_was_begun_and_parsed_once() -> None:
    history = history_of()
    assert experiment_of(history) == make_experiment()
    assert experiment_of(history) is experiment_of(history_of())
    assert experiment_of(history_of(description="another")) is not experiment_of(history)


def test_of_an_experiment_that_is_refused_the_keys_of_all_versions_are_known() -> None:
    refused = history_of(losses=["loss_of_a_plug_in_that_is_gone"])
    with pytest.raises(ConfigError, match="journal of .*loss_of_a_plug_in_that_is_gone"):
        experiment_of(refused)
    assert known_experiment(refused) is None
    assert refused.experiment.values["losses"] == ["loss_of_a_plug_in_that_is_gone"]
    assert (refused.name, refused.metric) == (make_experiment().name, make_experiment().search.metric)


def test_before_the_first_start_there_is_none() -> None:
    assert known_experiment(History()) is None
