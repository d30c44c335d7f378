"""Evaluation beside the published kind: an argsort of all candidates for each query.

    python -m tests.benchmarks evaluation [--sizes 1000 5000] [--embedding-size 1024]

Embeddings of so many images with five captions each are given; what is wanted are recalls in both directions, which
must come out the same.
"""

import argparse
from collections.abc import Iterator

import torch
from torch import Tensor

from tests.benchmarks.published import CAPTIONS, published_metrics
from tests.benchmarks.rows import Row
from tests.benchmarks.timing import alternate
from trainables.metrics import embedding_metrics

NEEDED = 20.0
ROUNDS = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 5000], help="images")
    parser.add_argument("--embedding-size", type=int, default=256)


def run(options: argparse.Namespace) -> Iterator[Row]:
    torch.set_num_threads(1)
    for size in options.sizes:
        yield compare(size, options.embedding_size, options.device)


def compare(size: int, dimensions: int, device: str) -> Row:
    """Return the seconds of both kinds, which must come to the same."""
    images, captions, owner = (tensor.to(device) for tensor in embeddings(size, CAPTIONS, dimensions))
    repeated, texts = images[owner].cpu().double().numpy(), captions.cpu().double().numpy()
    found: dict[str, dict[str, float]] = {}

    def ours() -> None:
        found["ours"] = embedding_metrics(images, captions, owner)

    def other() -> None:
        found["other"] = published_metrics(repeated, texts)

    ours()
    # On a GPU, ours takes milliseconds, and the other, which no GPU has a part in, most of a minute.
    seconds = alternate({"ours": ours, "other": other}, ROUNDS if device == "cpu" else 1)
    seconds |= {} if device == "cpu" else alternate({"ours": ours}, ROUNDS)
    for name, value in found["other"].items():
        # A score that rounds differently may change places with its neighbour.
        if abs(found["ours"][name] - value) > 600 / size:
            raise RuntimeError(f"{size} images: {name} is {found['ours'][name]} here and {value} there")
    note = f"the same recalls: rsum {found['ours']['rsum']:.1f}"
    case = f"{size} x {CAPTIONS * size}, {dimensions} dims"
    return Row(case, "s", seconds["ours"], seconds["other"], "argsort a query", NEEDED, note)


def embeddings(images: int, captions_each: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return unit vectors of images, of captions near their image, and the image of each caption."""
    vectors = torch.nn.functional.normalize(torch.randn(images, size), dim=1)
    owner = torch.arange(images).repeat_interleave(captions_each)
    noise = torch.randn(len(owner), size) / size**0.5
    return vectors, torch.nn.functional.normalize(vectors[owner] + 4 * noise, dim=1), owner
