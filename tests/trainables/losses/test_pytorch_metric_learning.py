"""Agreement with pytorch-metric-learning, where that library has the loss and is installed.

The library compares embeddings of one set with those of another: one direction. Ours is the mean of both directions.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from trainables.losses import build_loss

losses = pytest.importorskip("pytorch_metric_learning.losses", reason="pip install pytorch-metric-learning to compare")
miners = pytest.importorskip("pytorch_metric_learning.miners")
reducers = pytest.importorskip("pytorch_metric_learning.reducers")

ONE_EACH, CAPTIONS, UNEQUAL = [0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5], [0, 0, 1, 2, 3, 3, 4, 5]
EVERY = ONE_EACH, CAPTIONS, UNEQUAL


def multi_similarity(**parameters: Any) -> Any:
    return losses.MultiSimilarityLoss(**parameters, reducer=reducers.MeanReducer())


def circle(margin: float, scale: float) -> Any:
    return losses.CircleLoss(m=margin, gamma=scale, reducer=reducers.MeanReducer())


CASES = {
    "multi_similarity with mining": (
        "multi_similarity",
        {"alpha": 2.0, "beta": 40.0, "base": 0.5, "epsilon": 0.1},
        lambda: (multi_similarity(alpha=2, beta=40, base=0.5), miners.MultiSimilarityMiner(epsilon=0.1)),
        EVERY,
    ),
    "multi_similarity of all pairs": (
        "multi_similarity",
        {"alpha": 5.0, "beta": 7.0, "base": -0.1, "epsilon": None},
        lambda: (multi_similarity(alpha=5, beta=7, base=-0.1), None),
        EVERY,
    ),
    "circle": ("circle", {"margin": 0.4, "scale": 80.0}, lambda: (circle(0.4, 80), None), EVERY),
    "circle, narrow": ("circle", {"margin": 0.1, "scale": 4.0}, lambda: (circle(0.1, 4), None), (ONE_EACH, CAPTIONS)),
    # With several positives the library leaves the others out of a positive's denominator.
    "nt_xent": ("nt_xent", {"temperature": 0.07}, lambda: (losses.NTXentLoss(temperature=0.07), None), (ONE_EACH,)),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("name", "parameters", "make", "structures"), CASES.values(), ids=CASES)
def test_value_and_gradient_are_those_of_the_library(
    name: str, parameters: dict[str, Any], make: Any, structures: tuple[list[int], ...], seed: int
) -> None:
    library, miner = make()
    for image_of_caption in structures:
        of_caption, of_image = torch.tensor(image_of_caption), torch.arange(6)
        images, captions = embeddings(6, seed), embeddings(len(of_caption), seed + 100)
        positives = of_image[:, None] == of_caption
        ours = build_loss(name, **parameters)(normalize(images) @ normalize(captions).T, positives)
        found = torch.autograd.grad(ours, (images, captions))
        sides = ((images, of_image, captions, of_caption), (captions, of_caption, images, of_image))
        theirs = sum(one_way(library, miner, *side) for side in sides) / 2
        expected = torch.autograd.grad(theirs, (images, captions))
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def embeddings(count: int, seed: int) -> Tensor:
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def one_way(library: Any, miner: Any, queries: Tensor, labels: Tensor, candidates: Tensor, others: Tensor) -> Any:
    pairs = None if miner is None else miner(queries, labels, candidates, others)
    return library(queries, labels, pairs, ref_emb=candidates, ref_labels=others)
