"""What Ray Tune tells of the lives of trials: causes of failures, and what becomes of the trials that fail."""

import errno
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.air.execution._internal.tracked_actor import TrackedActor
from ray.air.execution._internal.tracked_actor_task import TrackedActorTask
from ray.exceptions import ActorDiedError, NodeDiedError, OutOfMemoryError, RayError, RayTaskError, WorkerCrashedError

from orchestrator.experiment.sections import Patience
from orchestrator.journal.directory import PLACES_FILE, Place, read_places, write_places
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.tuner import callback as module
from orchestrator.tuner.actor import Step
from orchestrator.tuner.callback import MAX_FAILURES, PREEMPTED, Cause, TrialCallback, failure_in, give_up
from orchestrator.tuner.tune_patches import died, expect_deaths
from tests.support.experiments import add_trial, make_experiment
from tests.support.records import append


class RayTrialStub:
    """Of a trial of Ray's, what the callback reads."""

    def __init__(self, trial: str, gpus: float) -> None:
        self.config = {"trial": trial}
        self.placement_group_factory = SimpleNamespace(required_resources={"GPU": gpus})
        self.temporary_state = SimpleNamespace(ray_actor=None)


def make_callback(ledger: Ledger) -> TrialCallback:
    session: Any = SimpleNamespace(ledger=ledger, checkpoints=None, on_step=lambda: None, experiment=make_experiment())
    nobody: Any = None
    return TrialCallback(session, nobody, nobody)


def test_where_trials_run_is_written_at_most_every_second(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, clock = ledger.path.parent, [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0], time=time.time))
    callback, trial = make_callback(ledger), RayTrialStub("a", 0.0)
    seen = []
    for epoch in (1, 2, 3):
        result = {"hostname": "elsewhere", "pid": 16 + epoch, "step": Step(epoch)}
        clock[0] += 0.75
        callback.on_trial_result(iteration=1, trials=[trial], trial=trial, result=result)
        callback.on_step_end(iteration=1, trials=[trial])
        seen.append(read_places(folder)["a"])
    assert [place.pid for place in seen] == [17, 17, 19]


def test_a_running_trial_that_is_preempted_holds_no_gpu_until_it_starts_again(ledger: Ledger) -> None:
    ours = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    callback, trial = make_callback(ledger), RayTrialStub(ours.id, 0.5)
    told: Any = {"iteration": 1, "trials": [trial], "trial": trial}
    callback.on_trial_start(**told)
    assert ledger.history.spending.gpus == 0.5
    callback.on_trial_recover(**told)
    assert ledger.history.spending.gpus == 0.0
    assert (ours.state, ours.retries, ours.setbacks) == (TrialState.RUNNING, 1, 0)
    callback.on_trial_start(**told)
    assert ledger.history.spending.gpus == 0.5


KILLED = (
    "The actor died unexpectedly before finishing this task.\n\tclass_name: TrialActor\n"
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
    "unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The "
    "process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called."
)
SHORT = (
    "Task was killed due to the node running low on memory.\n"
    "Memory on the node (IP: 10.0.0.1) was 30.1GB / 31.2GB (0.96), which exceeds the memory usage threshold of 0.95.\n"
    "To disable worker killing, set the environment variable to zero."
)

AT = '\x1b[36mray::TrialActor.step()\x1b[39m (pid=1)\n  File "trial.py", line 9, in step\n    model.to(device)\n'
CUDA = (
    f"{AT}    ^^^^^^^^\nKeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n{AT}"
    "torch.AcceleratorError: CUDA error: out of memory\n"
    "Search for `cudaErrorMemoryAllocation' in the manual.\n\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
SEVERAL = f"{AT}           ^^^^^^^^^^^\nConfigError: 2 mistakes:\n  batch_size: too small\n  epochs: MemoryError"


CAUSES = [
    (CUDA, "memory", "torch.AcceleratorError: CUDA error: out of memory"),
    (CUDA.replace("out of memory", "device-side assert"), "error", "torch.AcceleratorError: CUDA error: device-side"),
    (SEVERAL, "error", "ConfigError: 2 mistakes:"),
    ("Traceback\n  line\ntorch.OutOfMemoryError: CUDA out of memory. Tried\n", "memory", "torch."),
    ("Traceback\ntorch.cuda.OutOfMemoryError: CUDA out of memory", "memory", "torch.cuda"),
    ("MemoryError", "memory", "MemoryError"),
    ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8 TiB", "memory", "numpy"),
    ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory", "memory", "RuntimeError"),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling", "memory", "RuntimeError"),
    (SHORT, "memory", "Task was killed due to the node running low on memory."),
    (KILLED, "error", "The actor is dead because its worker process has died"),
    ("  raise MemoryError\nValueError: no luck", "error", "ValueError: no luck"),
    ("OSError: [Errno 28] No space left on device: 'x/state.pt'", "disk", "OSError"),
    ("", "error", "ended without a message"),
]


@pytest.mark.parametrize(("text", "cause", "message"), CAUSES, ids=[message for _, _, message in CAUSES])
def test_the_cause_is_read_from_what_was_raised(text: str, cause: str, message: str) -> None:
    read_cause, line = failure_in(text)
    assert read_cause == cause
    assert line.startswith(message)
    assert len(line) <= 500


def retry(ledger: Ledger, trial: Trial, failure: tuple[Cause, str], times: int = MAX_FAILURES) -> None:
    for _ in range(times):
        assert give_up(trial, *failure, Patience()) is None
        append(ledger, "trial_retried", trial=trial.id, cause=failure[0], error=failure[1])


NO_LUCK = Cause.ERROR, "no luck"


def test_a_trial_that_gets_on_is_tried_again_and_one_that_does_not_is_given_up(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    for epoch in (2, 3):
        retry(ledger, trial, NO_LUCK)
        assert give_up(trial, *NO_LUCK, Patience()) == "no luck"
        ledger.report(trial, epoch, {"val/rsum": 1.0}, TrialState.RUNNING)
    assert give_up(trial, Cause.HUNG, "hung", Patience()) is None
    assert trial.retries == 2 * MAX_FAILURES


def test_a_machine_that_is_taken_away_costs_no_try(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    retry(ledger, trial, PREEMPTED, 10 * MAX_FAILURES)
    assert (trial.retries, trial.setbacks) == (10 * MAX_FAILURES, 0)
    retry(ledger, trial, NO_LUCK)
    assert give_up(trial, *NO_LUCK, Patience()) == "no luck"
    assert give_up(trial, *PREEMPTED, Patience()) is None


def test_want_of_memory_has_its_own_patience_and_ends_with_advice(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    short = Cause.MEMORY, "CUDA out of memory"
    for epoch in (2, 3):
        retry(ledger, trial, short, 1)
        ledger.report(trial, epoch, {"val/rsum": 1.0}, TrialState.RUNNING)
    reason = give_up(trial, *short, Patience()) or ""
    named = ("3 times: CUDA out of memory", "training.batch_size", "resources.max_concurrent")
    assert all(words in reason for words in named), reason
    assert give_up(trial, *short, Patience(memory_retries=3)) is None
    assert give_up(trial, *NO_LUCK, Patience()) is None


KILLED_WORKERS = (
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
        pytest.param(OutOfMemoryError(KILLED_WORKERS), Cause.MEMORY, id="memory monitor"),
        pytest.param(WorkerCrashedError(), Cause.ERROR, id="crash"),
        pytest.param(NodeDiedError("the node is gone"), Cause.ERROR, id="node"),
        pytest.param(died(KILLED_WORKERS), Cause.MEMORY, id="as Ray tells it of actors"),
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
    assert failure_in(str(told))[0] is cause
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
        Watched().fail(OutOfMemoryError(KILLED_WORKERS))


def test_places_leave_no_file_after_a_kill_or_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f".{PLACES_FILE}").write_text("half of what a killed search wro")
    write_places(tmp_path, {"a": Place("here", 7)})
    assert read_places(tmp_path) == {"a": Place("here", 7)} and [*tmp_path.glob(".*")] == []
    monkeypatch.setattr(Path, "replace", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        write_places(tmp_path, {})
    assert read_places(tmp_path) == {"a": Place("here", 7)} and [*tmp_path.glob(".*")] == []
