"""What the product says of itself: its version, the names that there are, and every key with its meaning."""

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import TypeAdapter

from orchestrator.commands.keys import KINDS, make_schema, meanings_in
from orchestrator.commands.list_names import LISTS
from orchestrator.experiment.experiment import load_experiment, shipped_experiments
from orchestrator.experiment.yaml_files import parse_yaml
from orchestrator.regression.suite import shipped_suites
from search_spaces import SPACES
from tests.support.commands import CommandLine
from trainables.errors import ConfigError
from trainables.metric_table import counts, may_select
from trainables.model_parameters import FEATURES

ROOT = Path(__file__).parents[3]


def test_the_version_is_that_of_the_project(cli: CommandLine) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert cli.shows("--version") == f"icr-orchestrator {version}\n"


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("experiments", shipped_experiments()),
        ("suites", shipped_suites()),
        ("losses", SPACES),
        ("models", FEATURES),
        ("metrics", [*may_select(), *counts()]),
    ],
)
def test_every_name_is_listed_with_a_line_about_it(cli: CommandLine, what: str, names: Any) -> None:
    listed = cli.json("list", what)
    assert [one["name"] for one in listed] == list(names)
    assert all(10 < len(one["meaning"]) < 130 and "\n" not in one["meaning"] for one in listed)
    assert len({one["meaning"] for one in listed}) == len(listed)
    table = cli.shows("list", what)
    assert all(name in table for name in names)
    assert what != "losses" or max(map(len, table.splitlines())) <= 100, "losses fit a narrow terminal"


def test_a_loss_is_listed_with_its_parameters_and_where_they_are_searched() -> None:
    loss = {one["name"]: one for one in LISTS["losses"]()}["nt_xent"]
    assert loss["meaning"] == "NT-Xent between images and captions, with no terms inside a modality."
    assert "log softmax_p(s_q / t)" in loss["formula"]
    # A module has several losses, and each formula says whose it is.
    assert (
        "Sigmoid loss (SigLIP): each pair "
        in loss["formula"].partition("    l_q = sum over positives")[0].splitlines()[-1]
    )
    assert loss["source"].startswith("[Oord2018] van den Oord et al., ")
    rules = loss.pop("parameters").splitlines()
    assert rules[:2] == [
        "temperature: a number above 0, or 'learned'; by default 0.1",
        "hardness: a number of at least 0; by default 0.0",
    ]
    assert {key: loss[key] for key in ("searched", "published", "learned")} == {
        "searched": "temperature: [0.005, 1] log",
        "published": "temperature: 0.1 (arXiv:2202.07474)",
        "learned": "temperature: from 0.07 on its logarithm, within [0.01, 1]",
    }


def test_a_model_is_listed_with_the_files_that_it_reads_beside_features(cli: CommandLine) -> None:
    inputs = {one["name"]: one["inputs"] for one in cli.json("list", "models")}
    read = {name: text.partition(" ")[::2] for name, text in inputs.items() if text}
    assert {name: key for name, (key, _) in read.items()} == {"gsmn": "boxes:", "hgr": "role_graphs:", "ce": "experts:"}
    assert read["ce"][1].startswith("experts/NAME.npy (images, D) or (images, N, D), with experts/NAME_lengths.npy")


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_has_a_meaning_and_no_meaning_lacks_its_key(kind: str) -> None:
    whole = TypeAdapter(KINDS[kind]).json_schema()
    for definition in (whole, *whole["$defs"].values()):
        assert meanings_in(definition["description"]).keys() == definition["properties"].keys()


@pytest.mark.parametrize(
    "path", [*shipped_experiments().values(), *shipped_suites().values()], ids=lambda path: path.stem
)
def test_the_schema_takes_what_ships(path: Path) -> None:
    kind = "suite" if path.parent.name == "suites" else "experiment"
    jsonschema.validate(parse_yaml(path.read_text())[0], make_schema(kind))


def test_the_schema_takes_resolved_configurations() -> None:
    experiment = load_experiment("flickr8k-losses")
    jsonschema.validate(json.loads(json.dumps(experiment.to_dict())), make_schema("experiment"))
    trial = experiment.trial_config(experiment.cells()[0], {"margin": 0.2})
    jsonschema.validate(json.loads(json.dumps(trial.to_dict())), make_schema("training"))


def test_the_schema_has_rule_and_default_of_each_hyper_parameter() -> None:
    keys = make_schema("experiment")["$defs"]["Search"]["properties"]
    assert keys["space"]["properties"].keys() == SPACES.keys()
    margin = keys["fixed"]["properties"]["circle"]["properties"]["margin"]
    assert margin["description"] == "a number of at least 0; by default 0.4"
    softmax = keys["model_parameters"]["properties"]["lambda_softmax"]["description"]
    assert softmax.split(". ")[:2] == [
        f"{model}: a number above 0; by default {x}" for model, x in (("scan", 9.0), ("gsmn", 20.0))
    ]


@pytest.mark.parametrize(
    "change",
    [
        "training: {epoch: 3}",
        "training: {epochs: 0}",
        "training: {learning_rate: 0}",
        "training: {learning_rate_drop_factor: 1.5}",
        "training: {gradient_clip: -1}",
        "losses: [ntxent]",
        "name: a/b",
        "budget: {hours: 0}",
        "search: {metric: val/medr}",
        "search: {space: {ntxent: {temperature: [0.1, 0.2]}}}",
        "search: {space: {nt_xent: {temprature: [0.1, 0.2]}}}",
        "search: {fixed: {nt_xent: {margin: 0.2}}}",
        "search: {training: {epochs: [3, 9]}}",
        "confirm: {seeds: 0}",
        "serach: {}",
    ],
)
def test_the_schema_refuses_what_a_search_refuses(change: str) -> None:
    values = {"name": "a", "datasets": ["flickr8k"], "losses": ["nt_xent"], **yaml.safe_load(change)}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, make_schema("experiment"))
    with pytest.raises(ConfigError):
        load_experiment("scenes-smoke", [f"{key}={json.dumps(value)}" for key, value in values.items()])


@pytest.mark.parametrize("name", SPACES)
def test_one_loss_is_shown_with_formula_parameters_ranges_and_source(cli: CommandLine, name: str) -> None:
    shown = cli.shows("list", "losses", name)
    for heading in ("formula", "parameters", "source"):
        _, _, text = shown.partition(f"\n{heading}:\n")
        assert text.startswith("  "), heading
    assert all(f"  {parameter}: " in shown for parameter in SPACES[name].bounds)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["losses", "--schema"], "`list keys` alone, not with losses"),
        (["losses", "nt_xnet"], "did you mean 'nt_xent'"),
        (["keys", "name"], "takes no name"),
    ],
)
def test_what_is_not_listed_is_refused(cli: CommandLine, arguments: list[str], said: str) -> None:
    assert said in cli.refuses("list", *arguments)
