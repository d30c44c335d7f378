"""A training step of SCAN, and an evaluation, beside the loop over captions of the published kind.

    python -m tests.benchmarks cross_attention [--batch-size 128] [--sizes 36:2048:1024 16:256:256] [--images 200]

A size is regions, features of a region, dimensions of the joint space. Features are random; captions are as long as
those of Flickr8k (13 tokens on average, 25 at most). The loop takes a caption at a time, without its padding, repeats
it for each image, and computes the attended vectors, as the published code of [Lee2018] does; a test holds that both
give the same similarities and gradients. Everything else of the step (encoders, loss, clipping, Adam) is ours in
both. Each is run in a process of its own. Seconds are of the process, not of the clock, with one thread; memory is the
growth of the largest resident size from before the first step. An evaluation ranks all captions and images in both
directions, five captions an image.

References:
    [Lee2018] Lee et al., Stacked Cross Attention for Image-Text Matching. arXiv:1803.08024; code
        kuanghuei/SCAN@053693f, model.py:163-298.
"""

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, leaky_relu, normalize

from tests.benchmarks.rows import Row
from tests.benchmarks.timing import apart
from trainables.losses import build_loss
from trainables.metrics import metrics_in_folds
from trainables.models.scan import SCAN
from trainables.representations import Sets

WORDS = 3178
NEEDED = {"time": 1.5, "memory": 3.0}
"""The least ratios of a step."""


class LoopSCAN(SCAN):
    """SCAN that compares a caption at a time with all images."""

    def compare_sets(self, images: Sets, captions: Sets) -> Tensor:
        """See ``SCAN``; with the attention ``t2i`` and the norm ``clipped_l2norm``, which are the defaults."""
        columns = []
        for caption, length in zip(captions.vectors, captions.lengths.tolist(), strict=True):
            repeated = caption[:length].repeat(len(images.vectors), 1, 1)
            products = torch.bmm(images.vectors, repeated.transpose(1, 2))
            normed = normalize(leaky_relu(products, self.negative_slope), dim=2)
            weights = (normed.transpose(1, 2) * self.lambda_softmax).softmax(2)
            attended = torch.bmm(weights, images.vectors)
            scores = cosine_similarity(repeated, attended, dim=2)
            columns.append((scores * self.lambda_lse).logsumexp(1) / self.lambda_lse)
        return torch.stack(columns, 1)


KINDS: dict[str, type[SCAN]] = {"ours": SCAN, "loop": LoopSCAN}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--sizes", nargs="+", default=["36:2048:1024", "16:256:256"])
    parser.add_argument("--steps", type=int, default=3, help="that are timed, >= 1")
    parser.add_argument("--images", type=int, default=200, help="of the evaluation; 0 leaves it out")


def run(options: argparse.Namespace) -> Iterator[Row]:
    for size in options.sizes:
        named = f"{options.batch_size} pairs, {size.replace(':', ' x ', 1).replace(':', ' to ')}"
        ours, loop = (apart(measure_steps, kind, size, options.batch_size, options.steps) for kind in KINDS)
        against = "a loop over captions"
        yield Row(f"step, {named}", "s", ours["seconds"], loop["seconds"], against, NEEDED["time"])
        yield Row(f"memory, {named}", "MB", ours["megabytes"], loop["megabytes"], against, NEEDED["memory"])
    for size in options.sizes if options.images else ():
        ours, loop = (apart(measure_evaluation, kind, size, options.images) for kind in KINDS)
        pairs = 5 * options.images**2
        note = f"{ours['seconds'] / pairs * 5e6 / 60:.2g} processor minutes for 1,000 images x 5,000 captions"
        case = f"evaluation of {options.images} x {5 * options.images}, {size}"
        yield Row(case, "s", ours["seconds"], loop["seconds"], against, note=note)


def make_model(kind: str, size: str) -> SCAN:
    """Return a model of a size, always with the same weights."""
    _, features, embedding = map(int, size.split(":"))
    torch.manual_seed(0)
    return KINDS[kind](features, WORDS, embedding, 300)


def make_captions(count: int) -> tuple[Tensor, Tensor]:
    """Return token ids, zero-padded, and their lengths."""
    generator = torch.Generator().manual_seed(1)
    lengths = (13 + 3.8 * torch.randn(count, generator=generator)).round().long().clamp(5, 25)
    tokens = torch.randint(4, WORDS, (count, int(lengths.max())), generator=generator)
    return tokens * (torch.arange(tokens.shape[1]) < lengths[:, None]), lengths


def measure_steps(kind: str, size: str, batch_size: int, steps: int) -> dict[str, float]:
    """Take steps, one more than are timed, and return processor seconds of one and the growth of memory."""
    torch.set_num_threads(1)
    model, loss = make_model(kind, size), build_loss("triplet_sh")
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    regions, features, _ = map(int, size.split(":"))
    images, captions = torch.randn(batch_size, regions, features), make_captions(batch_size)
    positives = torch.eye(batch_size, dtype=torch.bool)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        similarity = model.compare(model.encode_images(images), model.encode_captions(*captions))
        loss(similarity, positives, None).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()

    return measured(step, steps)


def measure_evaluation(kind: str, size: str, count: int) -> dict[str, float]:
    """Rank images and captions, without encoding them, and return processor seconds and the growth of memory."""
    torch.set_num_threads(1)
    model, regions = make_model(kind, size), int(size.split(":")[0])
    with torch.inference_mode():
        images = torch.randn(count, regions, model.image_projection.in_features)
        sides = (
            model.gather([model.encode_images(images)]),
            model.gather([model.encode_captions(*make_captions(5 * count))]),
        )
        owners = torch.arange(5 * count) // 5
        return measured(lambda: metrics_in_folds(model.scores, *sides, owners), 1)


def measured(work: Callable[[], object], times: int) -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(1 + times):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"seconds": median(seconds[1:]), "megabytes": grown / 1024}
