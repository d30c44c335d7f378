"""Reports errors in the code of a plug-in with the plug-in's file and line."""

import re
import signal
from types import TracebackType
from typing import Self

from trainables.errors import DivergedError, PluginError, UserError

MEMORY = re.compile(r"out of memory|can't allocate memory|ALLOC_FAILED", re.I)
"""Text of PyTorch's errors about lack of memory, which have no class of their own."""

LABELS: dict[str, str] = {}
"""Path from which this process imports a file of a plug-in -> its name in messages, such as ``my_losses.py``."""


class Blaming:
    """Turns an error raised in a plug-in's code into an error with file and line; all other errors pass unchanged.

    A plug-in can raise any error. An error about memory passes unchanged: the search then runs fewer trials at a time.
    ``SystemExit`` is an error as well, because a search that a plug-in ends would look like a search that has finished.
    ``KeyboardInterrupt`` and the ``SystemExit`` of a handler of SIGTERM pass unchanged.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception | SystemExit) or isinstance(error, UserError | DivergedError | MemoryError):
            return
        if type(error).__name__ == "OutOfMemoryError" or MEMORY.search(str(error)):
            return
        place = find_place(error, traceback)
        if place is None:
            return
        if not isinstance(error, SystemExit):
            raise PluginError(f"{place}: {type(error).__name__}: {_first_line(error)}") from error
        if not _is_of_sigterm(traceback):
            code = 0 if error.code is None else error.code
            raise PluginError(
                f"{place}: SystemExit: the plug-in ends the program ({code!r:.60}); raise an error instead"
            ) from error


def find_place(error: BaseException, traceback: TracebackType | None) -> str | None:
    """Return ``FILE:LINE`` of the innermost frame of a plug-in's code; ``None`` where there is none."""
    if isinstance(error, SyntaxError) and error.filename in LABELS:
        return f"{LABELS[error.filename]}:{error.lineno}"
    place = None
    while traceback is not None:
        path = traceback.tb_frame.f_code.co_filename
        if path in LABELS:
            place = f"{LABELS[path]}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def _is_of_sigterm(traceback: TracebackType | None) -> bool:
    """Say whether the handler of SIGTERM raised an error: Ray's workers end by a ``SystemExit`` of their handler."""
    code = getattr(signal.getsignal(signal.SIGTERM), "__code__", None)
    while traceback is not None:
        if code is not None and traceback.tb_frame.f_code is code:
            return True
        traceback = traceback.tb_next
    return False


def _first_line(error: Exception) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return (text.splitlines() or ["without a message"])[0][:300]
