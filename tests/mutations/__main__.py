"""``python -m tests.mutations``."""

import signal
import sys

from tests.mutations.command import main

if __name__ == "__main__":
    # Ended from outside, the command ends the tests that it runs and removes its copy, as it does after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    main()
