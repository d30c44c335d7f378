"""The reference pages of keys, commands and records, made from the code.

python docs/site/references.py experiment-keys > docs/experiment-keys.md
"""

import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from msgspec import structs

from orchestrator.cli import app
from orchestrator.commands.keys import KINDS, Listed, list_keys, meanings_in
from orchestrator.commands.list_names import meaning_of
from orchestrator.journal import records
from search_spaces import SPACES
from trainables.model_parameters import FEATURES

TITLES = {
    "experiment": "An experiment (`orchestrator search`)",
    "suite": "A suite (`orchestrator regress`)",
    "training": "One training (`orchestrator train`)",
}


LISTED_ONCE = ("training.", "resources.")
"""Sections that suites and trainings share with experiments; the reference lists them once."""


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


def write_reference() -> str:
    """Return the reference of all keys as Markdown."""
    lines = [
        "# All keys of experiments, suites and trainings",
        "",
        "Made from the code by `python docs/site/references.py experiment-keys`; do not edit it by hand.",
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
        "In brackets are the type and the default of a key. Limits in a type are checked before anything starts.",
        "`orchestrator list losses`, `list models` and `list metrics` print the names.",
        '`[]` in a key means each item of a list; "by name" is a section whose keys are names.',
    ]
    of_experiments = {(key["name"], key["default"], key["meaning"]) for key in list_keys("experiment")}
    for kind in KINDS:
        keys = [key for key in list_keys(kind) if kind == "experiment" or not key["name"].startswith(LISTED_ONCE)]
        known = [key["name"] for key in keys if (key["name"], key["default"], key["meaning"]) in of_experiments]
        rows = [
            (f"`{key['name']}` ({_with_default(key)})", _without_limit(key))
            for key in keys
            if kind == "experiment" or key["name"] not in known
        ]
        lines += ["", f"## {TITLES[kind]}", "", *_list_of(rows)]
        if kind != "experiment":
            lines += ["", f"As in an experiment: {', '.join(f'`{name}`' for name in ('training', *known))}."]
    return "\n".join(lines) + "\n"


def _with_default(key: Listed) -> str:
    """Return type and default; a section has none, and the type of one that is ``null`` need not say so."""
    kind, default = _shorter(key["type"]), key["default"]
    if default == "see below":
        return kind
    return f"{kind.removesuffix(' or null') if default == 'null' else kind}; `{default}`"


def _shorter(kind: str) -> str:
    """Return a type in few words: what a name names, in place of all names."""
    for what, names in (("a loss", SPACES), ("a model", FEATURES)):
        kind = kind.replace(", ".join(f"`{name}`" for name in names), what)
    return kind.replace("name of `orchestrator list metrics`", "a metric").replace("list of a ", "list of ")


def _without_limit(key: Listed) -> str:
    """Return the meaning of a key without a limit that its type has already."""
    limits = {">=": "at least", ">": "above"}
    return re.sub(
        r",? (>=?) ([\d.]+)(?=[,:;.]( |$))",
        lambda found: "" if f"{limits[found[1]]} {found[2]}" in key["type"] else found[0],
        key["meaning"],
    )


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose cells are Markdown already."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in (headings, *rows)]
    return [lines[0], "|---" * len(headings) + "|", *lines[1:]]


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


def list_commands() -> list[Command]:
    """Return all commands in alphabetical order."""
    group = typer.main.get_command(app)
    return [
        Command(name, _markdown(command.help or ""), _parameters(command))
        for name, command in sorted(_leaves(group, ""))
    ]


def write_command_reference() -> str:
    """Return the reference of all commands as Markdown; options that several commands share stand there once."""
    commands = list_commands()
    uses: dict[tuple[str, str], list[str]] = {}
    for command in commands:
        for parameter in command.parameters:
            uses.setdefault(_row(parameter), []).append(f"`{command.name}`")
    shared = {row: names for row, names in uses.items() if len(names) > 1}
    most = {name: max(len(names) for (other, _), names in shared.items() if other == name) for name, _ in shared}
    once = Counter(name for name, _ in shared)
    described = [
        (name, meaning if once[name] == 1 or len(names) == most[name] else f"{meaning} Of {', '.join(names)}.")
        for (name, meaning), names in shared.items()
    ]
    lines = [
        "# All commands",
        "",
        "Made from the code by `python docs/site/references.py commands`; do not edit it by hand.",
        "",
        "Run a command after `. .venv/bin/activate`, or as `.venv/bin/orchestrator`. `--help` of a command says the",
        "same as this page, with the types. Arguments in brackets can be left out; defaults are in brackets.",
        "",
        *markdown_table(("exit code", "meaning"), [(str(code), meaning) for code, meaning in EXIT_CODES]),
        "",
        "## Options of several commands",
        "",
        *_list_of(described),
    ]
    for command in commands:
        rows = [_row(parameter) for parameter in command.parameters]
        lines += ["", f"## `{command.usage.removeprefix('orchestrator ')}`", "", command.meaning]
        if own := [row for row in rows if row not in shared]:
            lines += ["", *_list_of(_joined(own))]
        if also := [f"`{row[0].split('`')[1].split()[0]}`" for row in rows if row in shared]:
            lines += ["", f"Also {', '.join(also)}."]
    return "\n".join(lines) + "\n"


def _row(parameter: Mapping[str, Any]) -> tuple[str, str]:
    name, value, default, meaning, is_argument = parameter.values()
    shown = f"`{name} {value.strip('`')}`" if re.fullmatch("`[^`]+`", value) and not is_argument else f"`{name}`"
    choices = f" One of {value}." if "`, `" in value else ""
    return shown + (f" (`{default}`)" if default not in ("", "required") else ""), meaning + choices


def _list_of(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [f"- {name}: {meaning}" for name, meaning in rows]


def _joined(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return rows of which those with one meaning are one row."""
    meanings = dict.fromkeys(meaning for _, meaning in rows)
    return [(", ".join(name for name, text in rows if text == meaning), meaning) for meaning in meanings]


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


def write_record_reference() -> str:
    """Return the reference of all records as Markdown."""
    lines = [
        "# All records of a journal",
        "",
        "Made from the code by `python docs/site/references.py journal`; do not edit it by hand.",
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
        *_field_list(_described_fields(records.Record, records.SHARED)),
        "",
        "## Kinds of records",
        "",
        "In the order in which a search comes to write them.",
    ]
    for name, kind in records.KINDS.items():
        lines += ["", f"### `{name}`", "", meaning_of(kind), "", *_field_list(list_fields(kind))]
    return "\n".join(lines) + "\n"


def list_fields(kind: type[records.Record]) -> list[Listed]:
    """Return the fields of a kind of record in the order of the journal, without the fields that all records have."""
    return _described_fields(kind, kind.__struct_fields__[len(records.SHARED) :])


def _described_fields(kind: type[records.Record], names: Sequence[str]) -> list[Listed]:
    meanings = {name: text for base in reversed(kind.__mro__) for name, text in describe_fields(base).items()}
    types = {field.name: field.type for field in structs.fields(kind)}
    words = {name: _type_in_words(types[name], absent=name in records.LEFT_OUT) for name in names}
    return [{"name": name, "type": words[name], "meaning": meanings[name]} for name in names]


def describe_fields(part: type) -> dict[str, str]:
    """Return attribute -> its meaning in the docstring of a class."""
    return meanings_in(inspect.getdoc(part) or "")


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


def _field_list(fields: Sequence[Listed]) -> list[str]:
    return _list_of((f"`{field['name']}` ({field['type']})", field["meaning"]) for field in fields)


PAGES: dict[str, Callable[[], str]] = {
    "experiment-keys": write_reference,
    "commands": write_command_reference,
    "journal": write_record_reference,
}
"""Name of a page in ``docs/`` -> the function that writes it."""

if __name__ == "__main__":
    print(PAGES[sys.argv[1]](), end="")
