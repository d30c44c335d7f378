"""The running time and the GPU time that an experiment has used, over all its starts."""

from dataclasses import dataclass, field

from orchestrator.journal.actors import Actors
from orchestrator.journal.confirmation_records import EvaluatedOnTest
from orchestrator.journal.record import Record
from orchestrator.journal.running_time import RunningTime


@dataclass
class Spending:
    """Adds up running time and GPU time from the records.

    Attributes:
        gpu_seconds: The running time of each trial that had an actor, times its GPUs, >= 0.
        actors: Actors of the newest start.
        running_time: Running time of the experiment.
        test_seconds: The running time in which models were evaluated on test, >= 0.
    """

    gpu_seconds: float = 0.0
    actors: Actors = field(default_factory=Actors)
    running_time: RunningTime = field(default_factory=RunningTime)
    test_seconds: float = 0.0

    def apply(self, record: Record) -> None:
        """Take one record into account."""
        # The time before this record is charged to the actors that ran until this record.
        passed = self.running_time.apply(record)
        self.gpu_seconds += passed * self.gpus
        if isinstance(record, EvaluatedOnTest):
            self.test_seconds += passed
        self.actors.apply(record)

    @property
    def seconds(self) -> float:
        """Running time of the experiment, in seconds."""
        return self.running_time.seconds

    @property
    def gpus(self) -> float:
        """GPUs in use now."""
        return sum(self.actors.gpus.values())
