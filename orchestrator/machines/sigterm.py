"""SIGTERM, the signal of ``kill``, ``systemctl stop``, ``docker stop`` and ``scancel``, handled like Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
