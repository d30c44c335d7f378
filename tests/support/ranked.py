"""Metrics of given ranks, for tests that write what an evaluation would have written."""

from trainables.ranks import Ranks


def metrics_of(ranks: Ranks) -> dict[str, float]:
    """Return the metrics that an evaluation with these ranks reports."""
    import torch

    from trainables.metrics import metrics_of_ranks

    arrays = (torch.from_numpy(one).long() for one in (ranks.i2t, ranks.t2i, ranks.image_of_caption))
    return metrics_of_ranks(*arrays)
