"""The commands that are printed, as they can be typed in the shell that started this process."""

import re
import shutil
import sys
from pathlib import Path

from orchestrator.text.paths import path_text

NAME = "orchestrator"


def typed_program() -> str:
    """Return what stands for ``orchestrator`` on a command line: its name where the shell finds it, else its path.

    Example:
        After ``.venv/bin/orchestrator search ...`` in a shell without an active environment it is
        ``.venv/bin/orchestrator``.
    """
    started = Path(sys.argv[0])
    found = shutil.which(NAME)
    if started.name != NAME or not started.is_file() or (found is not None and started.samefile(found)):
        return NAME
    return path_text(started)


def as_typed(text: str) -> str:
    """Return a text whose commands in back quotes begin with the program as it can be typed."""
    program = typed_program()
    return text if program == NAME else re.sub(rf"`{NAME} (?=[a-z])", lambda _: f"`{program} ", text)
