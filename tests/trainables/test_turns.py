"""Trials that take their steps in turns have the weights and numbers of each alone, to the last bit."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.simulated_gpu import RepeatedStep
from tests.trainables.runs import numbers
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables import trial as of_trial
from trainables.checkpoint import EpochReport, save_epoch
from trainables.config import PIXELS, Change, TrialConfig
from trainables.errors import DivergedError
from trainables.fused import FusedTrials
from trainables.model_parameters import FEATURES
from trainables.models import MODELS
from trainables.static_steps import StaticSteps
from trainables.trial import run_trial

DATA = tiny_dataset(images=24)


def config(loss: str = "nt_xent", model: str = "vsepp", **rest: Any) -> TrialConfig:
    parts = {name: rest.pop(name) for name in ("loss_parameters", "model_parameters") if name in rest}
    return replace(tiny_config(epochs=2, **rest), model=model, loss=loss, **parts)


GROUPS = {
    "draws": [config("warp"), config("warp", bank=20), config("warp", seed=1)],
    "dropout, batch norms": [config(model="vsrn"), config(model="vsrn", seed=1)],
    "other models and batches": [config(), config("triplet_sh", "wsabie", batch_size=8), config(batches="images")],
    "meta-steps": [config("meta_weights", "head", seed=seed) for seed in (0, 1)],
    "learned, averages, micro-batches": [
        config("sigmoid", loss_parameters={"temperature": "learned"}),
        config(weight_average=0.9),
        config(micro_batch=4),
    ],
}


def together(configs: list[TrialConfig]) -> FusedTrials:
    group = FusedTrials("cpu", {(each.dataset, each.model) for each in configs})
    for place, each in enumerate(configs):
        group.add(str(place), each, suited(DATA, each))
    return group


def weights(report: EpochReport, folder: Path) -> list[torch.Tensor]:
    state = torch.load(save_epoch(folder, report) / "state.pt", weights_only=True)
    return [*state["model"].values(), *state.get("meta", {}).get("network", {}).values()]


def agree(mine: object, alone: EpochReport, folder: Path) -> None:
    assert isinstance(mine, EpochReport)
    assert numbers(mine) == numbers(alone)
    pairs = zip(weights(mine, folder / "mine"), weights(alone, folder / "alone"), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("graph", ["auto", "on"])
@pytest.mark.parametrize("configs", GROUPS.values(), ids=GROUPS)
def test_each_has_the_bits_of_a_trial_alone(configs: list[TrialConfig], graph: str, tmp_path: Path) -> None:
    configs = [replace(each, training=replace(each.training, graph=graph)) for each in configs]
    group = together(configs)
    alone = [run_trial(each, suited(DATA, each), device="cpu") for each in configs]
    for epoch in (1, 2):
        reports = group.run_epoch(map(str, range(len(configs))))
        for place, stream in enumerate(alone):
            agree(reports[str(place)], next(stream), tmp_path / f"{place}-{epoch}")


@pytest.mark.parametrize("name", [name for name in MODELS if FEATURES[name] != PIXELS])
def test_every_model_takes_turns(name: str, tmp_path: Path) -> None:
    configs = [config("triplet_sh", name, embedding_size=16, seed=seed) for seed in (0, 1)]
    reports = together(configs).run_epoch(["0", "1"])
    for place, each in enumerate(configs):
        agree(reports[str(place)], next(run_trial(each, suited(DATA, each), device="cpu")), tmp_path / str(place))


def test_replayed_steps_in_turns_are_those_of_a_trial_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By functions that stand in for CUDA graphs."""
    made: list[StaticSteps] = []

    def replayed(model: Any, split: Any, _: object) -> StaticSteps:
        made.append(StaticSteps(model, split, partial(RepeatedStep, torch.device("cpu"))))
        return made[-1]

    configs = [config("warp", "wsabie", graph="on", seed=seed) for seed in (0, 1, 2)]
    alone = [next(run_trial(each, suited(DATA, each), device="cpu")) for each in configs]
    with monkeypatch.context() as patch:
        patch.setattr(of_trial, "StaticSteps", replayed)
        reports = together(configs).run_epoch(["0", "1", "2"])
    for place, report in enumerate(alone):
        agree(reports[str(place)], report, tmp_path / str(place))
    assert len(made) == 3 and all(steps.replays > 0 for steps in made)


def test_one_that_ends_leaves_and_one_that_comes_is_resumed(tmp_path: Path) -> None:
    too_fast = Change(epoch=2, training={"learning_rate": 1e38, "gradient_clip": None})
    configs = [replace(tiny_config(epochs=4, seed=seed)) for seed in (0, 1)]
    diverging = replace(tiny_config(epochs=4), schedule=(too_fast,))
    whole = [list(run_trial(each, DATA, device="cpu")) for each in configs]
    first = run_trial(configs[1], DATA, device="cpu")
    checkpoint = save_epoch(tmp_path / "resumed", next(first))
    group = together([configs[0], diverging])
    for epoch in range(4):
        if epoch == 2:
            resumed = group.add("late", configs[1], DATA, checkpoint)
            assert resumed is not None and numbers(resumed) == numbers(whole[1][0])
        names = ["0", *(["1"] if epoch < 2 else ["late"])]
        reports = group.run_epoch(names)
        agree(reports["0"], whole[0][epoch], tmp_path / f"0-{epoch}")
        if epoch == 1:
            assert isinstance(reports["1"], DivergedError)
        if epoch >= 2:
            agree(reports["late"], whole[1][epoch - 1], tmp_path / f"late-{epoch}")
    group.remove("late")
    assert list(group.run_epoch([])) == []
