"""Gradients of a batch that is encoded in parts, beside those of the batch as a whole, for each loss and model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.trainables.losses.oracle import CASES, EXPECTED_WARP
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.config import TrialConfig
from trainables.data.batches import Batch
from trainables.errors import ConfigError
from trainables.evaluation import similarities
from trainables.fused import stack_shape
from trainables.losses import build_loss
from trainables.losses.parameters import learnable_of
from trainables.micro_batches import MicroBatches
from trainables.models import build_model
from trainables.models.retrieval_model import RetrievalModel
from trainables.optimizers import LearnedParameters
from trainables.representations import Captions, Sets, joined, part_of
from trainables.training_steps import TrainingStep
from trainables.trial import Trial

CPU = torch.device("cpu")
DATA = tiny_dataset()
LOSSES = {**CASES, **EXPECTED_WARP}


def double(inputs: Any) -> Any:
    """Return inputs of a model with numbers of float64."""
    if isinstance(inputs, Tensor):
        return inputs.double() if inputs.is_floating_point() else inputs
    if isinstance(inputs, Sets):
        return Sets(double(inputs.vectors), inputs.lengths)
    return {name: double(values) for name, values in inputs.items()} if isinstance(inputs, Mapping) else inputs


def a_batch(config: TrialConfig) -> Batch:
    trial = Trial(config, suited(DATA, config), CPU)
    trial.begin_epoch()
    batch = next(trial.batches())
    tokens = batch.tokens if isinstance(batch.tokens, Captions) else double(batch.tokens)
    return replace(batch, images=double(batch.images), tokens=tokens)


def a_model(config: TrialConfig) -> RetrievalModel:
    torch.manual_seed(0)
    return build_model(config, suited(DATA, config)).double().train()


def after_a_step(
    config: TrialConfig, batch: Batch, loss: Any, micro_batch: int | None
) -> tuple[float, dict[str, Tensor]]:
    """Return the loss of a step, and the model's weights and the learned numbers after it."""
    model, learned = a_model(config), LearnedParameters(CPU)
    learned.begin_epoch(loss, config.training, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    step = TrainingStep(model, loss, optimizer, config.training.gradient_clip, learned, micro_batch=micro_batch)
    torch.manual_seed(1)
    value = step.take(batch)
    return float(value), {**model.state_dict(), **{f"loss {name}": raw.detach() for name, raw in learned.raw.items()}}


HEAD = replace(tiny_config(batch_size=14), model="head")


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("size", [1, 5, 14])
def test_every_loss_has_the_step_of_the_whole_batch(name: str, size: int) -> None:
    batch, loss = a_batch(HEAD), build_loss(LOSSES[name].name, **LOSSES[name].parameters)
    value, weights = after_a_step(HEAD, batch, loss, None)
    in_parts, found = after_a_step(HEAD, batch, loss, size)
    assert in_parts == pytest.approx(value, abs=1e-12)
    torch.testing.assert_close(found, weights, rtol=0, atol=1e-12)
    before = a_model(HEAD).state_dict()
    assert any(not torch.equal(weights[key], before[key]) for key in before), "the step moves the weights"


MODELS = {
    "vsepp": {},
    "wsabie": {},
    "scan": {"cross_attention": "i2t"},
    "gsmn": {"graph": "paper", "edges": "sparse"},
    "hgr": {"dropout": 0.0, "graph_dropout": 0.0},
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("batches", ["pairs", "images"])
def test_every_model_has_the_step_of_the_whole_batch(model: str, batches: str) -> None:
    settings = {"batches": batches, "batch_size": 7, "captions_per_image": 3}
    config = replace(tiny_config(**settings), model=model, model_parameters=MODELS[model])
    batch, loss = a_batch(config), build_loss("nt_xent", temperature="learned")
    assert learnable_of(loss)
    value, weights = after_a_step(config, batch, loss, None)
    in_parts, found = after_a_step(config, batch, loss, 3)
    assert in_parts == pytest.approx(value, abs=1e-12)
    torch.testing.assert_close(found, weights, rtol=0, atol=1e-12)


def test_dropout_drops_the_same_numbers_both_times_and_draws_go_on_after_them() -> None:
    """The parts encoded with gradients, one after another with one stream of numbers, and one loss of them."""
    config = replace(tiny_config(batch_size=7), model="hgr", model_parameters={"dropout": 0.3, "graph_dropout": 0.4})
    batch, model, loss = a_batch(config), a_model(config), build_loss("warp", margin=0.5)
    torch.manual_seed(3)
    images = [model.encode_images(part_of(batch.images, slice(first, first + 3))) for first in (0, 3, 6)]
    captions = [
        model.encode_captions(*(part_of(of, slice(first, first + 3)) for of in (batch.tokens, batch.lengths)))
        for first in (0, 3, 6)
    ]
    value = loss(model.compare(joined(images), joined(captions)), batch.positives, batch.ignore)
    expected = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
    after = torch.rand(3)

    parts = MicroBatches(model, 3)
    torch.manual_seed(3)
    loss(model.compare(*parts.encode(batch)), batch.positives, batch.ignore).backward()
    parts.backward()
    assert torch.equal(torch.rand(3), after)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        if gradient is not None:
            torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-12)
    torch.manual_seed(4)
    other = loss(similarities(model, batch), batch.positives, batch.ignore)
    assert abs(float((other - value).detach())) > 1e-6, "dropout drops other numbers with another seed"


def test_a_training_in_parts_is_that_of_whole_batches_but_for_rounding() -> None:
    whole, parts = (Trial(tiny_config(micro_batch=size), DATA, CPU) for size in (None, 3))
    for _ in range(2):
        expected, found = whole.run_epoch().metrics, parts.run_epoch().metrics
        assert found["train/loss"] == pytest.approx(expected["train/loss"], rel=1e-5)
    torch.testing.assert_close(parts.model.state_dict(), whole.model.state_dict(), rtol=0, atol=1e-3)


def test_batch_norms_are_refused_before_and_in_a_training() -> None:
    config = replace(tiny_config(), model="vsrn")
    for model in ("vsrn", "ce"):
        with pytest.raises(ConfigError, match=f"training.micro_batch: {model} has batch norms"):
            replace(config, model=model, training=replace(config.training, micro_batch=4))
    model = a_model(config)
    with pytest.raises(ConfigError, match="training.micro_batch: VSRN has batch norms"):
        MicroBatches(model, 4)
    MicroBatches(model.eval(), 4)


def test_trials_with_parts_are_not_stacked() -> None:
    first = Trial(tiny_config(), DATA, CPU)
    trials = [first, *(Trial(tiny_config(micro_batch=size), DATA, CPU, beside=first) for size in (None, 4, 4))]
    for trial in trials:
        trial.begin_epoch()
    assert len({stack_shape(trial) for trial in trials}) == 3
