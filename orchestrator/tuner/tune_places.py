"""Which of Ray Tune's trials gets a place: actors start side by side, and none loses one that is starting.

By itself Tune asks a searcher for one trial at a time, and gives an actor that becomes free to a trial whose own is
still starting, which it ends for that. So places fill one after the other, and where trials take less time than actors
to start, there is never a second one. Here as many trials wait as there are places free, and one more, or several where
an autoscaler is to see that more nodes are wanted; an actor that becomes free is for the first of them that has no
place yet. All of it is private to the locked version of Ray; the test of this file fails where another one does it
elsewhere.
"""

import time
from collections.abc import Mapping
from typing import Any

import ray
from ray.tune.experiment import Trial as RayTrial

LOOK_SECONDS = 2.0
"""So long what the machines had free is taken for true, less what was started since: to ask takes a while."""


class Places:
    """Those of one cluster, as far as they are free."""

    def __init__(self) -> None:
        self._controller: Any = None
        self._looked, self._free, self._live = float("-inf"), 0, 0

    def has_room(self, beyond: int) -> bool:
        """Say whether one trial more is to be asked for; not before Tune has come by for the first time.

        Args:
            beyond: How many are to wait for which there is no room, >= 1.
        """
        if self._controller is None:
            return False
        waiting = sum(not _has_place(self._controller, trial) for trial in self._controller._pending_trials)
        return waiting < self._room(self._controller) + beyond

    def offer(self, controller: Any) -> RayTrial | None:
        """Return the trial that an actor has become free for, if one has.

        Args:
            controller: Ray's ``TuneController``, between two of its steps.
        """
        self._controller = controller
        if not controller._actor_cache.num_cached_objects:
            return None
        waiting = (
            trial
            for trial in controller._pending_trials_list
            if trial in controller._pending_trials and not _has_place(controller, trial)
        )
        return next(waiting, None)

    def _room(self, controller: Any) -> int:
        """Return how many trials more would fit now."""
        live = controller._actor_manager.num_live_actors
        if not controller._trials:
            return 0
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            wanted = controller._trials[-1].placement_group_factory.required_resources
            self._looked, self._free, self._live = time.monotonic(), fits(ray.available_resources(), wanted), live
        return max(0, self._free - max(0, live - self._live))


def fits(free: Mapping[str, float], wanted: Mapping[str, float]) -> int:
    """Return how many times what is wanted is there, by resource; wanted is at least one above 0."""
    return int(min(free.get(name, 0.0) / amount for name, amount in wanted.items() if amount) + 1e-6)


def _has_place(controller: Any, trial: RayTrial) -> bool:
    """Say whether a trial has an actor that runs or is starting, rather than one that waits for room."""
    actor = controller._trial_to_actor.get(trial)
    return actor is not None and actor not in controller._actor_manager._pending_actors_to_attrs
