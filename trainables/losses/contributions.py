"""What a loss says about its own gradient: how hard each candidate is pushed and each positive is pulled."""

from typing import NamedTuple

from torch import Tensor


class Contributions(NamedTuple):
    """Weights in the gradient of one query's term of a loss, for each of P pairs of a query and one of its positives.

    They leave out what is the same for all queries: the reduction over queries, and 1/temperature.

    Attributes:
        candidates: |dL_q / ds| of each candidate that can contribute, shape (..., P, N): N is the number of candidates,
            or 1 for losses that take one negative of each query. 0 for those that do not contribute.
        positive: |dL_q / ds| of the pair's positive, shape (..., P).
    """

    candidates: Tensor
    positive: Tensor
