"""Heads beside the formulas of their docstring, and the model without parameters."""

import math
import warnings
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cosine_similarity

from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.config import TrialConfig
from trainables.contracts.model_contract import CHECKS, check_model
from trainables.data.batches import ResidentSplit
from trainables.errors import ConfigError
from trainables.evaluation import evaluate
from trainables.fused import FusedTrials
from trainables.models import build_model
from trainables.models.head import HEADS
from trainables.trial import run_trial


def config_of(image_head: str, caption_head: str, **training: object) -> TrialConfig:
    parameters = {"image_head": image_head, "caption_head": caption_head}
    return replace(tiny_config(**training), model="head", model_parameters=parameters)


def gelu_by_hand(value: float) -> float:
    return value * (1 + math.erf(value / math.sqrt(2))) / 2


def mapped_by_hand(head: torch.nn.Module, kind: str, features: list[float]) -> list[float]:
    """One vector through a head, a dimension at a time."""

    def affine(layer: torch.nn.Linear, values: list[float]) -> list[float]:
        rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
        return [bias + sum(w * x for w, x in zip(row, values, strict=True)) for row, bias in rows]

    if kind == "identity":
        return features
    if kind == "linear":
        return affine(head.projection, features)
    inner = head.change if kind == "residual" else head
    changed = affine(inner.out, [gelu_by_hand(value) for value in affine(inner.hidden, features)])
    if kind == "mlp":
        return changed
    straight = features if len(features) == len(changed) else affine(head.straight.projection, features)
    return [kept + change for kept, change in zip(straight, changed, strict=True)]


@pytest.mark.parametrize("size", [3, 5], ids=["another size", "same size"])
@pytest.mark.parametrize("kind", HEADS)
def test_a_head_computes_its_formula(kind: str, size: int) -> None:
    torch.manual_seed(0)
    head = HEADS[kind](size, 5, 4).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_()
    features = torch.randn(2, size, dtype=torch.float64)
    expected = torch.tensor([mapped_by_hand(head, kind, row) for row in features.tolist()], dtype=torch.float64)
    torch.testing.assert_close(head(features).detach(), expected)


def test_a_residual_head_begins_as_the_identity() -> None:
    features = torch.randn(4, 6)
    assert torch.equal(HEADS["residual"](6, 6, 3)(features), features)


def test_the_head_keeps_what_every_model_promises() -> None:
    findings = list(check_model("head"))
    assert len(findings) == len(CHECKS)
    assert {finding.status for finding in findings} == {"ok"}, findings


def test_identities_have_no_parameters_and_stay_what_they_are() -> None:
    config = config_of("identity", "identity", embedding_size=24, epochs=2)
    data = suited(tiny_dataset(), config)
    model = build_model(config, data)
    assert list(model.parameters()) == []
    assert not model.can_stack
    split = ResidentSplit(data.splits["val"], torch.device("cpu"))
    images, (captions, _) = split.request_images(torch.arange(split.image_count))(), split.captions(torch.arange(3))
    cosines = cosine_similarity(images[:, None], captions[None], dim=-1)
    torch.testing.assert_close(model.encode_images(images) @ model.encode_captions(captions, torch.ones(3)).T, cosines)
    zero_shot = evaluate(model, split)["rsum"]
    with warnings.catch_warnings():
        # PyTorch would warn that there are no gradients to clip.
        warnings.simplefilter("error")
        reports = list(run_trial(config, data))
    assert [report.metrics["val/rsum"] for report in reports] == [zero_shot] * 2


def test_only_the_loss_learns_beside_identities() -> None:
    config = config_of("identity", "identity", embedding_size=24, epochs=2)
    config = replace(config, loss_parameters={"temperature": "learned"})
    first, second = run_trial(config, suited(tiny_dataset(), config))
    assert first.metrics["loss/temperature"] != second.metrics["loss/temperature"]


def test_identities_train_one_after_another_beside_heads_that_are_stacked() -> None:
    configs = {
        "zero-shot": config_of("identity", "identity", embedding_size=24),
        "first": config_of("linear", "linear", embedding_size=24),
        "second": replace(config_of("linear", "linear", embedding_size=24), seed=1),
    }
    data, trials = suited(tiny_dataset(), configs["first"]), FusedTrials("cpu")
    for name, config in configs.items():
        trials.add(name, config, data)
    outcomes = trials.run_epoch(configs)
    for name, config in configs.items():
        alone = next(run_trial(config, data))
        assert outcomes[name].metrics["train/loss"] == pytest.approx(alone.metrics["train/loss"], rel=1e-4)


def test_identity_of_another_width_is_refused() -> None:
    config = config_of("linear", "identity", embedding_size=16)
    with pytest.raises(ConfigError, match=r"caption_head: identity keeps the 24 dimensions .* is 16; set it to 24"):
        build_model(config, suited(tiny_dataset(), config))
