"""The keys of configurations with type, default, range and meaning, from the models that check them.

The JSON schema is for editors, the reference (``docs/experiment-keys.md``) for people. The meaning of a key is written
in one place, the docstring of the key's class.
"""

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.values import METRICS
from orchestrator.regression.suite import Suite
from search_spaces import SPACES
from trainables.config import RANGES, TrialConfig
from trainables.model_parameters import FEATURES

KINDS: dict[str, type] = {"experiment": Experiment, "suite": Suite, "training": TrialConfig}
"""Kind of configuration, as ``list keys --of`` names it -> its class."""


@dataclass(frozen=True)
class Key:
    """A key of a configuration, or a field of a record.

    Attributes:
        name: All keys from the outermost inwards, joined by dots; ``[]`` is an item of a list.
        type: Type of the value, in words.
        default: Default as YAML, or ``required``; empty for a field of a record.
        meaning: Meaning of the key in the docstring of its class.
    """

    name: str
    type: str
    default: str
    meaning: str


def make_schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema of a kind of ``KINDS``, with the meaning of each key as its description."""
    schema: dict[str, Any] = TypeAdapter(KINDS[kind]).json_schema()
    for name, definition in {**schema.get("$defs", {}), KINDS[kind].__name__: schema}.items():
        _describe(definition, name)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def list_keys(kind: str) -> list[Key]:
    """Return all keys of a kind of configuration, sections before their keys, in the order of the classes."""
    schema = make_schema(kind)
    return list(_keys(schema, schema.get("$defs", {})))


def describe_fields(part: type) -> dict[str, str]:
    """Return attribute -> its meaning in the docstring of a class."""
    return meanings_in(inspect.getdoc(part) or "")


def meanings_in(documented: str) -> dict[str, str]:
    """Return attribute -> its meaning in a docstring, with single back quotes."""
    _, _, listed = documented.partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, re.M)
    return {
        name: re.sub(r"\s+", " ", meaning).replace("``", "`").replace("`None`", "`null`").strip()
        for name, meaning in entries
    }


def write_reference() -> str:
    """Return the reference of all keys as Markdown; ``orchestrator list keys --markdown`` prints it."""
    lines = [
        "# All keys of experiments, suites and trainings",
        "",
        "Made from the code by `orchestrator list keys --markdown > docs/experiment-keys.md`; do not edit it by hand.",
        "[losses.md](losses.md) describes the losses and their parameters, [cocos.md](cocos.md) the COCOS counts.",
        "",
        "Editors check and complete a file that names the JSON schema of its kind in its first line:",
        "",
        "```sh",
        "orchestrator list keys --schema > experiment.schema.json      # --of suite, --of training: the other kinds",
        "```",
        "",
        "```yaml",
        "# yaml-language-server: $schema=experiment.schema.json",
        "name: my-experiment",
        "```",
        "",
        '`[]` in a key means each item of a list; "by name" is a section whose keys are names. Limits in a type',
        "are checked before anything starts.",
    ]
    for kind in KINDS:
        rows = [
            (f"`{key.name}`", key.type, f"`{key.default}`", key.meaning)
            for key in list_keys(kind)
            if kind == "experiment" or not key.name.startswith(SHARED)
        ]
        lines += ["", f"## {TITLES[kind]}", "", *markdown_table(("key", "type", "default", "meaning"), rows)]
    return "\n".join(lines) + "\n"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose cells are Markdown already."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in (headings, *rows)]
    return [lines[0], "|---" * len(headings) + "|", *lines[1:]]


TITLES = {
    "experiment": "An experiment (`orchestrator search`)",
    "suite": "A suite (`orchestrator regress`)",
    "training": "One training (`orchestrator train`)",
}

SHARED = ("training.", "resources.")
"""Sections that suites and trainings share with experiments; the reference lists them once."""

WORDS: dict[str, Iterable[str]] = {"model": FEATURES, "loss": SPACES, "metric": METRICS}
"""Keys of a training whose accepted names its class checks in code, so that the annotations do not list the names."""


def _describe(definition: dict[str, Any], part: str) -> None:
    """Add meanings, and the ranges of ``training``, to the schema of a class; remove titles that repeat the name."""
    meanings = meanings_in(definition["description"])
    definition["description"] = definition["description"].partition("\n")[0]
    definition["additionalProperties"] = False
    for name, shape in definition.get("properties", {}).items():
        shape.pop("title", None)
        shape["description"] = meanings[name]
        if part == "TrialConfig" and name in WORDS:
            shape["enum"] = list(WORDS[name])
        if part == "TrainingConfig" and name in RANGES:
            _limit(shape, name)


def _limit(shape: dict[str, Any], name: str) -> None:
    allowed = RANGES[name]
    number = next((one for one in shape.get("anyOf", ()) if one["type"] != "null"), shape)
    number["exclusiveMinimum" if allowed.is_open else "minimum"] = allowed.minimum
    if allowed.maximum < float("inf"):
        number["maximum"] = allowed.maximum


def _keys(schema: Mapping[str, Any], parts: Mapping[str, Any], above: str = "") -> Iterator[Key]:
    for name, shape in schema["properties"].items():
        full = above + name
        # A default from a factory is missing in the schema; all such defaults are empty mappings.
        default = "required" if name in schema.get("required", ()) else json.dumps(shape.get("default", {}))
        inner = _section(shape, parts)
        is_list = any(one.get("type") == "array" for one in _branches(shape, parts))
        yield Key(full, _type(shape, parts), "see below" if inner and not is_list else default, shape["description"])
        if inner is not None:
            yield from _keys(inner, parts, f"{full}[]." if is_list else f"{full}.")


def _section(shape: Mapping[str, Any], parts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the class of a value or of its items."""
    for one in _branches(shape, parts):
        items = one.get("items")
        found = one if "properties" in one else _section(items, parts) if items else None
        if found is not None:
            return found
    return None


def _branches(shape: Mapping[str, Any], parts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the shapes that a value can have, references resolved."""
    if "$ref" in shape:
        return [parts[shape["$ref"].rpartition("/")[2]]]
    return [found for one in shape.get("anyOf", ()) for found in _branches(one, parts)] or [shape]


def _type(shape: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    """Return a type with its range in words."""
    names = list(dict.fromkeys(_name(one, parts) for one in _branches(shape, parts)))
    return " or ".join(names) if len(names) < 4 else "any value"


def _name(shape: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    if "enum" in shape or "const" in shape:
        words: Sequence[Any] = shape.get("enum", [shape.get("const")])
        if set(words) >= set(METRICS):
            return "name of `orchestrator list metrics`"
        return ", ".join(f"`{word}`" for word in words)
    if "prefixItems" in shape:
        return "`[low, high]`"
    if shape.get("type") == "array":
        return f"list of {_type(shape['items'], parts)}"
    if "properties" in shape:
        return "`{values: [...]}`" if [*shape["properties"]] == ["values"] else "section"
    if shape.get("type") == "object":
        return _mapping(shape, parts)
    kind = {"integer": "whole number", "boolean": "true or false", "string": "text"}.get(shape["type"], shape["type"])
    limits = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    ranges = [f"{words} {shape[key]:g}" for key, words in limits.items() if key in shape]
    return " ".join([kind, ", ".join(ranges)]).strip()


def _mapping(shape: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    values = shape.get("additionalProperties")
    return f"by name: {_type(values, parts)}" if isinstance(values, Mapping) else "by name: any value"
