"""SCAN's similarity beside loops over images, captions, regions and words, written from the equations of the paper."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from trainables.models import scan
from trainables.models.scan import AGGREGATIONS, NORMS, SCAN
from trainables.representations import Sets

LENGTHS = torch.tensor([3, 1, 5, 2, 5])


def sets(count: int, longest: int, lengths: Tensor, seed: int, size: int = 6) -> Sets:
    generator = torch.Generator().manual_seed(seed)
    vectors = normalize(torch.randn(count, longest, size, dtype=torch.float64, generator=generator), dim=-1)
    inside = torch.arange(longest) < lengths[:, None]
    return Sets(vectors * inside[..., None], lengths)


def regions(images: int = 4, count: int = 3, seed: int = 0) -> Sets:
    return sets(images, count, torch.full((images,), count), seed)


def words(lengths: Tensor = LENGTHS, seed: int = 1) -> Sets:
    return sets(len(lengths), int(lengths.max()), lengths, seed)


def attention(direction: str = "t2i", norm: str = "clipped_l2norm", aggregation: str = "lse", **rest: float) -> SCAN:
    words = {"cross_attention": direction, "raw_feature_norm": norm, "aggregation": aggregation}
    return SCAN(1, 1, 1, 1, **{**words, "lambda_softmax": 4.0, "lambda_lse": 6.0, **rest})


def dot(first: list[float], second: list[float]) -> float:
    return sum(x * y for x, y in zip(first, second, strict=True))


def normalised(row: list[float], norm: str, slope: float) -> list[float]:
    """One row of s over the members of the query -> one row of u."""
    if norm.startswith("clipped"):
        row = [value if value > 0 else slope * value for value in row]
    if norm.endswith("l2norm"):
        return [value / math.sqrt(sum(other**2 for other in row)) for value in row]
    if norm.endswith("l1norm"):
        return [value / sum(abs(other) for other in row) for value in row]
    if norm == "softmax":
        return [math.exp(value) / sum(math.exp(other) for other in row) for value in row]
    return row


def by_loops(context: list[list[float]], query: list[list[float]], how: SCAN) -> float:
    """The similarity of one pair: s and alpha, the attended vectors, their cosines, and what joins these."""
    s = [[dot(x, y) for y in query] for x in context]
    u = [normalised(row, how.raw_feature_norm, how.negative_slope) for row in s]
    scores = []
    for b, y in enumerate(query):
        exponentials = [math.exp(how.lambda_softmax * u[a][b]) for a in range(len(context))]
        alpha = [value / sum(exponentials) for value in exponentials]
        attended = [sum(alpha[a] * context[a][e] for a in range(len(context))) for e in range(len(y))]
        scores.append(dot(y, attended) / math.sqrt(dot(y, y) * dot(attended, attended)))
    if how.aggregation == "lse":
        return math.log(sum(math.exp(how.lambda_lse * score) for score in scores)) / how.lambda_lse
    return {"mean": sum(scores) / len(scores), "sum": sum(scores), "max": max(scores)}[how.aggregation]


def expected(images: Sets, captions: Sets, how: SCAN) -> Tensor:
    rows = []
    for image in images.vectors.tolist():
        row = []
        for caption, length in zip(captions.vectors.tolist(), captions.lengths.tolist(), strict=True):
            pair = (image, caption[:length]) if how.cross_attention == "t2i" else (caption[:length], image)
            row.append(by_loops(*pair, how))
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


NAMES = list(product(("t2i", "i2t"), NORMS, AGGREGATIONS))


@pytest.mark.parametrize("names", NAMES, ids="-".join)
def test_similarities_are_those_of_the_loops(names: tuple[str, str, str]) -> None:
    how = attention(*names)
    similarity = how.compare_sets(regions(), words())
    torch.testing.assert_close(similarity, expected(regions(), words(), how), atol=1e-9, rtol=0)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=7), st.integers(1, 5), st.integers(1, 4), st.integers(0, 99))
def test_a_pair_has_one_similarity_beside_any_other(lengths: list[int], images: int, count: int, seed: int) -> None:
    regional, captions = regions(images, count, seed), words(torch.tensor(lengths), seed)
    how = attention("i2t" if seed % 2 else "t2i", "clipped_l1norm" if seed % 3 else "softmax")
    together = how.compare_sets(regional, captions)
    for image, caption in product(range(images), range(len(lengths))):
        own = Sets(captions.vectors[caption : caption + 1, : lengths[caption]], captions.lengths[caption : caption + 1])
        alone = how.compare_sets(Sets(regional.vectors[image : image + 1], regional.lengths[image : image + 1]), own)
        assert float(alone) == pytest.approx(float(together[image, caption]), abs=1e-9)


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
@pytest.mark.parametrize("kept", [0, 100, 10**9], ids=["all computed again", "some", "all kept"])
def test_blocks_change_no_values_and_no_gradients(direction: str, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    how, images, captions = attention(direction), regions(), words()
    weights = torch.linspace(-1, 1, 20, dtype=torch.float64).view(4, 5)

    def computed() -> list[Tensor]:
        leaves = [each.vectors.clone().requires_grad_() for each in (images, captions)]
        similarity = how.compare_sets(Sets(leaves[0], images.lengths), Sets(leaves[1], captions.lengths))
        (similarity * weights).sum().backward()
        return [similarity.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]

    whole = computed()
    for name, value in {"GROUP": 2, "BLOCK": 20, "KEPT": kept}.items():
        monkeypatch.setattr(scan, name, value)
    torch.testing.assert_close(computed(), whole, atol=1e-12, rtol=0)
    inside = torch.arange(5) < LENGTHS[:, None]
    assert not whole[2][~inside].any(), "padding gets no gradient"


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
@pytest.mark.parametrize("norm", NORMS)
def test_gradients_agree_with_finite_differences(direction: str, norm: str) -> None:
    lengths = torch.tensor([2, 3])
    how, images, captions = attention(direction, norm), regions(2, 2), words(lengths)
    inside = (torch.arange(3) < lengths[:, None])[..., None]

    def compared(image_vectors: Tensor, caption_vectors: Tensor) -> Tensor:
        given = normalize(image_vectors, dim=-1), normalize(caption_vectors, dim=-1) * inside
        return how.compare_sets(Sets(given[0], images.lengths), Sets(given[1], lengths))

    leaves = images.vectors.requires_grad_(), (captions.vectors + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(compared, leaves)


@pytest.mark.parametrize("slope", [0.0, 0.1])
@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_regions_that_are_all_the_same_or_opposite_have_finite_gradients(direction: str, slope: float) -> None:
    for sign in (1.0, -1.0):
        images = torch.ones(2, 3, 4) / 2
        images[0, 0] *= -1
        captions = (sign * torch.ones(2, 2, 4) / 2).requires_grad_()
        how = attention(direction, negative_slope=slope)
        similarity = how.compare_sets(Sets(images, torch.full((2,), 3)), Sets(captions, torch.tensor([2, 1])))
        similarity.sum().backward()
        assert similarity.isfinite().all() and captions.grad is not None and captions.grad.isfinite().all()


def test_regions_and_words_are_unit_vectors_of_the_published_layers() -> None:
    torch.manual_seed(0)
    model = SCAN(5, 9, 4, 3).double()
    features, tokens = torch.randn(2, 3, 5, dtype=torch.float64), torch.tensor([[4, 5, 6], [7, 8, 0]])
    images, captions = model.encode_images(features), model.encode_captions(tokens, torch.tensor([3, 2]))
    mapped = features @ model.image_projection.weight.T + model.image_projection.bias
    torch.testing.assert_close(images.vectors, mapped / mapped.norm(dim=-1, keepdim=True))
    for caption, length in enumerate((3, 2)):
        states = model.gru(model.words(tokens[caption : caption + 1, :length]))[0][0]
        mean = (states[:, :4] + states[:, 4:]) / 2
        torch.testing.assert_close(captions.vectors[caption, :length], mean / mean.norm(dim=-1, keepdim=True))
    assert not captions.vectors[1, 2].any() and captions.lengths.tolist() == [3, 2]
    assert images.lengths.tolist() == [3, 3]
