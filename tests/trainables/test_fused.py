"""Trials that are trained together learn what each of them learns alone, and do not touch each other."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.trainables.runs import numbers, stopped, trained
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.checkpoint import EpochReport, save_epoch
from trainables.config import PIXELS, Change, TrialConfig
from trainables.data.batches import Batch
from trainables.data.dataset import Dataset
from trainables.errors import DivergedError
from trainables.fused import FusedTrials, StackedEpoch, stack_shape
from trainables.model_parameters import FEATURES
from trainables.models import MODELS
from trainables.trial import Trial, run_trial

CPU = torch.device("cpu")
PUBLISHED = {"region_norm": "published", "norm_before_reasoning": False}
SHIFTS = re.compile(r"blocks\.\d\.(w\.bias|norm\.running_mean)$")
"""What a batch norm takes out again: its gradient is rounding and nothing else, of which Adam makes steps."""


DATA = tiny_dataset()
"""60 images with 5 captions: an epoch of 18 steps of 16 pairs."""


def config(loss: str = "nt_xent", *, seed: int = 0, model: str = "vsepp", **rest: Any) -> TrialConfig:
    parts = {name: rest.pop(name) for name in ("loss_parameters", "model_parameters") if name in rest}
    return replace(tiny_config(loss=loss, seed=seed, **rest), model=model, **parts)


def among(*changes: dict[str, Any], **common: Any) -> list[TrialConfig]:
    return [config(**{**common, **change}) for change in changes]


def tau(value: float | str) -> dict[str, Any]:
    return {"loss_parameters": {"temperature": value}}


SEEDS_AND_TEMPERATURES = [{"seed": seed, **tau(value)} for seed, value in [(0, 0.1), (0, 0.2), (1, 0.1)]]
DIFFERENT = {
    "temperatures": among(*map(tau, (0.05, 0.1, 0.3))),
    "learned temperatures": among(
        {"learning_rate": 5e-3},
        {"learning_rate": 1e-3, "seed": 1, "weight_decay": 0.1},
        {"learning_rate": 5e-2, "seed": 1},
        **tau("learned"),
    ),
    "learned scales and biases": [
        config("sigmoid", loss_parameters={"temperature": "learned", "bias": value}, seed=seed)
        for seed, value in [(0, "learned"), (1, "learned"), (0, -5.0)]
    ],
    "a learned temperature beside a fixed one": among(tau("learned"), tau(0.1)),
    "rates and decay": among(
        {"learning_rate": 1e-3, "warmup_epochs": 2}, {"learning_rate": 5e-3, "weight_decay": 0.1}, loss="triplet"
    ),
    "schedules, groups and averages": among(
        {"learning_rate_schedule": "cosine", "weight_decay": 0.1, "weight_decay_of": "matrices"},
        {"weight_average": 0.9, "loss_learning_rate": 0.01},
        {"weight_average": 0.5, "weight_decay": 0.1, "weight_decay_of": "matrices", "seed": 1},
        **tau("learned"),
    ),
    "seeds": [config("triplet_sh", seed=seed) for seed in (0, 1, 2)],
    "coefficients": [
        config("polynomial_relative", loss_parameters={"coefficients": value})
        for value in [(0.2, 1.0), (0.3, 1.0, 0.5), (0.2, 1.0, 0.1, 0.05)]
    ],
    "losses": [config("triplet"), config("nt_xent"), config("polynomial_self"), config("nt_xent", seed=3)],
    "wsabie": [
        config("warp", model="wsabie", model_parameters={"radius": radius}, loss_parameters={"margin": margin})
        for radius, margin in [(0.5, 0.2), (1.0, 1.0), (2.0, 0.5)]
    ],
    "wsabie seeds": [config("warp", model="wsabie", seed=seed) for seed in (0, 0, 1)],
    "vsrn": among(*SEEDS_AND_TEMPERATURES, model="vsrn", learning_rate=2e-3),
    "vsrn as published": [
        config("triplet_sh", model="vsrn", learning_rate=rate, model_parameters=PUBLISHED) for rate in (5e-4, 1e-3)
    ],
    # The weights of positions have gradients of 1e-6: Adam would make whole steps of their rounding.
    "pooled regions and words": among(
        *SEEDS_AND_TEMPERATURES, model_parameters={"pooling": "gpo"}, optimizer="sgd", learning_rate=0.01
    ),
    # Larger steps make of the rounding of one step another training within ten.
    "lambdas of pairs": among(
        {"model_parameters": {"lambda_softmax": 4.0, "lambda_lse": 6.0}},
        {"model_parameters": {"lambda_softmax": 9.0, "lambda_lse": 20.0}},
        {"model_parameters": {"lambda_softmax": 9.0, "lambda_lse": 6.0}, "seed": 1},
        model="scan",
        optimizer="sgd",
        learning_rate=2e-4,
    ),
    "words attended": among(
        {"learning_rate": 2e-4},
        {"learning_rate": 1e-4},
        loss="triplet_sh",
        model="scan",
        model_parameters={"cross_attention": "i2t", "aggregation": "mean"},
        optimizer="sgd",
    ),
    **{
        f"heads, {kind}": among(
            *SEEDS_AND_TEMPERATURES,
            model="head",
            model_parameters={"image_head": kind, "caption_head": "mlp"},
            embedding_size=24,
        )
        for kind in ("linear", "residual", "identity")
    },
    "sgd without clipping": [
        config("triplet", seed=seed, optimizer="sgd", gradient_clip=None, learning_rate=1e-3) for seed in (0, 1)
    ],
    "buckets": among(tau(0.1), tau(0.2), length_buckets=4),
    "images": among({"seed": 0}, {"seed": 1}, loss="smooth_ap", batches="images", batch_size=3, **tau(0.05)),
}


@dataclass
class Snapshot:
    """A trial after one step, by name; the statistics of batch norms are among its parameters."""

    parameters: dict[str, Tensor]
    gradients: dict[str, Tensor]


def snapshot(trial: Trial) -> Snapshot:
    parameters = {name: value for name, value in trial.model.named_parameters() if not SHIFTS.search(name)}
    gradients = {name: value.grad.clone() for name, value in parameters.items() if value.grad is not None}
    learned = list(trial.learned.raw.values())
    if learned:
        # The numbers that a loss learns are one vector here: the gradient of a bias has no relative precision where
        # it passes through 0, as the difference between what the positives and the negatives ask for.
        parameters["loss"] = torch.stack(learned)  # type: ignore[assignment]
        gradients["loss"] = torch.stack([value.grad for value in learned if value.grad is not None])
    statistics = {name: value for name, value in trial.model.named_buffers() if not SHIFTS.search(name)}
    return Snapshot({name: value.detach().clone() for name, value in (parameters | statistics).items()}, gradients)


def alone(trial_config: TrialConfig, data: Dataset, steps: int) -> tuple[float, list[Snapshot]]:
    """Train as the product does without fusion; return the mean loss and the trial after each step."""
    trial, after = Trial(trial_config, data, CPU), []
    batches = trial.batches

    def watched() -> Iterator[Batch]:
        for index, batch in enumerate(batches()):
            if index == steps:
                return
            if index:
                after.append(snapshot(trial))
            yield batch

    trial.batches = watched  # type: ignore[method-assign]
    trial.begin_epoch()
    loss = trial.train()
    return loss, [*after, snapshot(trial)]


def close(got: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float) -> None:
    """Compare each tensor by the norm of the difference: an entry that is nearly 0 has no relative precision."""
    assert got.keys() == wanted.keys() and got
    for name, other in wanted.items():
        assert float((got[name] - other).double().norm()) <= tolerance * float(other.double().norm()) + 1e-7, name


JUMPING = {"triplet", "triplet_sh", "warp", "polynomial_self", "polynomial_relative"}
"""Losses whose gradient jumps where a pair begins to count, so that a rounding error can be a pair's whole gradient.

In six steps none of these pairs is so near to its limit; in fifty steps some is, another one on each processor.
"""

# Steps enlarge what they round: from 1e-6 after one to 1e-5 after six and 1e-4 after fifty, by the processor.
STEPS = [pytest.param(value, 6, 60, 1e-4, id=f"{name}-6") for name, value in DIFFERENT.items()] + [
    pytest.param(value, 50, 160, 1e-3, id=f"{name}-50", marks=pytest.mark.proof)
    for name, value in DIFFERENT.items()
    if not {each.loss for each in value} & JUMPING
]


@pytest.mark.parametrize(("configs", "steps", "images", "tolerance"), STEPS)
def test_each_step_is_that_of_each_trial_alone(
    configs: list[TrialConfig], steps: int, images: int, tolerance: float
) -> None:
    data = suited(tiny_dataset(images), configs[0])
    trials = [Trial(each, data, CPU) for each in configs]
    for trial in trials:
        trial.begin_epoch()
    epoch, fused = StackedEpoch(trials), []
    while epoch.steps < steps and epoch.step():
        fused.append([snapshot(trial) for trial in trials])
    losses = epoch.finish()
    assert epoch.steps == len(fused) == steps
    for place, each in enumerate(configs):
        loss, after = alone(each, data, steps)
        assert losses[place] == pytest.approx(loss, rel=1e-4)
        for step, wanted in enumerate(after):
            close(fused[step][place].parameters, wanted.parameters, tolerance)
            close(fused[step][place].gradients, wanted.gradients, tolerance)


def together(configs: Iterable[TrialConfig], data: Dataset) -> FusedTrials:
    """Return trials under their places, from "0" on."""
    group = FusedTrials("cpu")
    for place, each in enumerate(configs):
        group.add(str(place), each, data)
    return group


def finished(outcome: EpochReport | DivergedError) -> EpochReport:
    assert isinstance(outcome, EpochReport)
    return outcome


def test_a_trial_that_comes_later_trains_beside_those_that_are_further() -> None:
    first, later = config(epochs=3), config(epochs=3, loss_parameters={"temperature": 0.2})
    group = FusedTrials("cpu")
    group.add("first", first, DATA)
    seen: dict[str, list[EpochReport]] = {"first": [], "later": []}
    for epoch in range(1, 5):
        if epoch == 2:
            group.add("later", later, DATA)
        if epoch == 4:
            group.remove("first")
        names = [name for name, start in (("first", 1), ("later", 2)) if start <= epoch < start + 3]
        for name, outcome in group.run_epoch(names).items():
            seen[str(name)].append(finished(outcome))
    for name, each in (("first", first), ("later", later)):
        expected = list(run_trial(each, DATA, device="cpu"))
        assert [report.epoch for report in seen[name]] == [1, 2, 3]
        for got, wanted in zip(seen[name], expected, strict=True):
            assert got.metrics.keys() == wanted.metrics.keys()
            assert got.metrics["train/loss"] == pytest.approx(wanted.metrics["train/loss"], rel=1e-3)
            assert got.metrics["val/rsum"] == pytest.approx(wanted.metrics["val/rsum"], abs=8)


WILD = {
    "its rate": ({"learning_rate": 1e38}, "triplet", {}),
    "its loss": ({}, "polynomial_relative", {"coefficients": (0.2, 3e38)}),
}


@pytest.mark.parametrize("model", [model for model in MODELS if FEATURES[model] != PIXELS])
@pytest.mark.parametrize("cause", WILD)
def test_one_that_diverges_does_not_touch_its_neighbours(cause: str, model: str) -> None:
    training, loss, parameters = WILD[cause]
    data = suited(DATA, config(model=model))
    plain = {"optimizer": "sgd", "gradient_clip": None, "learning_rate": 1e-4}
    wild = config(loss, model=model, loss_parameters=parameters, **{**plain, **training})
    tame = config("triplet", model=model, seed=1, **plain)
    group = together((wild, tame), data)
    outcomes = [group.run_epoch("01"), group.run_epoch("1")]
    error = outcomes[0]["0"]
    assert isinstance(error, DivergedError)
    with pytest.raises(DivergedError) as alone_too:
        list(run_trial(wild, data, device="cpu"))
    assert str(error) == str(alone_too.value)
    for outcome, wanted in zip(outcomes, run_trial(tame, data, device="cpu"), strict=False):
        assert finished(outcome["1"]).metrics["train/loss"] == pytest.approx(wanted.metrics["train/loss"], rel=1e-4)


@pytest.mark.parametrize("temperature", [0.1, "learned"])
def test_its_checkpoint_is_that_of_a_trial_alone(tmp_path: Path, temperature: float | str) -> None:
    configs = [config(epochs=3, seed=seed, loss_parameters={"temperature": temperature}) for seed in (0, 1)]
    group = together(configs, DATA)
    for _ in range(2):
        outcomes = group.run_epoch("01")
    saved = save_epoch(tmp_path / "fused", finished(outcomes["1"]))
    other = stopped(configs[1], DATA, tmp_path / "alone", 2)
    for name in ("state.pt", "best.pt"):
        assert (saved / name).stat().st_size == (other / name).stat().st_size
    # It resumes alone, and beside another trial.
    again, last = trained(configs[1], DATA, saved)
    beside = together(configs[:1], DATA)
    report = beside.add("resumed", configs[1], DATA, saved)
    assert report is not None and report.epoch == 2 and numbers(report) == again
    outcome = finished(beside.run_epoch(["0", "resumed"])["resumed"])
    assert outcome.epoch == 3
    assert outcome.metrics["train/loss"] == pytest.approx(last["train/loss"], rel=1e-3)
    if temperature == "learned":
        alone_too = trained(configs[1], DATA)[1]["loss/temperature"]
        assert report.metrics["loss/temperature"] == pytest.approx(alone_too, rel=1e-4)
        assert outcome.metrics["loss/temperature"] == pytest.approx(last["loss/temperature"], rel=1e-4)


def test_what_a_schedule_changes_is_changed_for_its_trial_alone() -> None:
    changing = replace(config(epochs=2), schedule=(Change(epoch=2, loss_parameters={"temperature": 0.5}),))
    configs = [config(epochs=2), changing]
    group = together(configs, DATA)
    group.run_epoch("01")
    for outcome, each in zip(group.run_epoch("01").values(), configs, strict=True):
        expected = trained(each, DATA)[-1]
        assert finished(outcome).metrics["train/loss"] == pytest.approx(expected["train/loss"], rel=1e-3)


def test_only_what_can_lie_on_each_other_is_stacked() -> None:
    def shape(each: TrialConfig, beside: Trial) -> object:
        trial = Trial(each, beside.data, CPU, beside=beside)
        trial.begin_epoch()
        return stack_shape(trial)

    base = Trial(config(), DATA, CPU)
    base.begin_epoch()
    for each in (config("triplet"), config(seed=4), config(learning_rate=1.0), config(weight_decay=0.5)):
        assert shape(each, base) == stack_shape(base)
    apart = among(
        *({"embedding_size": 16}, {"batch_size": 8}, {"gradient_clip": 1.0}, {"duplicates": "negatives"}),
        *({"model": "wsabie"}, {"length_buckets": 2}, {"batches": "images"}),
        {"bank": 8},
    )
    assert all(shape(each, base) != stack_shape(base) for each in apart)
    regions = Trial(config(model="vsrn"), suited(DATA, config(model="vsrn")), CPU)
    words = [{}, PUBLISHED, {"region_norm": "published"}, PUBLISHED]
    shapes = [shape(config(model="vsrn", model_parameters=parameters), regions) for parameters in words]
    assert shapes[1] == shapes[3] and len(set(shapes)) == 3


def test_a_stack_of_nobody_takes_no_step() -> None:
    _, loss, parameters = WILD["its loss"]
    trials = [Trial(config(loss, loss_parameters=parameters, seed=seed), DATA, CPU) for seed in (0, 1)]
    for trial in trials:
        trial.begin_epoch()
    epoch = StackedEpoch(trials)
    assert epoch.step()
    assert not epoch.step()
    assert all(isinstance(outcome, DivergedError) for outcome in epoch.finish())


def test_the_first_steps_of_fused_trials_are_counted_as_alone() -> None:
    counted = {1: 2, 3: 2, 64: 0}
    configs = [config("triplet", loss_parameters={"negatives": one}, cocos_steps=counted[one]) for one in counted]
    outcomes = together(configs, DATA).run_epoch("012")
    for place, one in zip("012", configs, strict=True):
        reports = finished(outcomes[place]), next(run_trial(one, DATA, device="cpu"))
        counts, expected = (
            {key: value for key, value in report.metrics.items() if key.startswith("cocos_start/")}
            for report in reports
        )
        assert bool(counts) == bool(one.training.cocos_steps)
        assert counts == pytest.approx(expected, rel=1e-3, abs=1e-3)
