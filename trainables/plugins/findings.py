"""Findings of the checks of a plug-in."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    Attributes:
        check: Name of the check.
        status: ``ok``, ``warn`` where a violation may be intended, or ``fail``.
        message: What is wrong and what usually causes it; with ``ok``, the statement that holds.
    """

    check: str
    status: Literal["ok", "warn", "fail"]
    message: str


class BrokenError(Exception):
    """A violation of the contract."""


class PerhapsMeantError(Exception):
    """A violation of the contract that may be intended."""
