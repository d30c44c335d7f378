"""The reference of the records of a journal, made from their classes."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from msgspec import structs

from orchestrator.commands.config_schema import describe_fields
from orchestrator.journal.records import KINDS, LEFT_OUT, SHARED, Record, event_fields

WORDS: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    Any: "any value",
    NoneType: "null",
}
"""Type of a field -> name of its JSON type."""


@dataclass(frozen=True)
class Field:
    """A field of a record.

    Attributes:
        name: Key in the line of the journal.
        type: Type of the JSON value, in words.
        meaning: Meaning of the value, with unit and range.
    """

    name: str
    type: str
    meaning: str


def list_fields(kind: type[Record]) -> list[Field]:
    """Return the fields of a kind of record in the order of the journal, without the fields that all records have."""
    return _described(kind, event_fields(kind))


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
        *_table(_described(Record, SHARED)),
        "",
        "## Kinds of records",
        "",
        "In the order in which a search comes to write them.",
    ]
    for name, kind in KINDS.items():
        lines += ["", f"### `{name}`", "", meaning_of(kind), "", *_table(list_fields(kind))]
    return "\n".join(lines) + "\n"


def _described(kind: type[Record], names: Sequence[str]) -> list[Field]:
    meanings = {name: text for base in reversed(kind.__mro__) for name, text in describe_fields(base).items()}
    types = {field.name: field.type for field in structs.fields(kind)}
    return [Field(name, _type_in_words(types[name], absent=name in LEFT_OUT), meanings[name]) for name in names]


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


def _table(listed: Sequence[Field]) -> list[str]:
    rows = [f"| `{one.name}` | {one.type} | {one.meaning} |" for one in listed]
    return ["| field | type | meaning |", "|---|---|---|", *rows]
