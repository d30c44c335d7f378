"""YAML files that describe work, read safely and refused in one line: file, key, rule, value got, way out."""

import dataclasses
import json
import re
import typing
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from search_spaces.space import suggestion
from trainables.config import TrialConfig
from trainables.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)

STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
"""Unknown keys and wrong types are refused; a whole number passes as a number, a text as neither."""


class _Loader(yaml.SafeLoader):
    """Safe YAML that reads 2e-4 as a number, as YAML 1.2 does, and refuses a key that is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping after making sure that no key hides another."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping that a YAML file holds.

    Raises:
        ConfigError: If the file is missing, is no YAML, or holds something else.
    """
    try:
        values = _parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {_yaml_problem(error)}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold keys with values, got {_short(values)}")
    return values


def find_file(source: str, shipped: Mapping[str, Path], what: str) -> Path:
    """Return the file that is meant: a path, or the bare name of one that ships.

    Args:
        source: As it was typed.
        shipped: Files that ship, by name.
        what: What they are called in a message, in the singular.

    Raises:
        ConfigError: If there is neither.
    """
    path = Path(source)
    if path.suffix or len(path.parts) != 1 or path.is_file():
        return path
    if source not in shipped:
        hint = suggestion(source, sorted(shipped), f"{what}s that ship")
        raise ConfigError(f"{source}: no file, and no {what} of that name ships; {hint}")
    return shipped[source]


def override(values: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Return a copy with each ``a.b=value`` set, the value read as YAML.

    Raises:
        ConfigError: If a setting has no ``=``, no value that is YAML, or goes through something that has no keys.
    """
    result: dict[str, Any] = json.loads(json.dumps(values, default=str))
    for setting in settings:
        dotted, found, text = setting.partition("=")
        if not found or not all(dotted.split(".")):
            raise ConfigError(f"--set {setting}: must be KEY=VALUE, e.g. --set training.epochs=4")
        try:
            _set(result, dotted.split("."), _parse(text))
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {setting}: {_yaml_problem(error)}") from None
        except TypeError:
            raise ConfigError(f"--set {setting}: goes through a key that holds a value, not keys") from None
    return result


def validate(model: type[Model], values: Mapping[str, Any], source: str) -> Model:
    """Build a model from plain values.

    Args:
        model: What to build.
        values: Keys and values as YAML gives them.
        source: What to call them in a message, usually the file.

    Raises:
        ConfigError: With the first problem in one line.
    """
    try:
        # By way of JSON, whose strict reading takes a list for a tuple and still no text for a number.
        return model.model_validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        raise ConfigError(f"{source}: {_problem(model, values, error)}") from None


class _TrialFile(BaseModel):
    model_config = STRICT
    trial: TrialConfig


def load_trial_config(path: Path | None, overrides: Sequence[str]) -> TrialConfig:
    """Read the YAML of one training, apply ``--set``, and check names, types and ranges.

    Raises:
        ConfigError: If anything in it is refused.
    """
    from search_spaces import SPACES, SpaceError
    from search_spaces.space import check_name

    source = "--set" if path is None else str(path)
    values = override({} if path is None else read_yaml(path), overrides)
    config = validate(_TrialFile, {"trial": values}, source).trial
    try:
        check_name(config.loss, SPACES, "losses")
        for epoch in (1, *(change.epoch for change in config.schedule)):
            SPACES[config.loss].check_parameters(config.at(epoch).loss_parameters)
    except SpaceError as error:
        raise ConfigError(f"{source}: loss {config.loss}: {error}") from None
    return config


def _parse(text: str) -> Any:
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _set(values: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise TypeError(key)
    values[keys[-1]] = value


def _yaml_problem(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = "" if mark is None else f"line {mark.line + 1}: "
    return f"{place}{getattr(error, 'problem', None) or 'is no YAML'}"


def _problem(model: type[BaseModel], values: Any, error: ValidationError) -> str:
    """Return the first problem; where every branch of a union refuses, that of the branch that came furthest."""
    problems = error.errors(include_url=False)
    placed = [(_place(values, problem), problem) for problem in problems]
    place, first = max(placed, key=lambda pair: len(pair[0]))
    shown = ".".join(place[1:] if model is _TrialFile else place)
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        known = sorted(_fields(model, place[:-1]))
        return f"{shown}: unknown key; {suggestion(place[-1], known, 'keys here')}"
    if first["type"] == "missing":
        return f"{shown}: missing; it has no default"
    message = re.sub(r"^\w+ should", "should", first["msg"].removeprefix("Value error, "))
    if first["type"] == "value_error":
        return message if not shown or message.startswith(shown) else f"{shown}: {message}"
    # Beside a number or the like, a word may be allowed.
    words = [each["ctx"]["expected"] for other, each in placed if other == place and each["type"] == "literal_error"]
    allowed = " or ".join([message, *words]) if first["type"] != "literal_error" else message
    return f"{shown}: {allowed}, got {_short(first['input'])}"


def _place(values: Any, problem: Any) -> list[str]:
    """Return the keys that lead to a problem, without the names of union branches that stand between them."""
    place: list[str] = []
    for part in problem["loc"]:
        if _holds(values, part):
            values = values[part]
        elif problem["type"] != "missing" or part != problem["loc"][-1]:
            continue
        place.append(str(part))
    return place


def _holds(values: Any, key: str | int) -> bool:
    if isinstance(values, dict):
        return key in values
    return isinstance(values, list) and isinstance(key, int) and key < len(values)


def _fields(kind: Any, place: Sequence[str]) -> list[str]:
    """Return the keys that a model or dataclass knows at a place inside it."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        hints: dict[str, Any] = {name: field.annotation for name, field in kind.model_fields.items()}
    elif dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
    else:
        return []
    return _fields(hints.get(place[0]), place[1:]) if place else list(hints)


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
