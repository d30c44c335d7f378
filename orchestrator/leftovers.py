"""What a killed process leaves on its machine: processes that it started, and its scratch directory."""

import os
import shutil
from pathlib import Path

import psutil

SCRATCH_PREFIX = "icr-"
"""Of the name of a process's scratch directory, which names nobody else's."""


def find_processes(scratch: Path) -> list[psutil.Process]:
    """Return the processes of this user whose command line names a scratch directory, as Ray's processes do."""
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process.uids().real == os.getuid() and process.pid != os.getpid()
            if is_ours and any(str(scratch) in argument for argument in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def clear(scratch: Path) -> None:
    """End the processes of a scratch directory and remove it; any other directory is left alone."""
    if not scratch.name.startswith(SCRATCH_PREFIX):
        return
    for process in find_processes(scratch):
        try:
            process.kill()
        except psutil.Error:
            continue
    shutil.rmtree(scratch, ignore_errors=True)
