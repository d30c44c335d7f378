"""Why Ray Tune is to end: a signal, a limit of the budget, or a full disk."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ray import tune

from orchestrator.tuner.not_pickled import NotPickled


class Interruption(NotPickled, tune.Stopper):
    """Asks Tune to end when there is a reason to, or the process is told to end.

    The first signal is noted, and answered at once; a second one is obeyed at once.

    Args:
        is_over: Whether there is another reason.
        answer: Called in the handler of the first signal, to tell a person that the signal was heard.

    Attributes:
        signal: The signal that came; ``None`` while there was none.
    """

    def __init__(self, is_over: Callable[[], bool], answer: Callable[[], None] = lambda: None) -> None:
        self.signal: int | None = None
        self._is_over, self._answer = is_over, answer

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """End no single trial."""
        return False

    def stop_all(self) -> bool:
        """Say whether a signal came or there is another reason."""
        return self.signal is not None or self._is_over()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM for the length of a ``with`` block."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        self._answer()
