"""The doctor: what is missing is found, and every finding that is not ok has a way out."""

import json
import os
import socket
import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from orchestrator.doctor import machine as doctor
from orchestrator.doctor.machine import Check
from orchestrator.machines.cluster import Cluster
from tests.support.commands import CommandLine


@pytest.mark.proof
def test_this_machine_is_examined_whole(tmp_path: Path, cli: CommandLine) -> None:
    (tmp_path / "data" / "pets").mkdir(parents=True)
    code, said, _ = cli.run("doctor", "--data-root", tmp_path / "data", "--output", tmp_path / "runs", "--json")
    findings = {row["check"]: row for row in json.loads(said)}
    names = {
        "python",
        "packages",
        "torch pair",
        "gpu",
        "disk",
        "memory",
        "open files",
        "shared memory",
        "port",
        "data root",
        "output",
        "store",
        "token",
    }
    assert set(findings) == names
    assert all(row["way_out"] for row in findings.values() if row["state"] != "ok")
    assert code == (1 if "fail" in {row["state"] for row in findings.values()} else 0)
    assert findings["data root"]["found"].endswith("pets")
    assert not (tmp_path / "runs").exists()


@pytest.mark.proof
def test_what_a_cluster_needs_is_looked_at_where_it_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        there = f"127.0.0.1:{head.getsockname()[1]}"
        findings = doctor.examine(
            str(tmp_path), tmp_path, None, Cluster(there, "s3://bucket?endpoint_override=127.0.0.1:1")
        )
    cluster, storage = findings[-2:]
    assert cluster == Check("cluster", "ok", f"{there} answers")
    assert (storage.check, storage.state, storage.way_out) == ("storage", "fail", "is the server running?")
    gone = doctor.check_answers("cluster", Cluster(there))
    assert gone.state == "fail"
    assert gone.way_out.startswith("start its head with `ray start --head`")


@pytest.mark.parametrize(
    ("torch", "vision", "state"),
    [
        ("2.15.0+cu132", "0.29.2", "ok"),
        ("2.12.1", "0.27.1", "ok"),
        ("2.15.0", "0.27.1", "fail"),
        ("3.0", "1.0", "warn"),
    ],
)
def test_torch_and_torchvision_belong_together(
    monkeypatch: pytest.MonkeyPatch, torch: str, vision: str, state: str
) -> None:
    monkeypatch.setattr(doctor, "version", {"torch": torch, "torchvision": vision}.__getitem__)
    assert doctor.check_torch_pair().state == state


@pytest.mark.parametrize(("version", "state"), [((3, 10, 9), "fail"), ((3, 11, 0), "ok"), ((3, 14, 0), "fail")])
def test_python_is_of_a_version_that_works(monkeypatch: pytest.MonkeyPatch, version: tuple, state: str) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    assert doctor.check_python().state == state


def test_little_disk_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage(0, 0, 2**30))
    found = doctor.check_disk(tmp_path / "not" / "there")
    assert (found.state, found.found) == ("warn", f"1 GiB free at {tmp_path}")


def test_a_token_that_others_can_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    token = tmp_path / "folder" / "auth_token"
    token.parent.mkdir(0o755)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    assert doctor.check_token().state == "ok"
    token.write_text("t")
    token.chmod(0o644)
    for folder in token.parents[:-1]:
        # Pytest closes its folders to others.
        monkeypatch.setattr(Path, "stat", with_mode(Path.stat, folder, 0o755))
    found = doctor.check_token()
    assert found.state == "fail" and found.found.startswith(f"other users can read {token} (rw-r--r--)")
    assert found.way_out.startswith(f"chmod 0600 {token}")
    token.chmod(0o600)
    assert doctor.check_token().state == "ok"
    token.chmod(0o644)
    monkeypatch.setattr(Path, "stat", with_mode(Path.stat, token.parent, 0o700))
    assert doctor.check_token().state == "ok"


def with_mode(stat: Callable[..., os.stat_result], folder: Path, mode: int) -> Callable[..., os.stat_result]:
    """Return what gives a folder a mode, and asks ``stat`` about all else."""

    def asked(path: Path, **options: Any) -> os.stat_result:
        found = stat(path, **options)
        return os.stat_result((mode, *found[1:])) if path == folder else found

    return asked


@pytest.mark.proof
def test_a_taken_port_is_a_warning() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert doctor.check_port(taken.getsockname()[1]).state == "warn"


def test_data_and_output_have_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "data generate scenes" in doctor.check_data_root(str(tmp_path / "data")).way_out
    assert "data generate scenes" in doctor.check_data_root(str(tmp_path)).way_out
    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", Mock(side_effect=PermissionError(13, "Permission denied", "data")))
        refused = doctor.check_data_root(str(tmp_path))
    assert refused.state == "fail" and "Permission denied" in refused.found
    (tmp_path / "taken").write_text("")
    assert doctor.check_output(tmp_path / "taken" / "runs").state == "fail"
    assert doctor.check_output(tmp_path / "new").state == "ok"


def test_a_store_that_does_not_answer_is_a_warning(tmp_path: Path) -> None:
    assert doctor.check_store(tmp_path, None).state == "ok"
    (tmp_path / "mlflow.db").write_bytes(b"no database " * 100)
    found = doctor.check_store(tmp_path, None)
    assert found.state == "warn" and "not a database" in found.found
