"""One start of an experiment."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.ledger import Ledger
from orchestrator.machines.cluster import Cluster
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.workload.workload import Workload

if TYPE_CHECKING:
    from orchestrator.tuner.runtime import Ray


class StagesRay:
    """One Ray for all stages: the first stage that has trials starts it, and the end of a ``with`` block ends it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._ray: Ray | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._ray = None
        self._stack.close()

    def start(self, runtime: Callable[[], AbstractContextManager["Ray"]]) -> "Ray":
        """Return the Ray of an earlier stage; start one where there is none, or where it has died since."""
        if self._ray is not None and self._ray.lost():
            self.__exit__()
        if self._ray is None:
            self._ray = self._stack.enter_context(runtime())
        return self._ray


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
        ray: Ray from the first stage on; to be used as a ``with`` block around all stages.
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
    ray: StagesRay = field(default_factory=StagesRay)

    def at_a_time(self) -> int | None:
        """Return how many trials may run at once: as the experiment says, or fewer where memory was short before."""
        limits = (self.experiment.resources.max_concurrent, self.ledger.history.concurrency)
        return min((limit for limit in limits if limit is not None), default=None)
