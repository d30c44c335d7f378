"""The checks of a plug-in: our own losses pass them, and each mistake fails the check that is about it."""

from pathlib import Path

import pytest

from orchestrator.commands.plugins import ends_of
from orchestrator.experiment.plugins import load_plugins
from search_spaces import SPACES, Range
from tests.support.plugins import EXAMPLES, lay_out_package, write_plugin
from trainables.contracts.loss_contract import CHECKS, check_loss
from trainables.contracts.model_contract import CHECKS as MODEL_CHECKS
from trainables.contracts.model_contract import check_model
from trainables.losses import LOSSES


def failed(name: str, source: Path) -> dict[str, str]:
    (plugin,) = load_plugins([str(source)])
    ends = ends_of(plugin.offers["losses"][name])
    return {one.check: one.message for one in check_loss(name, ends) if one.status != "ok"}


@pytest.mark.parametrize("name", LOSSES)
def test_our_losses_pass(name: str) -> None:
    bounds = SPACES[name].bounds
    points = [{one: end} for one, bound in bounds.items() if isinstance(bound, Range) for end in bound.ends()]
    points = [point for point in points if point.keys() <= SPACES[name].parameters.keys()]
    findings = list(check_loss(name, points))
    assert [one.check for one in findings] == list(CHECKS)
    # The gradients of these two losses are those at fixed weights, not the slopes of their values.
    failing = ["gradient"] if name in ("circle", "gradient_weights") else []
    assert [one.check for one in findings if one.status != "ok"] == failing


def test_the_example_passes() -> None:
    assert failed("pair_sigmoid", EXAMPLES / "own-loss" / "my_losses.py") == {}


MISTAKES = {
    "no bound": ("return -(similarity[positives] + 1).log().mean()", "ties", "similarities are -1; logarithms"),
    "diagonal": ("return -similarity.diagonal().sum()", "permutation", "depends on their order; use positives"),
    "ignored pairs": ("return similarity[~positives].sum()", "ignore", "an ignored pair of 5 pairs has a gradient"),
    "detached": ("return (similarity.detach() * similarity)[positives].sum()", "gradient", "finite differences say"),
    "one direction": ("return similarity.max(1).values.sum()", "transpose", "treats the two directions differently"),
    "zero at the end": ("return similarity.sum() / scale", "value", "for 5 pairs with scale=0.0; logarithms"),
    "cosines alone": (
        "return (1.01 - similarity**2).sqrt()[positives].sum()",
        "range",
        "outside [-1, 1]: the loss needs",
    ),
    "two": ("return similarity[positives].std()", "batches of two", ""),
}


@pytest.mark.parametrize(("line", "check", "words"), MISTAKES.values(), ids=MISTAKES)
def test_each_mistake_fails_the_check_that_is_about_it(tmp_path: Path, line: str, check: str, words: str) -> None:
    divides = "/ scale" in line
    text = f"""
@loss(space={{"scale": (0.0, 2.0)}})
def wrong(similarity, positives, ignore, scale=1.0):
    {line if divides else line.replace("return", "return (1 + 0 * scale) *", 1)}
"""
    if check == "batches of two":
        text = text.replace("std()", "sort().values[2]")
    found = failed("wrong", write_plugin(tmp_path, text))
    assert words in found[check]


def test_an_error_in_the_gradient_of_a_loss_is_a_finding_with_its_line(tmp_path: Path) -> None:
    text = """
class Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores):
        return scores.mean()
    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.nothing

@loss()
def mean(similarity, positives, ignore):
    return Mean.apply(similarity)
"""
    found = failed("mean", write_plugin(tmp_path, text))
    assert found["gradient"].startswith("my_losses.py:10: AttributeError")


def test_a_loss_that_is_vectorised_in_name_only_fails_at_stacking(tmp_path: Path) -> None:
    text = """
@loss(space={"scale": (1.0, 2.0)}, vectorised=True)
def wrong(similarity, positives, ignore, scale=1.0):
    return scale * (similarity * ~ignore).sum()
"""
    found = failed("wrong", write_plugin(tmp_path, text))
    assert set(found) == {"stacking"} and "the value changes for 5 pairs with scale=1.0 beside" in found["stacking"]


def test_the_sample_package_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(lay_out_package(tmp_path)))
    (plugin,) = load_plugins(["icr-pair-losses"])
    assert (plugin.name, plugin.version) == ("icr-pair-losses", "1.0.0")
    findings = [*check_loss("pair_hinge", ends_of(plugin.offers["losses"]["pair_hinge"])), *check_model("bag_of_words")]
    assert [one.check for one in findings] == [*CHECKS, *MODEL_CHECKS]
    assert [one for one in findings if one.status != "ok"] == []


MODEL = """
from torch import nn
from trainables.models.retrieval_model import RetrievalModel

@model()
class Wrong(RetrievalModel):
    def __init__(self, size, words, embedding_size, word_size):
        super().__init__()
        self.image, self.words, self.unused = nn.Linear(size, 8), nn.Embedding(words, 8), nn.Linear(2, 2)
        self.offset = torch.randn(8)

    def encode_images(self, features):
        return self.image(features) + self.offset

    def encode_captions(self, tokens, lengths):
        return self.words(tokens).mean(1)
"""


def wrong_in(folder: Path, text: str) -> dict[str, str]:
    """Return the checks that a model ``wrong`` fails, with their messages."""
    load_plugins([str(write_plugin(folder, text))])
    return {one.check: one.message for one in check_model("wrong") if one.status != "ok"}


def test_a_model_whose_padding_counts_is_told_with_all_else_that_is_wrong(tmp_path: Path) -> None:
    found = wrong_in(tmp_path, MODEL)
    assert set(found) == {"padding", "learning", "weights"}
    assert "has other similarities alone" in found["padding"] and "unused.weight" in found["learning"]
    assert "register tensors as nn.Parameter or buffer" in found["weights"]


@pytest.mark.parametrize("left_out", [", words, embedding_size, word_size", ", word_size"])
def test_a_model_that_does_not_take_all_sizes_is_told_how_to_take_them(tmp_path: Path, left_out: str) -> None:
    (message,) = wrong_in(tmp_path, MODEL.replace(left_out, "")).values()
    assert message.startswith("my_losses.py:") and "without a build of the class" in message


def test_a_model_of_other_sizes_is_told(tmp_path: Path) -> None:
    found = wrong_in(tmp_path, MODEL.replace("nn.Embedding(words, 8)", "nn.Embedding(words, 4)"))
    assert found["shapes"].startswith("vectors of images have 8 dimensions, those of captions 4")
