"""Contracts of plug-ins: losses, models and forms of data of other people are checked by running them.

Here are the findings, and the checks of a form of data, which need no dataset.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainables.errors import Blaming, ConfigError, PluginError
from trainables.plugins.in_use import run_offer


@dataclass(frozen=True)
class ContractFinding:
    """Result of one check.

    A status ``warn`` is for a violation that may be intended. The message says what is wrong and what usually causes
    it; with ``ok``, the statement that holds.
    """

    check: str
    status: Literal["ok", "warn", "fail"]
    message: str


class BrokenError(Exception):
    """A violation of the contract."""


class PerhapsMeantError(Exception):
    """A violation of the contract that may be intended."""


def run_checks(
    checks: Mapping[str, tuple[Callable[..., object], str]], *arguments: object, needed: str = ""
) -> Iterator[ContractFinding]:
    """Yield a finding for each check, which has the statement that it proves beside it; end where ``needed`` fails."""
    for heading, (check, promise) in checks.items():
        try:
            with Blaming():
                check(*arguments)
        except PerhapsMeantError as error:
            yield ContractFinding(heading, "warn", str(error))
        except (BrokenError, PluginError, ConfigError) as error:
            yield ContractFinding(heading, "fail", str(error))
            if heading == needed:
                return
        else:
            yield ContractFinding(heading, "ok", promise)


def check_format(name: str) -> Iterator[ContractFinding]:
    """Return a finding for each check of a form of data; ``orchestrator data describe`` checks the data themselves."""
    offer, place = run_offer("formats", name)
    return run_checks(CHECKS, offer.definition, place, needed="parts")


def _check_parts(definition: Any, place: str) -> None:
    if missing := [part for part in ("FORMAT", "find", "read") if not hasattr(definition, part)]:
        raise BrokenError(f"{place}: has no {', '.join(missing)}; see trainables/data/formats/flickr.py")


def _check_other_folders(definition: Any, place: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Blaming():
                files = definition.find(Path(folder))
        except PluginError as error:
            raise BrokenError(f"find fails for a folder that holds nothing: {error}") from None
    if not isinstance(files, list) or files:
        raise BrokenError(f"find must return [] for a folder of another form, got {files!r:.60}")


CHECKS: Mapping[str, tuple[Callable[[Any, str], None], str]] = {
    "parts": (_check_parts, "has FORMAT, find and read"),
    "other folders": (_check_other_folders, "finds nothing in a folder that holds nothing"),
}
"""Name of a check of a form of data -> the check, and the statement that it proves."""
