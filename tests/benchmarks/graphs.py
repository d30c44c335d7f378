"""A training step of GSMN, with both graphs, beside one of SCAN.

    python -m tests.benchmarks graphs [--batch-size 64] [--sizes 36:2048:1024] [--steps 3]

Sizes, features and captions are those of ``cross_attention``, and so is what is measured: seconds of the process with
one thread, and growth of the largest resident size. Boxes are random, and each word's head is the word before it.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from tests.benchmarks.cross_attention import WORDS, make_captions, measured
from tests.benchmarks.rows import Row
from tests.benchmarks.timing import apart
from trainables.losses import build_loss
from trainables.models.gsmn import GSMN
from trainables.models.scan import SCAN, RegionWordModel
from trainables.representations import Captions

KINDS: dict[str, Callable[..., RegionWordModel]] = {
    "scan": SCAN,
    "gsmn published": lambda *sizes: GSMN(*sizes, graph="published"),
    "gsmn paper": lambda *sizes: GSMN(*sizes, graph="paper"),
    "gsmn paper sparse": lambda *sizes: GSMN(*sizes, graph="paper", edges="sparse"),
}

NEEDED = {"time": 1 / 1.6, "memory": 1 / 1.5}
"""The least ratios of SCAN to GSMN."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--sizes", nargs="+", default=["36:2048:1024"])
    parser.add_argument("--steps", type=int, default=3, help="that are timed, >= 1")


def run(options: argparse.Namespace) -> Iterator[Row]:
    for size in options.sizes:
        costs = {kind: apart(measure_steps, kind, size, options.batch_size, options.steps) for kind in KINDS}
        for kind in list(KINDS)[1:]:
            named = f"{kind}, {options.batch_size} pairs, {size}"
            ours, scan = costs[kind], costs["scan"]
            yield Row(f"step of {named}", "s", ours["seconds"], scan["seconds"], "scan", NEEDED["time"])
            yield Row(f"memory of {named}", "MB", ours["megabytes"], scan["megabytes"], "scan", NEEDED["memory"])


def measure_steps(kind: str, size: str, batch_size: int, steps: int) -> dict[str, float]:
    """Take steps, one more than are timed, and return processor seconds of one and the growth of memory."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    regions, features, embedding = map(int, size.split(":"))
    model, loss = KINDS[kind](features, WORDS, embedding, 300), build_loss("triplet_sh")
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    stored, (tokens, lengths) = torch.randn(batch_size, regions, features), make_captions(batch_size)
    corners = torch.rand(batch_size, regions, 2, 2).sort(dim=2).values.flatten(2)
    images: Tensor | dict[str, Any] = stored if kind == "scan" else {"features": stored, "boxes": corners}
    heads = (torch.arange(tokens.shape[1]) - 1).clamp(min=0).expand_as(tokens)
    captions = tokens if kind == "scan" else Captions(tokens, {"heads": heads})
    positives = torch.eye(batch_size, dtype=torch.bool)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        similarity = model.compare(model.encode_images(images), model.encode_captions(captions, lengths))
        loss(similarity, positives, None).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()

    return measured(step, steps)
