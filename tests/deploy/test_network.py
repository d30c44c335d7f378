"""Hosts in namespaces of this machine: what they hide of it, and what they must not."""

import sys
from pathlib import Path

import pytest

from tests.deploy.network import Network

pytestmark = pytest.mark.proof


def test_a_host_has_the_environment_of_the_tests_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shared", "environment", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    with Network(tmp_path / "shared", ["host"]) as network:
        for name in ("shared", "environment"):
            assert network.try_run("host", "cat", str(tmp_path / name / "file")) == name
        if tmp_path.is_relative_to("/tmp"):
            assert network.try_run("host", "cat", str(tmp_path / "other" / "file")) is None
