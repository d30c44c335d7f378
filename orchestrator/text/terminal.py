"""Prints to the terminal, which shows the texts of data, journals and errors, and never obeys them.

A caption, the name of a dataset or the text of an error can hold escape sequences, which move the cursor, change the
title of a window or hide lines, and marks that reverse or hide text. Both functions of this module make such characters
visible: ``say`` for lines, ``make_console`` for all that rich draws. Nothing else prints.
"""

import sys
from typing import IO, TYPE_CHECKING, Literal

from orchestrator.text.program import as_typed
from orchestrator.text.values import visible

if TYPE_CHECKING:
    from rich.console import Console


def make_console(
    *, plain_width: int | None = None, file: IO[str] | None = None, soft_wrap: bool = False, coloured: bool = True
) -> "Console":
    """Return a console that shows texts as they are, without markup or names of emoji in them.

    Args:
        plain_width: Columns if the output is no terminal; ``None`` takes the number from the environment.
        file: Where to draw; by default the standard output.
        soft_wrap: Whether the terminal wraps long lines.
        coloured: Whether a terminal, real or claimed by the environment, gets colours.
    """
    # Imported here, so that commands that draw nothing do not wait for rich.
    from orchestrator.text.console import SafeConsole

    width = None if file is None and sys.stdout.isatty() else plain_width
    colours: Literal["auto"] | None = "auto" if coloured else None
    return SafeConsole(width=width, file=file, soft_wrap=soft_wrap, color_system=colours, markup=False, emoji=False)


def say(*lines: object, error: bool = False, verbatim: bool = False) -> None:
    """Print lines at once; commands in them can be typed as they are.

    Args:
        lines: What is printed, one a line.
        error: Print on standard error instead of standard output.
        verbatim: Leave commands as the lines have them, for a document.
    """
    for line in lines:
        text = str(line) if verbatim else as_typed(str(line))
        print(visible(text), file=sys.stderr if error else sys.stdout, flush=True)
