"""The base of all records: typed structs, of which a line of a journal names the kind."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

LEFT_OUT = frozenset({"format", "elapsed", "first", "level", "ranks", "judged"})
"""Fields that a line does not have where they are ``None``."""


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """One event of an experiment.

    ``record["epoch"]`` and ``record.get("epoch")`` give the values of the line by name, for code that takes all
    kinds of records.

    Attributes:
        n: Position of the record in the journal: 0, 1, 2 ... without a gap; -1 before the record is written.
        format: Number of the journal's format, in its first record only; a journal without one has format 1.
        time: Date of the record, in seconds since the Unix epoch.
        elapsed: Seconds since the process that wrote the record had opened the journal, >= 0, which no change of the
            machine's clock affects; older journals do not have it.
    """

    n: int = -1
    format: int | None = None
    time: float = 0.0
    elapsed: float | None = None

    @property
    def kind(self) -> str:
        """Kind of the record, as in its line."""
        return str(self.__struct_config__.tag)

    def event(self) -> dict[str, Any]:
        """Return the fields of the event itself, under the names and in the order of the line."""
        return _present({name: getattr(self, name) for name in event_fields(type(self))})

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the line, without the checksum."""
        return _present({name: getattr(self, name) for name in SHARED}) | {"kind": self.kind} | self.event()

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


SHARED = Record.__struct_fields__
"""Names of the fields that records of all kinds have, in the order of the line."""


def event_fields(kind: type[Record]) -> tuple[str, ...]:
    """Return the names of the fields that a kind of record has beside ``SHARED``, in the order of the line."""
    return kind.__struct_fields__[len(SHARED) :]


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None or name not in LEFT_OUT}


class TrialRecord(Record, frozen=True, kw_only=True):
    """One event of one trial.

    Attributes:
        trial: Id of the trial.
    """

    trial: str


class UnknownRecord(Record, frozen=True, kw_only=True):
    """A record of a kind that this version does not know, which is ignored.

    Attributes:
        line: The values of the line by name, without its checksum.
    """

    line: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Kind of the record, as in its line."""
        return str(self.line["kind"])

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the line, without the checksum."""
        return dict(self.line)
