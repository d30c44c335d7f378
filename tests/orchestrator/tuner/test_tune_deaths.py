"""A worker that Ray's memory monitor kills costs its trial an attempt, and the search nothing."""

from types import SimpleNamespace

import pytest
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.air.execution._internal.tracked_actor import TrackedActor
from ray.air.execution._internal.tracked_actor_task import TrackedActorTask
from ray.exceptions import ActorDiedError, NodeDiedError, OutOfMemoryError, RayError, RayTaskError, WorkerCrashedError

from orchestrator.tuner.callback import Cause, Failure
from orchestrator.tuner.tune_patches import died, expect_deaths

SHORT = (
    "2 worker(s) were killed due to the node running low on memory. Memory on the node (IP: 10.0.0.1) was "
    "22.40GB used / 23.54GB limit (0.951714)\nOOM kill reason: Memory usage exceeded threshold"
)


class Watched:
    """Ray's manager of actors with one actor and one call of it, and what the two callbacks got."""

    def __init__(self) -> None:
        self.manager = RayActorManager.__new__(RayActorManager)
        self.manager._failed_actor_ids = set()
        self.manager._cleanup_actor = lambda tracked_actor: None
        self.of_actor: list[Exception] = []
        self.of_call: list[Exception] = []
        actor = TrackedActor(1, on_error=lambda actor, error: self.of_actor.append(error))
        self.call = TrackedActorTask(actor, on_error=lambda actor, error: self.of_call.append(error))

    def fail(self, error: Exception) -> None:
        self.manager._actor_task_failed(tracked_actor_task=self.call, exception=error)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        pytest.param(OutOfMemoryError(SHORT), Cause.MEMORY, id="memory monitor"),
        pytest.param(WorkerCrashedError(), Cause.ERROR, id="crash"),
        pytest.param(NodeDiedError("the node is gone"), Cause.ERROR, id="node"),
        pytest.param(died(SHORT), Cause.MEMORY, id="as Ray tells it of actors"),
    ],
)
def test_an_actor_that_ray_says_is_gone_has_died(error: RayError, cause: Cause) -> None:
    watched = Watched()
    expect_deaths(SimpleNamespace(_actor_manager=watched.manager))
    expect_deaths(SimpleNamespace(_actor_manager=watched.manager))
    watched.fail(error)
    [told] = watched.of_actor
    assert watched.of_call == [told] and isinstance(told, ActorDiedError) and not told.preempted
    assert watched.manager._failed_actor_ids == {1}
    assert Failure.of(str(told)).cause is cause
    assert str(told) == str(error)


def test_an_error_of_the_trial_itself_and_one_of_nobodys_stay_what_they_are() -> None:
    watched = Watched()
    expect_deaths(SimpleNamespace(_actor_manager=watched.manager))
    raised = RayTaskError("train", "Traceback", ValueError("no luck"))
    watched.fail(raised)
    assert (watched.of_actor, watched.of_call) == ([], [raised])
    with pytest.raises(RuntimeError, match="unexpected"):
        watched.fail(KeyError("ours"))


def test_ray_itself_still_takes_want_of_memory_for_the_end() -> None:
    """Where this fails, a newer Ray knows the error, and this patch of ``tune_patches`` is not needed any more."""
    with pytest.raises(RuntimeError, match="Caught unexpected exception: 2 worker"):
        Watched().fail(OutOfMemoryError(SHORT))
