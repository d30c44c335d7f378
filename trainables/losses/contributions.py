"""The weights of a loss's gradient: how hard each candidate is pushed and each positive is pulled."""

from typing import NamedTuple

from torch import Tensor


class Contributions(NamedTuple):
    """Weights in the gradient of one query's term of a loss, for each of P pairs of a query and one of its positives.

    The term l_q of a query q is the sum of the terms l_qp of its pairs, or their mean for NT-Xent and SmoothAP. The
    weights leave out the factors that all queries share: the reduction over queries, and 1/temperature.

    Attributes:
        candidates: |dl_qp / ds| of each candidate that can contribute, shape (..., P, N): N is the number of
            candidates, or 1 for losses that take one negative per query. Other candidates have weight 0.
        positive: |dl_q / ds| of the pair's positive, shape (..., P).
        criterion: Number that must exceed epsilon for a candidate to be counted, in the shape of ``candidates``;
            ``None`` where the weights in ``candidates`` themselves must exceed epsilon.
    """

    candidates: Tensor
    positive: Tensor
    criterion: Tensor | None = None

    def counted(self, epsilon: float) -> Tensor:
        """Return which candidates are counted, bool in the shape of ``candidates``."""
        return (self.candidates if self.criterion is None else self.criterion) > epsilon
