"""Studies by the thousand, in arrays: values of candidates that are drawn, and Holm's correction.

Every study is drawn from normal values in which val and test are the same numbers: the worst case, in which the metric
that is tested is the one that selected.
"""

import numpy as np

Array = np.ndarray


def holm(p: Array) -> Array:
    """Return Holm's p-values over the first axis; an infinite p is no comparison."""
    order = np.argsort(p, axis=0, kind="stable")
    ranked = np.take_along_axis(p, order, axis=0)
    left = np.isfinite(p).sum(0) - np.arange(len(p))[:, None]
    stepped = np.maximum.accumulate(np.minimum(ranked * np.maximum(left, 1), 1.0), axis=0)
    corrected = np.empty_like(p)
    np.put_along_axis(corrected, order, stepped, axis=0)
    return corrected


def draw(
    generator: np.random.Generator,
    studies: int,
    candidates: int,
    seeds: int,
    *,
    lead: float = 0.0,
    spreads: Array | float = 1.0,
) -> Array:
    """Return scores, shape (studies, candidates, seeds); the first candidate leads, in its own standard deviations."""
    scale = np.broadcast_to(np.asarray(spreads, dtype=np.float64), (candidates,))[:, None]
    scores = scale * generator.standard_normal((studies, candidates, seeds))
    scores[:, 0] += lead * scale[0]
    return scores
