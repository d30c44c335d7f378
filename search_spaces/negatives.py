"""How many of a query's hardest negatives count, searched beside the other parameters of a loss.

No loss searches it where an experiment does not ask, so that earlier searches keep their spaces. A range is of whole
numbers on a logarithmic scale; the default one reaches from the hardest negative to all negatives of a batch of pairs.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from search_spaces.space import Asked, Bounds, Domain, LossSpace, Range, Trial, is_number

NAME = "negatives"
ALL = "all"


def is_count(value: Any) -> bool:
    """Say whether a value is a whole number of at least 1."""
    return is_number(value) and value >= 1 and float(value).is_integer()


COUNT = Domain("a whole number of at least 1", is_count, is_count=True)
COUNT_OR_ALL = Domain(
    f"a whole number of at least 1, or {ALL!r}", lambda value: value == ALL or is_count(value), is_count=True
)


def with_negatives(space: LossSpace, asked: Asked, default: int | str) -> LossSpace:
    """Return the space of a loss for a study, which searches the number of negatives if the study asks for that.

    ``default`` is the number of negatives in the loss's own points: of ``published``, ``starts`` and ``twins``.
    """
    if NAME not in asked.names or NAME in asked.fixed:
        return space
    most = max(2, asked.pairs - 1)
    counts = (most, ALL) if default == ALL else (default,)

    def counted(points: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
        return tuple({**point, NAME: count} for point in points for count in counts)

    return replace(
        space,
        suggest=partial(_suggest, space.suggest),
        bounds={**space.bounds, NAME: Range(1, most, log=True, whole=True)},
        relevant=partial(_relevant, space.relevant),
        published=counted(space.published),
        starts=counted(space.starts),
        twins=lambda loss, parameters: counted(space.twins(loss, parameters)),
    )


def _suggest(suggest: Callable[[Trial, Bounds], dict[str, Any]], trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the parameters of a loss, and the number of negatives."""
    rest = {name: bound for name, bound in bounds.items() if name != NAME}
    return {**suggest(trial, rest), NAME: bounds[NAME].suggest(trial, NAME)}


def _relevant(
    relevant: Callable[[Bounds, Mapping[str, Any]], Bounds], bounds: Bounds, fixed: Mapping[str, Any]
) -> Bounds:
    """Return the bounds that matter, of which the number of negatives is one."""
    rest = {name: bound for name, bound in bounds.items() if name != NAME}
    return {**relevant(rest, fixed), NAME: bounds[NAME]}
