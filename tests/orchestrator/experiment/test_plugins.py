"""Plug-ins in an experiment: found, refused, recorded with their text, and read again without running it.

Installed packages are found by the names that they offer, wherever a name is asked for, and run only then.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import yaml

import orchestrator as icr
from orchestrator.experiment.experiment import Experiment, load_experiment
from orchestrator.experiment.plugins import changed_plugins, load_plugins
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.directory import read_history
from orchestrator.searches.begin import with_formats
from orchestrator.searches.preparation import check_unchanged
from orchestrator.workload.single import read_config
from orchestrator.workload.training import TrainablesWorkload
from search_spaces import SPACES
from tests.support.commands import CommandLine
from tests.support.experiments import begun
from tests.support.plugins import MEAN, lay_out_package, plugins_gone_afterwards, write_metadata, write_plugin
from trainables.config import TrialConfig
from trainables.data.source import find_source
from trainables.errors import ConfigError, DataError, PluginError
from trainables.files import cache_folder
from trainables.losses import LOSSES, build_loss
from trainables.model_parameters import FEATURES
from trainables.plugins.in_use import forget, in_use
from trainables.plugins.plugin import LARGEST, Plugin, installed_plugins, read_plugin_file

BROKEN = "raise RuntimeError('it runs')\n"

VALUES: dict[str, Any] = {
    "name": "own",
    "plugins": ["my_losses.py"],
    "datasets": ["pets"],
    "losses": ["mean_gap", "nt_xent"],
    "training": {"epochs": 2},
    "search": {"sampler": "random", "trials": 3},
    "resources": {"cpus": 1, "gpus": 0},
}


@pytest.fixture(autouse=True)
def _no_plugin_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.chdir(tmp_path)
    with plugins_gone_afterwards():
        yield


def write(folder: Path, text: str = MEAN, **changes: Any) -> Path:
    write_plugin(folder, text)
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump({**VALUES, **changes}))
    return path


def run_elsewhere(folder: Path, program: str) -> str:
    """Return what a program prints in another process, where the file of the plug-in is gone."""
    (folder / "my_losses.py").unlink()
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_file_beside_the_experiment_is_found_and_its_loss_has_a_study(tmp_path: Path) -> None:
    experiment = load_experiment(str(write(tmp_path)))
    first, second = experiment.cells()
    assert [first.name, second.name] == ["pets-vsepp-mean_gap", "pets-vsepp-nt_xent"]
    assert {name: str(bound) for name, bound in first.space.bounds().items()} == {"scale": "[0.5, 4] log"}
    assert first.space.first_points() == [{"scale": 1.0}]
    (plugin,) = experiment.plugins
    assert experiment.trial_config(first, {}).plugins == (plugin.reference,)
    assert "plugins" not in experiment.trial_config(second, {}).to_dict()


@pytest.mark.proof
def test_what_was_recorded_is_read_again_without_the_file_and_without_running_it(tmp_path: Path) -> None:
    told = "\nprint('the code of the plug-in runs')\n"
    recorded = json.loads(json.dumps(load_experiment(str(write(tmp_path, MEAN + told))).to_dict()))
    (tmp_path / "recorded.json").write_text(json.dumps(recorded))
    program = (
        "import json, sys; from orchestrator.experiment.experiment import Experiment\n"
        "from orchestrator.experiment.yaml_files import validate\n"
        "read = validate(Experiment, json.load(open('recorded.json')), 'journal')\n"
        "print(read.cells()[0].name, 'torch' in sys.modules)"
    )
    assert run_elsewhere(tmp_path, program) == "pets-vsepp-mean_gap False\n"


@pytest.mark.proof
def test_another_process_gets_the_text_with_the_workload_and_then_builds_the_loss(tmp_path: Path) -> None:
    experiment = load_experiment(str(write(tmp_path)))
    config = json.dumps(experiment.trial_config(experiment.cells()[0], {"scale": 2.0}).to_dict())
    (tmp_path / "sent").write_bytes(cloudpickle.dumps(TrainablesWorkload("data", plugins=experiment.plugins)))
    program = (
        "import json, pickle; pickle.load(open('sent', 'rb'))\n"
        "from trainables.config import TrialConfig; from trainables.losses import build_loss\n"
        f"config = TrialConfig.from_dict(json.loads({config!r}))\n"
        "print(build_loss(config.loss, **config.loss_parameters))"
    )
    assert run_elsewhere(tmp_path, program) == "mean_gap(scale=2.0)\n"


def test_a_resumed_search_refuses_another_text_and_says_the_way_out(tmp_path: Path) -> None:
    experiment = load_experiment(str(write(tmp_path)))
    with begun(tmp_path, experiment) as ledger:
        cell = experiment.cells()[0]
        ledger.create(cell.name, 0, {"scale": 1.0}, experiment.trial_config(cell, {"scale": 1.0}))
    history = read_history(tmp_path)
    check_unchanged(experiment, dict(history.data), history, tmp_path)
    changed = load_experiment(str(write(tmp_path, MEAN.replace("scale=1.0", "scale=2.0"))))
    with pytest.raises(ConfigError) as raised:
        check_unchanged(changed, dict(history.data), history, tmp_path)
    before, after = experiment.plugins[0].digest[:12], changed.plugins[0].digest[:12]
    assert f"my_losses.py (digest {before}) -> my_losses.py (digest {after})" in str(raised.value)
    assert "orchestrator resume" in str(raised.value)
    assert changed_plugins(experiment.plugins, ()) == [f"my_losses.py (digest {before}) is missing now"]


def test_a_text_that_is_not_that_of_its_digest_or_lies_elsewhere_is_refused(tmp_path: Path) -> None:
    values = load_experiment(str(write(tmp_path))).to_dict()
    values["plugins"][0]["files"]["my_losses.py"] += "\n# changed"
    with pytest.raises(ConfigError, match="its text is not what its digest"):
        validate(Experiment, values, "journal")
    for name in ("../elsewhere.py", "/elsewhere.py"):
        with pytest.raises(ConfigError, match="one of its files lies outside of it"):
            Plugin("own", "1.0", "own", {name: ""})


def test_a_newer_version_takes_the_place_of_the_former_which_lives_on_beside_it(tmp_path: Path) -> None:
    finders = list(sys.meta_path)
    (first,) = load_plugins([str(write_plugin(tmp_path))])
    old = build_loss("mean_gap")
    newer = MEAN.replace("scale=1.0", "scale=2.0") + MEAN.replace("mean_gap", "other")
    (second,) = load_plugins([str(write_plugin(tmp_path, newer))])
    new = build_loss("mean_gap")
    assert {"mean_gap", "other"} <= SPACES.keys()
    assert {repr(old), repr(new)} == {"mean_gap(scale=1.0)", "mean_gap(scale=2.0)"}
    assert sys.meta_path == finders
    assert {f"icr_plugin_my_losses_{plugin.digest[:12]}" for plugin in (first, second)} <= sys.modules.keys()
    folder = cache_folder() / "plugins"
    assert {path.name for path in folder.iterdir()} == {first.digest, second.digest}
    assert (folder / second.digest / "my_losses.py").read_text() == second.files["my_losses.py"]
    load_plugins([str(write_plugin(tmp_path))])
    assert "other" not in SPACES
    with pytest.raises(ConfigError, match="loss must be one of"):
        build_loss("other")
    forget()
    assert "mean_gap" not in SPACES and "mean_gap" not in LOSSES


def test_what_lies_in_the_cache_is_not_believed(tmp_path: Path) -> None:
    path = write_plugin(tmp_path)
    plugin = read_plugin_file(path)
    kept = cache_folder() / "plugins" / plugin.digest / "my_losses.py"
    kept.parent.mkdir(parents=True)
    kept.write_text("raise RuntimeError('what somebody else wrote')\n")
    load_plugins([str(path)])
    assert kept.read_text() == path.read_text()


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    cache_folder().touch()
    with pytest.raises(ConfigError, match="cannot be kept here, from where it is imported: .* point XDG_CACHE_HOME"):
        load_plugins([str(write_plugin(tmp_path))])


REFUSED = {
    "clash with ours": (MEAN.replace("mean_gap", "nt_xent"), "my_losses.py:5: the name 'nt_xent' is a loss of ours"),
    "no such file": (None, "plug-in gone.py: no such file, and no installed distribution of that name"),
    "syntax": ("def broken(:\n", "my_losses.py:3: SyntaxError: "),
    "raises": ("x = 1 / 0\n", "my_losses.py:3: ZeroDivisionError: division by zero"),
    "imports what is missing": ("import no_such_module_here\n", "my_losses.py:3: ModuleNotFoundError: "),
    "offers nothing": ("x = 1\n", "my_losses.py: offers nothing; put @loss"),
    "other arguments": ("@loss()\ndef odd(a, b):\n    pass\n", "must be similarity, positives, ignore, got a, b"),
    "no default": (MEAN.replace("scale=1.0", "scale"), "parameter scale of mean_gap needs a default"),
    "unknown parameter": (MEAN.replace('"scale":', '"scal":'), "space names 'scal', which is no parameter; there are"),
    "bound of one number": (MEAN.replace('(0.5, 4.0, "log")', "3"), "space['scale'] must be (low, high)"),
    "bounds reversed": (MEAN.replace("0.5, 4.0", "4.0, 0.5"), "space['scale']: a range needs finite low < high"),
    "name": (MEAN.replace("@loss(", "@loss(name='Mean Gap', "), "a name has small letters, digits and _"),
    "default that is no value": (MEAN.replace("scale=1.0", "scale=None"), "the default of scale must be a number"),
    "unknown features": ("@model(features='sound')\nclass Odd:\n    pass\n", "features must be global or regions"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, cli: CommandLine, text: str | None, message: str
) -> None:
    name = "gone.py" if text is None else write_plugin(tmp_path, text).name
    err = cli.refuses("search", "scenes-smoke", "--plugin", name, "--data-root", "data")
    assert message in err and err.count("\n") == 1


def test_one_file_named_twice_is_one_plugin_and_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    path, other = write(tmp_path), tmp_path / "other"
    other.mkdir()
    assert len(load_experiment(str(path), (), [str(tmp_path / "my_losses.py")]).plugins) == 1
    changed = write_plugin(other, MEAN.replace("scale=1.0", "scale=2.0"))
    with pytest.raises(ConfigError, match="two plug-ins are called my_losses.py"):
        load_experiment(str(path), (), [str(changed)])
    with pytest.raises(ConfigError, match="other.py:5: the name 'mean_gap' is offered by the plug-in my_losses.py"):
        load_plugins([str(write_plugin(tmp_path, name="other.py"))])


def test_an_installed_package_is_found_by_the_name_of_its_loss(tmp_path: Path) -> None:
    lay_out_package(tmp_path / "site")
    path = tmp_path / "own.yaml"
    space = {"model_parameters": {"dropout": "default"}, "trials": 2}
    values = {"plugins": [], "losses": ["pair_hinge"], "models": ["bag_of_words"], "search": space}
    path.write_text(yaml.safe_dump({**VALUES, **values}))
    experiment = load_experiment(str(path))
    (cell,) = experiment.cells()
    assert [plugin.name for plugin in experiment.plugins] == ["icr-pair-losses"]
    assert cell.space.first_points() == [{"margin": 0.2, "model.dropout": 0.0}]
    assert FEATURES["bag_of_words"] == "global"
    assert sorted(experiment.plugins[0].files) == [
        f"icr_pair_losses/{name}.py" for name in ("__init__", "hinge", "model", "rules")
    ]
    with pytest.raises(PluginError, match="rules.py:10: ValueError: margin must be at least 0"):
        build_loss("pair_hinge", margin=-1.0)
    with pytest.raises(ConfigError, match="model_parameters.dropout must be a finite number"):
        TrialConfig(dataset="pets", model="bag_of_words", model_parameters={"dropout": "much"})


def test_what_is_installed_is_listed_without_running_it(tmp_path: Path, cli: CommandLine) -> None:
    folder = lay_out_package(tmp_path / "site")
    (folder / "icr_pair_losses" / "hinge.py").write_text(BROKEN)
    assert [(row["plugin"], row["version"], row["kind"], row["name"]) for row in cli.json("plugins")] == [
        ("icr-pair-losses", "1.0.0", "losses", "pair_hinge"),
        ("icr-pair-losses", "1.0.0", "models", "bag_of_words"),
    ]


LOSS = """from trainables.plugins import loss

@loss(space={"scale": (0.5, 4.0)})
def gap(similarity, positives, ignore, scale=1.0):
    '''Mean gap.'''
    return scale * (similarity[~positives].mean() - similarity[positives].mean())
"""

FORMAT = """from trainables.plugins import data_format

@data_format()
class Pairs:
    FORMAT = "pairs.txt"

    @staticmethod
    def find(folder):
        return [path for path in [folder / "pairs.txt"] if path.exists()]

    @staticmethod
    def read(files):
        raise LookupError("it is read")

pairs = Pairs
"""


def lay_out(name: str, text: str, kind: str, entry: str) -> None:
    """Lay out a package of one module with one entry point, as an installation would."""
    module = name.replace("-", "_")
    write_metadata(Path("site"), name, "1.0", {f"icr_orchestrator.{kind}": {entry: f"{module}:{entry}"}})
    (Path("site") / f"{module}.py").write_text(text)


def test_a_training_and_python_find_loss_and_model(tmp_path: Path) -> None:
    lay_out_package(tmp_path / "site")
    config = read_config(None, ["dataset=pets", "loss=pair_hinge", "model=bag_of_words"], [])
    (plugin,) = in_use().values()
    assert config.plugins == (plugin.reference,) and plugin.name == "icr-pair-losses"
    forget()
    assert build_loss("pair_hinge", margin=0.3).margin == 0.3  # type: ignore[attr-defined]
    assert TrialConfig(dataset="pets", model="bag_of_words", loss="pair_hinge").features == "global"
    forget()
    # As a checkpoint is read: whoever evaluates it names no plug-in.
    assert TrialConfig.from_dict({"dataset": "pets", "model": "bag_of_words"}).features == "global"
    with pytest.raises(ConfigError, match="model must be one of vsepp, .*, got 'bag_of_wordz'"):
        TrialConfig(dataset="pets", model="bag_of_wordz")


def test_everything_is_listed_and_what_is_broken_is_told(cli: CommandLine) -> None:
    lay_out("icr-gap", LOSS, "losses", "gap")
    lay_out("icr-broken", BROKEN, "losses", "other")
    lay_out("icr-again", LOSS, "losses", "gap")
    code, out, err = cli.run("list", "losses", "--json")
    assert code == 0
    assert [row["meaning"] for row in json.loads(out) if row["name"] == "gap"] == ["Mean gap."]
    assert "warning: the plug-in icr-broken is left out: icr_broken.py:1: RuntimeError: it runs" in err
    assert err.count("the name 'gap' is offered by the plug-in") == 1 and err.count("\n") == 2


def test_nothing_runs_where_its_names_are_not_asked_for(cli: CommandLine) -> None:
    lay_out("icr-broken", BROKEN, "losses", "other")
    for words in (["list", "experiments"], ["list", "models"], ["plugins"], ["list", "keys"]):
        code, _, err = cli.run(*words)
        assert (code, err) == (0, "")
    load_experiment("scenes-smoke")
    read_config(None, ["dataset=pets", "loss=nt_xent"], [])
    assert "icr_broken" not in sys.modules
    with pytest.raises(ConfigError, match=r"icr_broken.py:1: RuntimeError: it runs"):
        read_config(None, ["dataset=pets", "loss=other"], [])


def test_a_name_of_two_packages_is_refused_until_one_of_them_is_named() -> None:
    lay_out("icr-gap", LOSS, "losses", "gap")
    lay_out("icr-again", LOSS, "losses", "gap")
    both = "the loss 'gap' is offered by icr-again and by icr-gap, which are all installed; name the package"
    values = {"name": "s", "datasets": ["pets"], "losses": ["gap"]}
    for use, *given in (
        (build_loss, "gap"),
        (icr.make_experiment, values),
        (read_config, None, ["dataset=pets", "loss=gap"], []),
    ):
        with pytest.raises(ConfigError, match=both):
            use(*given)
    made = icr.make_experiment(values, plugins=["icr-gap"])
    assert [plugin.name for plugin in made.plugins] == ["icr-gap"] and "gap" in SPACES


def test_of_two_installations_of_one_name_the_first_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out("icr-gap", LOSS, "losses", "gap")
    (tmp_path / "later").mkdir()
    write_metadata(tmp_path / "later", "icr-gap", "0.9", {"icr_orchestrator.losses": {"older": "icr_gap:older"}})
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "later")])
    assert installed_plugins()["icr-gap"] == {"losses": ["gap"]}
    assert build_loss("gap")


def test_an_installed_file_that_is_not_utf_8_is_named() -> None:
    lay_out("icr-gap", LOSS, "losses", "gap")
    (Path("site") / "icr_gap.py").write_bytes(b"# -*- coding: latin-1 -*-\n# \xe9\n" + LOSS.encode())
    with pytest.raises(ConfigError, match=r"plug-in .*icr_gap\.py: cannot be read: not UTF-8 text"):
        load_plugins(["icr-gap"])


def test_a_sampler_is_found_by_its_name() -> None:
    text = "from trainables.plugins import sampler\n@sampler()\ndef steady(study, seed):\n    return {}\n"
    lay_out("icr-steady", text, "samplers", "steady")
    values = {"name": "s", "datasets": ["pets"], "losses": ["nt_xent"], "search": {"sampler": "steady"}}
    assert [plugin.name for plugin in icr.make_experiment(values).plugins] == ["icr-steady"]


def test_a_form_of_data_is_found_by_a_dataset_that_ours_do_not_read_and_is_recorded() -> None:
    lay_out("icr-forms", FORMAT, "formats", "pairs")
    shop, other = Path("data") / "shop", Path("data") / "other"
    shop.mkdir(parents=True)
    other.mkdir()
    (shop / "pairs.txt").write_text("x\n")
    assert [path.name for path in find_source("shop", Path("data")).files] == ["pairs.txt"]
    forget()
    experiment = icr.make_experiment({"name": "s", "datasets": ["shop"], "losses": ["nt_xent"]})
    assert [plugin.name for plugin in with_formats(experiment, "data").plugins] == ["icr-forms"]
    with pytest.raises(DataError, match="no dataset of a known format: .*; pairs.txt"):
        find_source("other", Path("data"))


def test_what_is_named_and_what_is_found_are_one_plugin() -> None:
    lay_out("icr-gap", LOSS, "losses", "gap")
    load_plugins(["icr-gap"])
    build_loss("gap")
    made = icr.make_experiment({"name": "s", "datasets": ["pets"], "losses": ["gap"]})
    assert [plugin.digest for plugin in made.plugins] == [plugin.digest for plugin in in_use().values()]


def test_a_plugin_that_is_too_large_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "large.py"
    path.write_text("#" * (LARGEST + 1))
    with pytest.raises(ConfigError, match=f"plug-in {re.escape(str(path))}: has {LARGEST + 1:,} characters"):
        read_plugin_file(path)
