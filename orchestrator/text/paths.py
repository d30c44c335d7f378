"""Paths as people read and type them."""

import os
from pathlib import Path


def path_text(path: Path) -> str:
    """Return a path relative to the working directory, or the absolute path where that is shorter.

    Example:
        In ``/home/ada``, ``/home/ada/runs`` is ``runs``; in ``/opt/service``, ``/runs`` stays ``/runs``.
    """
    return min(os.path.relpath(path), str(path.absolute()), key=len)
