"""Changes to Ray Tune: which trial an actor gets, what a killed worker means, what is kept and what is passed on.

They use attributes that are private to the locked version of Ray. The tests of this module fail where another version
keeps the attributes elsewhere, or no longer needs a change.

**Actors start side by side** (``Places``). By itself Ray Tune asks a searcher for one trial at a time. It gives a free
actor to a trial whose own actor is still starting, and ends that actor. So short trials never get a second actor. With
``Places`` one more trial waits than there are free places, or several more where an autoscaler is to see that more
nodes are wanted. A free actor takes the first trial that waits for room.

**A killed worker is a failed trial** (``expect_deaths``). Ray's memory monitor kills workers of a machine whose memory
is nearly full, and answers the calls of their actors with ``OutOfMemoryError``. Tune expects ``RayActorError`` alone,
and would end the search with "Caught unexpected exception".

**Ended trials are dropped** (``forget_ended``). Ray Tune keeps them for a final analysis that nobody asks for. The
driver would grow by about 7 KB a trial.

**Secrets stay where they are** (``keep_secrets``). Ray Tune passes the driver's AWS keys on to its actors. Ray writes
what is passed on into its logs, which on the nodes of a cluster other users can read. A worker on this machine has the
environment of the driver, and a node of a cluster has credentials of its own.

**Nothing is pickled** (``NotPickled``). Ray saves the parts of a Tuner to restore them, which the journal replaces.
"""

import time
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError
from ray.tune.execution import class_cache
from ray.tune.experiment import Trial as RayTrial

LOOK_SECONDS = 2.0
"""Seconds for which Ray's slow answer about free resources is reused; actors that started since are subtracted."""


class Places:
    """The free places for trials on one cluster."""

    def __init__(self) -> None:
        self._controller: Any = None
        self._looked, self._free, self._live = float("-inf"), 0, 0

    def wants_another(self, beyond: int) -> bool:
        """Say whether the issuer is to issue one more trial; ``False`` until ``next_trial`` was called once.

        ``beyond`` is how many trials are to wait although there is no room for them, >= 1.
        """
        if self._controller is None:
            return False
        waiting = sum(not _has_place(self._controller, trial) for trial in self._controller._pending_trials)
        return waiting < self._room(self._controller) + beyond

    def next_trial(self, controller: Any) -> RayTrial | None:
        """Return the trial that takes an actor which has become free; ``None`` if no actor is free.

        Ray's ``TuneController`` is between two of its steps.
        """
        self._controller = controller
        if not controller._actor_cache.num_cached_objects:
            return None
        # The trials in the order in which they were issued. Tune's own list of pending trials lacks the trials that
        # wait for room: it loses a trial as soon as an actor was requested for the trial.
        waiting = (
            trial
            for trial in controller._trials
            if trial in controller._pending_trials and not _has_place(controller, trial)
        )
        return next(waiting, None)

    def _room(self, controller: Any) -> int:
        """Return how many more trials would fit on the machines now."""
        live = controller._actor_manager.num_live_actors
        if not controller._trials:
            return 0
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            wanted = controller._trials[-1].placement_group_factory.required_resources
            self._looked, self._free, self._live = time.monotonic(), fits(ray.available_resources(), wanted), live
        return max(0, self._free - max(0, live - self._live))


def fits(free: Mapping[str, float], wanted: Mapping[str, float]) -> int:
    """Return how many trials fit; at least one wanted amount is above 0."""
    return int(min(free.get(name, 0.0) / amount for name, amount in wanted.items() if amount) + 1e-6)


def _has_place(controller: Any, trial: RayTrial) -> bool:
    """Say whether a trial has an actor that runs or is starting, rather than an actor that waits for room."""
    actor = controller._trial_to_actor.get(trial)
    return actor is not None and actor not in controller._actor_manager._pending_actors_to_attrs


def expect_deaths(controller: Any) -> None:
    """Let the manager of actors take each error by which Ray reports that an actor is gone for the actor's death.

    To be called before the first call of an actor of Ray's ``TuneController`` has failed.
    """
    manager = controller._actor_manager
    if "_actor_task_failed" in vars(manager):
        return
    handle_failure = manager._actor_task_failed

    def handle_as_death(tracked_actor_task: Any, exception: Exception) -> None:
        is_known = isinstance(exception, RayActorError | RayTaskError) or not isinstance(exception, RayError)
        # The message says whether memory was short (``orchestrator.tuner.callback``).
        handle_failure(tracked_actor_task, exception if is_known else died(str(exception)))

    manager._actor_task_failed = handle_as_death


def died(message: str) -> ActorDiedError:
    """Return the error that Ray raises when an actor has died, with a message."""
    error = ActorDiedError()
    error.error_msg = message
    return error


def forget_ended(controller: Any) -> None:
    """Drop the trials that have ended and hold no actor any more; the controller is between two of its steps."""
    ended = (controller._stopped_trials | controller._failed_trials) - controller._trial_to_actor.keys()
    ended -= controller._live_trials
    if not ended:
        return
    controller._trials[:] = [trial for trial in controller._trials if trial not in ended]
    for kept in (controller._stopped_trials, controller._failed_trials, controller._trials_to_cache):
        kept -= ended
    for trial in ended:
        controller._trial_metadata.pop(trial.trial_id, None)
    tasks = controller._actor_manager._pending_actors_to_enqueued_actor_tasks
    for actor in tasks.keys() - controller._actor_to_trial.keys():
        del tasks[actor]


def keep_secrets() -> None:
    """Take the variables with AWS keys from those that Ray Tune passes on to actors in text that Ray logs."""
    class_cache.ENV_VARS_TO_PROPAGATE -= {name for name in class_cache.ENV_VARS_TO_PROPAGATE if name.startswith("AWS_")}


class NotPickled:
    """Pickles without content: Ray saves the parts of a Tuner to restore them, which the journal replaces."""

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing to save."""
        return {}
