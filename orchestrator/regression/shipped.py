"""The suites that ship with the product; light, because ``--help`` lists them."""

from collections.abc import Mapping
from pathlib import Path


def shipped_suites() -> Mapping[str, Path]:
    """Return the files of the suites that ship, by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "suites").glob("*.yaml"))}
