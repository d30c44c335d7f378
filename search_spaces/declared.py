"""The space of a plug-in's loss or model, made from the bounds that its decorator declares."""

from collections.abc import Mapping
from typing import Any

from search_spaces.space import POSITIVE, Domain, LossSpace, Range, SpaceError, Values, is_number


def declared_bounds(declared: Mapping[str, Mapping[str, Any]]) -> dict[str, Range | Values]:
    """Return the bounds of parameters.

    ``declared`` maps a parameter to ``{low, high, log, whole}`` or ``{values}``.

    Raises:
        SpaceError: If a parameter has neither a range nor values.
    """
    found: dict[str, Range | Values] = {}
    for name, bound in declared.items():
        try:
            values = tuple(tuple(value) if isinstance(value, list) else value for value in bound.get("values", ()))
            found[name] = Values(values) if "values" in bound else Range(**bound)
        except SpaceError as error:
            raise SpaceError(f"space[{name!r}]: {error}") from None
    return found


def declared_space(declared: Mapping[str, Mapping[str, Any]], defaults: Mapping[str, Any]) -> LossSpace:
    """Return the space of a loss; the first trial of a study takes the defaults, if these are within the bounds.

    Raises:
        SpaceError: If a bound is refused.
    """
    bounds = declared_bounds(declared)
    return LossSpace(
        bounds=bounds,
        published=({name: defaults[name] for name in bounds},),
        parameters={name: _domain(default, bounds.get(name)) for name, default in defaults.items()},
    )


def _domain(default: Any, bound: Range | Values | None) -> Domain:
    """Return the domain of a parameter: values of the type of its default, above 0 if its scale is logarithmic."""
    if isinstance(default, bool):
        return Domain("true or false", lambda value: isinstance(value, bool))
    if isinstance(default, list | tuple):
        return Domain("a list of numbers", lambda value: isinstance(value, list | tuple) and all(map(is_number, value)))
    if isinstance(default, str):
        words = bound.values if isinstance(bound, Values) else ()
        rule = "one of " + ", ".join(map(repr, words)) if words else "a word"
        return Domain(rule, lambda value: value in words if words else isinstance(value, str))
    if isinstance(default, int):
        return Domain("a whole number", lambda value: is_number(value) and float(value).is_integer())
    if isinstance(bound, Range) and bound.log:
        return POSITIVE
    return Domain("a number", is_number)
