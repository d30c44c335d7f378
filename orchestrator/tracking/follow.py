"""The program of the process that delivers to MLflow: it follows the journal that a search writes.

Standard input has the target as one line of JSON and, at the end of the search, the seconds that are left. The program
then answers on standard output, as JSON, why something was not delivered, and ends. If standard input ends before, the
search has died: this process ends at once, because the next start of the search delivers, too.
"""

import json
import os
import queue
import signal
import sys
import threading
from contextlib import suppress

from orchestrator.journal.journal import JournalError
from orchestrator.journal.reader import JournalReader
from orchestrator.tracking.tracker import Tracker
from orchestrator.tracking.tracking_process import Target

LOOK_SECONDS = 0.1
"""Seconds between two looks at the journal."""


def deliver(target: Target, ends: "queue.SimpleQueue[float]") -> str | None:
    """Deliver a journal while it grows, and return why something was not delivered; ``None`` if all was.

    Args:
        target: What is delivered, and where to.
        ends: Gets the seconds that are left, once the search has ended.
    """
    reader = JournalReader(target.journal)
    problem: str | None = None
    try:
        past = list(reader.read_on())
    except JournalError as error:
        past, problem = [], str(error)
    tracker = Tracker(target.uri, target.output, target.experiment, past)
    tracker.start()
    seconds: float | None = None
    while seconds is None:
        with suppress(queue.Empty):
            seconds = ends.get(timeout=LOOK_SECONDS)
        # The search writes nothing after its end, so that this reading is whole where it is the last.
        if problem is None and reader.has_news():
            try:
                for record in reader.read_on():
                    tracker.listen(record)
            except JournalError as error:
                problem = str(error)
    tracker.close(seconds)
    return problem or tracker.problem


def main() -> None:
    """Deliver what standard input asks for."""
    # A signal to the whole group, e.g. of a batch system, is for the search, which ends in order and then says so here.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # What a library prints goes to standard error: standard output is for the answer alone.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if not (line := sys.stdin.buffer.readline()):
        # The search died before it said what is to be delivered.
        os._exit(1)
    target = Target.from_line(line)
    ends: queue.SimpleQueue[float] = queue.SimpleQueue()
    threading.Thread(target=_read_end, args=(ends,), daemon=True).start()
    answers.write(json.dumps(deliver(target, ends)).encode())
    answers.close()
    # A request to a store that does not answer would keep its thread, and so this process, alive.
    os._exit(0)


def _read_end(ends: "queue.SimpleQueue[float]") -> None:
    """Pass on the seconds that are left; end this process when the search has ended or died."""
    if line := sys.stdin.buffer.readline():
        ends.put(float(line))
        sys.stdin.buffer.readline()
    os._exit(1)


if __name__ == "__main__":
    main()
