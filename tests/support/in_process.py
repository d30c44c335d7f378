"""Searches and reruns without Ray, in this process: Ray Tune's part is played step by step, in an order that repeats.

All else is the product: ``run_search`` with its lock, journal, studies, scheduler, retries, actors, checkpoints,
budget, confirmation and test split. What is replaced is ``tuner.run.run_trials``, the two functions that run on Ray's
workers, and the process that delivers to MLflow: by a thread, or, where nobody asks for MLflow, by nothing.
"""

import random
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RayError
from ray.tune import PlacementGroupFactory

from orchestrator.machines.cluster import Node
from orchestrator.regression import rerun
from orchestrator.searches import search
from orchestrator.tracking.tracker import Tracker
from orchestrator.tuner import allocation, run
from orchestrator.tuner.actor import TrialActor
from orchestrator.tuner.allocation import allocate
from orchestrator.tuner.callback import TrialCallback
from orchestrator.tuner.issuer import Issuer
from orchestrator.tuner.scheduler import RecordingScheduler
from orchestrator.tuner.session import Session
from orchestrator.tuner.source import TrialSource

RAISED = (RuntimeError, MemoryError, OSError)
"""What a fake training raises, beside the errors of ours that the actor answers with itself."""


@dataclass(eq=False)
class RayTrial:
    """As much of Ray's trial as the product looks at."""

    trial_id: str
    config: Mapping[str, Any]
    actor: TrialActor
    placement_group_factory: PlacementGroupFactory
    error_file: str | None = None
    temporary_state: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(ray_actor=None))
    # Ray counts a failure of every actor but of one whose machine was taken away.
    run_metadata: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(num_failures=1))


class Stage:
    """One call of ``run_trials``: what Ray Tune would do, one event after the other."""

    def __init__(self, session: Session, source: TrialSource, scheduler: RecordingScheduler, places: int) -> None:
        self.session, self.scheduler, self.places = session, scheduler, places
        self.live: list[RayTrial] = []
        self.issued = 0
        self.issuer = Issuer(source, session.at_a_time(), session.ledger.history.halvings, self.wants_another)
        self.callback = TrialCallback(session, source, self.issuer)

    def wants_another(self) -> bool:
        return len(self.live) < self.places

    def run(self, chance: random.Random, shares: Mapping[str, float]) -> None:
        """Let the trials step in a random order until the last has ended or a limit is reached."""
        resources = PlacementGroupFactory([{"CPU": shares["cpu"], "GPU": shares["gpu"]}])
        while self.session.limit() is None:
            while isinstance(config := self.issuer.suggest(f"ray{self.issued}"), dict):
                self.begin(config, resources)
            if not self.live:
                assert config == "FINISHED"
                if self.issuer.problem is not None:
                    raise run.no_further_trial(self.session, self.issuer.problem)
                return
            self.step(chance.choice(self.live))
            if self.callback.problem is not None:
                raise self.callback.problem

    def begin(self, config: dict[str, Any], resources: PlacementGroupFactory) -> None:
        actor = TrialActor.__new__(TrialActor)
        actor.setup(config, train=self.session.workload.train, checkpoints=self.session.checkpoints)
        trial = RayTrial(f"ray{self.issued}", config, actor, resources)
        self.issued += 1
        self.live.append(trial)
        self.callback.on_trial_start(0, [], trial)  # type: ignore[arg-type]

    def step(self, trial: RayTrial) -> None:
        ray_trial: Any = trial
        try:
            result = trial.actor.step()
        except RAISED:
            self.live.remove(trial)
            self.issuer.on_trial_complete(trial.trial_id, error=True)
            file = self.session.scratch / trial.trial_id
            file.write_text(f"Failure # 1\n{traceback.format_exc()}")
            trial.error_file = str(file)
            self.callback.on_trial_error(0, [], ray_trial)
            return
        if self.scheduler.on_trial_result(None, ray_trial, result) == "CONTINUE":
            self.issuer.on_trial_result(trial.trial_id, result)
            self.callback.on_trial_result(0, [], ray_trial, result)
            return
        self.live.remove(trial)
        self.issuer.on_trial_complete(trial.trial_id, result)
        self.callback.on_trial_complete(0, [], ray_trial)


class OnRay:
    """A function that Ray would call on a worker for each config, called by ``get``; it raises errors as Ray's."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def options(self, **wanted: float) -> "OnRay":
        return self

    def remote(self, workload: Any, configs: Sequence[Any]) -> Iterator[Callable[[], Any]]:
        return (partial(self._function, workload, config) for config in configs)


def get(answer: Callable[[], Any]) -> Any:
    try:
        return answer()
    except RuntimeError as error:
        raise RayError(str(error)) from None


class Silent:
    """A process that delivers nothing."""

    problem = None

    def __init__(self, *arguments: object) -> None:
        pass

    def start(self) -> None:
        pass

    def close(self, seconds: float) -> None:
        pass


@contextmanager
def without_ray(places: int = 1, gpus: int = 0, order: int = 0, *, tracked: bool = False) -> Iterator[None]:
    """Let ``run_search`` and ``rerun`` run their trials here for the length of a ``with`` block."""

    def run_trials(session: Session, source: TrialSource, scheduler: RecordingScheduler) -> None:
        if source.outstanding == 0 or session.limit() is not None:
            return
        shares = allocate(session, [Node("here", 64, gpus)]).resources
        Stage(session, source, scheduler, places).run(random.Random(order), shares)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "run_trials", run_trials)
        patch.setattr(
            allocation,
            "_rates",
            OnRay(lambda workload, config: (workload.rates(config), workload.rates_in_turns(config))),
        )
        patch.setattr(allocation, "_measure", OnRay(lambda workload, config: workload.measure(config)))
        patch.setattr(allocation, "ray", SimpleNamespace(get=get))
        patch.setattr(rerun, "TrackingProcess", Tracker)
        patch.setattr(search, "TrackingProcess", Tracker if tracked else Silent)
        if not tracked:
            patch.setattr(search, "register_all", lambda uri, directory, problem: ([], []))
        yield


def trials_folder(output: Path) -> Path:
    """Return where the checkpoints of the experiment ``tiny`` lie."""
    return output / "tiny" / "trials"
