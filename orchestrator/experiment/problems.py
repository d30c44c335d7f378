"""The mistakes of a configuration in words: a line each, with the key, the rule and the value got."""

import dataclasses
import difflib
import json
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import UnionType
from typing import Any

from pydantic import BaseModel, ValidationError

from search_spaces import SPACES
from search_spaces.space import suggestion
from trainables.errors import ConfigError

KeyPath = tuple[str, ...]
"""The keys that lead to a value, from the outermost; the index where it is in a list."""

SLIP = 0.85
"""Similarity (``difflib``) from which two names probably differ by a typing error."""

KINDS = {
    "an experiment": (("datasets", "losses", "search", "budget", "confirm"), "orchestrator search"),
    "a suite": (("cells", "matters", "max_seeds"), "orchestrator regress"),
    "the file of one training": (("dataset", "loss", "schedule"), "orchestrator train"),
}
"""Kind of file -> keys that no other kind has, and the command that takes the file."""


@dataclasses.dataclass(frozen=True)
class Mistake:
    """One mistake of a configuration.

    Attributes:
        path: The keys that lead to the mistake, as far as they are known.
        text: Key, rule, value got and way out.
    """

    path: KeyPath
    text: str


def find_mistakes(model: type[BaseModel], values: Any, error: ValidationError, inside: int = 0) -> Iterator[Mistake]:
    """Yield the mistakes that a model finds in values, in the order of its keys; of a union, its nearest branch's.

    Args:
        model: The model that refused the values.
        values: Values from YAML.
        error: The error of pydantic.
        inside: Number of keys around the values that are in no file; messages leave these keys out.
    """
    placed = [(_place(values, problem), problem) for problem in error.errors(include_url=False)]
    paths = {path for path, _ in placed}
    # The branch of a union that came furthest explains best.
    outdone = {path[:length] for path in paths for length in range(len(path))}
    for path in dict.fromkeys(path for path, _ in placed):
        if path not in outdone:
            here = [problem for other, problem in placed if other == path]
            yield from _mistakes_at(path[inside:], here, partial(_way_out, model, path, inside))


def other_kind(values: Mapping[str, Any], wanted: str) -> str | None:
    """Return the kind of a file, and the command that takes it, if it is not of the wanted kind."""
    if any(key in values for key in KINDS[wanted][0]):
        return None
    for kind, (keys, command) in KINDS.items():
        present = [key for key in keys if key in values]
        if present:
            return f"is {kind}, for it has {' and '.join(present)}: give it to `{command}`; this command takes {wanted}"
    return None


def short(value: Any) -> str:
    """Return a value as JSON shows it, cut to 60 characters."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _mistakes_at(path: tuple[str, ...], problems: Sequence[Any], way_out: Callable[[], str]) -> Iterator[Mistake]:
    """Yield the mistakes at one key: several only if a check of ours tells several."""
    first, shown = problems[0], ".".join(path)
    if first["type"] == "value_error":
        raised = first["ctx"]["error"]
        for message in raised.problems if isinstance(raised, ConfigError) else [str(raised)]:
            stands_there = not shown or message.startswith(shown)
            yield Mistake(path, message if stands_there else f"{shown}: {message}")
    elif first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        yield Mistake(path, f"{shown}: unknown key; {way_out()}")
    elif first["type"] == "missing":
        yield Mistake(path, f"{shown}: missing; it has no default")
    else:
        yield Mistake(path, f"{shown}: {_rule(problems)}, got {short(first['input'])}")


def _rule(problems: Sequence[Any]) -> str:
    """Return the rule of a value; beside a number or the like, a word may be allowed."""
    first = problems[0]
    message = re.sub(r"^\w+ should", "should", first["msg"])
    words = [each["ctx"]["expected"] for each in problems[1:] if each["type"] == "literal_error"]
    return " or ".join([message, *words]) if first["type"] != "literal_error" else message


def _place(values: Any, problem: Any) -> tuple[str, ...]:
    """Return the keys that lead to a problem, without the names of union branches between them."""
    place: list[str] = []
    for part in problem["loc"]:
        if _holds(values, part):
            values = values[part]
        elif problem["type"] != "missing" or part != problem["loc"][-1]:
            continue
        place.append(str(part))
    return tuple(place)


def _holds(values: Any, key: str | int) -> bool:
    if isinstance(values, dict):
        return key in values
    return isinstance(values, list) and isinstance(key, int) and key < len(values)


def _way_out(model: type[BaseModel], path: tuple[str, ...], inside: int) -> str:
    """Return the possible meaning of an unknown key: its name elsewhere, a parameter of a loss, or a similar key."""
    key, top = path[-1], _fields(model, path[:inside])
    homes = [".".join(home[inside:]) for home in _homes(model, key)]
    if any(key in space.parameters for space in SPACES.values()):
        homes += [f"loss_parameters.{key}"] if "loss_parameters" in top else []
        homes += [f"search.fixed.LOSS.{key}", f"search.space.LOSS.{key}"] if "search" in top else []
    here = sorted(_fields(model, path[:-1]))
    place = f"it belongs under {' or '.join(homes)}"
    # A key of this place that differs in a letter or two is more likely meant than a key of this name elsewhere.
    if homes and difflib.get_close_matches(key, here, n=1, cutoff=SLIP):
        return f"{suggestion(key, here, 'keys here')} As {key!r}, {place}"
    return place if homes else suggestion(key, here, "keys here")


def _homes(kind: Any, key: str, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the places in a model, and in the models of its fields, where a key is known."""
    for name, inner in _hints(kind).items():
        if name == key:
            yield (*above, name)
        yield from _homes(inner, key, (*above, name))


def _hints(kind: Any) -> Mapping[str, Any]:
    """Return the annotation of each key that a model or dataclass knows; an optional model counts as well."""
    for one in (kind, *(typing.get_args(kind) if isinstance(kind, UnionType) else ())):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return {name: field.annotation for name, field in one.model_fields.items()}
        if isinstance(one, type) and dataclasses.is_dataclass(one):
            return typing.get_type_hints(one)
    return {}


def _fields(kind: Any, place: Sequence[str]) -> list[str]:
    """Return the keys that a model or dataclass knows at a place inside it."""
    if place and place[0].isdigit() and typing.get_origin(kind) is tuple:
        return _fields(typing.get_args(kind)[0], place[1:])
    hints = _hints(kind)
    return _fields(hints.get(place[0]), place[1:]) if place else list(hints)
