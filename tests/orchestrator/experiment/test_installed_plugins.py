"""Installed packages are found by the names that they offer, wherever a name is asked for, and run only then."""

import json
import sys
from pathlib import Path

import pytest

import orchestrator as icr
from orchestrator.experiment.experiment import load_experiment
from orchestrator.experiment.plugins import load_plugins
from orchestrator.searches.begin import with_formats
from orchestrator.workload.single import read_config
from search_spaces import SPACES
from tests.support.commands import what_a_command_says
from tests.support.plugins import lay_out_package, plugins_gone_afterwards, write_metadata
from trainables.config import TrialConfig
from trainables.data.source import find_source
from trainables.errors import ConfigError, DataError
from trainables.losses import build_loss
from trainables.plugins.in_use import forget, in_use

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

BROKEN = "raise RuntimeError('it runs')\n"


@pytest.fixture(autouse=True)
def _no_plugin_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.chdir(tmp_path)
    with plugins_gone_afterwards():
        yield


def lay_out(name: str, text: str, kind: str, entry: str) -> None:
    """Lay out a package of one module with one entry point, as an installation would."""
    module = name.replace("-", "_")
    write_metadata(Path("site"), name, "1.0", {f"icr_orchestrator.{kind}": {entry: f"{module}:{entry}"}})
    (Path("site") / f"{module}.py").write_text(text)


def test_a_training_finds_loss_and_model(tmp_path: Path) -> None:
    lay_out_package(tmp_path / "site")
    config = read_config(None, ["dataset=pets", "loss=pair_hinge", "model=bag_of_words"], [])
    (plugin,) = in_use().values()
    assert config.plugins == (plugin.reference,) and plugin.name == "icr-pair-losses"


def test_python_finds_them_without_a_word(tmp_path: Path) -> None:
    lay_out_package(tmp_path / "site")
    assert build_loss("pair_hinge", margin=0.3).margin == 0.3  # type: ignore[attr-defined]
    assert TrialConfig(dataset="pets", model="bag_of_words", loss="pair_hinge").features == "global"
    forget()
    # As a checkpoint is read: whoever evaluates it names no plug-in.
    assert TrialConfig.from_dict({"dataset": "pets", "model": "bag_of_words"}).features == "global"
    with pytest.raises(ConfigError, match="model must be one of vsepp, .*, got 'bag_of_wordz'"):
        TrialConfig(dataset="pets", model="bag_of_wordz")


def test_everything_is_listed_and_what_is_broken_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    lay_out("icr-gap", LOSS, "losses", "gap")
    lay_out("icr-broken", BROKEN, "losses", "other")
    lay_out("icr-again", LOSS, "losses", "gap")
    code, out, err = what_a_command_says(capsys, ["list", "losses", "--json"])
    assert code == 0
    assert [row["meaning"] for row in json.loads(out) if row["name"] == "gap"] == ["Mean gap."]
    assert "warning: the plug-in icr-broken is left out: icr_broken.py:1: RuntimeError: it runs" in err
    assert err.count("the name 'gap' is offered by the plug-in") == 1 and err.count("\n") == 2


def test_nothing_runs_where_its_names_are_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    lay_out("icr-broken", BROKEN, "losses", "other")
    for words in (["list", "experiments"], ["list", "models"], ["plugins"], ["list", "keys"]):
        code, _, err = what_a_command_says(capsys, words)
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
    with pytest.raises(ConfigError, match=both):
        build_loss("gap")
    with pytest.raises(ConfigError, match=both):
        icr.make_experiment({"name": "s", "datasets": ["pets"], "losses": ["gap"]})
    with pytest.raises(ConfigError, match=both):
        read_config(None, ["dataset=pets", "loss=gap"], [])
    made = icr.make_experiment({"name": "s", "datasets": ["pets"], "losses": ["gap"]}, plugins=["icr-gap"])
    assert [plugin.name for plugin in made.plugins] == ["icr-gap"] and "gap" in SPACES


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
