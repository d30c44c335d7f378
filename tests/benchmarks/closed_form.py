"""Image-caption retrieval without training: regularised canonical correlation analysis of features and bags of words.

With whitened covariances and the singular value decomposition

    (S_xx + a I)^(-1/2) S_xy (S_yy + b I)^(-1/2) = U diag(r) V^T

an image x becomes r * U^T (S_xx + a I)^(-1/2) x and a caption y becomes r * V^T (S_yy + b I)^(-1/2) y, both of unit
length. A model of the whole train split has no seed; a model of a random part of the split has the seed of the draw.

    python -m tests.benchmarks.closed_form --data-root DATA --out cca     # writes what `orchestrator judge` reads
    python -m tests.benchmarks.closed_form --data-root DATA --out cca --captions features_text.npy   # of these instead

References:
    [Vinod1976] Vinod, Canonical ridge and econometrics of joint production, J. of Econometrics 4, 147-166.
    [Hodosh2013] Hodosh, Young and Hockenmaier, Framing Image Description as a Ranking Task, JAIR 47, 853-899:
        kernel CCA on Flickr8k.
"""

import argparse
import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.data.dataset import load_dataset
from trainables.evaluation import rank_split
from trainables.judged_ranks import named_metrics
from trainables.judgements.files import load_judgements
from trainables.positive_ranks import BlockScores

Floats = NDArray[np.float32]

FEWEST = 20
"""Captions in which a word must stand to count."""

TOLD = ("rsum", "rsum_condensed", "_r1", "_top10_judged")
"""Endings of the judged metrics that are printed, where judgements lie beside the dataset."""


@dataclass(frozen=True)
class Pairs:
    """Images (I, D) with five captions each: bags of words weighted by tf-idf, of unit length (5 I, W)."""

    images: Floats
    captions: Floats

    def at(self, images: NDArray[np.int64]) -> "Pairs":
        return Pairs(self.images[images], self.captions[(5 * images[:, None] + np.arange(5)).ravel()])


@dataclass(frozen=True)
class Cca:
    """A fitted model: maps of images (D, K) and of captions (W, K)."""

    of_images: Floats
    of_captions: Floats

    def vectors(self, pairs: Pairs) -> tuple[Floats, Floats]:
        """Return images (I, K) and captions (5 I, K), of unit length."""
        return _unit(pairs.images @ self.of_images), _unit(pairs.captions @ self.of_captions)


def read_pairs(folder: Path, features: str = "features_global.npy", dimensions: int = 256) -> Pairs:
    """Read all 8,000 images of Flickr8k in the order of their features, on so many principal components."""
    content = json.loads((folder / "dataset_flickr8k.json").read_text(encoding="utf-8"))
    bags = [Counter(sentence["tokens"]) for image in content["images"] for sentence in image["sentences"][:5]]
    counts = Counter(word for bag in bags for word in bag)
    words = {word: place for place, word in enumerate(sorted(word for word in counts if counts[word] >= FEWEST))}
    rarity = np.log(len(bags) / np.array([counts[word] for word in words]))
    captions = np.zeros((len(bags), len(words)), dtype=np.float32)
    for row, bag in enumerate(bags):
        for word in bag.keys() & words.keys():
            captions[row, words[word]] = bag[word] * rarity[words[word]]
    images = np.load(folder / features).astype(np.float32)
    images = images.reshape(len(images), -1, images.shape[-1]).mean(1)
    images -= images.mean(0)
    _, components = np.linalg.eigh(images.T @ images)
    return Pairs(images @ components[:, ::-1][:, :dimensions], _unit(captions))


def fit(pairs: Pairs, *, ridge: float, dimensions: int) -> Cca:
    """Fit a model: ``ridge`` is relative to the mean variance of each side, ``dimensions`` is K."""
    images = np.repeat(pairs.images, 5, axis=0)
    left, right = _whitening(images, ridge), _whitening(pairs.captions, ridge)
    cross = left @ (images.T @ pairs.captions) @ right / len(images)
    u, strength, vt = np.linalg.svd(cross, full_matrices=False)
    weights = strength[:dimensions]
    return Cca(left @ u[:, :dimensions] * weights, right @ vt[:dimensions].T * weights)


def _whitening(values: Floats, ridge: float) -> Floats:
    """Return the inverse square root of a covariance with a ridge."""
    covariance = values.T @ values / len(values)
    covariance += ridge * np.trace(covariance) / len(covariance) * np.eye(len(covariance), dtype=np.float32)
    spectrum, vectors = np.linalg.eigh(covariance)
    scaled: Floats = (vectors / np.sqrt(spectrum)) @ vectors.T
    return scaled


def _unit(values: Floats) -> Floats:
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.maximum(lengths, 1e-12)


def main() -> None:
    """Fit Flickr8k's train split and write the vectors of val and test."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.closed_form", description=__doc__)
    parser.add_argument("--data-root", type=Path, required=True, help="folder that holds flickr8k")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--captions", help="features of captions in the dataset's folder, instead of bags of words")
    options = parser.parse_args()
    folder = options.data_root / "flickr8k"
    pairs = read_pairs(folder)
    if options.captions:
        pairs = replace(pairs, captions=np.load(folder / options.captions).astype(np.float32))
    splits = load_dataset("flickr8k", options.data_root, features=None).splits
    judgements = load_judgements("flickr8k", options.data_root, splits)
    model = fit(pairs.at(np.arange(6000)), ridge=0.05, dimensions=256)
    options.out.mkdir(parents=True, exist_ok=True)
    for split, rows in {"val": np.arange(6000, 7000), "test": np.arange(7000, 8000)}.items():
        images, captions = model.vectors(pairs.at(rows))
        np.save(options.out / f"{split}_images.npy", images)
        np.save(options.out / f"{split}_captions.npy", captions)
        scores = BlockScores(torch.from_numpy(images), torch.from_numpy(captions))
        found = rank_split(splits[split], scores, judgements.get(split, ()))
        print(f"{split}: rsum {found.metrics['rsum']:.1f}", end="")
        told = {name: value for name, value in named_metrics(found.judged).items() if name.endswith(TOLD)}
        print("".join(f", {name} {value:.4g}" for name, value in told.items()))


if __name__ == "__main__":
    main()
