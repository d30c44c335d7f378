"""A plug-in of pytest: a test without the mark ``proof`` stays in its own process; no test leaves anything behind.

Which tests belong to ``make test`` is no matter of taste: what starts a process (git aside), listens at a port or opens
a browser is a proof, and fails where the mark is missing. ``END_TO_END`` is the one file that may do so in every run.
Python itself reports what a test does (``sys.addaudithook``), so that nothing in the product is replaced. Files that a
proof leaves are not looked for: other processes, which report nothing here, write most of its files.
"""

import multiprocessing.util
import os
import re
import socket
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parent.parent
END_TO_END = ROOT / "tests" / "test_end_to_end.py"
"""Proofs of the main promises that are part of every run, although they start processes."""

REFUSED = {
    "subprocess.Popen": "starts a process",
    "os.fork": "forks",
    "os.forkpty": "forks",
    "os.posix_spawn": "starts a process",
    "os.system": "starts a shell",
    "socket.listen": "listens",
}
"""Event of Python -> what a test without the mark does not do."""

QUESTIONS = ("git", "nvidia-smi", "uname", "ldconfig")
"""Programs that the product and libraries ask: which commit runs, which GPUs there are, which machine this is."""

BY_LIBRARIES = re.compile("__pycache__|.pytest_cache|.hypothesis|torchinductor_.*")
"""Folders that Python, the tests' own tools and torch write whichever test comes first."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
PATIENCE = 120.0
"""Seconds within which a process that was told to end has ended, however busy the machine is."""
OF_A_PROCESS = {
    *("CUBLAS_WORKSPACE_CONFIG", "WANDB_ERROR_REPORTING", "RAY_AUTH_MODE", "RAY_NUM_REDIS_GET_RETRIES"),
    "PYTHONBREAKPOINT",
    "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR",
}
"""Variables that the product, Ray or torch's compiler sets once for its process, in whichever test comes first."""
OWN_VARIABLE = "PYTEST_CURRENT_TEST"


class Guard:
    """What one process of the tests watches: the test that runs, and what was there before it."""

    def __init__(self) -> None:
        self.refuses = False
        self.heard: list[str] = []
        self.written: set[str] = set()
        self._is_watching = False
        self._basetemp = ROOT
        self._folder = Path()
        # As it was when the test began, with what fixtures of several tests have set since.
        self._environment: dict[str, str] = {}
        self._processes: set[psutil.Process] = set()
        self._threads: set[threading.Thread] = set()
        # What the fixtures of a file changed and started, which is theirs to take back when its last test is over.
        self._before_file: dict[str, str | None] = {}
        self._of_file: set[psutil.Process] = set()
        # The variables that fixtures of all tests have set, which they take back when the last test is over.
        self._of_session: set[str] = set()
        self._of_modules = set(OF_A_PROCESS)
        sys.addaudithook(self._hear)
        _report_what_python_keeps()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Note what is there before the first fixture of a test."""
        basetemp: Path = item.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self._basetemp = basetemp.parent if "PYTEST_XDIST_WORKER" in os.environ else basetemp
        self.refuses = item.get_closest_marker("proof") is None and item.path != END_TO_END
        self.heard, self.written = [], set()
        self._environment, self._folder, self._processes = variables(), Path.cwd(), self._children()
        self._threads = {*threading.enumerate()}
        self._is_watching = True
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[object]:
        """Take what a fixture of several tests starts or sets for something that was there before the test."""
        if fixturedef.scope == "function":
            return (yield)
        before, processes = variables(), self._children()
        result = yield
        now = variables()
        changed = {name for name in before.keys() | now if before.get(name) != now.get(name)}
        started = self._children() - processes
        kept = {name: value for name, value in self._environment.items() if name not in changed}
        self._environment = kept | {name: value for name, value in now.items() if name in changed}
        self._processes |= started
        if fixturedef.scope == "session":
            self._of_session |= changed
        else:
            self._before_file = {name: before.get(name) for name in changed} | self._before_file
            self._of_file |= started
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        """Fail a test that did what it must not, or that leaves something behind after its last fixture."""
        yield
        self._is_watching = False
        left = self._left_by_the_test(self._of_session if nextitem is None else set())
        if nextitem is None or nextitem.path != item.path:
            left += self._left_by_the_file()
        if self.heard:
            pytest.fail(
                f"{item.nodeid} has no mark `proof` and {'; '.join(self.heard)}: give it the mark, or do without",
                pytrace=False,
            )
        if left:
            pytest.fail(f"{item.nodeid} leaves behind: {'; '.join(left)}", pytrace=False)

    def _left_by_the_test(self, taken_back: Collection[str]) -> list[str]:
        """Return what is there now, was not before the test, and is of no fixture of several tests.

        ``taken_back`` are the variables of fixtures that have ended with the test.
        """
        now = variables()
        changed = {name for name in self._environment.keys() | now if self._environment.get(name) != now.get(name)}
        changed -= {*self._before_file, *self._of_modules, *taken_back}
        left = [f"the variable {name}" for name in sorted(changed)]
        if Path.cwd() != self._folder:
            left.append(f"the working folder {Path.cwd()}")
        left += [f"the file {file}" for file in sorted(self.written) if self._is_outside(Path(file))]
        # A trial that nobody reads waits for its reader, in a thread that other tests would take for theirs.
        started = {*threading.enumerate()} - self._threads
        left += [f"a trial in the thread {thread.name}" for thread in started if thread.name == "training"]
        return left + still_running(self._children() - self._processes)

    def _left_by_the_file(self) -> list[str]:
        """Return what the fixtures of a file have not taken back, and forget them."""
        now = variables()
        kept = {name for name, value in self._before_file.items() if now.get(name) == value}
        left = [f"the variable {name}" for name in self._before_file if name not in kept | self._of_modules]
        left += still_running(self._of_file)
        self._before_file, self._of_file = {}, set()
        return left

    def _children(self) -> set[psutil.Process]:
        """Return the processes that this one has started; where it may start none, none are looked for."""
        return set() if self.refuses else set(psutil.Process().children())

    def _is_outside(self, file: Path) -> bool:
        """Whether a file is there that belongs into the folder of the test."""
        is_own = file.is_relative_to(self._basetemp) or any(BY_LIBRARIES.fullmatch(part) for part in file.parts)
        return self.refuses and not is_own and file.exists()

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Hear what Python is about to do; raise where the test that runs must not do it."""
        if not self._is_watching:
            return
        if event == "open":
            self._note_written(*arguments)
        elif event == "os.putenv" and is_importing():
            self._of_modules.add(os.fsdecode(arguments[0]))
        elif event == "os.mkdir":
            self._note_written(arguments[0], None, os.O_CREAT)
        elif self.refuses and event in REFUSED and not is_question(event, arguments):
            detail = arguments[1] if event in ("subprocess.Popen", "socket.listen") else ""
            self.heard.append(f"{REFUSED[event]} ({detail})" if detail else REFUSED[event])
            pytest.fail(f"no mark `proof`: {self.heard[-1]}", pytrace=True)

    def _note_written(self, path: object, mode: str | None, flags: int) -> None:
        # A thread may be that of a test before, which has not ended yet.
        is_of_the_test = threading.current_thread() is threading.main_thread()
        if is_of_the_test and flags & WRITING and isinstance(path, str | os.PathLike) and not Path(path).exists():
            self.written.add(os.path.abspath(path))  # noqa: PTH100 - resolves nothing, and costs little


def _report_what_python_keeps() -> None:
    """Report the processes that multiprocessing spawns and sockets that listen, of which Python itself says nothing."""
    spawn, listen = multiprocessing.util.spawnv_passfds, socket.socket.listen

    def reported_spawn(path: Any, arguments: Any, descriptors: Collection[int]) -> int:
        sys.audit("os.posix_spawn", path, arguments, {})
        return spawn(path, arguments, descriptors)

    def reported_listen(self: socket.socket, *backlog: int) -> None:
        sys.audit("socket.listen", self, self.getsockname())
        listen(self, *backlog)

    multiprocessing.util.spawnv_passfds = reported_spawn
    socket.socket.listen = reported_listen  # type: ignore[method-assign, assignment]


def is_importing() -> bool:
    """Whether what runs is the body of a module, whose variables are the process's and not the test's."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def is_question(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a program is started that only says something of code or machine, and waits for nothing."""
    return event == "subprocess.Popen" and Path(os.fsdecode(arguments[0])).name in QUESTIONS


def variables() -> dict[str, str]:
    """Return the environment without what pytest itself writes there."""
    return {name: value for name, value in os.environ.items() if name != OWN_VARIABLE}


def still_running(processes: Collection[psutil.Process]) -> list[str]:
    """Wait until processes have ended, and return those that do not."""
    kept = [process for process in processes if not is_shared(process)]
    _, alive = psutil.wait_procs(kept, timeout=PATIENCE)
    return [f"the process {title(process)}" for process in alive]


def is_shared(process: psutil.Process) -> bool:
    """Whether a process is one of multiprocessing's own, which it keeps for whatever is forked later."""
    return "multiprocessing." in title(process)


def title(process: psutil.Process) -> str:
    """Return the command line of a process, and its number."""
    try:
        return f"{' '.join(process.cmdline())[:200]} ({process.pid})"
    except psutil.NoSuchProcess:
        return str(process.pid)
