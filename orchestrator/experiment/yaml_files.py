"""YAML files that describe work, read within limits and refused in words: place, key, rule, value got, remedy."""

import dataclasses
import difflib
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from orchestrator.experiment.yaml_text import DEEPEST, LARGEST_TEXT, KeyPath, YamlTextError, parse_yaml
from search_spaces import SPACES
from search_spaces.space import suggestion
from trainables.errors import ConfigError, Mistakes

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


Model = TypeVar("Model", bound=BaseModel)

STRICT = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
"""Unknown keys and wrong types are refused; a whole number passes as a number, a text or infinity as neither."""


@dataclass(frozen=True)
class Document:
    """Keys and values as a user gave them, with the place of each.

    Attributes:
        source: Name of the whole for messages, usually the file.
        values: Keys and values of plain types.
        places: Keys that lead to a value -> ``FILE:LINE:COLUMN`` or ``--set KEY=VALUE``.
    """

    source: str
    values: Mapping[str, Any]
    places: Mapping[KeyPath, str] = field(default_factory=dict)

    def lines(self, mistakes: Iterable[Mistake]) -> list[str]:
        """Return mistakes with their places in front, in the order of the places."""
        order = {path: number for number, path in enumerate(self.places)}
        placed = [(self._path_to(mistake), mistake.text) for mistake in mistakes]
        placed.sort(key=lambda one: order.get(one[0], -1))
        return [f"{self.places.get(path, self.source)}: {text}" for path, text in placed]

    def _path_to(self, mistake: Mistake) -> KeyPath:
        """Return the keys that lead to a mistake, as far as the document has them.

        The text of a mistake starts with its key; a key inside may follow: ``cells.0: training.epochs must``.
        """
        path = mistake.path
        for word in mistake.text.replace(":", " ").split(maxsplit=2)[:2]:
            keys = tuple(word.split("."))
            if (*path, *keys) in self.places:
                path = (*path, *keys)
            elif keys[: len(path)] == path:
                path = keys
        lengths = range(len(path), 0, -1)
        return next((path[:length] for length in lengths if path[:length] in self.places), ())


def read_yaml(path: Path) -> Document:
    """Return the mapping that a YAML file holds.

    Raises:
        ConfigError: If the file is missing, is no YAML, is larger than any configuration, or holds no mapping.
    """
    # The opening of a named pipe would wait for a writer, perhaps for ever.
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is {'a folder' if path.is_dir() else 'no regular file'}; name a YAML file")
    try:
        with path.open(encoding="utf-8-sig", newline=None) as file:
            text = file.read(LARGEST_TEXT + 1)
        values, places = parse_yaml(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    except YamlTextError as error:
        place = "" if error.place is None else f":{error.place[0]}:{error.place[1]}"
        raise ConfigError(f"{path}{place}: {error.problem}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold keys with values, got {short(values)}")
    return Document(str(path), values, {key: f"{path}:{line}:{column}" for key, (line, column) in places.items()})


def find_file(source: str, shipped: Mapping[str, Path], what: str) -> Path:
    """Return the file that a text means: a path, or the bare name of a shipped file.

    Args:
        source: The text that the user typed.
        shipped: Shipped files by name.
        what: Singular noun for such a file in messages.

    Raises:
        ConfigError: If neither exists.
    """
    path = Path(source)
    if path.suffix or len(path.parts) != 1 or path.is_file():
        return path
    if source not in shipped:
        hint = suggestion(source, sorted(shipped), f"{what}s that ship")
        raise ConfigError(f"{source}: no file, and no {what} of that name ships; {hint}")
    return shipped[source]


def override(document: Document, settings: Sequence[str]) -> Document:
    """Return a copy with each ``a.b=value`` set, the value read as YAML.

    Raises:
        ConfigError: If settings have no ``=``, no value that is YAML, or lead through a value that has no keys.
    """
    values: dict[str, Any] = json.loads(json.dumps(document.values))
    places, mistakes = dict(document.places), Mistakes()
    for setting in settings:
        path = mistakes.of(_apply, values, setting)
        if path is not None:
            places = {key: place for key, place in places.items() if key[: len(path)] != path}
            places[path] = f"--set {_shortened(setting)}"
    mistakes.refuse()
    return replace(document, values=values, places=places)


def validate(model: type[Model], values: Mapping[str, Any] | Document, source: str = "", *, inside: str = "") -> Model:
    """Build a model from plain values.

    Args:
        model: Class of the model.
        values: Keys and values from YAML, with their places if known.
        source: Name of plain values in messages.
        inside: Field of the model that the values are for; empty for the model itself.

    Raises:
        ConfigError: With all mistakes, a line each.
    """
    document = values if isinstance(values, Document) else Document(source, values)
    whole = {inside: dict(document.values)} if inside else document.values
    try:
        # Read as JSON, because strict JSON takes a list for a tuple, but no text for a number.
        return model.model_validate_json(json.dumps(whole))
    except ValidationError as error:
        raise ConfigError(document.lines(find_mistakes(model, whole, error, int(bool(inside))))) from None


def read_kind(path: Path, kind: str) -> Document:
    """Return the mapping of a file that should be of a kind.

    Args:
        path: Path of the file.
        kind: A name of ``config_problems.KINDS``.

    Raises:
        ConfigError: If it cannot be read, or is of another kind.
    """
    document = read_yaml(path)
    other = other_kind(document.values, kind)
    if other is not None:
        raise ConfigError(f"{path}: {other}")
    return document


def _apply(values: dict[str, Any], setting: str) -> KeyPath:
    """Set a value in place, and return the keys that lead to it."""
    dotted, found, text = setting.partition("=")
    keys, shown = dotted.split("."), _shortened(setting)
    if not found or not all(keys):
        raise ConfigError(f"--set {shown}: must be KEY=VALUE, e.g. --set training.epochs=4")
    if len(keys) > DEEPEST or not dotted.isprintable():
        raise ConfigError(f"--set {shown}: a key has at most {DEEPEST} parts, all of them printable")
    try:
        value, _ = parse_yaml(text)
    except YamlTextError as error:
        raise ConfigError(f"--set {shown}: {error.problem}") from None
    for depth, key in enumerate(keys[:-1], start=1):
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            where = ".".join(keys[:depth])
            raise ConfigError(f"--set {shown}: {where} holds {short(values)}, which has no keys; set {where} whole")
    values[keys[-1]] = value
    return tuple(keys)


def _shortened(setting: str) -> str:
    return setting if len(setting) <= 80 else f"{setting[:77]}..."
