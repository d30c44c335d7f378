"""What people write in configurations, and what they are told: place, key, rule, value got and way out."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.experiment.experiment import load_experiment
from orchestrator.regression.suite import load_suite
from orchestrator.searches.preparation import check_unchanged
from orchestrator.workload.single import read_config
from tests.support.commands import CommandLine
from tests.support.experiments import add_trial, begun, make_experiment
from tests.support.records import append
from trainables.errors import ConfigError

HEAD = "name: mine\ndatasets: [flickr8k]\nlosses: [nt_xent]\n"
TEMPERATURE = "search.space.nt_xent.temperature"
NAMES = "must be 1 to 100 letters (A-Z, a-z), digits, '.', '_' and '-', the first a letter or digit"
WAYS = "[LOW, HIGH] is a range, {values: [A, B]} are values one by one"

EXPERIMENTS = [
    ("training: {learning_rate: −0.5}", "4:12: training.learning_rate: should be a valid", "; type the minus as -"),
    (
        "search:\n  space:\n    nt_xent: {temperature: {min: 0.01, max: 0.3, log: true}}",
        f"6:15: {TEMPERATURE}: a range has no keys min, max, log: write [0.01, 0.3]; {WAYS}; ",
        "the scale, logarithmic or not, is the parameter's own",
    ),
    (
        "search:\n  space: {nt_xent: {temperature: 0.1}}",
        f"5:21: {TEMPERATURE}: one value, 0.1, is nothing to search; {WAYS}; ",
        "under search.fixed.LOSS, a setting under training, a parameter of the model under model_parameters",
    ),
    (
        "search: {space: {nt_xent: {temperature: [0.1, 0.2, 0.3]}}}",
        f"4:28: {TEMPERATURE}: a range has two ends, got [0.1, 0.2, 0.3]; ",
        WAYS,
    ),
    ("temperature: 0.1", "4:1: temperature: unknown key; ", "search.fixed.LOSS.temperature or search.space.LOSS.temp"),
    ("trials: 3", "4:1: trials: unknown key; ", "it belongs under search.trials"),
    ("budget: {hour: 3}", "4:10: budget.hour: unknown key; ", "did you mean 'hours'?"),
    ("budget: {hours: 30m}", "4:10: budget.hours: ", "a number of hours without a unit: for 30m write 0.5"),
    ("budget: {gpu_hours: 2 days}", "4:10: budget.gpu_hours: ", "for 2 days write 48"),
    ("patience: {epoch_minutes: 1.5h}", "4:12: patience.epoch_minutes: ", "of minutes without a unit: for 1.5h write"),
    ("budget: {hours: 1:30}", "4:10: budget.hours: ", 'should be a valid number, got "1:30"'),
    ("description: 1e5", "4:1: description: should be a valid string, got 100000.0; ", "put the text in quotes"),
    ("training:\n  epochs: 3\n  epochs: 4", "6:3: key 'epochs' is there twice, ", "first in line 5; remove one of the"),
    (
        "scheduler: {name: none, grace_epochs: 5}",
        "4:25: scheduler.grace_epochs: a setting of asha, hyperband, median, but scheduler.name is none; ",
        "replace the whole section: --set 'scheduler={name: none}'",
    ),
    (
        "search: {fixed: {nt_xent: {temperature: null}}}",
        "4:28: search.fixed.nt_xent.temperature: should be a valid boolean or ",
        "integer or number or string or array, got null",
    ),
    ("overrides: [{losses: [triplet]}]", "4:14: overrides.0.losses: ", "unknown name 'triplet'; known: nt_xent"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.yaml"


def refused(path: Path, text: str, *given: object, load: Callable[..., object] = load_experiment) -> str:
    """Write a file that must be refused, and return what is said."""
    path.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load(str(path), *given)
    return str(refusal.value)


@pytest.mark.parametrize(("text", "start", "end"), EXPERIMENTS)
def test_what_a_wrong_experiment_is_told(path: Path, text: str, start: str, end: str) -> None:
    said = refused(path, f"{HEAD}{text}\n")
    assert said.startswith(f"{path}:{start}") and end in said and "\n" not in said


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("a/b", "got 'a/b', where '/' is none of these"),
        ("my search", "got 'my search', where ' ' is none of these"),
        ("größe", "got 'größe', where 'ö' is none of these"),
        ("-a", "got '-a'"),
        ("..", "got '..'"),
        ("a" * 101, "got of 101 characters"),
        ("''", "got ''"),
        ('"a\\n"', r"got 'a\n', where '\n' is none of these"),
    ],
)
@pytest.mark.parametrize("load", [load_experiment, load_suite])
def test_a_refused_name_tells_which_characters_are_allowed(load, name: str, got: str) -> None:
    source = "scenes-smoke" if load is load_experiment else "scenes-quick"
    with pytest.raises(ConfigError) as refusal:
        load(source, [f"name={name}"])
    assert str(refusal.value).endswith(f": name: {NAMES}, {got}")


MANY = """\
name: my search
datasets: [flickr8k]
losses: [ntxent, triplet_sh]
modles: [vsrn]
training:
  epoch: 3
  batch_size: 1
search:
  sampler: tpf
  space:
    triplet_sh: {margin: 0.2}
budget: {hours: 30m, gpu_hour: 3}
scheduler: {name: none, grace_epochs: 5, brackets: 2}
"""


def test_all_mistakes_of_a_file_are_told_in_the_order_of_its_lines(path: Path) -> None:
    head, *lines = refused(path, MANY, ["resources.cpus=0"]).splitlines()
    assert head == "12 mistakes:"
    keys = [(line.split(": ")[0].strip().removeprefix(f"{path}:"), line.split(": ")[1]) for line in lines]
    assert keys == [
        ("1:1", "name"),
        ("3:10", "losses.0"),
        ("4:1", "modles"),
        ("6:3", "training.epoch"),
        ("7:3", "training.batch_size"),
        ("9:3", "search.sampler"),
        ("11:18", "search.space.triplet_sh.margin"),
        ("12:10", "budget.hours"),
        ("12:22", "budget.gpu_hour"),
        ("13:25", "scheduler.grace_epochs"),
        ("13:42", "scheduler.brackets"),
        ("--set resources.cpus=0", "resources.cpus"),
    ]


SUITE = """\
name: mine
matters: 2
cells:
  - {dataset: flickr8k, model: vsepp, loss: triplet}
  - {dataset: flickr8k, model: vsepp, loss: nt_xent, model_parameters: {pool: max}}
  - {dataset: flickr8k, model: vsepp, loss: triplet_sh, loss_parameters: {margn: 0.1}}
"""


def test_mistakes_of_the_cells_of_a_suite_name_the_cell(path: Path) -> None:
    head, model, loss = refused(path, SUITE, load=load_suite).splitlines()
    assert head == "2 mistakes:"
    assert model.startswith(f"  {path}:5:73: cells.1: model_parameters.pool: vsepp has no such parameter")
    assert loss.startswith(f"  {path}:6:57: cells.2.loss_parameters: unknown name 'margn'")


TOGETHER = """\
name: mine
datasets: [flickr8k]
models: [vsepp, wsabie]
losses: [nt_xent, triplet]
search:
  space:
    nt_xent: {temperature: [0.5, 0.1]}
    triplet: {margin: [-1, 0.3]}
  training: {batch_size: [1, 64]}
training: {epochs: 2}
"""


def test_what_does_not_go_together_is_told_at_once_and_once(path: Path) -> None:
    assert refused(path, TOGETHER).splitlines() == [
        "2 mistakes:",
        f"  {path}:7:15: search.space.nt_xent.temperature: a range needs finite low < high, got [0.5, 0.1]",
        f"  {path}:8:15: search.space.triplet: margin must be a number of at least 0, got -1.0",
    ]


def test_only_the_first_twenty_of_many_are_shown() -> None:
    with pytest.raises(ConfigError) as refusal:
        load_experiment("scenes-smoke", [f"k{number}=1" for number in range(50)])
    lines = str(refusal.value).splitlines()
    assert (lines[0], len(lines), lines[-1]) == ("50 mistakes:", 22, "  ... and 30 more")
    assert len(refusal.value.problems) == 50


TRAININGS = [
    ("temperature=0.1", "--set temperature=0.1: temperature: unknown key; it belongs under loss_parameters.t"),
    ("epochs=3", "--set epochs=3: epochs: unknown key; it belongs under training.epochs"),
    ("los=nt_xent", "--set los=nt_xent: los: unknown key; did you mean 'loss'?"),
    ("loss=nt_xent loss_parameters.margin=1", "--set: loss_parameters: unknown name 'margin'"),
    ("model=q", "--set model=q: model must be one of"),
    ("loss=ntxent", "--set loss=ntxent: loss: unknown name 'ntxent'; did you mean"),
    (
        "training.epochs=0 training.batch_size=1",
        "2 mistakes:\n  --set training.epochs=0: training.epochs: must be at least 1, got 0\n"
        "  --set training.batch_size=1: training.batch_size: must be at least 2, got 1",
    ),
    *(
        (
            f"loss=nt_xent loss_parameters.temperature={value}",
            f"--set loss_parameters.temperature={value}: loss_parameters: temperature must be a number above 0, or "
            f"'learned', got {shown} (loss nt_xent)",
        )
        for value, shown in (("0", "0"), ("learnd", "'learnd'"))
    ),
    ("training.epochs=many", '--set training.epochs=many: training.epochs: should be a valid integer, got "many"'),
    ("val_images=0", "--set val_images=0: val_images must be at least 1, or null for all, got 0"),
    (
        "loss=polynomial_relative loss_parameters.coefficients=[0.5]",
        "--set loss_parameters.coefficients=[0.5]: loss_parameters: coefficients must hold a coefficient of power 1 or",
    ),
]


@pytest.mark.parametrize(("settings", "message"), TRAININGS)
def test_what_a_wrong_training_is_told(settings: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_config(None, ["dataset=x", *settings.split()])
    assert str(refusal.value).startswith(message)


def test_a_training_without_data_is_refused() -> None:
    with pytest.raises(ConfigError, match="--set: dataset: missing; it has no default"):
        read_config(None, ["loss=nt_xent"])


@pytest.mark.parametrize(
    ("command", "text", "message"),
    [
        (
            "train",
            f"{HEAD}search: {{trials: 3}}\n",
            "is an experiment, for it has datasets and losses and search: give it to `orchestrator search`; "
            "this command takes the file of one training",
        ),
        ("search", "dataset: flickr8k\nloss: nt_xent\n", "is the file of one training, for"),
        ("search", "name: s\ncells: []\nmatters: 3\n", "is a suite, for it has"),
        ("regress", HEAD, "is an experiment, for it has datasets and losses"),
    ],
)
def test_a_file_of_another_kind_names_its_command(
    path: Path, cli: CommandLine, command: str, text: str, message: str
) -> None:
    path.write_text(text)
    assert f"error: {path}: {message}" in cli.refuses(command, path, "--output", path.with_name("runs"))


def test_a_change_of_an_experiment_is_told_from_what_to_what(tmp_path: Path) -> None:
    before = make_experiment(training={"epochs": 3})
    after = make_experiment(training={"epochs": 4, "batch_size": 64})
    with begun(tmp_path, before) as ledger:
        add_trial(ledger, [30.0])
    with pytest.raises(ConfigError) as refusal:
        check_unchanged(after, {}, ledger.history, tmp_path)
    assert "now: training.epochs (3 -> 4), training.batch_size (128 -> 64); give the" in str(refusal.value)


def test_a_change_is_refused_once_trials_of_another_experiment_were_taken_for_the_settings(tmp_path: Path) -> None:
    before = make_experiment(training={"epochs": 3})
    with begun(tmp_path, before) as ledger:
        check_unchanged(make_experiment(), {}, ledger.history, tmp_path)
        append(ledger, "warm_started", source="past", studies={}, passed_over=0)
        check_unchanged(before, ledger.history.data, ledger.history, tmp_path)
    with pytest.raises(ConfigError, match="was started with other settings than now: training.epochs"):
        check_unchanged(make_experiment(), {}, ledger.history, tmp_path)
