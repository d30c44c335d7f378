"""A circuit breaker: how long to wait before the next request to a service that does not answer.

While the breaker is closed, every attempt may be made. A failure opens the breaker: no attempt may be made for a while,
which doubles with each further failure. Then one attempt may be made (half open), whose success closes the breaker.
"""

import time
from collections.abc import Callable


class Breaker:
    """A circuit breaker around one service.

    Attributes:
        failures: Failures in a row; 0 while the breaker is closed.
    """

    def __init__(self, first: float, longest: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Start closed.

        Args:
            first: Seconds for which the breaker stays open after the first failure, > 0.
            longest: Seconds for which the breaker stays open at most.
            clock: Returns monotonic seconds.
        """
        self._first, self._longest, self._clock = first, longest, clock
        self._opens_at = clock()
        self.failures = 0

    @property
    def remaining(self) -> float:
        """Seconds until the next attempt may be made; 0 if it may be made now."""
        return max(0.0, self._opens_at - self._clock())

    def succeed(self) -> None:
        """Note that an attempt succeeded."""
        self.failures = 0

    def fail(self) -> None:
        """Note that an attempt failed."""
        self.failures += 1
        self._opens_at = self._clock() + min(self._longest, self._first * 2 ** (self.failures - 1))
