"""Hosts in namespaces of this machine: what they hide of it, and what they must not."""

import sys
from pathlib import Path

import pytest

from tests.deploy.network import Network
from tests.support.hosts import missing

pytestmark = pytest.mark.proof


def test_a_host_has_the_environment_of_the_tests_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := missing():
        pytest.skip(reason)
    for name in ("shared", "environment", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    network = Network(tmp_path / "shared", ["host"])
    try:
        read = {
            name: network.try_run("host", "cat", str(tmp_path / name / "file")) for name in ("shared", "environment")
        }
        assert read == {"shared": "shared", "environment": "environment"}
        if tmp_path.is_relative_to("/tmp"):
            assert network.try_run("host", "cat", str(tmp_path / "other" / "file")) is None
    finally:
        network.kill()
