"""Errors with messages for people: each message names the place, the rule and the way out."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec, TypeVar

FEW = 3
"""Problems of one kind up to which each problem is shown."""

# Names and contents of records, file paths and numbers; a record's content, which may be cut, follows "got".
_NAMES_AND_NUMBERS = re.compile(r", got .*|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S*/\S*|\([^()]*\.\w+\)|\d[\d,.]*")

WANT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|MemoryError|out of memory|can't allocate memory|ALLOC_FAILED|running low on memory", re.I
)
"""Texts of errors of Python, NumPy, PyTorch and Ray about lack of memory, of the machine or of a GPU."""

P = ParamSpec("P")
Result = TypeVar("Result")


class UserError(Exception):
    """A mistake that the user can correct; the text is all that the user needs to see.

    Attributes:
        exit_code: Exit code of a command that this error ends.
        ends_at_once: Whether the process of a command is to end without Python's own end, because threads of a library
            that cannot be stopped would end the process in their own way.
    """

    exit_code = 2
    ends_at_once = False


class ConfigError(UserError, ValueError):
    """A configuration that is refused: unknown key, wrong type, or a value out of its range.

    Attributes:
        problems: A line for each mistake, naming the key; the text shows the first twenty.
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
    """Gathers the mistakes of several checks, so that a user sees all mistakes at once.

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
        """Return what a check returns, or ``None`` after noting why the check refused."""
        try:
            return check(*args, **kwargs)
        except ConfigError as error:
            self.problems += error.problems
        except ValueError as error:
            self.problems.append(str(error))
        return None

    def refuse(self) -> None:
        """Refuse a configuration in which there were mistakes.

        Raises:
            ConfigError: If there are mistakes; the message has each mistake once.
        """
        if self.problems:
            raise ConfigError(self.problems)


class PluginError(ConfigError):
    """A plug-in that cannot be used, or whose code failed; the text begins with its file and, where known, its line.

    A trial whose plug-in fails ends and is not tried again, because it would fail again.
    """


class DataError(UserError):
    """A dataset that is refused, with every problem that was found.

    Attributes:
        problems: A line for each problem, naming the file and the record.
    """

    shown = 10

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        kinds = list(condense(self.problems))
        lines = kinds[: self.shown]
        if len(kinds) > self.shown:
            lines.append(f"... and {len(kinds) - self.shown} more lines of {len(self.problems):,} problems")
        super().__init__("\n".join(lines))


def condense(problems: Sequence[str]) -> Iterator[str]:
    """Yield a line for each problem, but one line with a count for problems that differ in names and numbers alone.

    Up to ``FEW`` problems of one kind are all shown. The kinds come in the order of their first problems.
    """
    kinds: dict[str, list[str]] = {}
    for problem in problems:
        kinds.setdefault(_NAMES_AND_NUMBERS.sub("_", problem), []).append(problem)
    for first, *others in kinds.values():
        if len(others) < FEW:
            yield from (first, *others)
        else:
            yield f"{first} (and {len(others):,} more like it)"


class CheckpointError(UserError):
    """A checkpoint that is missing, damaged, or of another trial."""


class DivergedError(Exception):
    """A loss or metric that stopped being a finite number; the trial ends at that step.

    Attributes:
        epoch: Epoch of the value, from 1.
        step: Step of the epoch, from 1; 0 where an evaluation gave the value.
        quantity: Name of the value, e.g. ``train/loss``.
        place: ``FILE:LINE`` of a plug-in's loss; empty for our losses.
    """

    def __init__(self, quantity: str, value: float, epoch: int, step: int, place: str = "") -> None:
        self.quantity, self.value, self.epoch, self.step, self.place = quantity, value, epoch, step, place
        told = f"; the loss is that of {place}" if place else ""
        super().__init__(f"{quantity} is {value} in epoch {epoch}, step {step}{told}")

    def __reduce__(self) -> tuple[type["DivergedError"], tuple[str, float, int, int, str]]:
        """Pickle the arguments: by default, unpickling would call the constructor with the message alone."""
        return type(self), (self.quantity, self.value, self.epoch, self.step, self.place)
