"""What rich draws, as text."""

from io import StringIO

from rich.console import Console


def drawn(what: object, width: int = 200) -> list[str]:
    """Return the lines on a terminal of so many columns, without the spaces at their ends."""
    console = Console(file=StringIO(), width=width)
    console.print(what)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]
