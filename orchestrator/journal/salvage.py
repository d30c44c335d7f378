"""What can be kept of a journal with a damaged line: all before the line, and after it what does not build on it.

Nobody knows what a damaged line said. A trial keeps its epochs up to a gap, and is trained again from there. A trial
whose creation is lost, or whose number is no longer the next of its study, goes with all that was written of it, so
that the sampler makes it again. That a test split was opened is never forgotten.
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
    """What a journal comes to without its damaged lines.

    Attributes:
        path: Of the journal.
        kept: Lines, oldest first.
        damaged: Numbers of the lines, from 1, that cannot be read, are there twice, or have lost those before them.
        lost: Trial, or kind of record -> how many records go although they can be read.
    """

    path: Path
    kept: Sequence[Line]
    damaged: Sequence[int]
    lost: Counter[str]

    @property
    def statement(self) -> str:
        """What is damaged and what is lost with it, in one line."""
        lines = f"line{'s' if len(self.damaged) > 1 else ''} {', '.join(map(str, self.damaged))}: damaged"
        also = ", ".join(f"{count} of {name}" for name, count in self.lost.items())
        return f"{self.path}: {lines}; records after that which cannot stand without: {also or 'none'}"

    @property
    def way_out(self) -> str:
        """What a repair does."""
        copy = copy_name(self.path, self.path.read_bytes()).name
        return (
            f"restore the file from a backup; or --repair keeps the other {len(self.kept)} records, and the file as it "
            f"is under the name {copy}: the same command then trains what is lost again"
        )

    def write(self) -> None:
        """Keep a copy of the journal as it is, and put what is kept in its place."""
        keep_copy(self.path, self.path.read_bytes())
        rewrite(self.path, self.kept)


def salvage(path: Path) -> Salvage:
    """Find out what can be kept of a damaged journal; nothing is written.

    Raises:
        JournalError: If what is damaged came before the description of the experiment was complete.
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
    """Say whether a record after a damaged one says something of its own."""
    if history.experiment["scheduler"]["name"] == "pbt":
        # What is lost may be a move, after which the models of the whole population are others.
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
