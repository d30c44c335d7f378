"""For parts that Ray pickles although nobody will ever read them back."""

from typing import Any


class NotPickled:
    """Pickles to an empty shell: Ray saves a Tuner's parts for a restore of its own, which the journal replaces."""

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing to save."""
        return {}
