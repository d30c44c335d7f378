"""A base class for objects that Ray pickles although nothing ever reads the pickles."""

from typing import Any


class NotPickled:
    """Pickles without content: Ray saves the parts of a Tuner to restore them, which the journal replaces."""

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing to save."""
        return {}
