"""All kinds of records, in the order in which a search first writes them, and the parser of lines."""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any

import msgspec
from msgspec import structs

from orchestrator.journal.confirmation_records import ConfirmationPlanned, EvaluatedOnTest, OpenedTest
from orchestrator.journal.experiment_records import (
    ConcurrencyLowered,
    ExperimentEnded,
    ExperimentStarted,
    FusionMeasured,
    LimitNoted,
    MemoryMeasured,
    PopulationMoved,
    SuiteStarted,
    WarmStarted,
)
from orchestrator.journal.record import SHARED, Record, UnknownRecord
from orchestrator.journal.trial_records import (
    CheckpointDamaged,
    EpochEnded,
    EpochLine,
    TrialCreated,
    TrialEnded,
    TrialPaused,
    TrialRetried,
    TrialStarted,
)

RECORDS: tuple[type[Record], ...] = (
    ExperimentStarted,
    SuiteStarted,
    WarmStarted,
    MemoryMeasured,
    FusionMeasured,
    LimitNoted,
    TrialCreated,
    TrialStarted,
    EpochEnded,
    TrialPaused,
    PopulationMoved,
    CheckpointDamaged,
    ConcurrencyLowered,
    TrialRetried,
    TrialEnded,
    ConfirmationPlanned,
    OpenedTest,
    EvaluatedOnTest,
    ExperimentEnded,
)
"""The kinds of records that this version reads and writes."""

KINDS: dict[str, type[Record]] = {str(record.__struct_config__.tag): record for record in RECORDS}
"""Kind, as in a line -> its class."""

_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(
    reduce(or_, (EpochLine if record is EpochEnded else record for record in RECORDS))
)


CHECKSUM = "crc"
"""Name of the last value of a line."""


class RecordError(ValueError):
    """An undamaged line whose fields do not make a record of its kind."""


def read_record(line: bytes | memoryview) -> Record:
    """Return the typed record of a line in JSON; fields that its kind does not have are ignored.

    Raises:
        RecordError: If the line is no record, a field is missing, or a field has a value that is not allowed.
    """
    try:
        record = _DECODER.decode(line)
    except msgspec.DecodeError:
        return parse(read_values(line))
    return record.record if isinstance(record, EpochLine) else record


def read_values(line: bytes | memoryview) -> dict[str, Any]:
    """Return the values of a line by name, without its checksum.

    Raises:
        RecordError: If the line is no JSON object with a kind.
    """
    try:
        values: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise RecordError(f"no record: {error}") from None
    values.pop(CHECKSUM, None)
    return values


def parse(values: Mapping[str, Any]) -> Record:
    """Return the typed record of the values of a line; fields that the kind does not have are ignored.

    Args:
        values: The line's values by name, without its checksum.

    Raises:
        RecordError: If a field is missing, or has a value that is not allowed.
    """
    name = values.get("kind")
    if not isinstance(name, str):
        raise RecordError("a record without a kind")
    if name not in KINDS:
        return UnknownRecord(line=values, **{field: values[field] for field in SHARED if field in values})
    kind = KINDS[name]
    required = (field.name for field in structs.fields(kind) if field.required)
    if missing := [field for field in required if field not in values]:
        raise RecordError(f"a record of kind {name} without {', '.join(missing)}")
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise RecordError(f"a record of kind {name}: {error}") from None
