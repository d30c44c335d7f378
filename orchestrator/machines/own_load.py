"""The load of a trial's process and its machine, measured by the process itself, for pages on other machines."""

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import psutil

from orchestrator.machines.usage import Gpu, MachineMeter, MachineUsage, ProcessUsage

SECONDS = 1.0
"""Least number of seconds between two measurements; not every epoch that is shorter is measured."""

GPU_SECONDS = 10.0
"""Least number of seconds between two calls of ``nvidia-smi``."""

UNTOLD = (psutil.Error, OSError, ValueError, RuntimeError)
"""Errors of a measurement on an unusual machine; the trial trains on without the measurement."""


@dataclass(frozen=True)
class OwnLoad:
    """One measurement of load.

    Attributes:
        process: The process that measured.
        machine: The process's machine; its GPUs were measured up to ``GPU_SECONDS`` and an epoch before.
    """

    process: ProcessUsage
    machine: MachineUsage

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the other processes on the GPUs."""
        gpus = tuple(replace(gpu, processes={}) for gpu in self.machine.gpus)
        return {"process": asdict(self.process), "machine": asdict(replace(self.machine, gpus=gpus))}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "OwnLoad":
        """Return the load that plain values describe.

        Raises:
            TypeError: If a value is missing or unknown to this version.
            KeyError: If a part is missing.
        """
        machine = values["machine"]
        gpus = tuple(Gpu(**gpu) for gpu in machine["gpus"])
        return cls(ProcessUsage(**values["process"]), MachineUsage(**{**machine, "gpus": gpus}))


class OwnMeter:
    """Measures its own process; each process makes one meter."""

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
