"""YAML files that describe work, read within limits and refused in words: place, key, rule, value got, remedy.

A configuration comes from people, and from programs that make mistakes. A text that would take minutes or gigabytes to
read is refused early, with the place. Only texts, numbers, truth values, null, lists and mappings are read; no
text can name a class.

References:
    [YAML] YAML 1.2.2, section 10.3, the core schema: a number is 12, 0o14, 0xC, 1.5 or 2e-4, and 1:30 is a text.
"""

import dataclasses
import difflib
import json
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from orchestrator.text.values import MINUS
from search_spaces import SPACES
from search_spaces.other_names import our_name, suggestion
from trainables.errors import ConfigError, Mistakes

LARGEST_TEXT = 256 * 1024
"""Most characters of a text; the largest shipped file has 5 thousand."""

MOST_NODES = 10_000
"""Most keys and values of a text; an alias counts as the nodes that it repeats."""

DEEPEST = 32
"""Most lists and mappings within each other."""

LONGEST_KEY = 200
"""Most characters of a key."""

INTEGERS = 2**64
"""Whole numbers are smaller than this, and larger than its negative."""

SLIP = 0.85
"""Similarity (``difflib``) from which two names probably differ by a typing error."""

KINDS = {
    "an experiment": (("datasets", "losses", "search", "budget", "confirm"), "orchestrator search"),
    "a suite": (("cells", "matters", "max_seeds"), "orchestrator regress"),
    "the file of one training": (("dataset", "loss", "schedule"), "orchestrator train"),
}
"""Kind of file -> keys that no other kind has, and the command that takes the file."""

STRICT = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
"""Unknown keys and wrong types are refused; a whole number passes as a number, a text or infinity as neither."""

_TAG = "tag:yaml.org,2002:"
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")


class YamlTextError(ValueError):
    """A text that is no YAML, or goes beyond a limit, at ``LINE:COLUMN``, both from 1; empty is the whole text."""

    def __init__(self, problem: str, place: str = "") -> None:
        self.problem, self.place = problem, place
        super().__init__(problem)


class _Loader(yaml.SafeLoader):
    """Reads the core schema within the limits."""

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}  # type: ignore[misc]

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = self._depth = 0
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node; an alias gives the node that it repeats, and counts as much as the node."""
        event, before = self.peek_event(), self._nodes  # type: ignore[no-untyped-call]
        is_alias = isinstance(event, yaml.AliasEvent)
        if not is_alias and event.tag is not None:
            raise _refusal(f"the tag {event.tag.replace(_TAG, '!!')} is not read; write the value alone", event)
        self._depth += 1
        if self._depth > DEEPEST:
            raise _refusal(f"more than {DEEPEST} lists or mappings within each other", event)
        node: Any = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, yaml.ScalarNode) and (control := _CONTROL.search(node.value)) is not None:
            raise _refusal(f"a text holds the control character {control[0]!r}; remove it", node)
        if isinstance(node, yaml.MappingNode) and not is_alias:
            _check_keys(node)
        if is_alias and node not in self._sizes:
            raise _refusal(f"alias *{event.anchor} is part of its own value", event)
        self._nodes += self._sizes[node] if is_alias else 1
        if self._nodes > MOST_NODES:
            raise _refusal(f"more than {MOST_NODES} keys and values, counting those of aliases", event)
        self._sizes[node] = self._nodes - before
        return node

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Return a whole number, which is written as Python writes it, or with leading zeros."""
        digits = node.value.replace("_", "")
        base = {"0x": 16, "0o": 8, "0b": 2}.get(digits.lstrip("+-")[:2], 10)
        # A long number is refused by its length, because Python refuses to convert more than 4,300 digits.
        if len(digits) > 70 or abs(int(digits, base)) >= INTEGERS:
            raise _refusal(f"a whole number of {len(digits)} characters; it must be smaller than 2**64", node)
        return int(digits, base)


class _Dumper(yaml.SafeDumper):
    """Writes a text in quotes where this reader, or another reader of YAML, would take it for something else."""


def _check_keys(node: yaml.MappingNode) -> None:
    """Refuse keys that are no short texts, or that are there twice."""
    lines: dict[str, int] = {}
    for key, _ in node.value:
        name = str(key.value)
        if key.tag == f"{_TAG}merge":
            continue
        if key.tag != f"{_TAG}str":
            raise _refusal(f"a key must be a text, got {name[:60]!r}; write it in quotes", key)
        if len(name) > LONGEST_KEY or not name.isprintable():
            raise _refusal(f"a key has at most {LONGEST_KEY} characters, all printable, got {name[:40]!r}", key)
        if name in lines:
            raise _refusal(f"key {name!r} is there twice, first in line {lines[name]}; remove one of the two", key)
        lines[name] = key.start_mark.line + 1


for _kind, _pattern in {
    "null": r"~|null|Null|NULL|",
    "bool": r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF",
    "int": r"[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+|[0-9][0-9_]*)",
    "float": r"[-+]?(?:\.\d+|\d[0-9_]*(?:\.\d*)?)(?:[eE][-+]?\d+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    "merge": r"<<",
}.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(rf"(?:{_pattern})\Z", re.ASCII), None)
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_yaml_int)


def parse_yaml(text: str) -> tuple[Any, dict[str, str]]:
    """Return the value that a text holds, and the place of each key and item by the dotted keys that lead to it.

    Raises:
        YamlTextError: If it is no YAML, holds several documents or a tag, or goes beyond a limit.

    Example:
        >>> parse_yaml("a: {b: 2e-4}")
        ({'a': {'b': 0.0002}}, {'a': '1:1', 'a.b': '1:5'})
    """
    if len(text) > LARGEST_TEXT:
        raise YamlTextError(f"{len(text)} characters; a configuration has at most {LARGEST_TEXT}")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        value = None if node is None else loader.construct_document(node)
    except yaml.reader.ReaderError as error:
        before = f"\n{text[: error.position]}"
        place = f"{before.count(chr(10))}:{len(before) - before.rfind(chr(10))}"
        raise YamlTextError(f"the character {chr(error.character)!r} is not allowed", place) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlTextError(error.problem or "is no YAML", "" if mark is None else _place(mark)) from None
    except (ValueError, OverflowError):
        # PyYAML raises this error at an escape such as "\UFFFFFFFF".
        raise YamlTextError("an escape without a character", _place(loader)) from None
    return value, dict(_places(node))


def yaml_text(value: Any, width: int = 80) -> str:
    r"""Return plain values as YAML of ASCII characters, which ``parse_yaml`` reads back; mappings keep their order.

    Example:
        >>> yaml_text({"name": "2e-4", "rate": 2e-4})
        "name: '2e-4'\nrate: 0.0002\n"
    """
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=width)


def _places(node: yaml.Node | None, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted keys of the keys and items of a node with their places; own keys follow merged keys."""
    if isinstance(node, yaml.MappingNode):
        inner = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        inner = [(str(index), item, item) for index, item in enumerate(node.value)]
    else:
        return
    for name, at, value in inner:
        yield f"{above}{name}", _place(at.start_mark)
        yield from _places(value, f"{above}{name}.")


def _refusal(problem: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def _place(mark: Any) -> str:
    return f"{mark.line + 1}:{mark.column + 1}"


@dataclass(frozen=True)
class Document:
    """Keys and values as a user gave them in a source, usually a file.

    ``places`` are dotted keys that lead to a value -> ``FILE:LINE:COLUMN`` or ``--set KEY=VALUE``.
    """

    source: str
    values: Mapping[str, Any]
    places: Mapping[str, str] = field(default_factory=dict)

    def lines(self, mistakes: Iterable[str]) -> list[str]:
        """Return mistakes, which begin with their keys, in the order of their places, with the places in front."""
        order = {key: number for number, key in enumerate(self.places)}
        keys = [(self._key_of(mistake), mistake) for mistake in mistakes]
        keys.sort(key=lambda row: order.get(row[0], -1))
        return [f"{self.places.get(key, self.source)}: {mistake}" for key, mistake in keys]

    def _key_of(self, mistake: str) -> str:
        """Return the dotted keys that lead to a mistake, as far as the document has them.

        A second key may follow, inside of the first or whole: ``cells.0: training.epochs must``.
        """
        first, _, rest = mistake.partition(": ")
        second = rest.partition(" ")[0].rstrip(":")
        inner = second if second.startswith(f"{first}.") else f"{first}.{second}"
        for key in (inner, first, first.partition(" ")[0]):
            while key and key not in self.places:
                key = key.rpartition(".")[0]
            if key:
                return key
        return ""


def read_yaml(path: Path, kind: str | None = None) -> Document:
    """Return the mapping that a YAML file of a kind of ``KINDS`` holds; ``None`` is any kind.

    Raises:
        ConfigError: If the file is missing, is no YAML, is larger than any configuration, holds no mapping, or is of
            another kind.
    """
    # The opening of a named pipe would wait for a writer, perhaps for ever.
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is {'a folder' if path.is_dir() else 'no regular file'}; name a YAML file")
    try:
        with path.open(encoding="utf-8-sig", newline=None) as file:
            values, places = parse_yaml(file.read(LARGEST_TEXT + 1))
    except YamlTextError as error:
        raise ConfigError(f"{path}{error.place and ':'}{error.place}: {error.problem}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold keys with values, got {short(values)}")
    if kind is not None and not any(key in values for key in KINDS[kind][0]):
        for other, (keys, command) in KINDS.items():
            if present := [key for key in keys if key in values]:
                raise ConfigError(
                    f"{path}: is {other}, for it has {' and '.join(present)}: give it to `{command}`; "
                    f"this command takes {kind}"
                )
    return Document(str(path), values, {key: f"{path}:{place}" for key, place in places.items()})


def find_file(source: str, shipped: Mapping[str, Path], kind: str) -> Path:
    """Return the file that a user's text means: a path, or the bare name of a shipped file.

    ``kind`` is a singular noun for such a file in messages.

    Raises:
        ConfigError: If neither exists.
    """
    path = Path(source)
    if path.suffix or len(path.parts) != 1 or path.is_file():
        return path
    if source not in shipped:
        hint = suggestion(source, sorted(shipped), f"{kind}s that ship")
        raise ConfigError(f"{source}: no file, and no {kind} of that name ships; {hint}")
    return shipped[source]


def override(document: Document, settings: Sequence[str]) -> Document:
    """Return a copy with each ``a.b=value`` set, the value read as YAML.

    Raises:
        ConfigError: If settings have no ``=``, no value that is YAML, or lead through a value that has no keys.
    """
    values: dict[str, Any] = json.loads(json.dumps(document.values))
    places, mistakes = dict(document.places), Mistakes()
    for setting in settings:
        shown = f"--set {setting}" if len(setting) <= 80 else f"--set {setting[:77]}..."
        key = mistakes.of(_apply, values, setting, shown)
        if key is not None:
            places = {other: place for other, place in places.items() if not f"{other}.".startswith(f"{key}.")}
            places[key] = shown
    mistakes.refuse()
    return replace(document, values=values, places=places)


def _apply(values: dict[str, Any], setting: str, shown: str) -> str:
    """Set a value in place, and return the dotted keys that lead to it."""
    dotted, equals, text = setting.partition("=")
    keys = dotted.split(".")
    if not equals or not all(keys):
        raise ConfigError(f"{shown}: must be KEY=VALUE, e.g. --set training.epochs=4")
    if len(keys) > DEEPEST or not dotted.isprintable():
        raise ConfigError(f"{shown}: a key has at most {DEEPEST} parts, all of them printable")
    try:
        value, _ = parse_yaml(text)
    except YamlTextError as error:
        raise ConfigError(f"{shown}: {error.problem}") from None
    for depth, key in enumerate(keys[:-1], start=1):
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            where = ".".join(keys[:depth])
            raise ConfigError(f"{shown}: {where} holds {short(values)}, which has no keys; set {where} whole")
    values[keys[-1]] = value
    return dotted


Kind = TypeVar("Kind")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    # A dataclass has no settings of its own, and a type adapter gives none to a type that could have them.
    kind_or_null: Any = kind | None
    return TypeAdapter(kind_or_null, config=STRICT)


def validate(kind: type[Kind], values: Mapping[str, Any] | Document, source: str = "") -> Kind:
    """Build a model or a dataclass from a document, or from plain values, which messages call ``source``.

    Raises:
        ConfigError: With all mistakes, a line each.
    """
    document = values if isinstance(values, Document) else Document(source, values)
    adapter: TypeAdapter[Kind] = _adapter(cast("Any", kind))
    try:
        # Read as JSON, because strict JSON takes a list for a tuple, but no text for a number.
        return adapter.validate_json(json.dumps(document.values))
    except ValidationError as error:
        raise ConfigError(document.lines(_mistakes(kind, document.values, error))) from None


def short(value: Any) -> str:
    """Return a value as JSON shows it, cut to 60 characters."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _mistakes(kind: type, values: Any, error: ValidationError) -> Iterator[str]:
    """Yield the mistakes that a class finds in values, in the order of its keys, each with its key in front."""
    problems: dict[tuple[str, ...], list[Any]] = {}
    for problem in error.errors(include_url=False):
        problems.setdefault(_path(values, problem), []).append(problem)
    # Of a union, the branch that came furthest explains best.
    outdone = {path[:length] for path in problems for length in range(len(path))}
    for path, (first, *others) in problems.items():
        if path in outdone:
            continue
        key = ".".join(path)
        if first["type"] == "value_error":
            raised = first["ctx"]["error"]
            for text in raised.problems if isinstance(raised, ConfigError) else [str(raised)]:
                yield text if text.startswith(key) else f"{key}: {text}"
        elif first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            yield f"{key}: unknown key; {_remedy(kind, key)}"
        elif first["type"] == "missing":
            yield f"{key}: missing; it has no default"
        else:
            # Beside a number or the like, a word may be allowed.
            words = [other["ctx"]["expected"] for other in others if other["type"] == "literal_error"]
            # A value of a parameter may be of several types, of which a boolean is tried first.
            types = [other["msg"].rpartition(" ")[2] for other in others if first["type"] == "bool_type"]
            rule = " or ".join([first["msg"], *types, *(words if first["type"] != "literal_error" else ())])
            rule = re.sub(r"^\w+ should", "should", rule)
            is_unquoted = first["type"] == "string_type" and isinstance(first["input"], int | float)
            remedy = "; put the text in quotes" if is_unquoted else ""
            # Tables print this minus, and numbers are copied from them.
            remedy = "; type the minus as -" if str(first["input"]).startswith(MINUS) else remedy
            yield f"{key}: {rule}, got {short(first['input'])}{remedy}"


def _path(values: Any, problem: Any) -> tuple[str, ...]:
    """Return the keys that lead to a problem, without the names of union branches between them."""
    path: list[str] = []
    for part in problem["loc"]:
        is_item = isinstance(values, list) and isinstance(part, int) and part < len(values)
        if is_item or (isinstance(values, dict) and part in values):
            values = values[part]
        elif problem["type"] != "missing" or part != problem["loc"][-1]:
            continue
        path.append(str(part))
    return tuple(path)


def _remedy(kind: type, dotted: str) -> str:
    """Return the possible meaning of an unknown key: its name elsewhere, a parameter of a loss, or a similar key."""
    above, _, key = dotted.rpartition(".")
    known = list(_keys(kind))
    section = re.sub(r"\.\d+(?=\.|$)", ".*", above)
    here = sorted(name.rpartition(".")[2] for name in known if name.rpartition(".")[0] == section)
    homes = [name for name in known if name.rpartition(".")[2] == key and "*" not in name]
    if not homes and (ours := our_name(key)) is not None and ours not in here:
        called = [name for name in known if name.rpartition(".")[2] == ours and "*" not in name]
        if called:
            return f"it is called {' or '.join(called)} here"
    if any(key in space.parameters for space in SPACES.values()):
        homes += [f"loss_parameters.{key}"] if "loss_parameters" in known else []
        homes += [f"search.fixed.LOSS.{key}", f"search.space.LOSS.{key}"] if "search" in known else []
    place = f"it belongs under {' or '.join(homes)}"
    # A key of this place that differs in a letter or two is more likely meant than a key of this name elsewhere.
    if homes and difflib.get_close_matches(key, here, n=1, cutoff=SLIP):
        return f"{suggestion(key, here, 'keys here')} As {key!r}, {place}"
    return place if homes else suggestion(key, here, "keys here")


def _keys(kind: Any, above: str = "") -> Iterator[str]:
    """Yield the dotted keys that an annotation knows, with ``*`` for the number of an item."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        hints: Mapping[str, Any] = {name: known.annotation for name, known in kind.model_fields.items()}
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
    else:
        origin = typing.get_origin(kind)
        for inner in typing.get_args(kind) if origin is not dict else ():
            yield from _keys(inner, f"{above}*." if origin is tuple else above)
        return
    for name, inner in hints.items():
        yield f"{above}{name}"
        yield from _keys(inner, f"{above}{name}.")
