"""Keeps what can be kept of a journal with damaged lines: all records that do not build on a damaged line.

A trial keeps its epochs up to a gap, and is trained again from there. A trial whose creation is lost, or whose number
is no longer the next of its study, is dropped with all its records and the plans of a confirmation that name it. The
sampler then suggests the trial again. Records of opened test splits are always kept.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.journal import records
from orchestrator.journal.history import History
from orchestrator.journal.journal import JournalError, check_format, copy_name, is_whole, keep_copy, seal
from orchestrator.journal.trial import Stage
from trainables.files import write_whole

Line = Mapping[str, Any]
"""The values of a line by name, without its checksum."""


@dataclass(frozen=True)
class Salvage:
    """The records of a damaged journal that can be kept.

    Attributes:
        kept: Lines that are kept, oldest first.
        damaged: Numbers, from 1, of the lines that cannot be read, occur twice, or lack the lines before them.
        lost: Trial, or kind of record -> number of readable records that are dropped.
    """

    path: Path
    kept: Sequence[Line]
    damaged: Sequence[int]
    lost: Counter[str]

    @property
    def statement(self) -> str:
        """The damaged lines and the records that are lost with them, in one line."""
        lines = f"line{'s' if len(self.damaged) > 1 else ''} {', '.join(map(str, self.damaged))}: damaged"
        also = ", ".join(f"{count} of {name}" for name, count in self.lost.items())
        return f"{self.path}: {lines}; later records that need these lines: {also or 'none'}"

    @property
    def way_out(self) -> str:
        """The remedies, for people: a backup, or the repair and its effect."""
        return (
            f"restore the file from a backup; or --repair keeps the other {len(self.kept)} records, and the file as it "
            f"is as {copy_name(self.path).name}: the same command then trains again what is lost"
        )

    def write(self) -> Path:
        """Copy the journal, replace it by the lines that are kept, and return the path of the copy."""
        copy = keep_copy(self.path)
        rewrite(self.path, self.kept)
        return copy


def rewrite(path: Path, lines: Iterable[Line]) -> None:
    """Replace a journal by these lines, which are numbered anew."""
    write_whole(path, b"".join(seal({**line, "n": number}) for number, line in enumerate(lines)))


def salvage(path: Path) -> Salvage:
    """Find out which records of a damaged journal can be kept; nothing is written.

    Raises:
        JournalError: If the description of the experiment is damaged.
    """
    kept: list[Line] = []
    damaged: list[int] = []
    history, lost, broken = History(), Counter[str](), set[str]()
    expected = 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        if number == 1 and is_whole(memoryview(line)):
            check_format(records.read_values(line), path)
        record = _read(line)
        if record is None or record.n < expected:
            damaged.append(number)
            continue
        if record.n > expected and not damaged:
            damaged.append(number)
        expected = record.n + 1
        if not damaged or (history.experiment and _can_be_kept(record, history, broken)):
            kept.append(records.read_values(line))
            history.apply(record)
        else:
            lost[record.trial if isinstance(record, records.TrialRecord) else record.kind] += 1
    if not history.experiment:
        raise JournalError(f"{path}: the damaged lines are those of the experiment; restore the journal from a backup")
    return Salvage(path, kept, damaged, lost)


def _read(line: bytes) -> records.Record | None:
    """Return the record of a line; ``None`` where the line is damaged, or no record of its kind."""
    with suppress(records.RecordError):
        return records.read_record(line) if is_whole(memoryview(line)) else None
    return None


def _can_be_kept(record: records.Record, history: History, broken: set[str]) -> bool:
    """Say whether a record after a damaged line can be kept."""
    if isinstance(record, records.TrialCreated):
        if record.stage is Stage.SEARCH:
            return record.number == len(history.study(record.study))
        return record.candidate is None or record.candidate in history.trials
    if isinstance(record, records.ConfirmationPlan):
        return all(candidate in history.trials for candidate in record.candidates)
    if isinstance(record, records.ExperimentEnded):
        return not history.running()
    return not isinstance(record, records.TrialRecord) or _trial_keeps(record, history, broken)


def _trial_keeps(record: records.TrialRecord, history: History, broken: set[str]) -> bool:
    trial = history.trials.get(record.trial)
    if trial is None or trial.id in broken:
        return False
    if isinstance(record, records.EpochEnded) and record.epoch != trial.last_epoch + 1:
        broken.add(trial.id)
        return False
    return trial.has_ended is isinstance(record, records.EvaluatedOnTest)
