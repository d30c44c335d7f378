"""YAML text as plain values, read within limits, with the place of each key.

A configuration comes from people, and from programs that make mistakes: a text that would take minutes or gigabytes to
read is refused early, with the place. Only texts, numbers, truth values, null, lists and mappings are read; no
text can name a class.

References:
    [YAML] YAML 1.2.2, section 10.3, the core schema: a number is 12, 0o14, 0xC, 1.5 or 2e-4, and 1:30 is a text.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from orchestrator.experiment.problems import KeyPath

LARGEST_TEXT = 256 * 1024
"""Most characters of a text; the largest shipped file has 5 thousand."""

MOST_NODES = 10_000
"""Most keys and values of a text; an alias counts as the nodes that it stands for."""

DEEPEST = 32
"""Most lists and mappings within each other."""

LONGEST_KEY = 200
"""Most characters of a key."""

INTEGERS = 2**64
"""Whole numbers are smaller than this, and larger than its negative."""

Place = tuple[int, int]
"""Line and column, from 1."""

_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_BOOL = re.compile(r"^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$")
_INT = re.compile(r"^[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+|[0-9][0-9_]*)$")
_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")


class YamlTextError(Exception):
    """A text that is no YAML, or goes beyond a limit.

    Attributes:
        problem: The problem in words.
        place: Place of the problem; ``None`` for the whole text.
    """

    def __init__(self, problem: str, place: Place | None = None) -> None:
        self.problem, self.place = problem, place
        super().__init__(problem)


class _Loader(yaml.SafeLoader):
    """Builds plain values of the core schema, and refuses a text beyond the limits while it reads."""

    # The resolvers of YAML 1.1 are removed; this module adds its own below.
    yaml_implicit_resolvers = {}  # noqa: RUF012
    yaml_constructors = {}  # noqa: RUF012

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = self._depth = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node after counting it; an alias counts as the nodes that it stands for."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        before = self._nodes
        self._nodes += self._size_of(event)
        if self._nodes > MOST_NODES:
            raise _refusal(f"more than {MOST_NODES} keys and values, with what aliases stand for", event)
        self._depth += 1
        if self._depth > DEEPEST:
            raise _refusal(f"more than {DEEPEST} lists or mappings within each other", event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if event.anchor is not None:
            self._sizes.setdefault(event.anchor, self._nodes - before)
        return node

    def _size_of(self, event: Any) -> int:
        if not isinstance(event, yaml.AliasEvent):
            return 1
        if event.anchor in self.anchors and event.anchor not in self._sizes:
            raise _refusal(f"alias *{event.anchor} stands within what it stands for", event)
        return self._sizes.get(str(event.anchor), 1)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping after a check that its keys are texts and differ."""
        if isinstance(node, yaml.MappingNode):
            first: dict[str, yaml.Node] = {}
            for key_node, _ in node.value:
                if key_node.tag == "tag:yaml.org,2002:merge":
                    continue
                key = self._key(key_node)
                if key in first:
                    line = first[key].start_mark.line + 1
                    raise _refusal(f"key {key!r} is there twice, first in line {line}; remove one of the two", key_node)
                first[key] = key_node
        return super().construct_mapping(node, deep)

    def _key(self, node: yaml.Node) -> str:
        key = self.construct_object(node, deep=True)
        if not isinstance(key, str):
            raise _refusal(f"a key must be a text, got {str(node.value)[:60]!r}; write it in quotes", node)
        if len(key) > LONGEST_KEY or not key.isprintable():
            raise _refusal(f"a key has at most {LONGEST_KEY} characters, all printable, got {key[:40]!r}", node)
        return key


def _refusal(problem: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def _read_text(loader: _Loader, node: yaml.Node) -> str:
    text = str(loader.construct_scalar(node))  # type: ignore[arg-type]
    found = _CONTROL.search(text)
    if found is not None:
        raise _refusal(f"a text holds the control character {found[0]!r}; remove it", node)
    return text


def _refuse_tag(loader: _Loader, node: yaml.Node) -> None:
    raise _refusal(f"the tag {node.tag.replace('tag:yaml.org,2002:', '!!')} is not read; write the value alone", node)


def _read_null(loader: _Loader, node: yaml.Node) -> None:
    loader.construct_scalar(node)  # type: ignore[arg-type]


def _read_bool(loader: _Loader, node: yaml.Node) -> bool:
    return _matching(loader, node, _BOOL, "truth value").lower() in ("yes", "true", "on")


def _read_int(loader: _Loader, node: yaml.Node) -> int:
    text = _matching(loader, node, _INT, "whole number").replace("_", "")
    base = {"0x": 16, "0o": 8, "0b": 2}.get(text.lstrip("+-")[:2], 10)
    # A long number is refused by its length, because Python refuses to convert more than 4,300 digits.
    if len(text) > 70 or abs(int(text, base)) >= INTEGERS:
        raise _refusal(f"a whole number of {len(text)} characters; it must be smaller than 2**64", node)
    return int(text, base)


def _read_float(loader: _Loader, node: yaml.Node) -> float:
    text = _matching(loader, node, _FLOAT, "number").replace("_", "")
    return float(text.replace(".", "", 1) if text.lstrip("+-")[1:].isalpha() else text)


def _matching(loader: _Loader, node: yaml.Node, pattern: re.Pattern[str], what: str) -> str:
    text = str(loader.construct_scalar(node))  # type: ignore[arg-type]
    if not pattern.fullmatch(text):
        raise _refusal(f"{text[:60]!r} is no {what}", node)
    return text


_SCALARS = {
    "null": (_NULL, ["~", "n", "N", ""], _read_null),
    "bool": (_BOOL, list("yYnNtTfFoO"), _read_bool),
    "int": (_INT, list("-+0123456789"), _read_int),
    "float": (_FLOAT, list("-+0123456789."), _read_float),
}
for _name, (_pattern, _starts, _read) in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _pattern, _starts)
    _Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _read)
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])
_Loader.add_constructor("tag:yaml.org,2002:str", _read_text)
for _tag in ("seq", "map"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{_tag}"])
_Loader.add_constructor(None, _refuse_tag)


def parse_yaml(text: str) -> tuple[Any, dict[KeyPath, Place]]:
    """Return the value that a text holds, and where its keys and the items of its lists stand.

    Raises:
        YamlTextError: If it is no YAML, holds several documents or a tag of another kind, or goes beyond a limit.

    Example:
        >>> parse_yaml("a: {b: 2e-4}")
        ({'a': {'b': 0.0002}}, {('a',): (1, 1), ('a', 'b'): (1, 5)})
    """
    if len(text) > LARGEST_TEXT:
        raise YamlTextError(f"{len(text)} characters; a configuration has at most {LARGEST_TEXT}")
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        value = loader.construct_document(node)
        places: dict[KeyPath, Place] = {}
        _note_places(node, (), places)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        column = error.position - (text.rfind("\n", 0, error.position) + 1)
        raise YamlTextError(f"the character {chr(error.character)!r} is not allowed", (line + 1, column + 1)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = None if mark is None else (mark.line + 1, mark.column + 1)
        raise YamlTextError(error.problem or "is no YAML", place) from None
    except (ValueError, OverflowError):
        # PyYAML raises this error at an escape such as "\UFFFFFFFF".
        raise YamlTextError("an escape that stands for no character", _here(loader)) from None
    finally:
        if loader is not None:
            loader.dispose()
    return value, places


def _here(loader: _Loader | None) -> Place | None:
    return None if loader is None else (loader.line + 1, loader.column + 1)


def _note_places(node: yaml.Node, path: KeyPath, places: dict[KeyPath, Place]) -> None:
    if isinstance(node, yaml.MappingNode):
        children = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        children = [(str(index), item, item) for index, item in enumerate(node.value)]
    else:
        return
    for name, at, child in children:
        places[(*path, name)] = (at.start_mark.line + 1, at.start_mark.column + 1)
        _note_places(child, (*path, name), places)
