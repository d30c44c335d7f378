"""The one way to a terminal: what stands in data, journals and errors is shown there, and never obeyed.

A caption, the name of a dataset or the text of an error can hold escape sequences, which move the cursor, change the
title of a window or hide lines, and marks that reverse or hide text. Both ways out of this module make them visible, so
that nobody who prints needs to think of it: ``say`` for lines, ``make_console`` for everything that rich draws.
"""

import sys
from typing import IO, TYPE_CHECKING, Literal

from orchestrator.text.values import visible

if TYPE_CHECKING:
    from rich.console import Console


def make_console(
    *, plain_width: int | None = None, file: IO[str] | None = None, soft_wrap: bool = False, coloured: bool = True
) -> "Console":
    """Return a console that shows texts as they are, without markup or names of emoji in them.

    Args:
        plain_width: Columns where the output is no terminal; ``None`` is what the environment says.
        file: Where to draw; by default the standard output.
        soft_wrap: Whether long lines are left to the terminal.
        coloured: Whether a terminal, or one that the environment claims, gets colours.
    """
    # Only now: commands that draw nothing need not wait for rich.
    from orchestrator.text.console import SafeConsole

    width = None if file is None and sys.stdout.isatty() else plain_width
    colours: Literal["auto"] | None = "auto" if coloured else None
    return SafeConsole(width=width, file=file, soft_wrap=soft_wrap, color_system=colours, markup=False, emoji=False)


def say(*lines: object, error: bool = False) -> None:
    """Print lines at once, on standard output or on standard error."""
    for line in lines:
        print(visible(str(line)), file=sys.stderr if error else sys.stdout, flush=True)
