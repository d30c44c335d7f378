"""The keys of configurations with their types, defaults and meanings, and the JSON schema, which editors read.

A key's meaning is written in one place, the docstring of its class.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.values import SELECTING
from orchestrator.regression.suite import Suite
from search_spaces import SPACES
from trainables.config import RANGES, SEARCHED, TrialConfig
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.model_parameters import FEATURES, MODEL_PARAMETERS

KINDS: dict[str, type] = {"experiment": Experiment, "suite": Suite, "training": TrialConfig}
"""Kind of configuration, as ``list keys --of`` names it -> its class."""

Listed = Mapping[str, str]
"""The texts about a name: ``name``, ``meaning`` in one line, and further texts by their headings."""


def make_schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema of a kind of ``KINDS``, with the meaning of each key and hyper-parameter."""
    schema = _schema_of_keys(kind)
    for definition in (schema, *schema.get("$defs", {}).values()):
        _name_parameters(definition.get("properties", {}))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _schema_of_keys(kind: str) -> dict[str, Any]:
    schema: dict[str, Any] = TypeAdapter(KINDS[kind]).json_schema()
    for name, definition in {**schema.get("$defs", {}), KINDS[kind].__name__: schema}.items():
        _describe(definition, name)
    return schema


def list_keys(kind: str) -> list[Listed]:
    """Return all keys of a kind of configuration, sections before their keys, in the order of the classes.

    ``name`` has all keys from the outermost inwards, joined by dots; ``[]`` is an item of a list. ``type`` is in words;
    ``default`` is YAML, or ``required``.
    """
    schema = _schema_of_keys(kind)
    return list(_keys(schema, schema.get("$defs", {})))


def meanings_in(documented: str) -> dict[str, str]:
    """Return attribute -> its meaning in a docstring, with single back quotes."""
    _, _, listed = documented.partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, re.M)
    return {
        name: re.sub(r"\s+", " ", meaning).replace("``", "`").replace("`None`", "`null`").strip()
        for name, meaning in entries
    }


ACCEPTED: dict[str, Iterable[str]] = {"model": FEATURES, "loss": SPACES, "metric": SELECTING}
"""Keys of a training whose accepted names its class checks in code, so that the annotations do not list the names."""


def _describe(definition: dict[str, Any], part: str) -> None:
    """Add meanings, and the ranges of ``training``, to the schema of a class; remove titles that repeat the name."""
    meanings = meanings_in(definition["description"])
    definition["description"] = definition["description"].partition("\n")[0]
    definition["additionalProperties"] = False
    for name, shape in definition.get("properties", {}).items():
        shape.pop("title", None)
        shape["description"] = meanings[name]
        if part == "TrialConfig" and name in ACCEPTED:
            shape["enum"] = list(ACCEPTED[name])
        if part == "TrainingConfig" and name in RANGES:
            _limit(shape, name)


def _limit(shape: dict[str, Any], name: str) -> None:
    allowed = RANGES[name]
    number = next((option for option in shape.get("anyOf", ()) if option["type"] != "null"), shape)
    number["exclusiveMinimum" if allowed.is_open else "minimum"] = allowed.minimum
    if allowed.maximum < float("inf"):
        number["maximum"] = allowed.maximum


def _name_parameters(keys: Mapping[str, Any]) -> None:
    """Add the hyper-parameters of losses and of models, with their rules, to the keys of a class that hold them."""
    for key in ("space", "fixed"):
        if "propertyNames" in keys.get(key, {}):
            values = keys[key]["additionalProperties"]["additionalProperties"]
            keys[key]["properties"] = {loss: _of_loss(loss, values) for loss in SPACES}
    for key, tables in (("model_parameters", MODEL_PARAMETERS), ("loss_parameters", LOSS_PARAMETERS)):
        if key in keys:
            texts: dict[str, list[str]] = {}
            for owner, entries in tables.items():
                for name, entry in entries.items():
                    texts.setdefault(name, []).append(f"{owner}: {entry}")
            values = keys[key]["additionalProperties"]
            keys[key]["properties"] = {name: {**values, "description": ". ".join(of)} for name, of in texts.items()}
    if "space" in keys:
        keys["training"]["propertyNames"] = {"enum": list(SEARCHED)}


def _of_loss(loss: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shape of an object with the parameters of a loss, those that its space suggests included."""
    texts = {name: domain.rule for name, domain in SPACES[loss].domains.items()}
    texts |= {name: str(entry) for name, entry in LOSS_PARAMETERS[loss].items()}
    properties = {name: {**values, "description": text} for name, text in texts.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _keys(schema: Mapping[str, Any], parts: Mapping[str, Any], above: str = "") -> Iterator[Listed]:
    for name, shape in schema["properties"].items():
        full = above + name
        # A default from a factory is missing in the schema; all such defaults are empty mappings.
        default = "required" if name in schema.get("required", ()) else json.dumps(shape.get("default", {}))
        inner = _section(shape, parts)
        is_list = any(branch.get("type") == "array" for branch in _branches(shape, parts))
        default = "see below" if inner and not is_list else default
        yield {"name": full, "type": _type(shape, parts), "default": default, "meaning": shape["description"]}
        if inner is not None:
            yield from _keys(inner, parts, f"{full}[]." if is_list else f"{full}.")


def _section(shape: Mapping[str, Any], parts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the class of a value or of its items."""
    for branch in _branches(shape, parts):
        items = branch.get("items")
        section = branch if "properties" in branch else _section(items, parts) if items else None
        if section is not None:
            return section
    return None


def _branches(shape: Mapping[str, Any], parts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the shapes that a value can have, references resolved."""
    if "$ref" in shape:
        return [parts[shape["$ref"].rpartition("/")[2]]]
    return [branch for option in shape.get("anyOf", ()) for branch in _branches(option, parts)] or [shape]


def _type(shape: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    """Return a type with its range in words."""
    names = list(dict.fromkeys(_name(branch, parts) for branch in _branches(shape, parts)))
    return " or ".join(names) if len(names) < 4 else "any value"


def _name(shape: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    if "enum" in shape or "const" in shape:
        words: Sequence[Any] = shape.get("enum", [shape.get("const")])
        if set(words) >= {*SELECTING}:
            return "name of `orchestrator list metrics`"
        return ", ".join(f"`{word}`" for word in words)
    if "prefixItems" in shape:
        return "`[low, high]`"
    if shape.get("type") == "array":
        return f"list of {_type(shape['items'], parts)}"
    if "properties" in shape:
        return "`{values: [...]}`" if [*shape["properties"]] == ["values"] else "section"
    if shape.get("type") == "object":
        values = shape.get("additionalProperties")
        return f"by name: {_type(values, parts) if isinstance(values, Mapping) else 'any value'}"
    kind = {"integer": "whole number", "boolean": "true or false", "string": "text"}.get(shape["type"], shape["type"])
    limits = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    ranges = [f"{words} {shape[key]:g}" for key, words in limits.items() if key in shape]
    return " ".join([kind, ", ".join(ranges)]).strip()
