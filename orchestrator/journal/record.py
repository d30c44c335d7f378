"""The base of all records, and the conversion between the lines of a journal and typed records."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar

LEFT_OUT = "left out"
"""Key in the metadata of a field: whether lines leave the field out where its value is ``None``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One event of an experiment.

    ``record["epoch"]`` and ``record.get("epoch")`` give the values of the line by name, for code that takes all
    kinds of records. The class is no ``collections.abc.Mapping``, because ``isinstance`` of such classes is slow.

    Attributes:
        n: Position of the record in the journal: 0, 1, 2 ... without a gap; -1 before the record is written.
        format: Number of the journal's format, in its first record only; a journal without one has format 1.
        time: Date of the record, in seconds since the Unix epoch.
        elapsed: Seconds since the process that wrote the record had opened the journal, >= 0, which no change of the
            machine's clock affects; older journals do not have it.
    """

    kind: ClassVar[str]

    n: int = -1
    format: int | None = field(default=None, metadata={LEFT_OUT: True})
    time: float = 0.0
    elapsed: float | None = field(default=None, metadata={LEFT_OUT: True})

    def event(self) -> dict[str, Any]:
        """Return the fields of the event itself, as JSON values under the names and in the order of the line."""
        return _values(self, event_fields(type(self)))

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the line, without the checksum."""
        return {**_values(self, shared_fields()), "kind": self.kind, **self.event()}

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value of the line, or the default where the line has none of the name."""
        return self.to_dict().get(name, default)

    def keys(self) -> Iterable[str]:
        """Return the names of the values of the line."""
        return self.to_dict().keys()

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def __contains__(self, name: str) -> bool:
        return name in self.to_dict()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord(Record):
    """One event of one trial.

    Attributes:
        trial: Id of the trial.
    """

    trial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownRecord(Record):
    """A record of a kind that this version does not know, which is ignored.

    Attributes:
        line: The values of the line by name, without its checksum.
    """

    kind: ClassVar[str] = "unknown"

    line: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the line, without the checksum."""
        return dict(self.line)


@dataclass(frozen=True)
class Form:
    """How a value of a field is written in JSON.

    Attributes:
        read: Converts a JSON value to the value of the field.
        write: Converts the value of the field to a JSON value.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = lambda value: value


FORM = "form"
"""Key in the metadata of a field: its ``Form``, where the JSON value differs from the value."""


@dataclass(frozen=True)
class Layout:
    """The fields of a kind of record, and their form in a line.

    Attributes:
        names: Names of all fields, in their order.
        required: Names of the fields that a line must have.
        readers: Name and ``Form.read`` of each field with a ``Form``.
        writers: Name -> ``Form.write`` of each field with a ``Form``.
        left_out: Names of the fields that a line does not have where they are ``None``.
    """

    names: tuple[str, ...]
    required: tuple[str, ...]
    readers: tuple[tuple[str, Callable[[Any], Any]], ...]
    writers: Mapping[str, Callable[[Any], Any]]
    left_out: frozenset[str]

    @classmethod
    def of(cls, kind: type[Record]) -> "Layout":
        """Return the layout of a kind of record, which is computed once."""
        if kind not in _LAYOUTS:
            all_of_them = fields(kind)
            forms = {one.name: one.metadata[FORM] for one in all_of_them if FORM in one.metadata}
            _LAYOUTS[kind] = cls(
                names=tuple(one.name for one in all_of_them),
                required=tuple(
                    one.name for one in all_of_them if one.default is MISSING and one.default_factory is MISSING
                ),
                readers=tuple((name, form.read) for name, form in forms.items()),
                writers={name: form.write for name, form in forms.items()},
                left_out=frozenset(one.name for one in all_of_them if LEFT_OUT in one.metadata),
            )
        return _LAYOUTS[kind]


_LAYOUTS: dict[type[Record], Layout] = {}


def shared_fields() -> tuple[str, ...]:
    """Return the names of the fields that records of all kinds have."""
    return Layout.of(Record).names


def event_fields(kind: type[Record]) -> tuple[str, ...]:
    """Return the names of the fields that a kind of record has beside the shared fields, in the order of the line."""
    return Layout.of(kind).names[len(shared_fields()) :]


def make(kind: type[Record], values: dict[str, Any]) -> Record:
    """Return a record of a kind from JSON values, which are changed in place.

    Raises:
        TypeError: If a field is missing, or the kind does not have a field.
        ValueError: If a value is none of the allowed words.
        KeyError: If a part of a value is missing.
    """
    for name, read in Layout.of(kind).readers:
        if name in values:
            values[name] = read(values[name])
    return kind(**values)


def missing_fields(kind: type[Record], present: Container[str]) -> list[str]:
    """Return the names of the fields that a record of the kind needs beside those that are present."""
    return [name for name in Layout.of(kind).required if name not in present]


def _values(record: Record, names: tuple[str, ...]) -> dict[str, Any]:
    layout, values = Layout.of(type(record)), {}
    for name in names:
        value = getattr(record, name)
        if value is not None or name not in layout.left_out:
            values[name] = layout.writers[name](value) if name in layout.writers else value
    return values
