"""Clears what a killed process left on its machine: its child processes and its scratch directory."""

import os
import shutil
from pathlib import Path

import psutil

from orchestrator.journal.scratch import owner_of


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


def clear(scratch: Path, owner: str) -> None:
    """Remove a scratch directory and end its processes, if the directory's mark names ``owner``; else do nothing."""
    if owner_of(scratch) != owner:
        return
    for process in find_processes(scratch):
        try:
            process.kill()
        except psutil.Error:
            continue
    shutil.rmtree(scratch, ignore_errors=True)
