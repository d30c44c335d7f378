"""The files for ``ray up`` are what Ray's launcher takes."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.machines.cluster import WAITING, count_waiting
from tests.deploy.files import DEPLOY, RAY_CLUSTERS, named


def prepare(config: dict[str, Any]) -> dict[str, Any]:
    """Do what ``ray up`` does before it starts anything: fill in, and check against Ray's own schema."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared: dict[str, Any] = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    return prepared


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", RAY_CLUSTERS, ids=named)
def test_files(path: Path) -> None:
    prepared = prepare(read(path))
    workers = [kind for name, kind in prepared["available_node_types"].items() if name != prepared["head_node_type"]]
    grows = workers or [prepared["available_node_types"][prepared["head_node_type"]]]
    # One stays, because a search looks at its start at what there is.
    assert all(1 <= kind["min_workers"] < kind["max_workers"] for kind in grows)
    assert prepared["idle_timeout_minutes"] > 0
    assert prepared["max_workers"] == max(kind["max_workers"] for kind in grows)
    assert "auth_token" in json.dumps(prepared["file_mounts"])
    [waiting] = set(re.findall(rf"{WAITING}=(\d+)", json.dumps(prepared)))
    assert count_waiting({WAITING: waiting}) > 1


def test_ssh_is_not_open_to_the_internet_on_aws_and_keys_of_a_machine_need_a_session_token() -> None:
    """Ray makes a security group, which opens SSH to everybody, for each kind of machine that names none."""
    kinds = prepare(read(DEPLOY / "ray" / "aws.yaml"))["available_node_types"].values()
    groups = {tuple(kind["node_config"]["SecurityGroupIds"]) for kind in kinds}
    assert len(groups) == 1, "machines of different groups do not reach each other"
    for kind in kinds:
        assert kind["node_config"]["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
