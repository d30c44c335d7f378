"""Where a benchmark that searches reads its dataset, and where it writes."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.flickr8k import SHARED
from trainables.data.scenes.generate import generate_scenes


@contextmanager
def roots_of(options: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """Give a ``with`` block the data root and the output folder; what no option names is removed after the block.

    Without ``--data-root`` the dataset ``scenes`` is generated with ``--images`` images.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = options.data_root
        if root is None and options.dataset == "scenes":
            root = folder / "data"
            generate_scenes(root / "scenes", images=options.images, seed=0)
        yield root or SHARED, options.output or folder / "runs"
