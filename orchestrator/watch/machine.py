"""The load of this machine, measured at most every two seconds however many pages are open."""

import socket
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.machines.usage import MachineMeter, MachineUsage, ProcessUsage

SECONDS = 2.0
"""Least number of seconds between two measurements."""


@dataclass(frozen=True)
class Load:
    """One measurement.

    Attributes:
        machine: Load of the whole machine.
        processes: Process id -> load of the process, for the processes that open pages show.
    """

    machine: MachineUsage
    processes: Mapping[int, ProcessUsage]


class Machines:
    """Measures this machine for all pages together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._meter = MachineMeter()
        self._host = socket.gethostname()
        self._wanted: dict[int, float] = {}
        self._newest: tuple[float, Load] | None = None

    def is_this(self, host: str) -> bool:
        """Say whether a name is the name of this machine."""
        return host == self._host

    def look(self, processes: Iterable[int]) -> Load:
        """Return the load of this machine and of processes; a new process appears in the next measurement."""
        with self._lock:
            moment = time.monotonic()
            self._wanted |= dict.fromkeys(processes, moment)
            if self._newest is None or moment - self._newest[0] >= SECONDS:
                # A process that no page asked for during ten measurements belongs to a page that was closed.
                self._wanted = {pid: asked for pid, asked in self._wanted.items() if moment - asked < 10 * SECONDS}
                machine = self._meter.machine()
                self._newest = moment, Load(machine, self._meter.processes(self._wanted, machine))
            return self._newest[1]
