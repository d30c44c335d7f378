"""What an experiment has used, over all its starts: time, and GPUs times time."""

from dataclasses import dataclass, field

from orchestrator.journal.actors import Actors
from orchestrator.journal.record import Record
from orchestrator.journal.running_time import RunningTime


@dataclass
class Spending:
    """Adds up what records say was used.

    Attributes:
        gpu_seconds: The running time of each trial that had an actor, times its GPUs, >= 0.
        actors: Actors of the newest start.
        running_time: Of the experiment.
    """

    gpu_seconds: float = 0.0
    actors: Actors = field(default_factory=Actors)
    running_time: RunningTime = field(default_factory=RunningTime)

    def apply(self, record: Record) -> None:
        """Take one record into account."""
        # What passed until the record, with the actors that there were until then.
        self.gpu_seconds += self.running_time.apply(record) * self.gpus
        self.actors.apply(record)

    @property
    def seconds(self) -> float:
        """The running time of the experiment, see ``running_time``."""
        return self.running_time.seconds

    @property
    def gpus(self) -> float:
        """How many GPUs are in use."""
        return sum(self.actors.gpus.values())
