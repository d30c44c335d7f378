"""Affinity and control groups decide what a process may use."""

import os
from pathlib import Path

import pytest

from trainables import allotment
from trainables.allotment import usable_cpus, usable_memory


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
