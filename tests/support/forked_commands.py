"""Commands as a shell gives them, without the start of an interpreter.

A process that has imported Ray, MLflow and torch once forks a process for each command.
"""

import multiprocessing
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.forked_delivery import fork_delivery

COMMANDS = multiprocessing.get_context("forkserver")
COMMANDS.set_forkserver_preload(
    [
        "orchestrator.cli",
        "orchestrator.tuner.run",
        "orchestrator.studies.study",
        "mlflow.store.tracking.sqlalchemy_store",
        "trainables.trial",
        __name__,
    ]
)

SEARCHES = ("search", "resume", "confirm", "regress")
"""The commands that deliver to MLflow while trials run."""


def run_forked(
    command: str, folder: Path, environment: Mapping[str, str], *, seconds: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run ``orchestrator ...`` in a folder with an environment of its own; what it prints comes back.

    Args:
        command: A line of a shell, without pipes and variables; a comment at its end is passed over.
        folder: The working directory, in which the output is kept, too.
        environment: The whole of it.
        seconds: How long it may take.
    """
    arguments = shlex.split(command, comments=True)
    files = [folder / "stdout", folder / "stderr"]
    process = COMMANDS.Process(target=_be, args=(arguments, folder, dict(environment), files))
    process.start()
    process.join(seconds)
    assert process.exitcode is not None, f"{command}: took longer than {seconds:g} s"
    printed = [file.read_text(encoding="utf-8") for file in files]
    return subprocess.CompletedProcess(arguments, process.exitcode, *printed)


def _be(arguments: Sequence[str], folder: Path, environment: dict[str, str], files: Sequence[Path]) -> None:
    """Be the process of a command."""
    os.chdir(folder)
    for descriptor, file in zip((1, 2), files, strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    if arguments[1] in SEARCHES:
        fork_delivery()
    program = Path(sys.executable).with_name(arguments[0])
    sys.argv = [str(program), *arguments[1:]]
    runpy.run_path(str(program), run_name="__main__")
