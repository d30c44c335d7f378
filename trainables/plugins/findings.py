"""What the checks of a plug-in come to."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """What one check came to.

    Attributes:
        check: Its name.
        status: ``ok``, ``warn`` where that may be meant, or ``fail``.
        message: What is wrong and what usually causes it; of ``ok``, what was looked at.
    """

    check: str
    status: Literal["ok", "warn", "fail"]
    message: str


class BrokenError(Exception):
    """A check that does not hold."""


class PerhapsMeantError(Exception):
    """A check that does not hold, which may be meant."""
