"""How a model reads pictures and captions, where it reads other things than stored features and a dataset's words."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import PIL.Image

View = Callable[["PIL.Image.Image", np.random.Generator | None], np.ndarray]
"""What a model reads of a picture: always the same, or with a generator a random part; threads may call it."""

Number = Callable[[Sequence[str]], Sequence[np.ndarray]]
"""Token ids of each caption, whole numbers (T,), T >= 1, without padding."""


class Reading(NamedTuple):
    """How a model reads a split.

    Attributes:
        view: View of a picture; ``None`` where the model reads features.
        number: Token ids of captions; ``None`` where the model reads words of the dataset's vocabulary, or features.
    """

    view: View | None = None
    number: Number | None = None

    def flat_tokens(self, captions: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of captions one after the other, (T,), int32, and where each begins and ends, (C + 1,), int64.

        Only for a model that has ids of its own.
        """
        assert self.number is not None
        ids = self.number(captions)
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in ids], dtype=np.int64)])
        return np.concatenate(ids).astype(np.int32), offsets
