"""One start of an experiment."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.ledger import Ledger
from orchestrator.machines.cluster import Cluster
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.workload.workload import Workload


@dataclass(frozen=True)
class Session:
    """The objects that the stages of one start of an experiment share.

    Attributes:
        scratch: Directory of this process alone; a short path, because Ray makes sockets under it.
        on_step: Draws the display; called several times a second.
        announce: Gets a sentence about work that brings no record for a while, e.g. that Ray starts. It may be called
            in the handler of a signal, while another thread works.
        limit: Called as often as ``on_step``; a text (the reason) ends the stage, and the running trials stay
            resumable.
    """

    experiment: Experiment
    ledger: Ledger
    workload: Workload
    checkpoints: Checkpoints
    scratch: Path
    on_step: Callable[[], None] = lambda: None
    announce: Callable[[str], None] = lambda doing: None
    limit: Callable[[], str | None] = lambda: None
    cluster: Cluster = field(default_factory=Cluster)

    def at_a_time(self) -> int | None:
        """Return how many trials may run at once: as the experiment says, or fewer where memory was short before."""
        limits = (self.experiment.resources.max_concurrent, self.ledger.history.concurrency)
        return min((limit for limit in limits if limit is not None), default=None)
