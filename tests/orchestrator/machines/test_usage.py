"""What a machine and its processes do: psutil as it is, and an ``nvidia-smi`` that the test wrote."""

import os
from pathlib import Path

import psutil
import pytest

from orchestrator.machines.usage import MachineMeter

SMI = """#!/bin/sh
case "$1" in
  --query-gpu=*) echo '0, GPU-aaa, NVIDIA H100 80GB HBM3, 37, 2048, 81559'
                 echo '1, GPU-bbb, NVIDIA H100 80GB HBM3, [N/A], 0, 81559' ;;
  --query-compute-apps=*) echo '{pid}, GPU-aaa, 1024'
                          echo '1, GPU-aaa, [N/A]' ;;
esac
"""


def install(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "nvidia-smi"
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_gpus_are_those_that_nvidia_smi_tells_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, SMI.format(pid=os.getpid()), monkeypatch)
    meter = MachineMeter()
    machine = meter.machine()
    assert [(gpu.index, gpu.busy, gpu.used, gpu.total) for gpu in machine.gpus] == [
        (0, 37.0, 2048 * 2**20, 81559 * 2**20),
        (1, None, 0, 81559 * 2**20),
    ]
    assert meter.processes([os.getpid()], machine)[os.getpid()].gpu_memory == 1024 * 2**20


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 9\n", "#!/bin/sh\necho nonsense\n"])
def test_a_driver_that_does_not_answer_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    install(tmp_path, text, monkeypatch)
    assert MachineMeter().machine().gpus == ()


def test_a_process_is_measured_and_one_that_is_gone_is_left_out() -> None:
    meter = MachineMeter()
    machine = meter.machine()
    gone = max(psutil.pids()) + 100_000
    found = meter.processes([os.getpid(), gone], machine)
    assert found.keys() == {os.getpid()}
    assert found[os.getpid()].memory > 10 * 2**20
    assert found[os.getpid()].gpu_memory is None
    assert found[os.getpid()].cpus is None, "there is no time yet over which a share could be taken"
    sum(range(3_000_000))
    assert (meter.processes([os.getpid()], machine)[os.getpid()].cpus or 0) > 0
    assert 0 <= meter.machine().busy <= 100
    assert 0 < machine.used <= machine.total
    assert machine.cpus >= 1
