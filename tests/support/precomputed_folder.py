"""A small dataset on disk in the folder format of VSE++, for tests of commands."""

from pathlib import Path

import numpy as np

COLOURS = ("red", "green", "blue", "black", "white", "brown")
THINGS = ("dog", "cat", "boat", "horse", "child", "ball")


def write_precomputed(folder: Path, *, images: int = 36, seed: int = 0) -> Path:
    """Write train, dev and test splits whose captions name the colour and the thing that the features encode."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for split, size in (("train", images), ("dev", images // 2), ("test", images // 2)):
        colours, things = rng.integers(0, 6, size), rng.integers(0, 6, size)
        features = np.zeros((size, 12), dtype=np.float32)
        features[np.arange(size), colours] = 1
        features[np.arange(size), 6 + things] = 1
        np.save(folder / f"{split}_ims.npy", features + rng.normal(0, 0.05, features.shape).astype(np.float32))
        captions = [
            f"{words} {COLOURS[colour]} {THINGS[thing]} {place}\n"
            for colour, thing in zip(colours, things, strict=True)
            for words, place in (("a", "runs"), ("one", "runs"), ("the", "here"), ("a", "here"), ("the", "runs here"))
        ]
        (folder / f"{split}_caps.txt").write_text("".join(captions))
    return folder
