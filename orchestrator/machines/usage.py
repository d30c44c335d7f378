"""What this machine and some of its processes are doing: CPUs, memory, and GPUs where there are any.

Processes are measured through psutil. GPUs are measured through ``nvidia-smi``, which comes with every driver and asks
NVML; a machine without ``nvidia-smi`` has no GPUs for this module.
"""

import csv
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import psutil

SECONDS = 5.0
"""For which ``nvidia-smi`` may take its time before the GPUs are left out."""

GPU_FIELDS = "index,uuid,name,utilization.gpu,memory.used,memory.total"
PROCESS_FIELDS = "pid,gpu_uuid,used_memory"


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine.

    Attributes:
        index: As ``nvidia-smi`` counts.
        name: Of the model.
        busy: Share of the last moments in which a kernel ran, in percent; ``None`` where the driver does not tell.
        used: Memory in bytes.
        total: Memory in bytes.
        processes: Process -> what it holds of the memory, in bytes.
    """

    index: int
    name: str
    busy: float | None
    used: int
    total: int
    processes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessUsage:
    """What a process with all that it started takes.

    Attributes:
        cpus: CPUs that it kept busy since it was measured last, e.g. 1.5; ``None`` at the first measurement.
        memory: Resident, in bytes.
        gpu_memory: In bytes, over all GPUs; ``None`` where it has none.
    """

    cpus: float | None
    memory: int
    gpu_memory: int | None = None


@dataclass(frozen=True)
class MachineUsage:
    """What this machine is doing.

    Attributes:
        host: Its name.
        cpus: How many it has.
        busy: Share of its CPUs since it was measured last, in percent.
        used: Memory in bytes that is not available.
        total: Memory in bytes.
        gpus: Those that there are.
    """

    host: str
    cpus: int
    busy: float
    used: int
    total: int
    gpus: tuple[Gpu, ...] = ()


class MachineMeter:
    """Measures this machine and processes on it; shares of time are those since the last measurement."""

    def __init__(self) -> None:
        self._seen: dict[int, psutil.Process] = {}
        self._smi = shutil.which("nvidia-smi")
        self._times = psutil.cpu_times()

    @property
    def has_smi(self) -> bool:
        """Whether this machine has ``nvidia-smi``."""
        return self._smi is not None

    def machine(self, gpus: tuple[Gpu, ...] | None = None) -> MachineUsage:
        """Return what the whole machine is doing.

        Args:
            gpus: What its GPUs are doing, where that is known; by default they are measured.
        """
        memory = psutil.virtual_memory()
        return MachineUsage(
            host=socket.gethostname(),
            cpus=os.cpu_count() or 1,
            busy=self._busy(),
            used=memory.total - memory.available,
            total=memory.total,
            gpus=self.gpus() if gpus is None else gpus,
        )

    def processes(self, wanted: Iterable[int], machine: MachineUsage) -> dict[int, ProcessUsage]:
        """Return what processes take; those that are gone, or that this user must not look at, are left out."""
        numbers = set(wanted)
        self._seen = {number: process for number, process in self._seen.items() if number in numbers}
        found = {}
        for number in numbers:
            try:
                is_new = number not in self._seen
                process = self._seen.setdefault(number, psutil.Process(number))
                with process.oneshot():
                    cpus, memory = process.cpu_percent() / 100, process.memory_info().rss
            except psutil.Error:
                self._seen.pop(number, None)
                continue
            found[number] = ProcessUsage(None if is_new else cpus, memory, _memory_on_gpus(number, machine.gpus))
        return found

    def _busy(self) -> float:
        """Return the share of the CPUs since the last measurement, in percent, whichever threads have measured."""
        before, self._times = self._times, psutil.cpu_times()
        passed = {name: getattr(self._times, name) - getattr(before, name) for name in before._fields}
        # The time of guests is in the time of their users, too.
        total = sum(time for name, time in passed.items() if not name.startswith("guest"))
        idle = passed["idle"] + passed.get("iowait", 0.0)
        return 100 * (1 - idle / total) if total > 0 else 0.0

    def gpus(self) -> tuple[Gpu, ...]:
        """Return what the GPUs are doing, which takes up to ``SECONDS`` twice; none without ``nvidia-smi``."""
        if self._smi is None:
            return ()
        gpus = _ask(self._smi, "gpu", GPU_FIELDS)
        taken = _ask(self._smi, "compute-apps", PROCESS_FIELDS) if gpus else []
        return tuple(
            Gpu(
                index=int(index),
                name=name,
                busy=float(busy) if busy.replace(".", "").isdigit() else None,
                used=_bytes(used),
                total=_bytes(total),
                processes={int(pid): _bytes(held) for pid, gpu, held in taken if gpu == uuid},
            )
            for index, uuid, name, busy, used, total in gpus
        )


def _memory_on_gpus(process: int, gpus: Iterable[Gpu]) -> int | None:
    held = [gpu.processes[process] for gpu in gpus if process in gpu.processes]
    return sum(held) if held else None


def _ask(smi: str, what: str, fields: str) -> list[list[str]]:
    """Return the rows that ``nvidia-smi`` prints; none where it fails, as on a machine whose driver is not loaded."""
    command = [smi, f"--query-{what}={fields}", "--format=csv,noheader,nounits"]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    width = fields.count(",") + 1
    return [row for row in csv.reader(printed.splitlines(), skipinitialspace=True) if len(row) == width]


def _bytes(mebibytes: str) -> int:
    """Return what a cell of ``nvidia-smi`` says in bytes; 0 where the driver does not tell."""
    return int(mebibytes) * 2**20 if mebibytes.isdigit() else 0
