"""What the stages of one start of an experiment share."""

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
    """What the stages of one start of an experiment share.

    Attributes:
        experiment: What is run.
        ledger: Where everything is written down, and what was written before.
        workload: What a trial runs.
        checkpoints: Where those of the trials lie.
        scratch: Directory of this process alone; short, because paths of sockets are made under it.
        on_step: Called several times a second, e.g. to draw.
        announce: Told what is under way that brings no record for a while, e.g. that Ray starts. It may be called in
            the handler of a signal, while another thread works.
        limit: Asked as often; anything but ``None`` ends the stage, and what runs stays resumable.
        cluster: Where trials run.
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
        """Return how many trials may run at once: what was asked for, or less where memory was short before."""
        limits = (self.experiment.resources.max_concurrent, self.ledger.history.concurrency)
        return min((limit for limit in limits if limit is not None), default=None)
