"""What float32 decides is what float64 would: on scores that tie, that nearly tie, and on random ones."""

import pytest
import torch
from torch import Tensor

from trainables.metrics import embedding_metrics

CAPTIONS = 3


def scattered(images: int, size: int, noise: float, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Return vectors of images, and of captions near their image, all of about a length."""
    generator = torch.Generator().manual_seed(0)
    vectors = scale * torch.nn.functional.normalize(torch.randn(images, size, generator=generator), dim=-1)
    owner = torch.arange(images).repeat_interleave(CAPTIONS)
    return vectors, vectors[owner] + scale * noise * torch.randn(len(owner), size, generator=generator), owner


def nearly_tied(step: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return images that differ by less than float32 tells of their products."""
    base, nudge, _ = scattered(20, 64, 0.0)[0][:1], torch.randn(20, 64, generator=torch.Generator().manual_seed(1)), 0
    images = base + step * nudge
    owner = torch.arange(20).repeat_interleave(CAPTIONS)
    return images, images[owner] + step * nudge[owner.flip(0)], owner


CASES = {
    "all apart": scattered(90, 32, 0.01),
    "in the middle": scattered(90, 32, 0.3),
    "at random": scattered(90, 32, 5.0),
    "long vectors": scattered(90, 32, 0.3, scale=1e4),
    "short vectors": scattered(90, 32, 0.3, scale=1e-6),
    "all the same": (torch.ones(9, 4), torch.ones(27, 4), torch.arange(9).repeat_interleave(CAPTIONS)),
    "zeros": (torch.zeros(9, 4), torch.zeros(27, 4), torch.arange(9).repeat_interleave(CAPTIONS)),
    "nearly tied": nearly_tied(1e-6),
    "more nearly tied": nearly_tied(3e-8),
}


@pytest.mark.parametrize("chunk", [7, 64, 1024])
@pytest.mark.parametrize("name", CASES)
def test_float32_embeddings_count_as_the_same_in_float64(name: str, chunk: int) -> None:
    images, captions, owner = CASES[name]
    expected = embedding_metrics(images.double(), captions.double(), owner)
    assert embedding_metrics(images, captions, owner, chunk=chunk) == expected


def test_half_precision_embeddings_too() -> None:
    images, captions, owner = CASES["in the middle"]
    images, captions = images.half(), captions.bfloat16()
    expected = embedding_metrics(images.double(), captions.double(), owner)
    assert embedding_metrics(images, captions, owner, chunk=32) == expected


def test_the_cases_reach_both_ways_of_deciding() -> None:
    """Scores that all lie apart are decided in float32; those of equal vectors are all computed again."""
    assert embedding_metrics(*CASES["all apart"])["rsum"] == 600.0
    assert embedding_metrics(*CASES["all the same"])["rsum"] < 400.0
    assert 0 < embedding_metrics(*CASES["in the middle"])["rsum"] < 600.0
