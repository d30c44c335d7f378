"""Workers whose Ray ends, without Ray: what is said, and with which exit code."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from orchestrator.extraction import workers
from orchestrator.extraction.workers import on_own_ray
from orchestrator.machines.processes import sigterm_as_ctrl_c
from orchestrator.tuner import runtime
from orchestrator.tuner.runtime import RayLostError
from trainables.errors import UserError


class DeadRay:
    """A Ray of which something is gone once it is asked often enough."""

    is_ours = True

    def __init__(self, gone: list[str], look: Callable[[], None] = lambda: None) -> None:
        self.gone, self.look, self.killed = gone, look, False

    def lost(self) -> list[str]:
        self.look()
        return self.gone

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def extract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Extract by workers that never answer, or by other work."""
    over = threading.Event()
    monkeypatch.setattr(runtime, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(runtime, "GRACE_SECONDS", 0.01)

    def run(dead: DeadRay, work: Callable[[], object] = lambda: over.wait(60)) -> None:
        monkeypatch.setattr(workers, "ray_runtime", lambda scratch: nullcontext(dead))
        on_own_ray(work, tmp_path, tmp_path / "out")  # type: ignore[arg-type]

    yield run
    over.set()


def test_a_ray_that_is_gone_is_one_sentence_with_what_is_kept(extract: Callable[..., None], tmp_path: Path) -> None:
    dead = DeadRay(["its node manager raylet died"])
    with pytest.raises(RayLostError) as caught:
        extract(dead)
    assert str(caught.value) == (
        f"{tmp_path / 'out'}: Ray is gone (its node manager raylet died): somebody ended it, or the memory of the "
        f"machine was short; finished shards are kept: resume with the same command"
    )
    assert caught.value.exit_code == 1 and dead.killed


@pytest.mark.parametrize("gone", [[], ["its node manager raylet died"]], ids=["alone", "with Ray"])
def test_a_signal_kills_ray_whether_ray_gets_the_signal_or_not(extract: Callable[..., None], gone: list[str]) -> None:
    dead = DeadRay(gone, look=lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt), sigterm_as_ctrl_c():
        extract(dead)
    assert dead.killed


def test_what_a_worker_finds_wrong_is_raised(extract: Callable[..., None]) -> None:
    def refuse() -> None:
        raise UserError("weights.pt: cannot be read")

    with pytest.raises(UserError, match=r"weights\.pt"):
        extract(DeadRay([]), refuse)
