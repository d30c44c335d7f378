"""A process beside a test, which never outlasts what the test does with it."""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def running(command: Sequence[str | Path], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """Start a process that is killed at the end, also where an assertion fails: ``with Popen`` would wait for it."""
    with subprocess.Popen(command, preexec_fn=listen_to_interrupts, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def listen_to_interrupts() -> None:
    """Undo what a shell does to the jobs that it puts into the background: they ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
