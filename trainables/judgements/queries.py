"""The queries and the gallery of a direction of retrieval, and the pairs that people judged."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.judged_ranks import Integers

Pairs = NDArray[np.int32]
"""Pairs of a query and a candidate, shape (2, P): places of queries, non-decreasing, and places in the gallery."""


@dataclass(frozen=True, eq=False)
class JudgedQueries:
    """One direction of retrieval.

    Attributes:
        queries: The queries, as indices of images or of captions in the split, shape (Q,).
        owners: The image that each query is or belongs to, as an index in the split, shape (Q,).
        gallery: The candidates, as indices of captions or of images in the split, shape (G,).
        positives: The pairs that fit: annotated, or judged to fit. Every query has at least one.
        annotated: The pairs of an image with a caption of its own. Every query has at least one.
        judged: All pairs that are known to fit or not to fit, the positives included; ``None`` where only pairs that
            fit are known.
        absent: How many pairs of each query fit whose candidate the split does not have, shape (Q,); ``None`` without
            any. They count among the R of R-Precision and mAP@R, and are never found.
    """

    queries: Integers
    owners: Integers
    gallery: Integers
    positives: Pairs
    annotated: Pairs
    judged: Pairs | None
    absent: Integers | None = None
