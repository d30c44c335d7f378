"""The running time and the GPU time of an experiment over all its starts, whatever the machine's clock does.

The running time and the GPU time that an experiment has used, over all its starts.
"""

from dataclasses import dataclass, field

from orchestrator.journal.actors import Actors
from orchestrator.journal.confirmation_records import EvaluatedOnTest, OpenedTest
from orchestrator.journal.experiment_records import ExperimentStarted
from orchestrator.journal.record import Record
from orchestrator.journal.trial_records import TrialStarted


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

    @property
    def newest(self) -> float | None:
        """Date of the newest record, in seconds since the Unix epoch; ``None`` before the first record."""
        return None if self._newest is None else self._newest.time

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


@dataclass
class Spending:
    """Adds up running time and GPU time from the records.

    Attributes:
        gpu_seconds: The running time of each trial that had an actor, times its GPUs, >= 0.
        actors: Actors of the newest start.
        running_time: Running time of the experiment.
        training_seconds: The running time from the first trial of each start to the opening of test, >= 0.
        test_seconds: The running time in which models were evaluated on test, >= 0.
    """

    gpu_seconds: float = 0.0
    actors: Actors = field(default_factory=Actors)
    running_time: RunningTime = field(default_factory=RunningTime)
    training_seconds: float = 0.0
    test_seconds: float = 0.0
    _is_training: bool = False

    def apply(self, record: Record) -> None:
        """Take one record into account."""
        # The time before this record is charged to the actors that ran until this record.
        passed = self.running_time.apply(record)
        self.gpu_seconds += passed * self.gpus
        if self._is_training:
            self.training_seconds += passed
        if isinstance(record, EvaluatedOnTest):
            self.test_seconds += passed
        # What comes before the first trial of a start, such as the start of Ray, trains nothing.
        if isinstance(record, TrialStarted):
            self._is_training = True
        elif isinstance(record, ExperimentStarted | OpenedTest):
            self._is_training = False
        self.actors.apply(record)

    @property
    def seconds(self) -> float:
        """Running time of the experiment, in seconds."""
        return self.running_time.seconds

    @property
    def gpus(self) -> float:
        """GPUs in use now."""
        return sum(self.actors.gpus.values())
