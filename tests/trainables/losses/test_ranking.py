"""SmoothAP and WARP."""

import math
import random

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainables.losses import oracle
from tests.trainables.losses.batches import STRUCTURES, five_each, one_to_one, random_cosines
from tests.trainables.losses.test_losses import value_and_gradient
from trainables.losses.ranking import WARP, SmoothAP


@pytest.mark.parametrize("structure", STRUCTURES)
def test_tends_to_one_minus_average_precision(structure: str) -> None:
    from sklearn.metrics import average_precision_score

    positives = STRUCTURES[structure]
    rng = np.random.default_rng(5)
    scores = rng.permutation(np.linspace(-1, 1, positives.numel())).reshape(positives.shape)
    directions = ((positives.numpy(), scores), (positives.numpy().T, scores.T))
    precisions = [
        np.mean([average_precision_score(truth, row) for truth, row in zip(truths, rows, strict=True)])
        for truths, rows in directions
    ]
    value = SmoothAP(1e-4)(torch.tensor(scores), positives).item()
    assert value == pytest.approx(1 - np.mean(precisions), abs=1e-9)


def test_needs_no_more_than_the_rows_of_positives() -> None:
    """The full tensor of 64 x 320 x 320 differences in float64 alone would be 52 MB."""
    positives = torch.eye(64, dtype=torch.bool).repeat_interleave(5, 1)
    similarity = torch.rand(64, 320, dtype=torch.float64).requires_grad_()
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):  # type: ignore[func-returns-value]
        SmoothAP()(similarity, positives)
    assert max(saved) == 320 * 320


QUERIES = 12_000
SCORES = torch.tensor([0.3, 0.1, 0.2, 0.25, -0.9, -0.8, -0.7, 0.9], dtype=torch.float64)
"""A positive and seven negatives, of which with margin 0.15 three violate: those at 0.2, 0.25 and 0.9."""

VIOLATING, NEGATIVES, MARGIN = 3, 7, 0.15


def harmonic(k: int) -> float:
    return sum(1 / j for j in range(1, k + 1))


def simulate(rng: random.Random) -> tuple[int, float] | None:
    """Draw one negative after another as the algorithm does; return the violator and its weight, or nothing."""
    for draws in range(1, NEGATIVES + 1):
        candidate = rng.randint(1, NEGATIVES)
        if SCORES[candidate] > SCORES[0] - MARGIN:
            return candidate, harmonic(NEGATIVES // draws)
    return None


def identical_queries() -> tuple[Tensor, Tensor]:
    """Many images with the scores above, turned so that every caption is some image's positive."""
    shifts = torch.arange(QUERIES) % len(SCORES)
    columns = (torch.arange(len(SCORES))[None] - shifts[:, None]) % len(SCORES)
    return SCORES[columns], columns == 0


def drawn_weights(gradient: Tensor, positives: Tensor) -> Tensor:
    """Turn the rows of a gradient back, so that column c is candidate c of every query; undo the mean."""
    shifts = positives.int().argmax(1)
    columns = (torch.arange(len(SCORES))[None] + shifts[:, None]) % len(SCORES)
    return gradient.gather(1, columns) * QUERIES


def test_violators_and_weights_have_the_distribution_of_sequential_draws() -> None:
    similarity, positives = identical_queries()
    weights = drawn_weights(value_and_gradient(WARP(MARGIN, direction="i2t"), similarity, positives)[1], positives)
    torch.testing.assert_close(weights[:, 0], -weights[:, 1:].sum(1))

    rng = random.Random(1)
    simulated = [simulate(rng) for _ in range(QUERIES)]
    outcomes = {outcome for outcome in simulated if outcome is not None}
    assert {candidate for candidate, _ in outcomes} == {2, 3, 7}
    for candidate, weight in outcomes:
        expected = sum(outcome == (candidate, weight) for outcome in simulated)
        got = int((weights[:, candidate] - weight).abs().lt(1e-9).sum())
        assert abs(got - expected) < 5 * math.sqrt(2 * expected) + 5, (candidate, weight, got, expected)
    # With three of seven violating about one query in fifty finds no violator in seven draws.
    none = int((weights == 0).all(1).sum())
    assert abs(none - QUERIES * (1 - VIOLATING / NEGATIVES) ** NEGATIVES) < 5 * math.sqrt(none)


@pytest.mark.parametrize(
    "settings",
    [{}, {"rank_weight": "constant"}, {"rank_weight": "top_k", "top": 2}, {"rank_weight": "top_k", "top": 1}],
    ids=str,
)
def test_every_rank_weight_has_its_expected_value(settings: dict) -> None:
    similarity, positives = identical_queries()
    torch.manual_seed(2)
    value = WARP(MARGIN, direction="i2t", **settings)(similarity, positives).item()
    expected = oracle.warp(oracle.Pair(SCORES, 0, [0], [*range(1, NEGATIVES + 1)]), MARGIN, **settings)
    assert value == pytest.approx(float(expected), rel=0.03)


def test_every_negative_violating_is_drawn_at_once() -> None:
    similarity = torch.tensor([[0.0, 0.5], [0.5, 0.0]], dtype=torch.float64)
    assert WARP(1.0)(similarity, one_to_one(2)).item() == pytest.approx(2 * 1.5)


@pytest.mark.parametrize("positives", [one_to_one(4), five_each(4, 2)], ids=["pairs", "captions"])
def test_no_violator_no_loss(positives: Tensor) -> None:
    value, gradient = value_and_gradient(WARP(1.0), torch.where(positives, 1.0, -1.0), positives)
    assert value == 0 and not gradient.any()


def test_seeds_and_directions() -> None:
    similarity, positives = random_cosines(6, 12, seed=3), five_each(6, 2)

    def value(direction: str, seed: int, scores: Tensor = similarity, own: Tensor = positives) -> float:
        torch.manual_seed(seed)
        return WARP(direction=direction)(scores, own).item()  # type: ignore[arg-type]

    assert value("both", 1) == value("both", 1)
    assert value("both", 1) != value("both", 2)
    assert value("i2t", 1) == pytest.approx(value("t2i", 1, similarity.T, positives.T))
    assert 0 < value("i2t", 1) < value("both", 1)


def test_ignored_captions_are_never_drawn() -> None:
    similarity = torch.tensor([[0.5, 0.9, -0.9], [-0.9, 0.5, -0.9], [-0.9, -0.9, 0.5]])
    ignore = torch.zeros(3, 3, dtype=torch.bool)
    assert WARP(0.1)(similarity, one_to_one(3), ignore) > 0
    ignore[0, 1] = True
    assert WARP(0.1)(similarity, one_to_one(3), ignore) == 0
