"""The files for ``ray up`` are what Ray's launcher takes."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
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
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("path", RAY_CLUSTERS, ids=named)
def test_files(path: Path) -> None:
    prepared = prepare(read(path))
    workers = [kind for name, kind in prepared["available_node_types"].items() if name != prepared["head_node_type"]]
    grows = workers or [prepared["available_node_types"][prepared["head_node_type"]]]
    # One stays, because a search looks at its start at what there is.
    assert all(1 <= kind["min_workers"] < kind["max_workers"] for kind in grows)
    assert prepared["idle_timeout_minutes"] > 0 and prepared["max_workers"] == max(
        kind["max_workers"] for kind in grows
    )
    assert "auth_token" in json.dumps(prepared["file_mounts"])
    [waiting] = set(re.findall(rf"{WAITING}=(\d+)", json.dumps(prepared)))
    assert count_waiting({WAITING: waiting}) > 1


def test_a_mistake_is_found() -> None:
    with pytest.raises(jsonschema.ValidationError):
        prepare(read(RAY_CLUSTERS[0]) | {"max_worker": 3})


def test_ssh_is_not_open_to_the_internet_on_aws() -> None:
    """Ray makes a security group, which opens SSH to everybody, for each kind of machine that names none."""
    [path] = [path for path in RAY_CLUSTERS if read(path)["provider"]["type"] == "aws"]
    kinds = prepare(read(path))["available_node_types"].values()
    groups = {tuple(kind["node_config"]["SecurityGroupIds"]) for kind in kinds}
    assert len(groups) == 1, "machines of different groups do not reach each other"


def test_the_keys_of_a_machine_on_aws_need_a_session_token() -> None:
    cluster = yaml.safe_load((DEPLOY / "ray" / "aws.yaml").read_text())
    for name, kind in cluster["available_node_types"].items():
        assert kind["node_config"]["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}, name
