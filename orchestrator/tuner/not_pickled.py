"""A base class for objects that Ray pickles although nothing ever reads the pickles."""

from typing import Any


class NotPickled:
    """Pickles to an empty shell: Ray saves a Tuner's parts for a restore of its own, which the journal replaces."""

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing to save."""
        return {}
