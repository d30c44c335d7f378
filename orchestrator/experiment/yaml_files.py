"""YAML files that describe work, read within limits and refused in words: place, key, rule, value got, remedy."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from orchestrator.experiment.problems import KeyPath, Mistake, find_mistakes, other_kind, short
from search_spaces.space import suggestion
from trainables.errors import ConfigError, Mistakes

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
    from orchestrator.experiment.yaml_text import LARGEST_TEXT, YamlTextError, parse_yaml

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
    from orchestrator.experiment.yaml_text import DEEPEST, YamlTextError, parse_yaml

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
