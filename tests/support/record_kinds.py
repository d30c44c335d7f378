"""The kinds of records that the product writes into a journal."""

import re
from pathlib import Path

import orchestrator


def written_kinds() -> set[str]:
    """Return the kinds of all records for which there is code that writes them."""
    package = Path(orchestrator.__file__).parent
    texts = (file.read_text(encoding="utf-8") for file in package.rglob("*.py"))
    return {kind for text in texts for kind in re.findall(r'\.append\(\s*"(\w+)",', text)}
