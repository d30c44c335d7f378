"""Which waiting trial gets an actor, so that actors start side by side.

By itself Ray Tune asks a searcher for one trial at a time, and gives an actor that becomes free to a trial whose own
actor is still starting, and ends the starting actor. So actors start one after the other, and where a trial takes less
time than the start of an actor, no second actor ever runs. With ``Places`` as many trials wait as there are free
places, and one more, or several more where an autoscaler is to see that more nodes are wanted. An actor that becomes
free takes the first trial that waits for room, so that no actor is ended while it starts. The attributes read here are
private to the locked version of Ray; the test of this module fails where another version of Ray keeps them elsewhere.
"""

import time
from collections.abc import Mapping
from typing import Any

import ray
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

        Args:
            beyond: How many trials are to wait although there is no room for them, >= 1.
        """
        if self._controller is None:
            return False
        waiting = sum(not _has_place(self._controller, trial) for trial in self._controller._pending_trials)
        return waiting < self._room(self._controller) + beyond

    def next_trial(self, controller: Any) -> RayTrial | None:
        """Return the trial that takes an actor which has become free; ``None`` if no actor is free.

        Args:
            controller: Ray's ``TuneController``, between two of its steps.
        """
        self._controller = controller
        if not controller._actor_cache.num_cached_objects:
            return None
        # The trials in the order in which they were issued. Tune's own list of pending trials loses a trial as soon as
        # an actor was requested for it, so that list does not hold the trials that wait for room.
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
