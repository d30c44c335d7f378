"""YAML text as plain values, read within limits, with the place of each key.

A configuration comes from people, and from programs that make mistakes: a text that would take minutes or gigabytes to
read is refused early, with the place. Only texts, numbers, truth values, null, lists and mappings are read; no
text can name a class.

References:
    [YAML] YAML 1.2.2, section 10.3, the core schema: a number is 12, 0o14, 0xC, 1.5 or 2e-4, and 1:30 is a text.
"""

import re
from typing import Any

import yaml

KeyPath = tuple[str, ...]
"""The keys that lead to a value, from the outermost; the index where it is in a list."""

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

Place = tuple[int, int]
"""Line and column, from 1."""

_WORDS: dict[str, bool | None] = {
    form: value
    for words, value in ((("null",), None), (("yes", "true", "on"), True), (("no", "false", "off"), False))
    for word in words
    for form in (word, word.capitalize(), word.upper())
} | {"~": None, "": None}
"""Texts without quotes that are null or truth values."""

_INT = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+|[0-9][0-9_]*)")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
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


class _Loader(yaml.BaseLoader):
    """Reads nodes, and refuses tags, depth and number of the nodes while it reads."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._open: list[str | None] = []

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node within the limits; an alias gives the node that it repeats."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in self._open:
                raise _refusal(f"alias *{event.anchor} is part of its own value", event)
            return super().compose_node(parent, index)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise _refusal(f"the tag {tag} is not read; write the value alone", event)
        self._nodes += 1
        self._open.append(event.anchor)
        _check_size(self._nodes, len(self._open), event)
        node = super().compose_node(parent, index)
        self._open.pop()
        return node


class _Builder:
    """Builds plain values of nodes, and notes the places of their keys and items."""

    def __init__(self) -> None:
        self.places: dict[KeyPath, Place] = {}
        self._nodes = 0

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        """Return the value of a node that ``path`` leads to; the value of an alias is built each time."""
        self._nodes += 1
        _check_size(self._nodes, len(path), node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._inner(item, item, (*path, str(index))) for index, item in enumerate(node.value)]
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        lines: dict[str, int] = {}
        # Merged values come first, so that the places of the mapping's own keys replace theirs.
        for key_node, value_node in sorted(node.value, key=lambda pair: not _is_merge(pair[0])):
            if _is_merge(key_node):
                sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for source in sources:
                    if not isinstance(source, yaml.MappingNode):
                        raise _refusal("<< takes a mapping, or a list of mappings", source)
                    merged = {**self.value(source, path), **merged}
                continue
            key = _key(key_node)
            if key in own:
                raise _refusal(
                    f"key {key!r} is there twice, first in line {lines[key]}; remove one of the two", key_node
                )
            lines[key] = key_node.start_mark.line + 1
            own[key] = self._inner(key_node, value_node, (*path, key))
        return {**merged, **own}

    def _inner(self, at: yaml.Node, node: yaml.Node, path: KeyPath) -> Any:
        self.places[path] = (at.start_mark.line + 1, at.start_mark.column + 1)
        return self.value(node, path)


def _check_size(nodes: int, depth: int, at: Any) -> None:
    if nodes > MOST_NODES:
        raise _refusal(f"more than {MOST_NODES} keys and values, counting those of aliases", at)
    if depth > DEEPEST:
        raise _refusal(f"more than {DEEPEST} lists or mappings within each other", at)


def _is_merge(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value == "<<"


def _key(node: yaml.Node) -> str:
    key = _scalar(node) if isinstance(node, yaml.ScalarNode) else None
    if not isinstance(key, str):
        raise _refusal(f"a key must be a text, got {str(node.value)[:60]!r}; write it in quotes", node)
    if len(key) > LONGEST_KEY or not key.isprintable():
        raise _refusal(f"a key has at most {LONGEST_KEY} characters, all printable, got {key[:40]!r}", node)
    return key


def _scalar(node: yaml.Node) -> Any:
    """Return the text, number, truth value or null of a node; what is in quotes is a text."""
    text = str(node.value)
    if (control := _CONTROL.search(text)) is not None:
        raise _refusal(f"a text holds the control character {control[0]!r}; remove it", node)
    if not isinstance(node, yaml.ScalarNode) or node.style is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    digits = text.replace("_", "")
    if _INT.fullmatch(text):
        base = {"0x": 16, "0o": 8, "0b": 2}.get(digits.lstrip("+-")[:2], 10)
        # A long number is refused by its length, because Python refuses to convert more than 4,300 digits.
        if len(digits) > 70 or abs(int(digits, base)) >= INTEGERS:
            raise _refusal(f"a whole number of {len(digits)} characters; it must be smaller than 2**64", node)
        return int(digits, base)
    if _FLOAT.fullmatch(text):
        return float(digits.replace(".", "", 1) if digits.lstrip("+-")[1:].isalpha() else digits)
    return text


def _refusal(problem: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def parse_yaml(text: str) -> tuple[Any, dict[KeyPath, Place]]:
    """Return the value that a text holds, and the places of its keys and of the items of its lists.

    Raises:
        YamlTextError: If it is no YAML, holds several documents or a tag, or goes beyond a limit.

    Example:
        >>> parse_yaml("a: {b: 2e-4}")
        ({'a': {'b': 0.0002}}, {('a',): (1, 1), ('a', 'b'): (1, 5)})
    """
    if len(text) > LARGEST_TEXT:
        raise YamlTextError(f"{len(text)} characters; a configuration has at most {LARGEST_TEXT}")
    builder, place = _Builder(), None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return (None if node is None else builder.value(node, ())), builder.places
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
        problem = f"the character {chr(error.character)!r} is not allowed"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = None if mark is None else (mark.line + 1, mark.column + 1)
        problem = error.problem or "is no YAML"
    except (ValueError, OverflowError):
        # PyYAML raises this error at an escape such as "\UFFFFFFFF".
        place = (loader.line + 1, loader.column + 1)
        problem = "an escape without a character"
    raise YamlTextError(problem, place)
