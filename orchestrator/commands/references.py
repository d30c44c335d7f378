"""The reference pages of all commands and of all records, made from the code."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from msgspec import structs
from typer.models import ArgumentInfo, OptionInfo

from orchestrator.commands.config_schema import Key, describe_fields, markdown_table
from orchestrator.journal.records import KINDS, LEFT_OUT, SHARED, Record

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
class Parameter:
    """An argument, which has no name on the command line, or an option of a command, as users type them.

    The value is empty for a switch; the default is JSON, ``required``, or empty where there is none.
    """

    name: str
    value: str
    default: str
    meaning: str
    is_argument: bool


@dataclass(frozen=True)
class Command:
    """A command such as ``data describe`` with its help, its arguments and then its options, as ``--help`` has them."""

    name: str
    meaning: str
    parameters: tuple[Parameter, ...]

    @property
    def usage(self) -> str:
        """The command with its arguments and required options; arguments in brackets can be left out."""
        arguments = [one for one in self.parameters if one.is_argument]
        shown = [one.name if one.default == "required" else f"[{one.name}]" for one in arguments]
        options = [one for one in self.parameters if not one.is_argument and one.default == "required"]
        shown += [f"{one.name} {one.name.strip('-').upper()}" for one in options]
        return " ".join(["orchestrator", self.name, *shown])


def list_commands(group: Any) -> list[Command]:
    """Return all commands of a command line, as ``typer.main.get_command`` returns it, in alphabetical order."""
    return [
        Command(name, _markdown(command.help or ""), tuple(_parameters(command)))
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


def _row(parameter: Parameter) -> tuple[str, ...]:
    default = f"`{parameter.default}`" if parameter.default not in ("", "required") else parameter.default
    return f"`{parameter.name}`", parameter.value, default, parameter.meaning


def _leaves(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name in group.commands:
        _, command, _ = group.resolve_command(typer.Context(group), [name])
        if hasattr(command, "commands"):
            yield from _leaves(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def _parameters(command: Any) -> list[Parameter]:
    function = inspect.unwrap(command.callback)
    names = {parameter.name: ", ".join(parameter.opts) for parameter in command.params}
    hints = get_type_hints(function, include_extras=True)
    found = [
        parameter
        for name, declared in inspect.signature(function).parameters.items()
        if get_origin(hints[name]) is Annotated
        for parameter in [_parameter(names[name], hints[name], declared.default)]
    ]
    return sorted(found, key=lambda parameter: not parameter.is_argument)


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    kind, *marks = get_args(hint)
    info = next(mark for mark in marks if isinstance(mark, ArgumentInfo | OptionInfo))
    is_argument, is_switch = isinstance(info, ArgumentInfo), kind is bool
    shown = (info.metavar or name.upper()) if is_argument else name
    value = "" if is_switch else _value(kind)
    if info.metavar and not is_argument:
        value = f"`{info.metavar}`"
    meaning = _markdown(info.help or "")
    if info.envvar:
        meaning += f" From the environment: `{info.envvar}`."
    return Parameter(shown, value, "" if is_switch else _default(default), meaning, is_argument)


def _value(kind: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_value(part) for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is list:
        return f"one or more: {_value(get_args(kind)[0])}"
    return WORDS[kind]


def _default(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    if default is None:
        return ""
    return str(default) if isinstance(default, str | Path) else json.dumps(default)


def _markdown(text: str) -> str:
    """Return help as Markdown: bold text of a terminal is what one types."""
    return re.sub(r"\s+", " ", re.sub(r"\[bold\](.*?)\[/bold\]", r"`\1`", text)).strip()


def list_fields(kind: type[Record]) -> list[Key]:
    """Return the fields of a kind of record in the order of the journal, without the fields that all records have."""
    return _described_fields(kind, kind.__struct_fields__[len(SHARED) :])


def meaning_of(kind: type[Record]) -> str:
    """Return the first line of a record's docstring."""
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def write_record_reference() -> str:
    """Return the reference of all records as Markdown; ``orchestrator list records --markdown`` prints it."""
    lines = [
        "# All records of a journal",
        "",
        "Made from the code by `orchestrator list records --markdown > docs/journal.md`; do not edit it by hand.",
        "",
        "`journal.jsonl` in the folder of an experiment holds all that happened to the experiment: one JSON object a",
        "line, which is only ever appended. A line has the fields of all records, `kind`, the fields of its kind, and",
        "`crc`, the CRC-32 of the line up to there in eight hexadecimal digits. A kill can tear only the last line.",
        "A reader passes over kinds and fields that it does not know. `format` says which versions read a journal: a",
        "version refuses a journal of a newer format as a whole. Format 1 has no number, and is otherwise format 2.",
        "",
        "## Fields of all records",
        "",
        *_field_table(_described_fields(Record, SHARED)),
        "",
        "## Kinds of records",
        "",
        "In the order in which a search comes to write them.",
    ]
    for name, kind in KINDS.items():
        lines += ["", f"### `{name}`", "", meaning_of(kind), "", *_field_table(list_fields(kind))]
    return "\n".join(lines) + "\n"


def _described_fields(kind: type[Record], names: Sequence[str]) -> list[Key]:
    meanings = {name: text for base in reversed(kind.__mro__) for name, text in describe_fields(base).items()}
    types = {field.name: field.type for field in structs.fields(kind)}
    return [Key(name, _type_in_words(types[name], absent=name in LEFT_OUT), "", meanings[name]) for name in names]


def _type_in_words(annotation: Any, *, absent: bool = False) -> str:
    if isinstance(annotation, UnionType):
        options = [_type_in_words(one) for one in get_args(annotation)]
        return " or ".join("absent" if absent and option == "null" else option for option in options)
    if get_origin(annotation) is not None and issubclass(get_origin(annotation), Mapping):
        return f"by name: {_type_in_words(get_args(annotation)[1])}"
    if get_origin(annotation) is not None and issubclass(get_origin(annotation), Sequence):
        return f"list of {_type_in_words(get_args(annotation)[0])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "text"
    return WORDS.get(annotation, "section")


def _field_table(listed: Sequence[Key]) -> list[str]:
    return markdown_table(("field", "type", "meaning"), [(f"`{one.name}`", one.type, one.meaning) for one in listed])
