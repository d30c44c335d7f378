"""Makes Ray Tune treat a worker that Ray killed for lack of memory as a failed trial, not as the end of the search.

Ray's memory monitor kills workers of a machine whose memory is nearly full, and answers the calls of their actors with
``OutOfMemoryError``. Tune's manager of actors knows ``RayActorError`` alone, and ends with "Caught unexpected
exception". The attribute changed here is private to the locked version of Ray; the test of this module fails where
another version of Ray does not need the change.
"""

from typing import Any

from ray.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError


def expect_deaths(controller: Any) -> None:
    """Let the manager of actors take each error by which Ray tells that an actor is gone for the actor's death.

    Args:
        controller: Ray's ``TuneController``, before the first call of one of its actors has failed.
    """
    manager = controller._actor_manager
    if "_actor_task_failed" in vars(manager):
        return
    handle_failure = manager._actor_task_failed

    def handle_as_death(tracked_actor_task: Any, exception: Exception) -> None:
        is_known = isinstance(exception, RayActorError | RayTaskError) or not isinstance(exception, RayError)
        # The message says whether memory was short (``orchestrator.tuner.failures``).
        handle_failure(tracked_actor_task, exception if is_known else died(str(exception)))

    manager._actor_task_failed = handle_as_death


def died(message: str) -> ActorDiedError:
    """Return the error that Ray raises when an actor has died, with a message."""
    error = ActorDiedError()
    error.error_msg = message
    return error
