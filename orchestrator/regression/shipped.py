"""The suites that ship with the product. The module imports little, because ``--help`` lists the suites."""

from collections.abc import Mapping
from pathlib import Path


def shipped_suites() -> Mapping[str, Path]:
    """Return the files of the suites that ship, by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "suites").glob("*.yaml"))}
