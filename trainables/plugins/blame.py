"""Reports errors in the code of a plug-in with the plug-in's file and line."""

import re
from types import TracebackType
from typing import Self

from trainables.errors import DivergedError, PluginError, UserError

MEMORY = re.compile(r"out of memory|can't allocate memory|ALLOC_FAILED", re.I)
"""Text of PyTorch's errors about lack of memory, which have no class of their own."""

LABELS: set[str] = set()
"""Names of the files of plug-ins in tracebacks."""


class Blaming:
    """Turns an error raised in a plug-in's code into an error with file and line; all other errors pass unchanged.

    A plug-in can raise any error. An error about memory passes unchanged: the search then runs fewer trials at a time.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, UserError | DivergedError | MemoryError):
            return
        if type(error).__name__ == "OutOfMemoryError" or MEMORY.search(str(error)):
            return
        place = find_place(error, traceback)
        if place is not None:
            raise PluginError(f"{place}: {type(error).__name__}: {_first_line(error)}") from error


def find_place(error: BaseException, traceback: TracebackType | None) -> str | None:
    """Return ``FILE:LINE`` of the innermost frame of a plug-in's code; ``None`` where there is none."""
    if isinstance(error, SyntaxError) and error.filename in LABELS:
        return f"{error.filename}:{error.lineno}"
    place = None
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if name in LABELS:
            place = f"{name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def _first_line(error: Exception) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return (text.splitlines() or ["without a message"])[0][:300]
