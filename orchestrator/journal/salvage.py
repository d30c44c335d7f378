"""Repairs a journal with damaged lines: keeps all records that do not build on a damaged line.

A trial keeps its epochs up to a gap, and is trained again from there. A trial whose creation is lost, or whose number
is no longer the next of its study, is dropped with all its records, so that the sampler suggests the trial again.
Records of opened test splits are always kept.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.journal.confirmation_records import EvaluatedOnTest
from orchestrator.journal.experiment_records import ExperimentEnded
from orchestrator.journal.history import History
from orchestrator.journal.journal import JournalError, Line, copy_name, keep_copy, read_lines, rewrite
from orchestrator.journal.record import Record, TrialRecord
from orchestrator.journal.records import parse
from orchestrator.journal.trial import Stage
from orchestrator.journal.trial_records import EpochEnded, TrialCreated


@dataclass(frozen=True)
class Salvage:
    """The records of a damaged journal that can be kept.

    Attributes:
        path: Path of the journal.
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
        return f"{self.path}: {lines}; records after that which cannot stand without: {also or 'none'}"

    @property
    def way_out(self) -> str:
        """What a repair does, for people."""
        copy = copy_name(self.path, self.path.read_bytes()).name
        return (
            f"restore the file from a backup; or --repair keeps the other {len(self.kept)} records, and the file as it "
            f"is under the name {copy}: the same command then trains what is lost again"
        )

    def write(self) -> Path:
        """Copy the journal, replace it by the lines that are kept, and return the path of the copy."""
        copy = keep_copy(self.path, self.path.read_bytes())
        rewrite(self.path, self.kept)
        return copy


def salvage(path: Path) -> Salvage:
    """Find out which records of a damaged journal can be kept; nothing is written.

    Raises:
        JournalError: If the description of the experiment is damaged.
    """
    kept: list[Line] = []
    damaged: list[int] = []
    history, lost, broken = History(), Counter[str](), set[str]()
    expected = 0
    for number, line in enumerate(read_lines(path), start=1):
        if line is None or line["n"] < expected:
            damaged.append(number)
            continue
        record = parse(line)
        if record.n > expected and not damaged:
            damaged.append(number)
        expected = record.n + 1
        if not damaged or (history.experiment and _stands(record, history, broken)):
            kept.append(line)
            history.apply(record)
        else:
            lost[line.get("trial", line["kind"])] += 1
    if not history.experiment:
        raise JournalError(f"{path}: what is damaged said what the experiment is")
    return Salvage(path, kept, damaged, lost)


def _stands(record: Record, history: History, broken: set[str]) -> bool:
    """Say whether a record after a damaged line can be kept."""
    if history.experiment.scheduler == "pbt":
        # The damaged line may have held a move of the population, which changes the models of its trials.
        return False
    if isinstance(record, TrialCreated):
        if record.stage is Stage.SEARCH:
            return record.number == len(history.study(record.study))
        return record.candidate is None or record.candidate in history.trials
    if isinstance(record, ExperimentEnded):
        return not history.running()
    return not isinstance(record, TrialRecord) or _trial_stands(record, history, broken)


def _trial_stands(record: TrialRecord, history: History, broken: set[str]) -> bool:
    trial = history.trials.get(record.trial)
    if trial is None or trial.id in broken:
        return False
    if isinstance(record, EpochEnded) and record.epoch != trial.last_epoch + 1:
        broken.add(trial.id)
        return False
    return trial.has_ended is isinstance(record, EvaluatedOnTest)
