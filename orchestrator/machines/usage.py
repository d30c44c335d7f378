"""The use of this machine's CPUs, memory and GPUs, by all processes and by single processes.

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
"""Seconds that ``nvidia-smi`` may take; after this time the GPUs are left out."""

GPU_FIELDS = "index,uuid,name,utilization.gpu,memory.used,memory.total"
PROCESS_FIELDS = "pid,gpu_uuid,used_memory"


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine.

    Attributes:
        index: Number of the GPU in ``nvidia-smi``.
        name: Name of the GPU's model.
        busy: Share of the last moments in which a kernel ran, in percent; ``None`` where the driver does not say.
        used: Memory in bytes.
        total: Memory in bytes.
        processes: Id of a process -> the GPU memory that the process holds, in bytes.
    """

    index: int
    name: str
    busy: float | None
    used: int
    total: int
    processes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessUsage:
    """CPUs and memory of a process and of all processes that it started.

    Attributes:
        cpus: CPUs that were kept busy since the last measurement, e.g. 1.5; ``None`` at the first measurement.
        memory: Resident memory in bytes.
        gpu_memory: GPU memory in bytes, over all GPUs; ``None`` where the processes hold none.
    """

    cpus: float | None
    memory: int
    gpu_memory: int | None = None


@dataclass(frozen=True)
class MachineUsage:
    """Use of this machine's CPUs, memory and GPUs.

    Attributes:
        host: Name of the machine.
        cpus: Number of CPUs.
        busy: Share of the CPUs that was busy since the last measurement, in percent.
        used: Memory in bytes that is not available.
        total: Memory in bytes.
        gpus: The GPUs of the machine.
    """

    host: str
    cpus: int
    busy: float
    used: int
    total: int
    gpus: tuple[Gpu, ...] = ()


class MachineMeter:
    """Measures this machine and processes on it; shares of time count since the last measurement."""

    def __init__(self) -> None:
        self._seen: dict[int, psutil.Process] = {}
        self._smi = shutil.which("nvidia-smi")
        self._times = psutil.cpu_times()

    @property
    def has_smi(self) -> bool:
        """Whether this machine has ``nvidia-smi``."""
        return self._smi is not None

    def machine(self, gpus: tuple[Gpu, ...] | None = None) -> MachineUsage:
        """Return the use of the whole machine.

        Args:
            gpus: Use of its GPUs, if known; by default the GPUs are measured.
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
        """Return the use by processes; a process that is gone, or that this user may not inspect, is left out."""
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
        """Return the busy share of the CPUs since the last measurement by any thread, in percent."""
        before, self._times = self._times, psutil.cpu_times()
        passed = {name: getattr(self._times, name) - getattr(before, name) for name in before._fields}
        # The time of virtual machines is also contained in the time of their users.
        total = sum(time for name, time in passed.items() if not name.startswith("guest"))
        idle = passed["idle"] + passed.get("iowait", 0.0)
        return 100 * (1 - idle / total) if total > 0 else 0.0

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the use of the GPUs, within twice ``SECONDS``; empty without ``nvidia-smi``."""
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
    """Return the rows that ``nvidia-smi`` prints; none if it fails, e.g. because no driver is loaded."""
    command = [smi, f"--query-{what}={fields}", "--format=csv,noheader,nounits"]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    width = fields.count(",") + 1
    return [row for row in csv.reader(printed.splitlines(), skipinitialspace=True) if len(row) == width]


def _bytes(mebibytes: str) -> int:
    """Return the bytes of a cell of ``nvidia-smi``; 0 if the driver does not tell."""
    return int(mebibytes) * 2**20 if mebibytes.isdigit() else 0
