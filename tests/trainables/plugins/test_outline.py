"""An outline of a plug-in's file offers what the file itself offers, and imports nothing heavy."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.plugins import EXAMPLES, MEAN, plugins_gone_afterwards, write_plugin
from trainables.errors import ConfigError
from trainables.plugins.in_use import find_plugin, outlined_plugin
from trainables.plugins.outline import outline_of
from trainables.plugins.plugin import read_file

DATACLASS = """
import dataclasses
from typing import ClassVar

LOW: float = 0.5

@loss(space={"scale": (LOW, 4.0, "log"), "kind": ["hard", "soft"]}, vectorised=True)
@dataclasses.dataclass(frozen=True)
class PairHinge:
    scale: float = LOW
    kind: str = "hard"
    learnable: ClassVar[dict[str, torch.Tensor]] = {}

    def __call__(self, similarity: torch.Tensor, positives, ignore):
        return helper(similarity) * self.scale
"""
FORM = """
@data_format(name="pairs")
class Pairs:
    FORMAT = "pairs.txt"

    @staticmethod
    def find(folder): return []

    @staticmethod
    def read(files): return None
"""
HELPER = """
def helper(similarity):
    return similarity.relu().sum()

EPSILON = torch.finfo
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(MEAN, id="a function"),
        pytest.param(HELPER + MEAN, id="beside a function of its own"),
        pytest.param(DATACLASS + HELPER, id="a dataclass"),
        pytest.param(MEAN + DATACLASS + FORM, id="several"),
    ],
)
def test_an_outline_offers_what_the_file_offers(tmp_path: Path, text: str) -> None:
    with plugins_gone_afterwards():
        path = write_plugin(tmp_path, text)
        outlined, whole = outlined_plugin(str(path)), find_plugin(str(path))
    assert outlined is not None
    for kind, offers in whole.offers.items():
        for name, about in offers.items():
            # What a dataclass without a docstring says of itself names its types.
            assert {**outlined.offers[kind][name], "summary": ""} == {**about, "summary": ""}
    assert outlined.digest == whole.digest and outlined.offers.keys() == whole.offers.keys()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("for name in ('a', 'b'):\n    loss(name=name)(lambda s, p, i: s.sum())\n", id="offers in a loop"),
        pytest.param("made = loss(name='made')(helper)\n", id="offers what is called"),
        pytest.param(MEAN.replace("scale=1.0", "scale=float(torch.pi)"), id="a default of torch's"),
        pytest.param("@torch.no_grad()" + MEAN, id="another decorator"),
        pytest.param("@model()\nclass Bag(torch.nn.Module):\n    pass\n", id="a class that inherits"),
        pytest.param("if True:\n    SCALE = 1.0\n", id="a condition"),
        pytest.param("LOW = 1.0\n", id="nothing is offered"),
        pytest.param("def broken(:\n", id="no Python"),
    ],
)
def test_a_text_that_only_running_explains_has_no_outline(tmp_path: Path, text: str) -> None:
    assert outline_of(read_file(write_plugin(tmp_path, text))) is None


def test_what_is_wrong_with_an_offer_is_said_as_if_it_ran(tmp_path: Path) -> None:
    path = write_plugin(tmp_path, MEAN.replace("(0.5, 4.0", "(4.0"))
    said = []
    for read in (outlined_plugin, find_plugin):
        with plugins_gone_afterwards(), pytest.raises(ConfigError) as error:
            read(str(path))
        said.append(str(error.value))
    assert said[0] == said[1] and "space['scale'] must be" in said[0]


REFUSALS = {
    "an experiment": "from orchestrator.experiment.experiment import load_experiment as load; load(sys.argv[1])",
    "a training": "from orchestrator.workload.begin import read_config as read; "
    "read(None, ['dataset=x', 'loss=pair_sigmoidd'], [sys.argv[2]])",
}


@pytest.mark.proof
@pytest.mark.parametrize("program", REFUSALS.values(), ids=REFUSALS)
def test_a_mistake_elsewhere_is_refused_without_torch(program: str, tmp_path: Path) -> None:
    plugin = EXAMPLES / "own-loss" / "my_losses.py"
    file = tmp_path / "own.yaml"
    file.write_text(f"name: own\nplugins: ['{plugin}']\ndatasets: [scenes]\nlosses: [pair_sigmoidd]\n")
    code = f"""
import sys
from trainables.errors import ConfigError
try:
    {program}
except ConfigError as error:
    print(error, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, file, plugin], capture_output=True, text=True, check=True)
    assert "did you mean 'pair_sigmoid'?" in done.stdout and done.stdout.endswith(" False\n")
