"""Drops the data about ended trials that Ray Tune keeps for a final analysis, which this software does not use.

Otherwise the driver would grow by about 7 KB a trial: the trial with copies of its storage, checkpoint settings and
config, and a task for an actor that was asked for but not needed. The attributes changed here are private to the locked
version of Ray; the test of this module fails where another version keeps them elsewhere.
"""

from typing import Any


def forget_ended(controller: Any) -> None:
    """Drop the trials that have ended and hold no actor any more.

    Args:
        controller: Ray's ``TuneController``, between two of its steps.
    """
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
