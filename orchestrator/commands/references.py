"""The reference pages of keys, commands and records, made from the code, and the JSON schema of configurations.

The schema is for editors, the pages for people. A key's meaning is written in one place, the docstring of its class.
"""

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from msgspec import structs
from pydantic import TypeAdapter

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.values import METRICS
from orchestrator.journal import records
from orchestrator.regression.suite import Suite
from search_spaces import SPACES
from trainables.config import RANGES, TrialConfig
from trainables.model_parameters import FEATURES

KINDS: dict[str, type] = {"experiment": Experiment, "suite": Suite, "training": TrialConfig}
"""Kind of configuration, as ``list keys --of`` names it -> its class."""


Listed = Mapping[str, str]
"""The texts about a name: ``name``, ``meaning`` in one line, and further texts by their headings."""


def make_schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema of a kind of ``KINDS``, with the meaning of each key as its description."""
    schema: dict[str, Any] = TypeAdapter(KINDS[kind]).json_schema()
    for name, definition in {**schema.get("$defs", {}), KINDS[kind].__name__: schema}.items():
        _describe(definition, name)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def list_keys(kind: str) -> list[Listed]:
    """Return all keys of a kind of configuration, sections before their keys, in the order of the classes.

    ``name`` has all keys from the outermost inwards, joined by dots; ``[]`` is an item of a list. ``type`` is in words;
    ``default`` is YAML, or ``required``.
    """
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
            (f"`{key['name']}`", key["type"], f"`{key['default']}`", key["meaning"])
            for key in list_keys(kind)
            if kind == "experiment" or not key["name"].startswith(LISTED_ONCE)
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

LISTED_ONCE = ("training.", "resources.")
"""Sections that suites and trainings share with experiments; the reference lists them once."""

ACCEPTED: dict[str, Iterable[str]] = {"model": FEATURES, "loss": SPACES, "metric": METRICS}
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
        values = shape.get("additionalProperties")
        return f"by name: {_type(values, parts) if isinstance(values, Mapping) else 'any value'}"
    kind = {"integer": "whole number", "boolean": "true or false", "string": "text"}.get(shape["type"], shape["type"])
    limits = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    ranges = [f"{words} {shape[key]:g}" for key, words in limits.items() if key in shape]
    return " ".join([kind, ", ".join(ranges)]).strip()


EXIT_CODES = (
    (0, "done"),
    (1, "failed"),
    (2, "bad usage or input; nothing was begun"),
    (3, "already running"),
    (4, "budget spent"),
    (5, "regression found"),
    (130, "interrupted"),
)
"""Exit code of every command -> its meaning."""

WORDS: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    Path: "path",
    Any: "any value",
    NoneType: "null",
}
"""Type of a parameter or of a field -> the type in words."""


@dataclass(frozen=True)
class Command:
    """A command such as ``data describe`` with its help, its arguments and then its options, as ``--help`` has them.

    Attributes:
        parameters: ``name``, ``value``, ``default``, ``meaning`` and ``is_argument`` of each. The value is empty for a
            switch; the default is JSON, ``required``, or empty where there is none.
    """

    name: str
    meaning: str
    parameters: Sequence[Mapping[str, Any]]

    @property
    def usage(self) -> str:
        """The command with its arguments and required options; arguments in brackets can be left out."""
        words = ["orchestrator", self.name]
        for parameter in self.parameters:
            name, is_required = parameter["name"], parameter["default"] == "required"
            if parameter["is_argument"]:
                words.append(name if is_required else f"[{name}]")
            elif is_required:
                words.append(f"{name} {name.strip('-').upper()}")
        return " ".join(words)


def list_commands(group: Any) -> list[Command]:
    """Return all commands of a command line, as ``typer.main.get_command`` returns it, in alphabetical order."""
    return [
        Command(name, _markdown(command.help or ""), _parameters(command))
        for name, command in sorted(_leaves(group, ""))
    ]


def write_command_reference(group: Any) -> str:
    """Return the reference of all commands as Markdown; ``orchestrator list commands --markdown`` prints it."""
    lines = [
        "# All commands",
        "",
        "Made from the code by `orchestrator list commands --markdown > docs/commands.md`; do not edit it by hand.",
        "",
        "Run a command after `. .venv/bin/activate`, or as `.venv/bin/orchestrator`. `--help` of a command says the",
        "same as this page. Arguments in brackets can be left out.",
        "",
        *markdown_table(("exit code", "meaning"), [(str(code), meaning) for code, meaning in EXIT_CODES]),
    ]
    for command in list_commands(group):
        lines += ["", f"## `{command.name}`", "", f"    {command.usage}", "", command.meaning]
        if rows := [_row(parameter) for parameter in command.parameters]:
            lines += ["", *markdown_table(("argument or option", "value", "default", "meaning"), rows)]
    return "\n".join(lines) + "\n"


def _row(parameter: Mapping[str, Any]) -> tuple[str, ...]:
    name, value, default, meaning, _ = parameter.values()
    return f"`{name}`", value, default if default in ("", "required") else f"`{default}`", meaning


def _leaves(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name in group.commands:
        _, command, _ = group.resolve_command(typer.Context(group), [name])
        if hasattr(command, "commands"):
            yield from _leaves(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def _parameters(command: Any) -> list[dict[str, Any]]:
    kinds = get_type_hints(inspect.unwrap(command.callback))
    parameters = [_parameter(declared, kinds[declared.name]) for declared in command.params if declared.name in kinds]
    return sorted(parameters, key=lambda parameter: not parameter["is_argument"])


def _parameter(declared: Any, kind: Any) -> dict[str, Any]:
    is_argument, is_switch = declared.param_type_name == "argument", kind is bool
    name, metavar = ", ".join(declared.opts), declared.metavar
    value = "" if is_switch else f"`{metavar}`" if metavar and not is_argument else _value(kind)
    default = "required" if declared.required else "" if is_switch else _default(declared.default)
    meaning = _markdown(declared.help or "")
    if declared.envvar:
        meaning += f" From the environment: `{declared.envvar}`."
    shown = (metavar or name.upper()) if is_argument else name
    return {"name": shown, "value": value, "default": default, "meaning": meaning, "is_argument": is_argument}


def _value(kind: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_value(part) for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is list:
        return f"one or more: {_value(get_args(kind)[0])}"
    return WORDS[kind]


def _default(default: Any) -> str:
    if default is None:
        return ""
    return str(default) if isinstance(default, str | Path) else json.dumps(default)


def _markdown(text: str) -> str:
    """Return help as Markdown: bold text of a terminal is what one types."""
    return re.sub(r"\s+", " ", re.sub(r"\[bold\](.*?)\[/bold\]", r"`\1`", text)).strip()


def list_fields(kind: type[records.Record]) -> list[Listed]:
    """Return the fields of a kind of record in the order of the journal, without the fields that all records have."""
    return _described_fields(kind, kind.__struct_fields__[len(records.SHARED) :])


def meaning_of(documented: Any) -> str:
    """Return the first line of a docstring without its citations."""
    return re.sub(r" \[[^]]*\]", "", (inspect.getdoc(documented) or "").partition("\n")[0])


def write_record_reference() -> str:
    """Return the reference of all records as Markdown; ``orchestrator list records --markdown`` prints it."""
    lines = [
        "# All records of a journal",
        "",
        "Made from the code by `orchestrator list records --markdown > docs/journal.md`; do not edit it by hand.",
        "",
        "`journal.jsonl` in the folder of an experiment holds all that happened to the experiment: one JSON object a",
        "line, which is only ever appended. A line has the fields of all records, `kind`, and the fields of its kind.",
        "It ends with `crc`, the CRC-32 of the line up to there in eight hexadecimal digits. A kill can tear only the",
        "last line. A reader passes over kinds and fields that it does not know. `format` says which versions read a",
        "journal: a version refuses a journal of a newer format as a whole. Format 1 has no number, and is otherwise",
        "format 2.",
        "",
        "## Fields of all records",
        "",
        *_field_table(_described_fields(records.Record, records.SHARED)),
        "",
        "## Kinds of records",
        "",
        "In the order in which a search comes to write them.",
    ]
    for name, kind in records.KINDS.items():
        lines += ["", f"### `{name}`", "", meaning_of(kind), "", *_field_table(list_fields(kind))]
    return "\n".join(lines) + "\n"


def _described_fields(kind: type[records.Record], names: Sequence[str]) -> list[Listed]:
    meanings = {name: text for base in reversed(kind.__mro__) for name, text in describe_fields(base).items()}
    types = {field.name: field.type for field in structs.fields(kind)}
    words = {name: _type_in_words(types[name], absent=name in records.LEFT_OUT) for name in names}
    return [{"name": name, "type": words[name], "meaning": meanings[name]} for name in names]


def _type_in_words(annotation: Any, *, absent: bool = False) -> str:
    if isinstance(annotation, UnionType):
        options = [_type_in_words(member) for member in get_args(annotation)]
        return " or ".join("absent" if absent and option == "null" else option for option in options)
    if get_origin(annotation) is not None and issubclass(get_origin(annotation), Mapping):
        return f"by name: {_type_in_words(get_args(annotation)[1])}"
    if get_origin(annotation) is not None and issubclass(get_origin(annotation), Sequence):
        return f"list of {_type_in_words(get_args(annotation)[0])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "text"
    return WORDS.get(annotation, "section")


def _field_table(fields: Sequence[Listed]) -> list[str]:
    rows = [(f"`{field['name']}`", field["type"], field["meaning"]) for field in fields]
    return markdown_table(("field", "type", "meaning"), rows)
