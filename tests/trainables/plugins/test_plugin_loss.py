"""A plug-in's loss keeps the contract of ours, and what is wrong with it is said with file and line."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from orchestrator.experiment.plugins import load_plugins
from tests.support.plugins import EXAMPLES, MEAN, write_plugin
from tests.trainables.losses.batches import LABELS, STRUCTURES, five_each, one_to_one, random_cosines
from trainables.errors import DivergedError, PluginError
from trainables.losses import Loss, NotANumberError, build_loss
from trainables.losses.parameters import stack_losses
from trainables.losses.plugin_loss import place_of_loss
from trainables.training_steps import StepLosses

CLASS = """
from dataclasses import dataclass

@loss(space={"weights": [(1.0, 0.0), (0.0, 1.0)]})
@dataclass(frozen=True)
class WeightedMeans:
    weights: tuple[float, ...] = (0.5, 0.5)
    power: int = 2
    squared: bool = False

    def __call__(self, similarity, positives, ignore):
        first, second = self.weights
        gap = first * similarity[~positives & ~ignore].mean() - second * similarity[positives].mean()
        return (gap if not self.squared else gap**self.power) + 0 * torch.rand(())
"""

DRAWS = """
@loss()
def drawn(similarity, positives, ignore, share=0.5):
    kept = torch.rand(similarity.shape) < share
    return (similarity * kept).sum()
"""


def test_a_function_becomes_a_value_with_its_parameters(tmp_path: Path) -> None:
    load_plugins([str(write_plugin(tmp_path))])
    made: Any = build_loss("mean_gap", scale=2.0)
    assert repr(made) == "mean_gap(scale=2.0)" and made == build_loss("mean_gap", scale=2.0) != build_loss("mean_gap")
    assert len({made, build_loss("mean_gap", scale=2.0)}) == 1
    assert pickle.loads(pickle.dumps(made)) == made
    assert place_of_loss(made) == "my_losses.py:5" and place_of_loss(build_loss("nt_xent")) == ""
    similarity = torch.tensor([[0.9, 0.1], [0.3, 0.7]])
    assert float(made(similarity, one_to_one(2))) == pytest.approx(2 * (0.2 - 0.8))
    assert float(made(similarity, one_to_one(2), torch.tensor([[False, True], [False, False]]))) == pytest.approx(-1.0)


def test_an_ignored_pair_that_is_a_positive_stays_a_positive(tmp_path: Path) -> None:
    text = """
@loss()
def counted(similarity, positives, ignore):
    return (similarity * ~ignore).sum() + 10 * (positives & ignore).sum()
"""
    load_plugins([str(write_plugin(tmp_path, text))])
    similarity = torch.tensor([[1.0, 0.25], [0.5, 0.75]])
    found = build_loss("counted")(similarity, one_to_one(2), torch.tensor([[True, True], [False, False]]))
    assert float(found) == 1.0 + 0.5 + 0.75


@pytest.mark.parametrize("structure", ["pairs", "captions", "many_to_many"])
@pytest.mark.parametrize(
    ("text", "name", "points"),
    [
        (MEAN, "mean_gap", [{"scale": 1.0}, {"scale": 3.0}]),
        (CLASS, "weighted_means", [{"weights": (1.0, 0.0), "power": 2}, {"weights": (0.2, 0.8), "power": 3}]),
        (DRAWS, "drawn", [{"share": 0.2}, {"share": 0.8}]),
    ],
    ids=["function", "class with a vector, a whole number and a switch", "random"],
)
def test_stacked_trials_are_separate_trials(
    tmp_path: Path, text: str, name: str, points: list[dict[str, Any]], structure: str
) -> None:
    load_plugins([str(write_plugin(tmp_path, text))])
    losses, positives = [build_loss(name, **point) for point in points], STRUCTURES[structure]
    similarity = random_cosines(2, *positives.shape)
    torch.manual_seed(3)
    together = stack_losses(losses, torch.device("cpu"))(similarity, positives)
    for place, loss in enumerate(losses):
        torch.manual_seed(3)
        torch.testing.assert_close(together[place], loss(similarity[place], positives))


def test_labels_without_a_positive_are_left_out(tmp_path: Path) -> None:
    load_plugins([str(write_plugin(tmp_path))])
    similarity, loss, own = random_cosines(*LABELS.shape), build_loss("mean_gap"), LABELS.any(0)
    ignore = (random_cosines(*LABELS.shape, seed=1) > 0.5) & ~LABELS
    assert loss(similarity, LABELS, ignore) == loss(similarity[:, own], LABELS[:, own], ignore[:, own])


def test_leading_dimensions_of_parameters_and_scores_are_broadcast(tmp_path: Path) -> None:
    load_plugins([str(write_plugin(tmp_path))])
    similarity, positives = random_cosines(2, 1, 3, 6), five_each(3, 2)
    found = build_loss("mean_gap", scale=torch.tensor([1.0, 2.0, 3.0]))(similarity, positives)
    assert found.shape == (2, 3)
    for row in range(2):
        for column in range(3):
            alone = build_loss("mean_gap", scale=column + 1.0)(similarity[row, 0], positives)
            torch.testing.assert_close(found[row, column], alone)


WRONG = {
    "raises": ("return similarity.sum() / (1 / 0)", "my_losses.py:6: ZeroDivisionError: division by zero"),
    "raises inside torch": ("return similarity @ similarity[:, :1].T", "my_losses.py:6: RuntimeError: "),
    "a number": ("return 3.0", "my_losses.py:5: must return a tensor, got float 3.0"),
    "a matrix": ("return similarity", "my_losses.py:5: must return a scalar, shape (), got shape (3, 3)"),
    "whole numbers": ("return similarity.argmax()", "my_losses.py:5: must return a floating tensor, got torch.int64"),
    "detached": ("return similarity.detach().sum()", "my_losses.py:5: the value has no gradient: it does not depend"),
}


def wrong(folder: Path, line: str) -> Loss:
    """Return a loss that is this line."""
    load_plugins([str(write_plugin(folder, f"\n@loss()\ndef wrong(similarity, positives, ignore):\n    {line}\n"))])
    return build_loss("wrong")


@pytest.mark.parametrize(("line", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(PluginError) as raised:
        wrong(tmp_path, line)(random_cosines(3, 3).requires_grad_(), one_to_one(3))
    assert str(raised.value).startswith(message)


def test_want_of_memory_is_not_the_plugins_fault(tmp_path: Path) -> None:
    large = wrong(tmp_path, "return torch.empty(2**60).sum() + similarity.sum()")
    with pytest.raises(RuntimeError, match="can't allocate memory|out of memory"):
        large(random_cosines(3, 3), one_to_one(3))


def test_a_value_that_is_not_finite_is_divergence_that_names_the_loss(tmp_path: Path) -> None:
    loss = wrong(tmp_path, "return similarity.sum() * float('nan')")
    losses = StepLosses(2, place=place_of_loss(loss))
    with pytest.raises(DivergedError) as raised:
        losses.add(loss(random_cosines(3, 3), one_to_one(3)))
    assert str(raised.value) == "train/loss is nan in epoch 2, step 1; the loss is that of my_losses.py:5"
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_batches_are_checked_as_for_our_losses(tmp_path: Path) -> None:
    load_plugins([str(write_plugin(tmp_path))])
    with pytest.raises(NotANumberError):
        build_loss("mean_gap")(torch.full((3, 3), torch.nan), one_to_one(3))
    with pytest.raises(ValueError, match="positives must be bool of shape"):
        build_loss("mean_gap")(random_cosines(3, 3), one_to_one(4))
    half = random_cosines(3, 3, dtype=torch.float32).bfloat16()
    assert build_loss("mean_gap")(half, one_to_one(3)).dtype == torch.float32


def test_the_example_is_the_sum_over_pairs_that_its_name_says() -> None:
    load_plugins([str(EXAMPLES / "own-loss" / "my_losses.py")])
    similarity, positives = random_cosines(4, 4), one_to_one(4)
    expected = 0.0
    for image in range(4):
        for caption in range(4):
            sign = 1.0 if image == caption else -1.0
            chance = 1 / (1 + torch.exp(-sign * 5.0 * (similarity[image, caption] - 0.1)))
            expected -= float(chance.log()) / 4
    found = build_loss("pair_sigmoid", scale=5.0, bias=0.1)(similarity, positives)
    assert float(found) == pytest.approx(expected)
