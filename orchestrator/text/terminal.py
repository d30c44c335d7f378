"""Text on the terminal: sentences, consoles, paths and commands as they can be typed here.

A caption, the name of a dataset or the text of an error can hold marks that reverse or hide text, and escape sequences.
These move the cursor, change the title of a window or hide lines. ``say`` and ``make_console`` make such characters
visible: ``say`` for lines, ``make_console`` for all that rich draws. Nothing else prints.

Printed paths and commands can be typed in the shell that started this process.

No display ends the work that it shows (``lasting_output``): letters that a terminal lacks are written as escapes, and
lines for which there is no reader any more, or no room, are dropped.
"""

import errno
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from orchestrator.text.values import visible

NAME = "orchestrator"


def typed_program() -> str:
    """Return how ``orchestrator`` is written on a command line: its name where the shell finds it, else its path.

    Example:
        After ``.venv/bin/orchestrator search ...`` in a shell without an active environment it is
        ``.venv/bin/orchestrator``.
    """
    started = Path(sys.argv[0])
    if started.parent.name == NAME and started.name in ("__main__.py", "cli.py"):
        # Started as a module by ``python -m``, whose environment has the program, too.
        started = Path(sys.executable).with_name(NAME)
    executable = shutil.which(NAME)
    if started.name != NAME or not started.is_file() or (executable is not None and started.samefile(executable)):
        return NAME
    return path_text(started)


_COMPLETED = {
    "--data-root": r"data (extract|describe|parse|frames|unpack) \S",
    "--output": r"sync|(status|doctor|resume|confirm|extend|summarise|report|judge|regress) \S",
}
"""Option -> beginnings of proposed commands that need it where this command was given it."""

_places: dict[str, str] = {}


def remember_places(arguments: Sequence[str]) -> None:
    """Keep the places that a command line names, for the commands that are proposed while it runs."""
    _places.clear()
    for number, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        following = arguments[number + 1 : number + 2]
        if option in _COMPLETED and (equals or following):
            _places[option] = value if equals else following[0]


def as_typed(text: str) -> str:
    """Return a text whose commands in back quotes begin with the program as it can be typed, and find what is named."""
    program = typed_program()

    def completed(found: re.Match[str]) -> str:
        command = found[1]
        for option, value in _places.items():
            if option not in command and re.match(_COMPLETED[option], command):
                command += f" {option} {shlex.quote(value)}"
        return f"`{program} {command}`"

    return re.sub(rf"`{NAME} ([a-z][^`]*)`", completed, text)


class LastingStream:
    """A stream whose lines are dropped after the first that cannot be written; all else is that of ``stream``.

    ``problem`` is why lines were dropped; ``None`` if none were.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.problem: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        if self.problem is None:
            try:
                return self._stream.write(text)
            except OSError as error:
                self._give_up(error)
        return len(text)

    def flush(self) -> None:
        """Write what is held back, or drop it."""
        if self.problem is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.problem = error
        # What the stream still holds back would raise the error again at the end of the process.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


@contextmanager
def lasting_output(on_problem: Callable[[OSError], None] = lambda problem: None) -> Iterator[None]:
    """Let no problem of standard output or error end a ``with`` block.

    ``on_problem`` hears afterwards of each stream with a problem but a pipe that its reader closed, as ``head`` does.
    """
    former = sys.stdout, sys.stderr
    # Python has no stream where the process was started without one.
    there = [stream or Path(os.devnull).open("w", encoding="utf-8") for stream in former]  # noqa: SIM115
    lasting = [LastingStream(stream) for stream in there]
    errors = [getattr(stream, "errors", None) for stream in there]
    for stream in there:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = cast(list[TextIO], lasting)
    try:
        yield
    finally:
        for stream in lasting:
            stream.flush()
            if stream.problem is not None and stream.problem.errno != errno.EPIPE:
                on_problem(stream.problem)
        sys.stdout, sys.stderr = former
        for text, before in zip(there, errors, strict=True):
            if isinstance(text, TextIOWrapper):
                text.reconfigure(errors=before)


def make_console(*, plain_width: int | None = None, file: IO[str] | None = None, soft_wrap: bool = False) -> Console:
    """Return a console that shows texts as they are, without markup or names of emoji in them.

    It draws on the standard output, or on ``file``, in ``plain_width`` columns if the output is no terminal; ``None``
    takes the number from the environment. With ``soft_wrap`` the terminal wraps long lines.
    """
    width = None if file is None and sys.stdout.isatty() else plain_width
    return SafeConsole(width=width, file=file, soft_wrap=soft_wrap, markup=False, emoji=False)


def say(*lines: object, error: bool = False) -> None:
    """Print lines at once, on standard error with ``error``; commands in them can be typed as they are."""
    for line in lines:
        print(visible(as_typed(str(line))), file=sys.stderr if error else sys.stdout, flush=True)


class SafeConsole(Console):
    """A console of rich that shows all characters of texts; control characters of rich itself still move the cursor."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of an object and of all objects in it."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def make_table(
    headings: Sequence[str], rows: Iterable[Sequence[str | Text]], title: str = "", *, texts: int | None = None
) -> Table:
    """Return a table; the first column of a table of texts keeps them on one line, all other columns fold them.

    ``texts`` is the number of columns at the left that hold texts, if not all do; further columns hold numbers.
    """
    shown = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        min_width=len(title) or None,
        show_lines=any("\n" in cell.plain for row in shown for cell in row),
    )
    for place, heading in enumerate(headings):
        is_number, is_name = texts is not None and place >= texts, texts is None and place == 0
        table.add_column(Text(heading), justify="right" if is_number else "left", overflow="fold", no_wrap=is_name)
    for row in shown:
        table.add_row(*row)
    return table


def path_text(path: Path) -> str:
    """Return a path relative to the working directory, or the absolute path where that is shorter.

    Example:
        In ``/home/ada``, ``/home/ada/runs`` is ``runs``; in ``/opt/service``, ``/runs`` stays ``/runs``.
    """
    return min(os.path.relpath(path), str(path.absolute()), key=len)
