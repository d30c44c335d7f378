"""What a training does that its settings do not say, in sentences."""

from collections.abc import Iterator

from search_spaces import TAKES_COSINES
from trainables.model_parameters import UNBOUNDED


def similarity_notes(model: str, loss: str) -> Iterator[str]:
    """Yield a sentence if a loss takes similarities to be cosines, and those of the model are none."""
    if model in UNBOUNDED and loss in TAKES_COSINES:
        yield f"{model}: its similarities have no bounds, and {loss} {TAKES_COSINES[loss]}"
