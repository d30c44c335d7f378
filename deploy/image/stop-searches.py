#!/usr/bin/env python
"""``stop-searches.py``: end the searches of this container as Ctrl-C would, and wait until they have.

A container's first process alone is told that the container is to end; a search that somebody started beside it is not.
"""

from pathlib import Path

import psutil

SECONDS = 110


def searches() -> list[psutil.Process]:
    """Return the processes of the command ``orchestrator``."""
    running = psutil.process_iter(["cmdline"])
    return [each for each in running if any(Path(word).name == "orchestrator" for word in each.info["cmdline"][:2])]


if __name__ == "__main__":
    found = searches()
    for process in found:
        process.terminate()
    psutil.wait_procs(found, timeout=SECONDS)
