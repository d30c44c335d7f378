"""All kinds of records, in the order in which a search first writes them, and the parser of lines."""

from collections.abc import Mapping
from typing import Any

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
from orchestrator.journal.record import Record, UnknownRecord, event_fields, make, missing_fields, shared_fields
from orchestrator.journal.trial_records import (
    CheckpointDamaged,
    EpochEnded,
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

KINDS = {record.kind: record for record in RECORDS}
"""Kind, as in a line -> its class."""


class RecordError(ValueError):
    """An undamaged line whose fields do not make a record of its kind."""


def parse(values: Mapping[str, Any]) -> Record:
    """Return the typed record of a line; fields that the kind does not have are ignored.

    Args:
        values: The line's values by name, without its checksum.

    Raises:
        RecordError: If a field is missing, or has a value that is not allowed.
    """
    fields = dict(values)
    kind = KINDS.get(fields.pop("kind"))
    if kind is None:
        return UnknownRecord(line=values, **{name: values[name] for name in shared_fields() if name in values})
    try:
        return make(kind, fields)
    except (TypeError, ValueError, KeyError):
        # Unknown fields are removed only after a failure, because a search reads tens of thousands of records.
        return _make_of_known(kind, values)


def _make_of_known(kind: type[Record], values: Mapping[str, Any]) -> Record:
    known = {name: values[name] for name in (*shared_fields(), *event_fields(kind)) if name in values}
    if missing := missing_fields(kind, known):
        raise RecordError(f"a record of kind {kind.kind} without {', '.join(missing)}")
    try:
        return make(kind, known)
    except (TypeError, ValueError, KeyError) as error:
        raise RecordError(f"a record of kind {kind.kind}: {error}") from None
