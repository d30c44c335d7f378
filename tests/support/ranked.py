"""Ranks and their metrics, for tests that write what an evaluation would have written."""

import numpy as np

from trainables.ranks import Ranks


def metrics_of(ranks: Ranks) -> dict[str, float]:
    """Return the metrics that an evaluation with these ranks reports."""
    import torch

    from trainables.metrics import metrics_of_ranks

    arrays = (torch.from_numpy(one).long() for one in (ranks.i2t, ranks.t2i, ranks.image_of_caption))
    return metrics_of_ranks(*arrays)


def draw_ranks(seed: int, typical: float, owners: np.ndarray, queries: str = "ab" * 32) -> Ranks:
    """Return random ranks on test of the captions of these images, shape (captions,)."""
    i2t, t2i = np.random.default_rng(seed).geometric(1 / typical, (2, len(owners))).astype(np.int32)
    return Ranks(i2t, t2i, owners, queries, "test")
