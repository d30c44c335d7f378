"""A plug-in that ends the program: an error of the plug-in with file and line, wherever its code is called."""

import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from orchestrator.experiment.plugins import load_plugins
from orchestrator.studies.sampler_contract import check_sampler_contract
from tests.support.commands import run_command
from tests.support.plugins import MEAN, write_plugin
from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.contracts.loss_contract import check_loss
from trainables.data.source import find_source
from trainables.errors import PluginError
from trainables.losses import build_loss
from trainables.plugins.in_use import references
from trainables.trial import run_trial

LOSS = """
@loss()
def ends(similarity, positives, ignore):
    raise SystemExit(3)
"""

SAMPLER = """
from trainables.plugins import sampler

@sampler()
def ends(study, seed):
    raise SystemExit
"""

MODEL = """
from trainables.models.retrieval_model import RetrievalModel

@model()
class Ends(RetrievalModel):
    def __init__(self, *sizes):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
    def encode_images(self, features):
        raise SystemExit("no such features")
    def encode_captions(self, captions, lengths):
        return captions.float()
"""

FORM = """
@data_format()
class Ends:
    FORMAT = "a form that ends the program"
    @staticmethod
    def find(folder):
        return [folder / "a.ends"] if (folder / "a.ends").exists() else []
    @staticmethod
    def read(files):
        raise SystemExit(0)
    @staticmethod
    def own_features(files):
        raise SystemExit(0)
"""


def trained(**changed: Any) -> None:
    config = replace(tiny_config(epochs=1), **changed)
    config = replace(config, plugins=references(config.loss, config.model))
    list(run_trial(config, tiny_dataset(), device="cpu"))


def source(folder: Path) -> Any:
    (folder / "set").mkdir()
    (folder / "set" / "a.ends").touch()
    return find_source("set", folder)


PLACES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "loss": (LOSS, lambda folder: trained(loss="ends", loss_parameters={}), "my_losses.py:6: SystemExit: the plug-in"),
    "model": (MODEL, lambda folder: trained(model="ends"), "my_losses.py:12: SystemExit: the plug-in ends"),
    "form": (FORM, lambda folder: source(folder).read(), "my_losses.py:12: SystemExit: the plug-in ends"),
    "features": (FORM, lambda folder: source(folder).feature_kinds(), "my_losses.py:15: SystemExit: the plug-in ends"),
}


@pytest.mark.parametrize(("text", "call", "message"), PLACES.values(), ids=PLACES)
def test_code_that_ends_the_program_is_an_error_with_its_place(
    tmp_path: Path, text: str, call: Callable[[Path], Any], message: str
) -> None:
    load_plugins([str(write_plugin(tmp_path, text))])
    with pytest.raises(PluginError) as caught:
        call(tmp_path)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("ended", ["import sys\nsys.exit(0)", "@loss(space=exit())\ndef other(a): ..."])
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["check-plugin", "FILE"], marks=pytest.mark.proof),
        ["search", "scenes-smoke", "--plugin", "FILE", "--dry-run"],
    ],
)
def test_a_file_that_ends_the_program_is_refused_by_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], ended: str
) -> None:
    path = write_plugin(tmp_path, MEAN + ended)
    assert run_command([str(path) if part == "FILE" else part for part in command]) == 2
    assert "SystemExit: the plug-in ends the program (" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("text", "check", "place"),
    [(LOSS, lambda: check_loss("ends", []), 6), (SAMPLER, lambda: check_sampler_contract("ends"), 8)],
    ids=["loss", "sampler"],
)
def test_check_plugin_finds_what_ends_the_program(
    tmp_path: Path, text: str, check: Callable[[], Any], place: int
) -> None:
    load_plugins([str(write_plugin(tmp_path, text))])
    first = next(iter(check()))
    assert first.status == "fail"
    assert f"my_losses.py:{place}: SystemExit: the plug-in ends the program (" in first.message


INTERRUPTED = """
import signal

@loss()
def waits(similarity, positives, ignore):
    signal.raise_signal(signal.{})
"""


SIGNALS: dict[str, tuple[signal.Signals, Callable[..., Any], type[BaseException]]] = {
    "Ctrl-C": (signal.SIGINT, signal.default_int_handler, KeyboardInterrupt),
    "the handler of a worker": (signal.SIGTERM, lambda number, frame: sys.exit(number), SystemExit),
}


@pytest.mark.parametrize(("number", "handler", "raised"), SIGNALS.values(), ids=SIGNALS)
def test_a_signal_while_a_plug_in_runs_is_no_fault_of_it(
    tmp_path: Path, number: signal.Signals, handler: Callable[..., Any], raised: type[BaseException]
) -> None:
    load_plugins([str(write_plugin(tmp_path, INTERRUPTED.format(number.name)))])
    positives = torch.eye(2, dtype=torch.bool)
    # A process that was started in the background may ignore Ctrl-C.
    former = signal.signal(number, handler)
    try:
        with pytest.raises(raised):
            build_loss("waits")(positives.double(), positives)
    finally:
        signal.signal(number, former)
