"""Affinity and control groups decide what a process may use."""

import os
import resource
import sys
from pathlib import Path

import pytest

from trainables import allotment
from trainables.allotment import usable_cpus, usable_files, usable_memory, usable_shared_memory


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 64 processors, of which 16 are this process's by affinity, without groups."""
    monkeypatch.setattr(allotment, "GROUPS", tmp_path)
    monkeypatch.setattr(allotment, "OWN", tmp_path / "own")
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)), raising=False)
    return tmp_path


def write(folder: Path, **contents: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name.replace("__", ".")).write_text(content + "\n")


def test_without_a_group_the_affinity_counts(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (usable_cpus(), usable_memory(100)) == (16, 100)
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cpus() == 64, "as on macOS"


def test_the_smallest_group_around_the_process_counts(groups: Path) -> None:
    (groups / "own").write_text("0::/slice/job\n")
    write(groups / "slice" / "job", cpu__max="max 100000", memory__max="max", memory__current="5")
    assert (usable_cpus(), usable_memory(100)) == (16, 100)
    write(groups / "slice", cpu__max="250000 100000", memory__max="90", memory__current="50")
    assert (usable_cpus(), usable_memory(100)) == (3, 40)
    write(groups, cpu__max="10000 100000", memory__max="90", memory__current="95")
    assert (usable_cpus(), usable_memory(100)) == (1, 0), "the root of a container is its own group"


def test_groups_of_version_1_count_too(groups: Path) -> None:
    (groups / "own").write_text("5:cpu,cpuacct:/job\n4:memory:/job\n1:name=systemd:/x\n")
    write(groups / "cpu" / "job", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    write(groups / "memory" / "job", memory__limit_in_bytes="70", memory__usage_in_bytes="20")
    assert (usable_cpus(), usable_memory(100)) == (16, 50)
    write(groups / "cpu" / "job", cpu__cfs_quota_us="400000")
    assert usable_cpus() == 4


def test_the_limit_to_which_a_process_may_raise_its_own_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    for hard, usable in ((20000, 20000), (256, 256), (resource.RLIM_INFINITY, None)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, hard=hard: (128, hard))
        assert usable_files() == usable


@pytest.mark.skipif(sys.platform != "linux", reason="shared memory has no folder there")
def test_shared_memory_is_what_its_folder_and_the_group_leave(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = groups / "shm"
    monkeypatch.setattr(allotment, "SHARED_MEMORY", folder)
    assert usable_shared_memory() == 0, "there is no such folder"
    folder.mkdir()
    state = os.statvfs_result((4096, 1024, 100, 60, 50, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: state)
    assert usable_shared_memory() == 50 * 1024
    (groups / "own").write_text("0::/job\n")
    write(groups / "job", memory__max="30000", memory__current="10000")
    assert usable_shared_memory() == 20000
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert usable_shared_memory() == 0
