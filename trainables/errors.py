"""The errors that reach a person: each message names the place, the rule and the way out."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec, TypeVar

FEW = 3
"""So many problems of one kind are shown one by one."""

# What a record is called and holds, file paths and numbers; what follows "got" is a record's content, cut anywhere.
_NAMES_AND_NUMBERS = re.compile(r", got .*|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S*/\S*|\([^()]*\.\w+\)|\d[\d,.]*")

WANT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|MemoryError|out of memory|can't allocate memory|ALLOC_FAILED|running low on memory", re.I
)
"""What Python, NumPy, PyTorch and Ray say where there is not enough memory, of the machine or of a GPU."""

P = ParamSpec("P")
Result = TypeVar("Result")


class UserError(Exception):
    """A mistake that the person at the keyboard can mend; its text is all they need to see.

    Attributes:
        exit_code: What the command line exits with when this error ends a command.
        ends_at_once: Whether the process of a command is to end without Python's own end, because threads of a library
            that cannot be stopped would end the process in their own way.
    """

    exit_code = 2
    ends_at_once = False


class ConfigError(UserError, ValueError):
    """A configuration that is refused: unknown key, wrong type, or a value out of its range.

    Attributes:
        problems: One line a mistake, each naming the key; all mistakes that were found, of which the text shows twenty.
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
    """Gathers what several checks refuse, so that a person sees all mistakes at once and not one a try.

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
            ConfigError: With all of them, each once.
        """
        if self.problems:
            raise ConfigError(self.problems)


class PluginError(ConfigError):
    """A plug-in that cannot be used, or whose code failed; the text begins with its file, and line where one is known.

    A trial whose plug-in fails ends with it, and is not tried again: it would fail again.
    """


class DataError(UserError):
    """A dataset that is refused, with every problem that was found.

    Attributes:
        problems: One line a problem, each naming the file and the record.
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

    Up to ``FEW`` of one kind are all shown. The kinds come in the order of their first problems.
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
        epoch: Epoch in which it happened, from 1.
        step: Step of that epoch, from 1; 0 where an evaluation gave the value.
        quantity: What was not finite, e.g. ``train/loss``.
        place: ``FILE:LINE`` of the loss where that is a plug-in's; else empty.
    """

    def __init__(self, quantity: str, value: float, epoch: int, step: int, place: str = "") -> None:
        self.quantity, self.value, self.epoch, self.step, self.place = quantity, value, epoch, step, place
        told = f"; the loss is that of {place}" if place else ""
        super().__init__(f"{quantity} is {value} in epoch {epoch}, step {step}{told}")

    def __reduce__(self) -> tuple[type["DivergedError"], tuple[str, float, int, int, str]]:
        """Survive the pickling between processes, which would call the constructor with the message alone."""
        return type(self), (self.quantity, self.value, self.epoch, self.step, self.place)
