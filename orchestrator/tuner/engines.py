"""Fused trials on Ray: each trial is an actor of its own, and the trials of one device train in one engine.

To Ray, the journal, the sampler and the scheduler, fused trials are ordinary trials whose actors take a fraction of
the resources of an engine. The actor of a fused trial asks its engine for each epoch, and the engine trains all its
trials at once.

- The engine directory, one actor an experiment, knows the engines and starts them. The directory lives as long as the
  driver, and the engines live as long as the directory.
- An engine that dies fails its trials. The trials are issued again and resume from their own checkpoints. For its last
  try each trial is trained by its own actor, so the trial that brings its engines down is found.
- A directory that dies takes its engines along. Ray starts the directory again, and the directory starts new engines.
- An engine that hangs is killed when the next trial comes, after all the trials of the engine have been ended.
"""

import os
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.exceptions import GetTimeoutError, RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.machines.gpu_share import KEEP_FREED_MEMORY
from orchestrator.tuner.allocation import Allocation
from orchestrator.tuner.lockstep import Answer, EpochBarrier
from orchestrator.tuner.own_ray import is_alive
from orchestrator.workload.workload import Stream, Train, Workload
from trainables.config import TrialConfig

THREADS = 4
"""Threads of an engine per trial: one thread waits for a round while others save a checkpoint or let a trial leave."""

ANSWER_SECONDS = 60.0
"""Seconds after which an engine that has not even said how many trials it has is taken to hang."""


class FusedEngine(EpochBarrier):
    """Trains the trials of one device; a Ray actor with several threads per trial."""

    def __init__(self, workload: Workload, gpus: list[str], in_turns: Collection[tuple[str, str]]) -> None:
        # Ray has given the GPUs to the actors of the trials, and shows none to the engine, which asks Ray for none. The
        # variable is set before the barrier makes a model, because CUDA reads the variable once.
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        super().__init__(partial(workload.together, in_turns))

    def admit(self, name: str, process: int) -> None:
        """Keep a place for a trial, as long as the process of the trial's actor, on this machine, lives."""
        try:
            self.reserve(name, partial(is_alive, psutil.Process(process)))
        except psutil.NoSuchProcess:
            self.reserve(name, lambda: False)


class EngineDirectory:
    """Knows the engines and starts them; a Ray actor, one per experiment.

    An engine has two trials or more, as the ``allocation`` says, and takes the resources of all of them.
    """

    def __init__(self, workload: Workload, allocation: Allocation) -> None:
        self._workload, self._fuse, self._in_turns = workload, allocation.fuse, allocation.in_turns
        self._share = {name: amount * allocation.fuse for name, amount in allocation.resources.items()}
        self._engines: dict[tuple[str, ...], list[Any]] = {}

    def engine_for(self, name: str, process: int, node: str, gpus: list[str]) -> Any:
        """Return the engine for a trial on a node with these GPUs: the engine with the fewest trials, or a new engine.

        The trial's name is new with each attempt; ``process`` is the number of the process of its actor.
        """
        engines = self._engines.setdefault((node, *gpus), [])
        members = {engine: count for engine in list(engines) if (count := self._members(engine, engines)) is not None}
        cpus = next(info["Resources"].get("CPU", 1) for info in ray.nodes() if info["NodeID"] == node)
        if not members or (min(members.values()) > 0 and len(engines) < engines_that_fit(self._share, cpus, len(gpus))):
            chosen = self._start(node, gpus)
            engines.append(chosen)
        else:
            chosen = min(members, key=lambda engine: members[engine])
        # The directory serves one call at a time, so the next trial is counted after this trial has its place.
        ray.get(chosen.admit.remote(name, process))
        return chosen

    def _members(self, engine: Any, engines: list[Any]) -> int | None:
        """Return how many trials an engine has; ``None`` for a dead or hanging engine, which is killed and dropped."""
        try:
            members: int | None = ray.get(engine.members.remote(), timeout=ANSWER_SECONDS)
        except (RayActorError, GetTimeoutError):
            # An engine answers in a thread that does not train, so an engine without an answer hangs as a whole.
            members = None
        if members is None:
            engines.remove(engine)
            ray.kill(engine)
        return members

    def _start(self, node: str, gpus: list[str]) -> Any:
        placement = NodeAffinitySchedulingStrategy(node, soft=False)
        # The engine asks for no CPU: Ray has given the CPUs that the engine uses to the actors of its trials.
        options = {
            "num_cpus": 0,
            "max_concurrency": self._fuse * THREADS,
            "scheduling_strategy": placement,
            "runtime_env": {"env_vars": KEEP_FREED_MEMORY},
        }
        return ray.remote(FusedEngine).options(**options).remote(self._workload, gpus, self._in_turns)


def engines_that_fit(share: Mapping[str, float], cpus: float, gpus: int) -> int:
    """Return how many engines, of some ``cpu`` and ``gpu`` each, may run on the same GPUs or on the CPUs of a node.

    ``gpus`` is the number of GPUs that a trial there sees; a trial with half a GPU sees the whole GPU.
    """
    wanted, available = (share["gpu"], gpus) if gpus else (share["cpu"], cpus)
    return max(1, int(available / wanted + 1e-6)) if wanted else 1


def train_in_engine(engine_directory: Any, config: TrialConfig, resume: Path | None) -> Stream:
    """Yield a report after each epoch, as ``Workload.train`` does, by an engine of Ray's ``EngineDirectory``."""
    name, context = uuid.uuid4().hex, ray.get_runtime_context()
    gpus = sorted(map(str, context.get_accelerator_ids().get("GPU", [])))
    engine = ray.get(engine_directory.engine_for.remote(name, os.getpid(), context.get_node_id(), gpus))

    def save(directory: Path) -> None:
        ray.get(engine.save.remote(name, directory))

    try:
        answer: Answer = ray.get(engine.start.remote(name, config, resume))
        while True:
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                yield replace(answer, save=save)
            answer = ray.get(engine.next.remote(name))
    finally:
        engine.leave.remote(name)


@contextmanager
def fused(workload: Workload, allocation: Allocation) -> Iterator[Train]:
    """Yield the function with which actors train trials: that of the workload or, if trials are fused, of an engine.

    Every trial's actor asks Ray for the resources of the ``allocation``.
    """
    if allocation.fuse == 1:
        yield workload.train
        return
    # The directory runs on the driver's machine, because it has to outlive every other machine of the cluster.
    placement = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    # Ray restarts a directory that died. The new directory knows no engine, and no engine is left: Ray ends the actors
    # that a dead process has started.
    options = {"num_cpus": 0, "scheduling_strategy": placement, "max_restarts": -1, "max_task_retries": -1}
    engine_directory: Any = ray.remote(EngineDirectory).options(**options).remote(workload, allocation)
    try:
        yield partial(train_in_engine, engine_directory)
    finally:
        # Ray ends the engines with the directory that started them.
        ray.kill(engine_directory)
