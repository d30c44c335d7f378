"""A notebook's kernel in a process of its own: ``notebook_process.py OUTPUT`` searches while an event loop runs.

As in a kernel, Python's own handler takes Ctrl-C while a cell runs. The first cell is interrupted in its first epochs,
the second cell makes the same call, the third searches something else. It prints what came of them as JSON.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orchestrator as icr
from orchestrator.searches import begin
from orchestrator.searches.resuming import SearchInterruptedError
from tests.support import fake_workload
from tests.support.fake_workload import FakeWorkload

PATIENCE = 600.0
"""Seconds until nobody waits for the first epoch any more."""


@dataclass(frozen=True)
class Cells(FakeWorkload):
    """A workload that knows where its data are, as a real one does."""

    data_root: str = "nowhere"


def keys(name: str) -> dict[str, Any]:
    """Return an experiment of three trials of four epochs."""
    return {
        "name": name,
        "datasets": ["pets"],
        "losses": ["nt_xent"],
        "training": {"epochs": 4},
        "search": {"sampler": "random", "trials": 3},
        "scheduler": {"name": "none"},
        "resources": {"cpus": 1, "gpus": 0},
    }


def press_ctrl_c(journal: Path) -> None:
    """Send SIGINT to this process as soon as its search has an epoch."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and not (journal.is_file() and '"kind":"epoch"' in journal.read_text()):
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


async def cells(output: Path) -> dict[str, Any]:
    """Run the three cells; return what each came to."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=press_ctrl_c, args=[output / "first" / "journal.jsonl"], daemon=True).start()
    interrupted = ""
    try:
        icr.search(keys("first"), output=output, quiet=True)
    except SearchInterruptedError as error:
        interrupted = str(error)
    # The loop still turns.
    await asyncio.sleep(0)
    first = icr.search(keys("first"), output=output, quiet=True)
    second = icr.search(keys("second"), output=output, quiet=True)
    epochs = Counter(first.epochs.index)
    return {
        "interrupted": interrupted,
        "first": list(first.trials["state"]),
        "second": list(second.trials["state"]),
        "epochs": sorted(Counter(epochs.values()).items()),
        "handler is Python's": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    }


def main() -> None:
    """Run the cells in a loop."""
    from ray import cloudpickle

    # The actors don't know the tests.
    cloudpickle.register_pickle_by_value(fake_workload)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    begin.make_workload = lambda *given: Cells(seconds=1.0)  # type: ignore[assignment]
    print(json.dumps(asyncio.run(cells(Path(sys.argv[1])))))


if __name__ == "__main__":
    main()
