"""Wait for a condition, with a limit that a passing run never reaches."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, five minutes at most."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
