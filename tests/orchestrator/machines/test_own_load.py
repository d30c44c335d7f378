"""What a process reports of itself and of its machine: soon, whatever the machine is like."""

import json
import time
from pathlib import Path

import psutil
import pytest

from orchestrator.machines import own_load
from orchestrator.machines.own_load import OwnLoad, OwnMeter
from tests.orchestrator.machines.test_usage import SMI, install


def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every look measure."""
    monkeypatch.setattr(own_load, "SECONDS", 0.0)
    monkeypatch.setattr(own_load, "GPU_SECONDS", 0.0)


def test_a_measurement_comes_through_json_as_it_was() -> None:
    measured = OwnMeter().look()
    assert measured is not None
    assert OwnLoad.from_dict(json.loads(json.dumps(measured.to_dict()))) == measured
    assert measured.process.memory > 10 * 2**20
    assert measured.machine.total >= measured.machine.used > 0


def test_a_second_look_within_a_second_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_load, "SECONDS", 3600.0)
    meter = OwnMeter()
    assert meter.look() is meter.look()


def test_gpus_are_told_of_when_the_driver_has_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, SMI.format(pid=1), monkeypatch)
    no_time(monkeypatch)
    meter = OwnMeter()
    first = meter.look()
    assert first is not None and first.machine.gpus == (), "nobody waits for the driver"
    deadline = time.monotonic() + 300
    while not (seen := meter.look()) or not seen.machine.gpus:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [gpu.used for gpu in seen.machine.gpus] == [2048 * 2**20, 0]
    told = seen.to_dict()
    assert [gpu["processes"] for gpu in told["machine"]["gpus"]] == [{}, {}], "whose they are is nobody else's matter"
    assert OwnLoad.from_dict(told).machine.gpus[0].busy == 37.0


@pytest.mark.parametrize("error", [psutil.AccessDenied(1), OSError("no /proc"), ValueError(), NotImplementedError()])
def test_a_machine_that_cannot_be_measured_is_no_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = OwnMeter()

    def fails() -> None:
        raise error

    monkeypatch.setattr(psutil, "virtual_memory", fails)
    assert meter.look() is None


@pytest.mark.parametrize("values", [{}, {"process": {}, "machine": {"gpus": []}}, {"process": {"new": 1}}])
def test_what_another_version_reported_is_refused_by_name(values: dict[str, object]) -> None:
    with pytest.raises((TypeError, KeyError)):
        OwnLoad.from_dict(values)
