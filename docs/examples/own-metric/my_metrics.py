import numpy as np

from trainables.plugins import metric


@metric(low=0, high=1, printed="nDCG@10")
def ndcg10(positions, counts):
    """Normalised discounted cumulative gain among the first ten, 0 to 1."""
    gains = np.where(positions <= 10, 1 / np.log2(positions + 1), 0.0)
    ideal = np.cumsum(1 / np.log2(np.arange(2, 12)))
    return gains.sum(1) / ideal[np.minimum(counts, 10) - 1]
