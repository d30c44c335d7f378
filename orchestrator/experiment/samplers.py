"""The samplers that an experiment can name, and the spaces that each can search; ``studies.samplers`` makes them."""

from collections.abc import Callable
from dataclasses import dataclass

from trainables.plugins.in_use import NameTable


@dataclass(frozen=True)
class SamplerKind:
    """The spaces that a sampler can search.

    Attributes:
        meaning: Meaning in a line.
        conditional: Whether some parameters may exist only at some values of other parameters.
        several_objectives: Whether a study may have several objectives.
        needs_range: Whether a study must have a parameter with a range.
    """

    meaning: str
    conditional: bool = True
    several_objectives: bool = True
    needs_range: bool = False


SAMPLERS: NameTable[SamplerKind] = NameTable(
    "samplers",
    {
        "tpe": SamplerKind("Parzen estimators of the good and of the other points"),
        "cmaes": SamplerKind(
            "a normal distribution that adapts to ranges",
            conditional=False,
            several_objectives=False,
            needs_range=True,
        ),
        "gp": SamplerKind("a Gaussian process, for few and costly trials", conditional=False),
        "random": SamplerKind("independent draws"),
        "qmc": SamplerKind("a Sobol sequence, which leaves no gaps", conditional=False),
        "grid": SamplerKind("the listed values one after the other"),
    },
    lambda _, about: SamplerKind(about["summary"], about["conditional"], about["several_objectives"]),
)
"""Every sampler by the name that ``search.sampler`` uses; plug-ins join."""


def names_of(can: Callable[[SamplerKind], bool]) -> str:
    """Return the samplers that can do something, as a choice in words.

    Example:
        >>> names_of(lambda kind: not kind.conditional)
        'cmaes, gp or qmc'
    """
    *others, last = [name for name, kind in SAMPLERS.items() if can(kind)]
    return f"{', '.join(others)} or {last}" if others else last
