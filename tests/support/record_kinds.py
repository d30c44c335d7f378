"""The kinds of records that the product writes into a journal."""

import re
from pathlib import Path

import orchestrator
from orchestrator.journal.records import KINDS


def written_kinds() -> set[str]:
    """Return the kinds of all records for which there is code that writes them."""
    package = Path(orchestrator.__file__).parent
    code = "\n".join(file.read_text(encoding="utf-8") for file in package.rglob("*.py"))
    return {kind for kind, record in KINDS.items() if re.search(rf"(?<!class )\b{record.__name__}(\.of)?\(", code)}
