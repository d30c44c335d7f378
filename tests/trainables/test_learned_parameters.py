"""Hyper-parameters that are learned with the model: as CLIP learns its scale, kept, resumed, bounded and reported."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from tests.trainables.runs import resumed
from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.checkpoint import BEST, STATE, read_file, save_epoch
from trainables.config import Change, TrialConfig
from trainables.errors import ConfigError
from trainables.evaluation import similarities
from trainables.losses import LOSSES, build_loss
from trainables.losses.parameters import learnable_of, learned_names, with_values
from trainables.parameter_values import LEARNED
from trainables.trial import Trial, run_trial

CPU = torch.device("cpu")
LEARNS = {name: list(learnable_of(loss)) for name, loss in LOSSES.items() if learnable_of(loss)}


DATA = tiny_dataset()


def learning(loss: str = "nt_xent", *, changes: tuple[Change, ...] = (), **training: Any) -> TrialConfig:
    parameters = dict.fromkeys(LEARNS[loss], LEARNED)
    return replace(tiny_config(loss=loss, **training), loss_parameters=parameters, schedule=changes)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_temperature_is_that_of_a_log_scale_learned_as_in_clip(optimizer: str) -> None:
    """A loop of its own: the logits are multiplied by exp(log_scale), which starts at log(1 / 0.07)."""
    config = learning(optimizer=optimizer, weight_decay=0.1 if optimizer == "adam" else 0.0, learning_rate=2e-2)
    trial, plain = Trial(config, DATA, CPU), Trial(config, DATA, CPU)
    trial.begin_epoch()
    trial.train()
    plain.begin_epoch()
    log_scale = torch.nn.Parameter(torch.tensor(math.log(1 / 0.07)))
    make = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer]
    steps = make([log_scale], lr=2e-2)
    plain.model.train()
    for batch in plain.batches():
        logits = log_scale.exp() * similarities(plain.model, batch)
        wanted = torch.arange(len(logits))
        masked = logits if batch.ignore is None else logits.masked_fill(batch.ignore, -torch.inf)
        value = (cross_entropy(masked, wanted) + cross_entropy(masked.T, wanted)) / 2
        plain.optimizer.zero_grad()
        steps.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(plain.model.parameters(), 2.0)
        plain.optimizer.step()
        steps.step()
        with torch.no_grad():
            log_scale.clamp_(0, math.log(100))
    learned = trial.learned.numbers(trial.loss)["temperature"]
    assert learned == pytest.approx(float((-log_scale).exp().detach()), rel=1e-4)
    assert learned != pytest.approx(0.07, rel=1e-3)


@pytest.mark.parametrize("loss", LEARNS)
@pytest.mark.parametrize("stop", [1, 2, 4])
def test_a_resumed_trial_resumes_to_the_bit(tmp_path: Path, stop: int, loss: str) -> None:
    config = learning(loss, epochs=4, learning_rate_drop_epochs=2, weight_decay=0.1)
    straight = resumed(config, DATA, tmp_path, stop)
    for name in LEARNS[loss]:
        assert len({metrics[f"loss/{name}"] for metrics in straight}) == 4


@pytest.mark.parametrize(("sign", "bound"), [(1.0, 0.01), (-1.0, 1.0)])
def test_a_value_never_leaves_its_bounds(sign: float, bound: float) -> None:
    trial = Trial(learning(learning_rate=10.0), DATA, CPU)
    trial.begin_epoch()
    trial.learned.raw["temperature"].grad = torch.tensor(sign)
    trial.learned.step()
    assert trial.learned.numbers(trial.loss)["temperature"] == pytest.approx(bound, rel=1e-6)


def test_its_optimizer_has_the_rate_of_the_epoch_and_no_weight_decay() -> None:
    change = Change(epoch=2, training={"weight_decay": 0.5})
    trial = Trial(learning(weight_decay=0.1, learning_rate_drop_epochs=1, changes=(change,)), DATA, CPU)
    for rate in (5e-3, 5e-4):
        trial.begin_epoch()
        (group,) = trial.learned.optimizers["temperature"].param_groups
        assert group["weight_decay"] == 0
        assert group["lr"] == pytest.approx(rate)


def test_the_gradient_of_a_temperature_is_no_part_of_the_norm_that_is_clipped() -> None:
    """With a learned temperature that stands still, the model learns what it learns beside a fixed one."""
    fixed = replace(learning(gradient_clip=0.05), loss_parameters={"temperature": 0.07})
    trials = [Trial(config, DATA, CPU) for config in (learning(gradient_clip=0.05), fixed)]
    for trial in trials:
        trial.begin_epoch()
    for group in trials[0].learned.optimizers["temperature"].param_groups:
        group["lr"] = 0.0
    assert trials[0].train() == pytest.approx(trials[1].train(), rel=1e-5)


def test_the_best_model_is_kept_with_the_values_that_it_was_trained_with(tmp_path: Path) -> None:
    temperatures = {}
    for report in run_trial(learning(epochs=8), DATA, device="cpu"):
        temperatures[report.epoch] = report.metrics["loss/temperature"]
        checkpoint = save_epoch(tmp_path, report)
    best = read_file(checkpoint, BEST)
    assert best["epoch"] < 8, "the last epoch is the best: the test says nothing"
    assert best[LEARNED] == {"temperature": temperatures[best["epoch"]]}


def test_a_checkpoint_of_a_loss_that_learns_nothing_is_as_it_was(tmp_path: Path) -> None:
    report = next(iter(run_trial(tiny_config(), DATA, device="cpu")))
    checkpoint = save_epoch(tmp_path, report)
    assert LEARNED not in read_file(checkpoint, STATE)
    assert LEARNED not in read_file(checkpoint, BEST)
    assert not [name for name in report.metrics if name.startswith("loss/")]


def test_cocos_has_the_value_in_force() -> None:
    trial = Trial(learning(epochs=2, cocos_every=1), DATA, CPU)
    counted = trial.run_epoch().metrics
    trial.loss = build_loss("nt_xent", temperature=trial.learned.numbers(trial.loss)["temperature"])
    expected = trial.count_contributions()
    assert {name: counted[name] for name in expected} == pytest.approx(expected, rel=1e-6)


CHANGES = {"to learned": ({"temperature": 0.2}, LEARNED), "to a number": ({"temperature": LEARNED}, 0.2)}


@pytest.mark.parametrize(("start", "later"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_schedule_begins_and_ends_learning(tmp_path: Path, start: dict[str, Any], later: Any, stop: int) -> None:
    change = Change(epoch=3, loss_parameters={"temperature": later})
    config = replace(tiny_config(epochs=4), loss_parameters=start, schedule=(change,))
    straight = resumed(config, DATA, tmp_path, stop)
    in_force = [start["temperature"], start["temperature"], later, later]
    assert ["loss/temperature" in metrics for metrics in straight] == [value == LEARNED for value in in_force]


def test_a_learned_parameter_has_no_value_of_its_own() -> None:
    loss = build_loss("nt_xent", temperature=LEARNED)
    assert learned_names(loss) == ["temperature"]
    with pytest.raises(ConfigError, match="a learned hyper-parameter has no value before its trial gives it one"):
        loss(torch.eye(3), torch.eye(3, dtype=torch.bool))
    given = with_values(loss, {"temperature": 0.1})
    assert given == build_loss("nt_xent", temperature=0.1)
    assert learned_names(loss) == ["temperature"]


@pytest.mark.parametrize(("loss", "name"), [(loss, name) for loss, names in LEARNS.items() for name in names], ids=str)
def test_a_misspelt_word_is_refused(loss: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be a (finite )?number.*, or 'learned', got 'learnd'"):
        build_loss(loss, **{name: "learnd"})


@pytest.mark.parametrize("loss", LEARNS)
def test_initial_values_lie_between_the_bounds(loss: str) -> None:
    for how in learnable_of(LOSSES[loss]).values():
        assert how.minimum <= how.initial <= how.maximum
        assert float(how.value(torch.tensor(how.raw(how.initial), dtype=torch.float64))) == pytest.approx(how.initial)
