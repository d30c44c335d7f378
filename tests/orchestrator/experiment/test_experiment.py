"""Experiment files: what ships loads, wrong ones are refused in one line, harmless changes pass, studies differ."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from orchestrator.experiment.experiment import (
    Experiment,
    changed_keys,
    experiment_of,
    known_experiment,
    load_experiment,
    shipped_experiments,
)
from orchestrator.experiment.yaml_files import Document, override
from orchestrator.journal.history import History
from orchestrator.journal.records import ExperimentStarted
from orchestrator.workload.single import read_config
from search_spaces import Range, Values
from tests.support.commands import CommandLine
from tests.support.experiments import make_experiment
from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.errors import ConfigError
from trainables.metric_table import may_select, metric_of, without_section
from trainables.metrics import embedding_metrics
from trainables.trial import run_trial

LISTED = "search.space.nt_xent.temperature={values: [0.1, 0.2]}"
CHOICE = "losses=[nt_xent, triplet] & search.loss=choose"
NOT_CONDITIONAL = ("cmaes", "gp", "qmc")
OVERRIDES = [
    ("[{losses: [nope]}]", ".losses.0: unknown name 'nope'"),
    ("[{training: {epoch: 3}}]", ".training: epoch: unknown key; did you mean 'epochs'"),
    ("[{training: {epochs: 0}}]", ".training: epochs: must be at least 1, got 0"),
    ("[{losses: [nt_xent], tokenizer: words}]", ".tokenizer: belongs to datasets"),
    ("[{metric: val/x}]", ".metric: unknown name"),
    ("[{model_parameters: {a: 1}}]", ": model_parameters.a: vsepp has no such parameter"),
    ("[{grace_epochs: 2}]", ".grace_epochs: a setting of asha, hyperband, median, but"),
]

REFUSED = [
    ("confirm.training=30", "confirm.training: unknown key; did you mean 'trainings'? As 'training', it belongs under"),
    ("training.epochs=ten", 'training.epochs: should be a valid integer, got "ten"'),
    ("training=3", "training: should be an object, got 3"),
    (
        "training.epochs.x=1",
        "--set training.epochs.x=1: training.epochs holds 30, which has no keys; set training.epochs whole",
    ),
    ("training.epochs", "--set training.epochs: must be KEY=VALUE"),
    ("training.epochs=[", "--set training.epochs=[: expected the node content, but found '<stream end>'"),
    ("datasets=[]", "datasets: should have at least 1 item"),
    ("losses=[ntxent]", "losses.0: unknown name 'ntxent'; did you mean 'nt_xent'?"),
    ("losses=[nt_xent, nt_xent]", "list each dataset, model and loss once"),
    ("datasets=[a/flickr8k, b/flickr8k]", "two studies would be called 'flickr8k-vsepp-nt_xent'"),
    ("search.metric=val/rsumm", "search.metric: unknown name 'val/rsumm'; did you mean 'val/rsum'?"),
    ("search.trials=0", "search.trials: should be greater than or equal to 1, got 0"),
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
    ("resources.fuse=0", "resources.fuse: should be greater than or equal to 1 or 'auto', got 0"),
    ("confirm={seeds: 5, trainings: 30}", "leave out one of the two"),
    ("confirm={trainings: 7, top: 3}", "confirm.trainings: a race trains each candidate at least twice"),
    ("confirm={trainings: 7, top: 3}", "at least 8, got 7"),
    ("confirm={trainings: 2}", "confirm.trainings: should be greater than or equal to 4, got 2"),
    ("confirm={each_of: temperature, trainings: 20}", "each_of: every value keeps"),
    ("confirm={each_of: margin}", "confirm.each_of: unknown name 'margin'; known: temperature"),
    ("confirm={each_of: temprature}", "confirm.each_of: unknown name 'temprature'; did you mean 'temperature'"),
    ("confirm={baseline: triplet}", "confirm.baseline: unknown name 'triplet'; known: nt_xent"),
    ("confirm={baseline: nt_xnt}", "confirm.baseline: unknown name 'nt_xnt'; did you mean 'nt_xent'"),
    ("budget.hours=0", "budget.hours: should be greater than 0, got 0"),
    ("budget.hours=.inf", "budget.hours: should be a finite number, got Infinity"),
    ("budget.target=.nan", "budget.target: should be a finite number, got NaN"),
    (f"search.sampler=cmaes & {LISTED}", "search.sampler: cmaes needs a range to search"),
    ("search.sampler=cmaes & search.objectives=[cocos/i2t_queries_without_gradient]", "cmaes has one objective"),
    *((f"{CHOICE} & search.sampler={name}", f"{name} needs a space without conditions") for name in NOT_CONDITIONAL),
    ("search.objectives=[val/medr]", "search.objectives.0: unknown name"),
    ("search.objectives=[cocos/i2t_negative]", "did you mean"),
    ("search.enqueue.nt_xent=[{temperatur: 0.1}]", "search.enqueue.nt_xent.0: unknown name"),
    ("search.enqueue.nt_xent=[{temperature: 3.0}]", "search.enqueue.nt_xent.0.temperature: 3.0 lies outside"),
    ("search.enqueue.triplet=[{margin: 0.1}]", "search.enqueue: unknown name"),
    (f"{CHOICE} & search.prior=auto", "search.prior: needs search.loss: each"),
    (f"search.sampler=grid & {LISTED} & search.prior=auto", "search.prior: a grid tries its own values alone"),
    (f"{CHOICE} & overrides=[{{losses: [nt_xent], training: {{epochs: 3}}}}]", "overrides: those of some losses"),
    *((f"scheduler={{name: none}} & overrides={change}", f"{change}: overrides.0{end}") for change, end in OVERRIDES),
]


@pytest.mark.parametrize(("settings", "message"), [pytest.param(*row, id=row[0]) for row in REFUSED])
def test_a_wrong_setting_is_refused_in_one_line(settings: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_experiment("flickr8k-temperature", settings.split(" & "))
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
    ({"val_images": 1000}, ["val_images"]),
    (
        {"search": {"sampler": "random", "trials": 4, "fixed": {"nt_xent": {"temperature": 1}}}},
        ["search.fixed.nt_xent.temperature"],
    ),
]


@pytest.mark.parametrize(("changes", "keys"), CHANGES)
def test_changes_that_make_trials_incomparable_are_named(changes: dict, keys: list[str]) -> None:
    assert list(changed_keys(make_experiment().to_dict(), make_experiment(**changes).to_dict())) == keys


def test_what_an_older_version_did_not_know_has_not_changed() -> None:
    old, new = make_experiment().to_dict(), make_experiment().to_dict()
    del old["training"]["precision"], old["search"]["enqueue"], old["val_images"]
    # Settings of population-based training, which earlier versions wrote into each experiment.
    old["scheduler"] |= {"perturbation_epochs": 2, "quantile": 0.25}
    assert changed_keys(old, new) == {}
    new["training"]["precision"] = "bf16"
    assert changed_keys(old, new) == {"training.precision": ("float32", "bf16")}
    # What is not taken any more is compared as it is written there.
    old = make_experiment().to_dict()
    old["training"]["momentum"] = 0.9
    assert changed_keys(old, make_experiment().to_dict()) == {"training.momentum": (0.9, None)}


def test_a_training_without_file_has_the_defaults() -> None:
    config = read_config(None, ["dataset=x", "loss=nt_xent", "loss_parameters.temperature=5e-2"])
    assert (config.model, config.loss_parameters, config.metric) == ("vsepp", {"temperature": 0.05}, "val/rsum")


def test_what_can_be_maximised_is_reported_by_a_trial_and_known_of_test() -> None:
    """A confirmation is judged by the metric of test that selected on val; none may be missing after its trainings."""
    report = next(iter(run_trial(tiny_config(epochs=1), tiny_dataset(), device="cpu")))
    measured = {name for name in may_select() if metric_of(name).of_captions}
    assert measured <= set(report.metrics)
    known = embedding_metrics(torch.eye(3), torch.eye(3), torch.arange(3))
    assert {without_section(name) for name in measured} <= known.keys()


def test_a_named_pipe_as_an_experiment_file_is_refused_without_waiting(tmp_path: Path, cli: CommandLine) -> None:
    pipe = tmp_path / "tiny.yaml"
    os.mkfifo(pipe)
    assert f"{pipe}: is no regular file; name a YAML file" in cli.refuses("search", pipe, "--dry-run")


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
    assert known_experiment(refused) is None and known_experiment(History()) is None
    assert refused.experiment.values["losses"] == ["loss_of_a_plug_in_that_is_gone"]
    assert (refused.name, refused.metric) == (make_experiment().name, make_experiment().search.metric)


def settings(experiment: Experiment) -> dict[str, tuple[int, int, int, str]]:
    """Return epochs, epoch of the first drop, embedding size and selection metric of each study."""
    return {
        cell.name: (
            cell.training.total_epochs,
            cell.training.learning_rate_drop_epochs * cell.training.epoch_scale,
            cell.training.embedding_size,
            cell.metric,
        )
        for cell in experiment.cells()
    }


@pytest.mark.parametrize("dataset", ["f30k", "coco"])
def test_the_baselines_have_the_settings_of_the_study(dataset: str) -> None:
    vsrn_drop = {"f30k": 10, "coco": 15}[dataset]
    expected = {}
    for loss in ("triplet", "triplet_sh", "nt_xent", "smooth_ap"):
        scale = 5 if loss == "smooth_ap" else 1
        expected[f"{dataset}-vsepp-{loss}"] = (30 * scale, 15 * scale, 1024, "val/rsum")
        expected[f"{dataset}-vsrn-{loss}"] = (30 * scale, vsrn_drop * scale, 2048, "val/r1_r5_sum")
    experiment = load_experiment(f"{dataset}-baselines")
    assert settings(experiment) == expected
    configs = [experiment.trial_config(cell, {}) for cell in experiment.cells()]
    assert {config.training.duplicates for config in configs} == {"negatives"}
    assert {config.training.batches for config in configs if config.loss == "smooth_ap"} == {"images"}
    assert {config.model_parameters.get("norm_before_reasoning") for config in configs if config.model == "vsrn"} == {
        dataset == "coco"
    }


def test_a_dataset_can_have_a_tokenizer_of_its_own() -> None:
    changes = ["datasets=[a, b]", "tokenizer=english", "overrides=[{datasets: [b], tokenizer: characters}]"]
    made = load_experiment("scenes-smoke", changes)
    assert {cell.dataset: made.trial_config(cell, {}).tokenizer for cell in made.cells()} == {
        "a": "english",
        "b": "characters",
    }


def test_later_overrides_win_over_earlier_ones() -> None:
    change = "overrides=[{losses: [nt_xent], training: {epochs: 7, batch_size: 8}}, {training: {epochs: 9}}]"
    cells = {cell.loss: cell.training for cell in load_experiment("scenes-smoke", [change]).cells()}
    assert (cells["nt_xent"].epochs, cells["nt_xent"].batch_size) == (9, 8)
    assert (cells["triplet_sh"].epochs, cells["triplet_sh"].batch_size) == (9, 32)


@pytest.mark.parametrize(
    ("bound", "design", "most"),
    [
        ({"values": [0.05, 0.1, 0.2]}, {}, 3 + 1),
        ({"values": [0.05, 0.1, 0.2]}, {"top": 2, "surface": True}, 6 + 1 + 1),
        ({"values": [0.05, 0.1, 0.2]}, {"top": 9}, 16 + 1),
        ([0.05, 0.2], {}, 16 + 1),
    ],
    ids=["listed", "two of each value", "more than trials", "a range"],
)
def test_a_forecast_counts_the_candidates_of_each_value(bound: Any, design: dict[str, Any], most: int) -> None:
    experiment = make_experiment(
        losses=["nt_xent"],
        search={"trials": 16, "space": {"nt_xent": {"temperature": bound}}},
        confirm={"top": 1, "each_of": "temperature", "seeds": 2, **design},
    )
    assert list(experiment.most_confirmations().values()) == [2 * most]
