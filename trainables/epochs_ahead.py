"""Epochs ahead of their reader: the next epoch trains while the report of the last is written, sent and judged.

A checkpoint is whole before its epoch is reported, and a reader may end the trial at any report. Neither makes the
device wait: one thread trains on while the reader writes the snapshot that a report holds, and asks whether the trial
goes on. An epoch that nobody wants any more ends with the step that it is in. The thread is at most one epoch ahead, so
that at most two snapshots are held: of the report that is read, and of an epoch that has ended since.
"""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue

from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.trial import run_trial

Answer = Future[EpochReport | None]
"""The next report, ``None`` after the last."""

_ONE_EPOCH = threading.Lock()
"""Held while an epoch trains: PyTorch's random numbers are of the process, and each epoch begins with its own seed."""


def run_ahead(
    config: TrialConfig,
    data: Dataset,
    resume: Path | None = None,
    *,
    device: str = "auto",
    on_step: Callable[[int], None] = lambda step: None,
) -> Generator[EpochReport, None, None]:
    """Yield the reports of ``run_trial``, and train the next epoch while the reader has one.

    ``on_step`` is called in another thread. An error of an epoch is raised when its report is asked for.
    """
    is_closed = threading.Event()

    def count(step: int) -> None:
        if is_closed.is_set():
            raise GeneratorExit
        on_step(step)

    stream = run_trial(config, data, resume, device=device, on_step=count)
    asked: SimpleQueue[Answer | None] = SimpleQueue()
    # A daemon, because a process that is asked to end must not wait for the end of an epoch.
    thread = threading.Thread(target=_answer, args=(stream, asked), name="training", daemon=True)
    thread.start()
    try:
        answer = _ask(asked)
        while (report := answer.result()) is not None:
            answer = _ask(asked)
            yield report
            # Its snapshot takes memory of the device.
            del report
    finally:
        is_closed.set()
        asked.put(None)
        thread.join()


def _ask(asked: "SimpleQueue[Answer | None]") -> Answer:
    answer: Answer = Future()
    asked.put(answer)
    return answer


def _answer(stream: Generator[EpochReport, None, None], asked: "SimpleQueue[Answer | None]") -> None:
    while (answer := asked.get()) is not None:
        try:
            with _ONE_EPOCH:
                report = next(stream, None)
            answer.set_result(report)
            # Its snapshot takes memory of the device.
            del report
        except BaseException as error:  # noqa: BLE001  # of any kind: the reader gets it, who would wait forever
            answer.set_exception(error)
    stream.close()
