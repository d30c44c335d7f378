"""Processes that end with their starter, and SIGTERM handled like Ctrl-C.

No process can clean up after ``kill -9``. A process that is started here holds the reading end of a pipe, and its
starter the writing end. When the starter is gone, the system closes the writing end, and the reader finds the end of
the pipe, on Linux and macOS alike. Two processes read it: a machine without memory may kill any one of them.

SIGTERM is the signal of ``kill``, ``systemctl stop``, ``docker stop`` and ``scancel``.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

GRACE_SECONDS = 10.0
"""Seconds that the processes have to end before they are killed."""


@contextmanager
def bound_process(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command for the length of a ``with`` block, and no longer than this process lives."""
    watched = [sys.executable, "-m", __name__, *command]
    # The command gets a session of its own, so that all of its processes can be ended together.
    with subprocess.Popen(watched, env=environment, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)


def main() -> None:
    """Run the command of the arguments, end its session when standard input does, and exit with its code."""
    # The command gets the signal as well: unlike an ignored signal, a handler is not passed on to it.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    second = os.fork()
    if second == 0:
        # This process does the same should the first be killed; the first ends it otherwise.
        _wait_for_end_of_input()
        os.killpg(0, signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os.killpg(0, signal.SIGKILL)
    try:
        process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
        threading.Thread(target=_end_with_input, args=(process,), daemon=True).start()
        code = process.wait()
    finally:
        os.kill(second, signal.SIGKILL)
    sys.exit(code)


def _end_with_input(process: subprocess.Popen[bytes]) -> None:
    _wait_for_end_of_input()
    os.killpg(0, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
        return
    os.killpg(0, signal.SIGKILL)


def _wait_for_end_of_input() -> None:
    # Read without Python's buffer, whose lock a thread must not hold when the process exits.
    while os.read(0, 1):
        pass


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise ``KeyboardInterrupt`` inside a ``with`` block, in place of ending the process at once.

    A handler that somebody has installed stays, and so does a SIGTERM that is ignored. Outside of the main thread
    Python allows no handlers.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def kept_sigterm_handler() -> Iterator[None]:
    """Put back the handler of SIGTERM after a ``with`` block that replaces it, as ``ray.init`` does.

    Ray's handler raises ``SystemExit`` with the signal's number; that signal is then given to the handler put back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit as end:
        if end.code != signal.SIGTERM:
            raise
        signal.signal(signal.SIGTERM, handler)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, handler)


if __name__ == "__main__":
    main()
