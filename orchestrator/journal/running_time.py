"""The running time of an experiment over all its starts, which no change of the machine's clock affects."""

from dataclasses import dataclass

from orchestrator.journal.experiment_records import ExperimentStarted
from orchestrator.journal.record import Record


@dataclass
class RunningTime:
    """Adds up the time between the records of each start.

    Time between two starts does not count, nor does the time from the last record of a process to its kill, because the
    date of the kill is unknown.

    Attributes:
        seconds: Running time up to the newest record, >= 0.
    """

    seconds: float = 0.0
    _newest: Record | None = None

    def apply(self, record: Record) -> float:
        """Add the time up to a record; return the seconds since the previous record, 0 at the record of a start."""
        before, self._newest = self._newest, record
        if before is None or isinstance(record, ExperimentStarted):
            return 0.0
        passed = _seconds_between(before, record)
        self.seconds += passed
        return passed


def _seconds_between(before: Record, after: Record) -> float:
    """Return the seconds between two records of one start; journals of older versions have only dates."""
    # Where the clock was set back, the difference is negative and counts as 0.
    if before.elapsed is None or after.elapsed is None:
        return max(0.0, after.time - before.time)
    return max(0.0, after.elapsed - before.elapsed)
