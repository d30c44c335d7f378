"""When to leave a service alone that does not answer: a circuit breaker.

Closed, it lets everything through. After a failure it is open and lets nothing through for a while, twice as long after
each further failure; then it lets one attempt through (half open), whose success closes it.
"""

import time
from collections.abc import Callable


class Breaker:
    """A circuit breaker around one service.

    Attributes:
        failures: In a row; 0 while it is closed.
    """

    def __init__(self, first: float, longest: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Start closed.

        Args:
            first: Seconds that it stays open after the first failure, > 0.
            longest: Seconds that it stays open at most.
            clock: Monotonic, in seconds.
        """
        self._first, self._longest, self._clock = first, longest, clock
        self._opens_at = clock()
        self.failures = 0

    @property
    def remaining(self) -> float:
        """Seconds until an attempt is let through; 0 where one is now."""
        return max(0.0, self._opens_at - self._clock())

    def succeed(self) -> None:
        """Note that an attempt went well."""
        self.failures = 0

    def fail(self) -> None:
        """Note that an attempt failed."""
        self.failures += 1
        self._opens_at = self._clock() + min(self._longest, self._first * 2 ** (self.failures - 1))
