"""Ray starts; work that calls it ends, fails or is left behind when Ray dies, and nothing of Ray stays then."""

import queue
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
import ray

from orchestrator.machines.cluster import ClusterError
from orchestrator.tuner import own_ray, runtime
from orchestrator.tuner.own_ray import CORE, OwnRay, is_alive
from orchestrator.tuner.runtime import LEAVING, JoinedRay, ray_runtime, run_watched
from orchestrator.tuner.session import StagesRay
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(own_ray, "NOTE_SECONDS", 0.0)
    monkeypatch.setattr(runtime, "GRACE_SECONDS", 0.05)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[dict[str, psutil.Process]]:
    """Processes with the names of Ray's, the raylet with a worker."""
    shell = shutil.which("sh")
    started = []
    for name in (*CORE, "monitor"):
        (tmp_path / name).symlink_to(shell)
        started.append(subprocess.Popen([tmp_path / name, "-c", "sleep 3600 & wait"]))
    found = {process.args[0].name: psutil.Process(process.pid) for process in started}
    wait_until(lambda: all(process.name() == name and process.children() for name, process in found.items()))
    family = [one for process in found.values() for one in (process, *process.children())]
    yield found
    for process in family:
        if process.is_running():
            process.kill()
    for process in started:
        process.wait()


class BegunRay(JoinedRay):
    """A Ray that lives until its name is in ``dead``."""

    dead: ClassVar[list[str]] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def lost(self) -> list[str]:
        return [name for name in self.dead if name == self.name]


def test_stages_share_a_ray_until_the_last_ends_or_it_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    @contextmanager
    def start(name: str) -> Iterator[BegunRay]:
        told.append(f"{name} starts")
        yield BegunRay(name)
        told.append(f"{name} ends")

    with StagesRay() as stages:
        first = stages.start(partial(start, "a"))
        assert stages.start(partial(start, "b")) is first
        monkeypatch.setattr(BegunRay, "dead", ["a"])
        assert stages.start(partial(start, "c")) is not first
        assert told == ["a starts", "a ends", "c starts"]
    assert told[3:] == ["c ends"]
    with pytest.raises(KeyboardInterrupt), stages:
        stages.start(partial(start, "d"))
        raise KeyboardInterrupt
    assert told[4:] == ["d starts", "d ends"]


def test_a_start_without_a_thread_or_before_it_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, told = threading.Thread.start, []

    def refuse(thread: threading.Thread) -> None:
        if thread.name != "start of ray":
            start(thread)
            return
        told.append(thread)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ClusterError, match="can't start new thread"), own_ray.started_ray(tmp_path):
        pytest.fail("there is no Ray")
    assert len(told) == 1

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(own_ray._Start, "_kill", interrupted)
    with pytest.raises(KeyboardInterrupt), own_ray.started_ray(tmp_path):
        pytest.fail("there is no Ray")


@pytest.mark.proof
def test_work_that_ends_is_waited_for(processes: dict[str, psutil.Process]) -> None:
    done: list[int] = []
    own = OwnRay(list(processes.values()))
    assert run_watched(lambda: done.append(1), own, lambda: done.append(2)) == []
    assert done == [1]
    assert all(process.is_running() for process in processes.values())


@pytest.mark.proof
def test_what_the_work_raises_is_raised(processes: dict[str, psutil.Process]) -> None:
    for own in (JoinedRay(), OwnRay(list(processes.values()))):
        with pytest.raises(ZeroDivisionError):
            run_watched(lambda: print(1 / 0), own, lambda: pytest.fail("it has ended"))


@pytest.mark.proof
@pytest.mark.parametrize("name", CORE)
def test_work_that_waits_for_a_dead_ray_is_left_and_no_ray_stays(
    processes: dict[str, psutil.Process], name: str
) -> None:
    own, abandoned = OwnRay(list(processes.values())), threading.Event()
    (worker,) = processes["raylet"].children()
    assert own.lost() == []

    def work() -> None:
        processes[name].kill()
        abandoned.wait()

    assert run_watched(work, own, abandoned.set) == [CORE[name]]
    assert abandoned.is_set()
    assert_all_end([worker, *processes.values()])


@pytest.mark.proof
def test_workers_of_a_raylet_that_dies_while_it_is_looked_at_are_killed(
    processes: dict[str, psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, raylet = OwnRay(list(processes.values())), processes["raylet"]
    workers = raylet.children()
    assert own.lost() == []
    (noted,) = [one for one in own._core.values() if one.pid == raylet.pid]

    def die(recursive: bool) -> list[psutil.Process]:
        noted.kill()
        assert_all_end([noted])
        return []

    monkeypatch.setattr(noted, "children", die)
    assert own.lost() == []
    assert own.lost() == [CORE["raylet"]]
    own.kill()
    assert_all_end([*workers, *processes.values()])


@pytest.mark.proof
def test_the_workers_are_not_noted_at_every_look(
    processes: dict[str, psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_ray, "NOTE_SECONDS", 3600.0)
    own, notes = OwnRay(list(processes.values())), list[bool]()
    monkeypatch.setattr(psutil.Process, "children", lambda process, recursive: notes.append(recursive) or [])
    for _ in range(3):
        assert own.lost() == []
    assert notes == [True]


def assert_all_end(processes: list[psutil.Process]) -> None:
    wait_until(lambda: not any(map(is_alive, processes)))


@pytest.mark.proof
def test_an_error_that_a_dead_ray_explains_is_not_raised(processes: dict[str, psutil.Process]) -> None:
    def work() -> None:
        processes["gcs_server"].kill()
        processes["gcs_server"].wait()
        raise ConnectionError("Attempting to recover 3 lost objects")

    assert run_watched(work, OwnRay(list(processes.values())), lambda: None) == [CORE["gcs_server"]]


def test_a_head_that_is_out_of_reach_for_a_while_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now, answers = [100.0], [True]
    monkeypatch.setattr(runtime.time, "monotonic", lambda: now[0])
    # Nothing closes the connection: a cut cable.
    monkeypatch.setattr(JoinedRay, "_connect", lambda joined, address: None if answers[0] else ConnectionRefusedError())
    joined = JoinedRay("[::1]:6379")

    def wait(seconds: int) -> list[str]:
        found: list[str] = []
        for _ in range(2 * seconds):
            now[0] += 0.5
            found = joined.lost()
        return found

    assert wait(100) == []
    answers[0] = False
    assert wait(34) == []
    answers[0] = True
    assert wait(10) == []
    answers[0] = False
    assert wait(50)[0].startswith("its head at [::1]:6379 has not answered for ")
    joined.kill()


@pytest.fixture
def head() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.mark.proof
def test_a_head_that_ends_is_noticed_at_once_and_stays_lost(head: socket.socket) -> None:
    address = f"127.0.0.1:{head.getsockname()[1]}"
    joined = JoinedRay(address)
    assert joined.lost() == []
    connection, _ = head.accept()
    connection.sendall(b"settings of the control store")
    assert joined.lost() == []
    head.close()
    connection.close()
    wait_until(joined.lost)
    assert joined.lost() == [f"its head at {address} has ended"]
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))):
        assert joined.lost() == [f"its head at {address} has ended"], "what is started again is another cluster"


@pytest.mark.parametrize("lost", [["its head has ended"], []])
def test_ray_is_left_at_once_without_a_head(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lost: list[str]) -> None:
    waited: queue.Queue[bool] = queue.Queue()
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(runtime, "_join", lambda address: None)
    monkeypatch.setattr(JoinedRay, "lost", lambda joined: lost)
    monkeypatch.setattr(ray, "shutdown", lambda: waited.put(threading.current_thread() is threading.main_thread()))
    with ray_runtime(tmp_path, "127.0.0.1:1"):
        pass
    assert waited.get() is not bool(lost)


def test_ray_is_joined_again_only_when_the_former_one_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done, is_awaited, join = list[str](), threading.Event(), threading.Thread.join

    def observed_join(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == LEAVING:
            is_awaited.set()
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", observed_join)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(runtime, "_join", lambda address: done.append("joined"))
    monkeypatch.setattr(JoinedRay, "lost", lambda joined: ["its head has ended"])
    # It takes until somebody waits for it.
    monkeypatch.setattr(ray, "shutdown", lambda: (is_awaited.wait(), done.append("left")))
    for _ in range(2):
        with ray_runtime(tmp_path, "127.0.0.1:1"):
            pass
    assert done[:3] == ["joined", "left", "joined"]


@pytest.mark.proof
def test_a_connection_that_a_living_head_closes_is_no_end(head: socket.socket) -> None:
    joined = JoinedRay(f"127.0.0.1:{head.getsockname()[1]}")
    for _ in range(3):
        assert joined.lost() == []
        head.accept()[0].close()
        wait_until(joined._is_closed)
    # It connects once more, and then finds that connection open.
    assert [joined.lost() for _ in range(2)] == [[], []]


def test_a_second_signal_leaves_the_work_behind() -> None:
    abandoned = threading.Event()

    class Interrupted(JoinedRay):
        def lost(self) -> list[str]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_watched(abandoned.wait, Interrupted(), abandoned.set)
    assert abandoned.is_set()


@pytest.mark.proof
def test_a_signal_ends_a_ray_of_our_own_at_once(processes: dict[str, psutil.Process]) -> None:
    """Whoever signalled this process may have signalled Ray as well, which would end this process in its own way."""
    told, release, abandoned = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        told.set()
        release.wait()

    assert run_watched(work, OwnRay(list(processes.values())), abandoned.set, told.is_set) == ["a signal ends it"]
    assert abandoned.is_set()
    assert psutil.wait_procs(list(processes.values()), timeout=120)[1] == []
    release.set()


@pytest.mark.proof
def test_a_signal_lets_work_on_a_cluster_of_others_end_in_order() -> None:
    done, looks, is_looked_at = list[int](), list[int](), threading.Event()

    class LookedAt(JoinedRay):
        def lost(self) -> list[str]:
            looks.append(1)
            if len(looks) == 3:
                is_looked_at.set()
            return []

    def work() -> None:
        assert is_looked_at.wait(300)
        done.append(1)

    assert run_watched(work, LookedAt(), lambda: pytest.fail("it has ended"), lambda: True) == []
    assert done == [1]


SLOW = "The current node timed out during startup."
ERRORS = [
    RuntimeError("Timed out waiting for file gcs_server_port\nand more"),
    TimeoutError("no port"),
    Exception(SLOW),
]


@pytest.mark.parametrize("starts", [*([error] * 3 for error in ERRORS), [Exception(SLOW), None]])
def test_a_start_that_a_busy_machine_makes_too_slow_is_tried_again_and_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, starts: list[Exception | None]
) -> None:
    left = list(starts)

    def start(**ignored: Any) -> None:
        if error := left.pop(0):
            raise error

    monkeypatch.setattr(runtime.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(runtime.ray, "init", start)
    if starts[-1] is None:
        with runtime.ray_runtime(tmp_path):
            assert left == []
    else:
        told = "Ray did not start on this machine: (Timed out|no port|The current node).*same command again"
        with pytest.raises(ClusterError, match=told), runtime.ray_runtime(tmp_path):
            pytest.fail("there is no Ray to run on")


SAYING = """
from orchestrator.tuner import runtime
from ray._private.worker import print_to_stdstream
for line in ("WARNING: 8 PYTHON worker processes have been started on node: x", "a worker was killed"):
    print_to_stdstream({"lines": [line], "pid": "raylet", "is_err": False}, ignore_prefix=False)
"""


@pytest.mark.proof
def test_of_what_ray_says_many_processes_are_no_news() -> None:
    done = subprocess.run([sys.executable, "-c", SAYING], capture_output=True, text=True, check=True)
    assert "a worker was killed" in done.stdout and "PYTHON" not in done.stdout + done.stderr
