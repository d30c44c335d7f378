"""Products of the parts of words and regions that attend to each other, for the cosines of ``gsmn``.

A vector q of one side attends to the vectors of the other side with weights alpha, which gives c. Both are cut into
BLOCKS equal parts. Nothing of the size of c is computed, because the cosine of each part needs products alone: with
s_b the products of a part of q with that part of the other side, and G_b the products of that part of the other side
with itself,

    q_b . c_b = sum_k alpha_k s_bk
    |c_b|^2 = sum_kk' alpha_k G_b,kk' alpha_k' = sum over k <= k' of (alpha_k alpha_k') (G_b,kk' + [k < k'] G_b,k'k)

The second form is a product of matrices for all queries at once. A block is a group of captions with some images. What
is kept of it for the backward pass has the size of the products s summed over parts; the parts are computed again.

References:
    [Liu2020] Liu et al., Graph Structured Network for Image-Text Matching. arXiv:2004.00277.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from trainables.model_parameters import GSMN_PARTS
from trainables.models.scan import SMALL

BLOCKS = GSMN_PARTS
"""Parts of a vector whose cosines are a matching vector."""

TILE = 12
"""Members of a set whose products with the others are computed at once."""

CACHED = 1 << 18
"""Numbers of an intermediate result that fit a processor's own cache with what they are made of."""


class Side(NamedTuple):
    """The sets of one side of a block of pairs: N sets of M members."""

    parts: Tensor
    """The parts of vectors, each contiguous, (BLOCKS, N, M, E / BLOCKS)."""
    grams: Tensor
    """Products of a set's members, part by part, (N, BLOCKS * M, M)."""
    halves: Tensor
    """Those of the pairs of members in ``_pairs``, as often as they count, (N, BLOCKS, pairs); without a gradient."""
    inside: Tensor
    """Which members there are, bool, (N, M)."""
    lengths: Tensor
    """Lengths of the parts, (BLOCKS, N, M)."""

    @classmethod
    def of(cls, vectors: Tensor, inside: Tensor) -> "Side":
        """Take vectors (N, M, E)."""
        parts = vectors.unflatten(-1, (BLOCKS, -1)).transpose(1, 2)
        grams = parts @ parts.mT
        first, second, factor = _pairs(grams.shape[-1])
        halves = grams.detach()[..., first.to(grams.device), second.to(grams.device)] * factor.to(grams)
        parts = parts.transpose(0, 1).contiguous()
        return cls(parts, grams.flatten(1, 2), halves, inside, parts.norm(dim=-1))

    def members_first(self) -> "Side":
        """Return the same with parts of (BLOCKS, M, N, E / BLOCKS)."""
        return self._replace(parts=self.parts.transpose(1, 2).contiguous())


def block_products(regions: list[Side], words: list[Side], sharpness: float) -> Iterator[tuple[Tensor, ...]]:
    """Return what ``_matched`` does for each pair of a side of images and one of captions."""
    if not torch.is_grad_enabled():
        return (_matched(*pair, sharpness)[0] for pair in product(regions, words))
    found = _Products.apply(sharpness, len(regions), *chain(*regions, *words))
    return zip(*[iter(found)] * 4, strict=True)


def _between(images: Side, captions: Side) -> Tensor:
    """Return the products of words with regions, part by part, (BLOCKS, Y, T, R, X)."""
    products = captions.parts.flatten(1, 2) @ images.parts.flatten(1, 2).mT
    return products.view(*captions.parts.shape[:3], *images.parts.shape[1:3])


_FIELDS = len(Side._fields)


class _Products(torch.autograd.Function):
    """The results of all blocks; the parts of products are computed again in the backward pass, one at a time."""

    @staticmethod
    def forward(ctx: Any, sharpness: float, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return what ``_matched`` does for each block, one after the other.

        Tensors are those of ``count`` sides of images, members first, and of the sides of captions.
        """
        found: list[Tensor] = []
        kept: list[Tensor] = []
        for images, captions in _blocks(count, tensors):
            matched, attention = _matched(images, captions, sharpness)
            found += matched
            kept += attention
        ctx.save_for_backward(*tensors, *kept)
        ctx.sharpness, ctx.count, ctx.inputs = sharpness, count, len(tensors)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the products again, then the gradients of the attention, and of regions, words and their products."""
        tensors, kept = ctx.saved_tensors[: ctx.inputs], ctx.saved_tensors[ctx.inputs :]
        sums = [None if place % _FIELDS > 1 else torch.zeros_like(tensor) for place, tensor in enumerate(tensors)]
        blocks = zip(_blocks(ctx.count, tensors), _blocks(ctx.count, sums), strict=True)
        for number, (sides, of_sides) in enumerate(blocks):
            of_block, attention = gradients[4 * number : 4 * number + 4], kept[3 * number : 3 * number + 3]
            _add_gradients(of_block, *sides, attention, ctx.sharpness, of_sides)
        return None, None, *sums


def _blocks(count: int, tensors: Sequence[Any]) -> Iterator[tuple[Side, Side]]:
    """Return the pairs of a side of images, of which there are ``count``, and one of captions."""
    sides = [Side(*tensors[start : start + _FIELDS]) for start in range(0, len(tensors), _FIELDS)]
    return product(sides[:count], sides[count:])


def _matched(images: Side, captions: Side, sharpness: float) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Compare the sets of a block.

    Returns:
        The products q_b . c_b and |c_b|^2 of words, (BLOCKS, Y, T, X), and of regions, (BLOCKS, Y, R, X); and the
        products of words with regions, with the attention of words and of regions, (Y, T, R, X).
    """
    products = _between(images, captions)
    whole = products.sum(0)
    of_words, of_regions = _scaled(whole, sharpness)
    # A caption's padding would have weights of nothing alone, which is NaN.
    on_regions = of_words.masked_fill_(~images.inside.mT, -torch.inf).softmax(2)
    on_words = of_regions.masked_fill_(~captions.inside[..., None, None], -torch.inf).softmax(1)
    words = whole.new_empty(*products.shape[:3], products.shape[4])
    regions = whole.new_empty(*products.shape[:2], *products.shape[3:])
    weighted = torch.empty_like(whole)
    for part, own in enumerate(products):
        torch.sum(torch.mul(on_regions, own, out=weighted), 2, out=words[part])
        torch.sum(torch.mul(on_words, own, out=weighted), 1, out=regions[part])
    word_squares = _squares(_by_image(on_regions), images.halves).view(-1, BLOCKS, *whole.shape[:2])
    region_squares = _squares(on_words.flatten(2), captions.halves).view(-1, BLOCKS, *whole.shape[2:])
    squares = word_squares.permute(1, 2, 3, 0).contiguous(), region_squares.transpose(0, 1).contiguous()
    return (words, squares[0], regions, squares[1]), (whole, on_regions, on_words)


def _add_gradients(
    gradients: Sequence[Tensor],
    images: Side,
    captions: Side,
    attention: Sequence[Tensor],
    sharpness: float,
    sums: tuple[Side, Side],
) -> None:
    """Add the gradients of parts and grams of a block's sides to ``sums``, from those of what ``_matched`` returns."""
    whole, on_regions, on_words = attention
    # Gradients of a transposed copy are transposed too, and a pass over their columns takes several times as long.
    of_words, of_regions = gradients[0].contiguous()[..., None, :], gradients[2].contiguous()[:, :, None]
    word_squares, region_squares = gradients[1].permute(3, 0, 1, 2).flatten(2), gradients[3].transpose(0, 1).flatten(2)
    by_image = _squares_backward(_by_image(on_regions), images.grams, word_squares, sums[0].grams)
    by_caption = _squares_backward(on_words.flatten(2), captions.grams, region_squares, sums[1].grams)
    by_words = by_image.unflatten(2, whole.shape[:2]).permute(2, 3, 1, 0).contiguous()
    by_regions = by_caption.view_as(whole)
    of_products = torch.empty_like(whole)
    flat = of_products.view(whole.shape[:2].numel(), -1)
    regions, words = images.parts.flatten(1, 2), captions.parts.flatten(1, 2)
    for part in range(BLOCKS):
        torch.mm(words[part], regions[part].mT, out=flat)
        by_words.addcmul_(of_words[part], of_products)
        by_regions.addcmul_(of_regions[part], of_products)
    for by_side, weights, side in ((by_words, on_regions, 2), (by_regions, on_words, 1)):
        by_side.mul_(weights)
        by_side.addcmul_(weights, by_side.sum(side, keepdim=True), value=-1)
    with torch.enable_grad():
        leaf = whole.detach().requires_grad_()
        scaled = _scaled(leaf, sharpness)
    (of_whole,) = torch.autograd.grad(scaled, leaf, [by_words, by_regions])
    of_images, of_captions = sums[0].parts.flatten(1, 2), sums[1].parts.flatten(1, 2)
    for part in range(BLOCKS):
        torch.addcmul(of_whole, on_regions, of_words[part], out=of_products)
        of_products.addcmul_(on_words, of_regions[part])
        of_images[part].addmm_(flat.mT, words[part])
        of_captions[part].addmm_(flat, regions[part])


def _scaled(products: Tensor, sharpness: float) -> tuple[Tensor, Tensor]:
    """Return what the attention of words on regions, and of regions on words, is a softmax of; (Y, T, R, X)."""
    clipped = leaky_relu(products, 0.1)
    squares = clipped.square()
    factors = (sharpness / squares.sum(side, keepdim=True).clamp(min=SMALL**2).sqrt() for side in (1, 2))
    return clipped * next(factors), clipped * next(factors)


def _pairs(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the pairs of members whose products ``_squares`` takes, and how often each counts."""
    first, second = (part.flatten() for part in torch.meshgrid(*[torch.arange(count)] * 2, indexing="ij"))
    keeps = second >= first - first % TILE
    first, second = first[keeps], second[keeps]
    return first, second, torch.where(second - second % TILE > first, 2.0, 1.0)


def _squares(attention: Tensor, halves: Tensor) -> Tensor:
    """Return |c_b|^2, (N, BLOCKS, Q), of attention (N, M, Q) on M members with the ``halves`` of their products."""
    contexts, count, queries = attention.shape
    found = attention.new_empty(contexts, BLOCKS, queries)
    some = _at_a_time(attention, halves.shape[-1] * queries)
    both = attention.new_empty(some, halves.shape[-1], queries)
    for place in range(0, contexts, some):
        own, out = attention[place : place + some], found[place : place + some]
        used, start = both[: len(own)], 0
        for member in range(0, count, TILE):
            tile = own[:, member : member + TILE, None]
            stop = start + tile.shape[1] * (count - member)
            of_tile = used[:, start:stop].unflatten(1, (tile.shape[1], -1))
            torch.mul(tile, own[:, None, member:], out=of_tile)
            start = stop
        torch.bmm(halves[place : place + some], used, out=out)
    return found


def _squares_backward(attention: Tensor, grams: Tensor, gradient: Tensor, of_grams: Tensor) -> Tensor:
    """Return the gradient of attention (N, M, Q), of that of the squares (N, BLOCKS, Q); add that of ``grams``."""
    contexts, count, queries = attention.shape
    found = torch.empty_like(attention)
    some = _at_a_time(attention, BLOCKS * count * queries)
    weighted, gradient = attention.new_empty(some, BLOCKS, count, queries), gradient.contiguous()
    for place in range(0, contexts, some):
        part = slice(place, place + some)
        own, out = attention[part], found[part]
        flat = weighted[: len(own)]
        torch.mul(gradient[part, :, None], own[:, None], out=flat)
        flat = flat.flatten(1, 2)
        torch.baddbmm(out, grams[part].mT, flat, beta=0, alpha=2, out=out)
        of_grams[part].baddbmm_(flat, own.mT)
    return found


def _at_a_time(attention: Tensor, numbers: int) -> int:
    """Return of how many sets the intermediate results, so many numbers a set, fit a processor's own cache."""
    return max(1, CACHED // numbers) if attention.device.type == "cpu" else len(attention)


def _by_image(attention: Tensor) -> Tensor:
    """Return attention (Y, T, R, X) as (X, R, Y T), contiguous, because it is read many times."""
    return attention.permute(3, 2, 0, 1).flatten(2).contiguous()
