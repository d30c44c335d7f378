"""The best model as safetensors: the same tensors, what they are beside them, and nothing where they are damaged."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.checkpoint import BEST, read_file, save_epoch
from trainables.config import TrialConfig
from trainables.errors import CheckpointError
from trainables.models import build_model
from trainables.serving.packed import write_retriever, write_weights
from trainables.serving.retriever import Retriever
from trainables.trial import run_trial

DATA = tiny_dataset()
CONFIG = tiny_config(epochs=2)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    *_, last = run_trial(CONFIG, DATA, device="cpu")
    return save_epoch(tmp_path_factory.mktemp("trained"), last)


def test_the_file_holds_the_best_model_and_says_what_it_is(checkpoint: Path, tmp_path: Path) -> None:
    write_weights(checkpoint, tmp_path / "best.safetensors")
    best = read_file(checkpoint, BEST)
    with safe_open(tmp_path / "best.safetensors", "pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no mapping
        told = file.metadata()
    assert found.keys() == best["model"].keys()
    assert all(torch.equal(found[name], best["model"][name]) for name in found)
    assert TrialConfig.from_dict(json.loads(told["config"])) == CONFIG
    assert (told["digest"], told["epoch"], float(told["value"])) == ("tiny", str(best["epoch"]), best["value"])
    build_model(CONFIG, DATA, pretrained=False).load_state_dict(found)


def test_the_file_and_the_packed_model_have_the_learned_values_of_the_best_model(tmp_path: Path) -> None:
    *_, last = run_trial(replace(CONFIG, loss_parameters={"temperature": "learned"}), DATA, device="cpu")
    checkpoint = save_epoch(tmp_path, last)
    write_weights(checkpoint, tmp_path / "best.safetensors")
    write_retriever(tmp_path / "packed", checkpoint, DATA, "test")
    with safe_open(tmp_path / "best.safetensors", "pt") as file:
        learned = json.loads(file.metadata()["learned"])
    assert learned == Retriever(tmp_path / "packed").about["learned"] == read_file(checkpoint, BEST)["learned"]
    assert learned.keys() == {"temperature"}


def test_of_a_damaged_checkpoint_nothing_is_written(checkpoint: Path, tmp_path: Path) -> None:
    damaged, target = tmp_path / checkpoint.name, tmp_path / "out"
    damaged.mkdir()
    target.mkdir()
    for file in checkpoint.iterdir():
        (damaged / file.name).write_bytes(file.read_bytes()[:-1] if file.name == BEST else file.read_bytes())
    with pytest.raises(CheckpointError):
        write_weights(damaged, target / "best.safetensors")
    assert list(target.iterdir()) == []
