"""The optimisers are torch's to the bit, and a whole trial does without torch's compiler."""

import math
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from trainables.config import TrainingConfig
from trainables.losses.contrastive import NTXent
from trainables.optimizers import (
    SGD,
    AdamW,
    LearnedParameters,
    WeightAverage,
    adjust_optimizer,
    build_optimizer,
    join_optimizers,
)

TRAIN = """
import sys, tempfile
from pathlib import Path
from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.checkpoint import save_epoch
from trainables.trial import run_trial
root, data = Path(tempfile.mkdtemp()), tiny_dataset()
try:
    checkpoint = save_epoch(root, next(run_trial(tiny_config(epochs=2), data, device="cpu")))
    assert len(list(run_trial(tiny_config(epochs=2), data, checkpoint, device="cpu"))) == 2
finally:
    __import__("shutil").rmtree(root)
print([name for name in ("torch._dynamo", "torch._inductor", "triton") if name in sys.modules])
"""


@pytest.mark.parametrize(("ours", "theirs"), [(AdamW, torch.optim.AdamW), (SGD, torch.optim.SGD)], ids=["adamw", "sgd"])
def test_steps_and_states_are_those_of_torch(ours: type, theirs: type) -> None:
    weights = []
    for kind in (ours, theirs):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 2))
        optimizer = kind(model.parameters(), lr=0.1, weight_decay=0.01, fused=True)
        for step in range(4):
            optimizer.zero_grad(set_to_none=True)
            assert all(parameter.grad is None for parameter in model.parameters())
            model(torch.randn(3, 6)).square().sum().backward()
            optimizer.step()
            if step == 1:
                state = optimizer.state_dict()
                optimizer = kind(model.parameters(), lr=0.1, weight_decay=0.01, fused=True)
                optimizer.load_state_dict(state)
        weights.append([parameter.detach().clone() for parameter in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))


@pytest.mark.proof
def test_a_trial_does_not_import_the_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def settings(rate: float = 0.1, **changes: Any) -> TrainingConfig:
    return TrainingConfig(learning_rate=rate, **changes)


MATRICES = settings(weight_decay=0.3, weight_decay_of="matrices")


@pytest.mark.parametrize(
    ("each", "calls"),
    [
        ([settings(), settings(), settings()], 1),
        ([settings(), settings(0.2), settings(0.1, weight_decay=0.5), settings(0.2)], 3),
        ([settings(optimizer="sgd"), settings(optimizer="sgd"), settings()], 2),
        ([MATRICES, settings(), MATRICES], 2),
    ],
    ids=["alike", "rates and decay", "kinds", "groups"],
)
def test_joined_optimizers_take_the_steps_of_each_alone(each: list[TrainingConfig], calls: int) -> None:
    alone, together = ([nn.Linear(3, 2) for _ in each] for _ in range(2))
    for one, other in zip(alone, together, strict=True):
        other.load_state_dict(one.state_dict())
    theirs = [build_optimizer(model.parameters(), one) for model, one in zip(alone, each, strict=True)]
    ours = [build_optimizer(model.parameters(), one) for model, one in zip(together, each, strict=True)]
    for step in range(4):
        # The third step is taken by each alone, from the states that the joined ones left.
        joined = join_optimizers(ours) if step != 2 else ours
        assert len(joined) == (calls if step != 2 else len(each))
        for one, other in zip(alone, together, strict=True):
            for mine, same in zip(one.parameters(), other.parameters(), strict=True):
                mine.grad = torch.randn_like(mine)
                same.grad = mine.grad.clone()
        for optimizer in (*theirs, *joined):
            optimizer.step()
    parameters = ([one for model in models for one in model.parameters()] for models in (alone, together))
    assert all(map(torch.equal, *parameters))


FINETUNED = {"finetune": True, "frozen_epochs": 1, "finetune_learning_rate": 0.3}
RATES: dict[str, tuple[dict[str, Any], dict[int, float]]] = {
    "drops": ({}, {1: 1.0, 15: 1.0, 16: 0.1, 31: 0.01}),
    "scaled drops": ({"batches": "images", "scale_epochs": True}, {75: 1.0, 76: 0.1}),
    "a warm-up of one epoch": ({"warmup_epochs": 1}, {1: 0.5, 2: 1.0, 4: 1.0}),
    "a warm-up of three": ({"warmup_epochs": 3}, {1: 0.25, 2: 0.5, 3: 0.75, 4: 1.0}),
    "both": ({"warmup_epochs": 3, "learning_rate_drop_epochs": 2}, {1: 0.25, 2: 0.5, 3: 0.075, 4: 0.1}),
    "a scaled warm-up": (
        {"warmup_epochs": 1, "batches": "images", "captions_per_image": 3, "scale_epochs": True},
        {1: 0.25, 2: 0.5, 3: 0.75, 4: 1.0},
    ),
    "fine-tuned as published": (
        {"finetune": True, "epochs": 45, "frozen_epochs": 30, "finetune_learning_rate": 0.3},
        {15: 1.0, 30: 0.1, 31: 0.3, 45: 0.3},
    ),
    "cosine": (
        {"learning_rate_schedule": "cosine", "epochs": 4},
        {epoch: (1 + math.cos(math.pi * middle)) / 2 for epoch, middle in {1: 1 / 8, 2: 3 / 8, 4: 7 / 8}.items()},
    ),
    "cosine after a warm-up": (
        {"learning_rate_schedule": "cosine", "epochs": 6, "warmup_epochs": 2, "learning_rate_drop_epochs": 1},
        {1: 1 / 3, 2: 2 / 3, 3: (1 + math.cos(math.pi / 8)) / 2, 6: (1 + math.cos(math.pi * 7 / 8)) / 2},
    ),
    "a warm-up as long as a cosine": (
        {"learning_rate_schedule": "cosine", "epochs": 2, "warmup_epochs": 5},
        {1: 1 / 6, 2: 1 / 3},
    ),
    "fine-tuned with a cosine": (
        {**FINETUNED, "learning_rate_schedule": "cosine", "epochs": 2},
        {1: (1 + math.cos(math.pi / 4)) / 2, 2: 0.3 * (1 + math.cos(math.pi * 3 / 4)) / 2},
    ),
    "fine-tuned with the rate of before": ({"finetune": True, "epochs": 45, "frozen_epochs": 30}, {31: 0.01}),
}


@pytest.mark.parametrize(("changes", "rates"), RATES.values(), ids=RATES)
def test_the_learning_rate_of_each_epoch(changes: dict[str, Any], rates: dict[int, float]) -> None:
    training = settings(1.0, **changes)
    optimizer = build_optimizer(nn.Linear(2, 2).parameters(), training)
    found = {}
    for epoch in rates:
        adjust_optimizer(optimizer, training, epoch)
        found[epoch] = optimizer.param_groups[0]["lr"]
    assert found == pytest.approx(rates)


def test_weights_of_other_rates_and_decays_are_in_groups_of_their_own() -> None:
    """Biases are not decayed, and the backbone has a rate of its own, with the drops of the others."""
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    training = settings(
        1.0, finetune=True, weight_decay=0.5, weight_decay_of="matrices", backbone_learning_rate=0.01,
        learning_rate_drop_epochs=1,
    )  # fmt: skip
    optimizer = build_optimizer(model.parameters(), training, model[0].parameters())
    adjust_optimizer(optimizer, training, 2)
    found = {
        name: (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for name, parameter in model.named_parameters()
        if any(parameter is member for member in group["params"])
    }
    rates = {"0.weight": (0.001, 0.5), "0.bias": (0.001, 0.0), "1.weight": (0.1, 0.5), "1.bias": (0.1, 0.0)}
    assert {name: pytest.approx(values) for name, values in rates.items()} == found


def test_all_rates_of_an_epoch_have_one_factor() -> None:
    """Fine-tuning has no drops, so that the rates of the backbone and of the loss have none from then on either."""
    model, loss = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 1)]), NTXent(temperature="learned")
    training = settings(
        1.0, **{**FINETUNED, "frozen_epochs": 2}, backbone_learning_rate=0.01, loss_learning_rate=0.02,
        learning_rate_drop_epochs=1, epochs=3,
    )  # fmt: skip
    optimizer = build_optimizer(model.parameters(), training, model[0].parameters())
    learned, found = LearnedParameters(torch.device("cpu")), []
    for epoch in (1, 2, 3):
        adjust_optimizer(optimizer, training, epoch)
        learned.begin_epoch(loss, training, epoch)
        (of_loss,) = learned.optimizers["temperature"].param_groups
        found.append([*(group["lr"] for group in optimizer.param_groups), of_loss["lr"]])
    for epoch, expected in enumerate(([0.01, 1.0, 0.02], [0.001, 0.1, 0.002], [0.01, 0.3, 0.02])):
        assert found[epoch] == pytest.approx(expected)


@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_the_average_is_that_of_a_loop_over_the_weights(decay: float) -> None:
    model = nn.Linear(3, 2).double()
    average = WeightAverage(model, decay)
    expected = {name: value.clone() for name, value in model.state_dict().items()}
    for step in range(1, 7):
        with torch.no_grad():
            for value in model.parameters():
                value += torch.randn_like(value)
        average.step()
        share = min(decay, (1 + step) / (10 + step))
        for name, value in model.state_dict().items():
            expected[name] = share * expected[name] + (1 - share) * value
    own = {name: value.clone() for name, value in model.state_dict().items()}
    with average.in_force():
        torch.testing.assert_close(dict(model.state_dict()), expected, rtol=1e-12, atol=1e-12)
        again = WeightAverage(nn.Linear(3, 2).double(), decay)
        again.load_state_dict(average.state_dict())
    assert all(torch.equal(value, own[name]) for name, value in model.state_dict().items())
    assert again.steps == 6 and all(torch.equal(again.weights[name], value) for name, value in average.weights.items())
