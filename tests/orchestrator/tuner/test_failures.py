"""Failures: a shortage of memory is told from other errors, and nothing is tried for ever."""

import pytest

from orchestrator.experiment.sections import Patience
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.tuner.callback import MAX_FAILURES, PREEMPTED, Cause, Failure, give_up
from tests.support.experiments import add_trial
from tests.support.records import append

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


CAUSES = [
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
    failure = Failure.of(text)
    assert failure.cause == cause
    assert failure.message.startswith(message)
    assert len(failure.message) <= 500


def test_a_trial_that_gets_on_is_tried_again_and_one_that_does_not_is_given_up(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    failure = Failure(Cause.ERROR, "no luck")
    for epoch in (2, 3):
        for _ in range(MAX_FAILURES):
            assert give_up(trial, failure, Patience()) is None
            append(ledger, "trial_retried", trial=trial.id, cause=failure.cause, error=failure.message)
        assert give_up(trial, failure, Patience()) == "no luck"
        ledger.report(trial, epoch, {"val/rsum": 1.0}, TrialState.RUNNING)
    assert give_up(trial, Failure(Cause.HUNG, "hung"), Patience()) is None
    assert trial.retries == 2 * MAX_FAILURES


def test_a_machine_that_is_taken_away_costs_no_try(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    taken, failure = PREEMPTED, Failure(Cause.ERROR, "no luck")
    for _ in range(10 * MAX_FAILURES):
        assert give_up(trial, taken, Patience()) is None
        append(ledger, "trial_retried", trial=trial.id, cause=taken.cause, error=taken.message)
    assert (trial.retries, trial.setbacks) == (10 * MAX_FAILURES, 0)
    for _ in range(MAX_FAILURES):
        assert give_up(trial, failure, Patience()) is None
        append(ledger, "trial_retried", trial=trial.id, cause=failure.cause, error=failure.message)
    assert give_up(trial, failure, Patience()) == "no luck"
    assert give_up(trial, taken, Patience()) is None


def test_want_of_memory_has_its_own_patience_and_ends_with_advice(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    short = Failure(Cause.MEMORY, "CUDA out of memory")
    for epoch in (2, 3):
        assert give_up(trial, short, Patience(memory_retries=2)) is None
        append(ledger, "trial_retried", trial=trial.id, cause=short.cause, error=short.message)
        ledger.report(trial, epoch, {"val/rsum": 1.0}, TrialState.RUNNING)
    reason = give_up(trial, short, Patience(memory_retries=2))
    assert reason is not None
    assert "3 times: CUDA out of memory" in reason
    assert "training.batch_size" in reason
    assert "resources.max_concurrent" in reason
    assert give_up(trial, Failure(Cause.ERROR, "no luck"), Patience()) is None
