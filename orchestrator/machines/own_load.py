"""What a trial's process and its machine are doing, measured by the process itself, for pages on other machines."""

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import psutil

from orchestrator.machines.usage import Gpu, MachineMeter, MachineUsage, ProcessUsage

SECONDS = 1.0
"""Between two measurements at least: of epochs that are shorter, not each is measured."""

GPU_SECONDS = 10.0
"""Between two questions to ``nvidia-smi`` at least."""

UNTOLD = (psutil.Error, OSError, ValueError, RuntimeError)
"""What a measurement may fail with on an unusual machine: a trial trains on without."""


@dataclass(frozen=True)
class OwnLoad:
    """One measurement.

    Attributes:
        process: The process that measured.
        machine: The machine that it runs on; its GPUs were measured up to ``GPU_SECONDS`` and an epoch before.
    """

    process: ProcessUsage
    machine: MachineUsage

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON, without the other processes on the GPUs."""
        gpus = tuple(replace(gpu, processes={}) for gpu in self.machine.gpus)
        return {"process": asdict(self.process), "machine": asdict(replace(self.machine, gpus=gpus))}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "OwnLoad":
        """Return it from plain values.

        Raises:
            TypeError: If a value is missing, or is none that this version knows.
            KeyError: If a part is missing.
        """
        machine = values["machine"]
        gpus = tuple(Gpu(**gpu) for gpu in machine["gpus"])
        return cls(ProcessUsage(**values["process"]), MachineUsage(**{**machine, "gpus": gpus}))


class OwnMeter:
    """Measures the process that it lives in; made once a process."""

    def __init__(self) -> None:
        self._meter = MachineMeter()
        self._newest: OwnLoad | None = None
        self._measured = self._asked = float("-inf")
        self._gpus: tuple[Gpu, ...] = ()
        self._asking: threading.Thread | None = None

    def look(self) -> OwnLoad | None:
        """Return the newest measurement, which takes a millisecond; ``None`` where this machine cannot be measured."""
        now = time.monotonic()
        if now - self._measured >= SECONDS:
            self._measured = now
            try:
                self._ask_gpus(now)
                self._newest = self._measure()
            except UNTOLD:
                self._newest = None
        return self._newest

    def _measure(self) -> OwnLoad | None:
        machine = self._meter.machine(self._gpus)
        process = self._meter.processes([os.getpid()], machine).get(os.getpid())
        return None if process is None else OwnLoad(process, machine)

    def _ask_gpus(self, now: float) -> None:
        """Ask ``nvidia-smi`` beside the training, which never waits for it: the answer is there after a later epoch."""
        is_asking = self._asking is not None and self._asking.is_alive()
        if self._meter.has_smi and not is_asking and now - self._asked >= GPU_SECONDS:
            self._asked = now
            self._asking = threading.Thread(target=self._take_gpus, daemon=True)
            self._asking.start()

    def _take_gpus(self) -> None:
        try:
            self._gpus = self._meter.gpus()
        except UNTOLD:
            self._gpus = ()
