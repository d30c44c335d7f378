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
    """Asks Ray Tune to end when a limit is reached, or when a signal tells the process to end.

    The first signal is noted and answered, and the search ends in order. A second signal raises ``KeyboardInterrupt``
    at once.

    Args:
        is_over: Returns whether a limit is reached.
        answer: Called in the handler of the first signal, to tell a person that the signal was heard.

    Attributes:
        signal: The number of the first signal; ``None`` before a signal.
    """

    def __init__(self, is_over: Callable[[], bool], answer: Callable[[], None] = lambda: None) -> None:
        self.signal: int | None = None
        self._is_over, self._answer = is_over, answer

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Let every trial continue: this stopper ends all trials or none."""
        return False

    def stop_all(self) -> bool:
        """Say whether a signal has come or a limit is reached."""
        return self.signal is not None or self._is_over()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM inside a ``with`` block; outside of the main thread Python allows no handlers."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        former = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        self._answer()
