"""A loss as a class: its fields are the hyper-parameters, checked when the loss is made."""

from dataclasses import dataclass

from torch import Tensor

from icr_pair_losses.rules import require_not_negative
from trainables.plugins import loss


@loss(space={"margin": (0.02, 1.0, "log")}, vectorised=True)
@dataclass(frozen=True)
class PairHinge:
    """Hinge loss of each pair: matching pairs above the middle of a margin, all others below.

    Attributes:
        margin: In units of similarity, >= 0; a number, or one for each of several trials, shape (...).
    """

    margin: float | Tensor = 0.2

    def __post_init__(self) -> None:
        require_not_negative("margin", self.margin)

    def __call__(self, similarity: Tensor, positives: Tensor, ignore: Tensor) -> Tensor:
        """Return the loss of each trial, shape (...), of similarities (..., I, C)."""
        margin = self.margin[..., None, None] if isinstance(self.margin, Tensor) else self.margin
        too_low = (margin / 2 - similarity).relu() * positives
        too_high = (margin / 2 + similarity).relu() * (~positives & ~ignore)
        return (too_low + too_high).sum((-2, -1)) / positives.sum()
