"""Errors with messages for users: each message names the place of the error, the rule and the remedy.

``Blaming`` reports errors in the code of a plug-in with the plug-in's file and line.
"""

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from traceback import walk_tb
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

FEW = 3
"""Most problems of one kind that are shown one by one."""

# Matches names and contents of records, file paths and numbers. A record's content, which may be cut, follows "got".
_NAMES_AND_NUMBERS = re.compile(r", got .*|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S*/\S*|\([^()]*\.\w+\)|\d[\d,.]*")

WANT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|MemoryError|out of memory|can't allocate memory|ALLOC_FAILED|running low on memory", re.I
)
"""Texts in the errors of Python, NumPy, PyTorch and Ray about a lack of machine or GPU memory."""

# A frame of a traceback, or the marks below its code: Ray leaves out frames of its own, but not their marks.
_OF_A_FRAME = re.compile(r' +(File "|[\^~ ]+$)')

P = ParamSpec("P")
Result = TypeVar("Result")


class UserError(Exception):
    """A mistake that the user can correct; the message is complete, so no traceback is shown.

    Attributes:
        exit_code: Exit code of a command that this error ends.
        ends_at_once: Whether the command's process must end without Python's shutdown, because a library's threads that
            cannot be stopped would disturb the shutdown.
    """

    exit_code = 2
    ends_at_once = False


class ConfigError(UserError, ValueError):
    """A configuration is refused: unknown key, wrong type, or a value out of its range.

    ``problems`` are lines, each naming a key; the text shows the first twenty.
    """

    shown = 20

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(dict.fromkeys(problems))
        text = self.problems[0] if len(self.problems) == 1 else f"{len(self.problems)} mistakes:"
        for problem in self.problems[: self.shown] if len(self.problems) > 1 else ():
            text += f"\n  {problem}"
        if len(self.problems) > self.shown:
            text += f"\n  ... and {len(self.problems) - self.shown} more"
        super().__init__(text)


class Mistakes:
    """Collects the mistakes that several checks find, so that a user sees all mistakes at once.

    Example:
        >>> mistakes = Mistakes()
        >>> mistakes.of(int, "x"), mistakes.of(int, "3")
        (None, 3)
        >>> len(mistakes.problems)
        1
    """

    def __init__(self) -> None:
        self.problems: list[str] = []

    def of(self, check: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result | None:
        """Return the result of a check, or ``None`` after noting the check's error."""
        try:
            return check(*args, **kwargs)
        except ConfigError as error:
            self.problems += error.problems
        except ValueError as error:
            self.problems.append(str(error))
        return None

    def refuse(self) -> None:
        """Refuse a configuration in which there were mistakes (``ConfigError``)."""
        if self.problems:
            raise ConfigError(self.problems)


class PluginError(ConfigError):
    """A plug-in cannot be used, or its code failed; the text begins with its file and, where known, the line.

    A trial whose plug-in fails ends and is not tried again, because the plug-in would fail again.
    """


class DataError(UserError):
    """A dataset is refused; ``problems`` has a line for each that was found, naming the file and the record."""

    shown = 10

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        kinds = list(condense(self.problems))
        lines = kinds[: self.shown]
        if len(kinds) > self.shown:
            lines.append(f"... and {len(kinds) - self.shown} more lines of {len(self.problems):,} problems")
        super().__init__("\n".join(lines))


def condense(problems: Sequence[str]) -> Iterator[str]:
    """Yield a line for each problem, but one line with a count for problems that differ only in names and numbers.

    Up to ``FEW`` problems of one kind are shown one by one. The kinds come in the order of their first problems.
    """
    kinds: dict[str, list[str]] = {}
    for problem in problems:
        kinds.setdefault(_NAMES_AND_NUMBERS.sub("_", problem), []).append(problem)
    for first, *others in kinds.values():
        if len(others) < FEW:
            yield from (first, *others)
        else:
            yield f"{first} (and {len(others):,} more like it)"


class NoLocksError(UserError):
    """A file system cannot lock files, so that two processes could write one folder at once."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path}: this file system cannot lock files ({reason}); choose another (--output, "
            f"--storage, XDG_CACHE_HOME, TMPDIR), or mount it with locks (Lustre: -o flock; NFS: lockd)"
        )


class CheckpointError(UserError):
    """A checkpoint is missing, damaged, or belongs to another trial."""


class DivergedError(Exception):
    """A loss or metric, e.g. ``train/loss``, is not finite, so the trial ends at this step of this epoch, from 1.

    The step is 0 where an evaluation gave the value. ``place`` is the ``FILE:LINE`` of a plug-in's loss.
    """

    def __init__(self, quantity: str, value: float, epoch: int, step: int, place: str = "") -> None:
        self.quantity, self.value, self.epoch, self.step, self.place = quantity, value, epoch, step, place
        note = f"; the loss is that of {place}" if place else ""
        super().__init__(f"{quantity} is {value} in epoch {epoch}, step {step}{note}")

    def __reduce__(self) -> tuple[type["DivergedError"], tuple[str, float, int, int, str]]:
        """Pickle the constructor's arguments; by default, unpickling would call the constructor with the message."""
        return type(self), (self.quantity, self.value, self.epoch, self.step, self.place)


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
        # PyTorch's errors about memory have no class of their own.
        if WANT_OF_MEMORY.search(f"{type(error).__name__}: {error}"):
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
    walked = [(frame.f_code.co_filename, line) for frame, line in walk_tb(traceback)]
    return next((f"{LABELS[path]}:{line}" for path, line in reversed(walked) if path in LABELS), None)


def reason_of(error: BaseException) -> str:
    """Return the first line of an error's message, at most 300 characters; where there is none, the error's class.

    Example:
        >>> reason_of(ValueError("cut short")), reason_of(OSError())
        ('cut short', 'OSError')
    """
    return next(iter(str(error).splitlines()), "")[:300] or type(error).__name__


def last_error(text: str) -> str:
    """Return the line that names the last error of a traceback; the last line of a text without a traceback.

    The message of an error may have more lines: four lines after ``CUDA error: out of memory`` tell how to debug CUDA.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    frames = [number for number, line in enumerate(lines) if _OF_A_FRAME.match(line)]
    after = lines[frames[-1] + 1 :] if frames else []
    return next((line for line in after if not line.startswith(" ")), lines[-1].strip() if lines else "")


def _is_of_sigterm(traceback: TracebackType | None) -> bool:
    """Say whether the handler of SIGTERM raised an error: Ray's workers end by a ``SystemExit`` of their handler."""
    code = getattr(signal.getsignal(signal.SIGTERM), "__code__", None)
    return any(frame.f_code is code for frame, _ in walk_tb(traceback))


def _first_line(error: Exception) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return (text.splitlines() or ["without a message"])[0][:300]
