"""What lies in deploy/, read for the tests."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
BASE = KUBERNETES / "base"
OVERLAYS = sorted(path.parent for path in KUBERNETES.glob("overlays/*/kustomization.yaml"))
SCRIPTS = sorted([*DEPLOY.glob("**/*.sh"), *DEPLOY.glob("**/*.sbatch")])
RAY_CLUSTERS = sorted(DEPLOY.glob("ray/*.yaml"))
TOOLS = Path(sys.executable).parent
"""Where the checkers that come as packages are."""


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def named(path: Path) -> str:
    return str(path.relative_to(DEPLOY))


def filled_in(path: Path, changes: dict[str, str]) -> str:
    """Return the text of a file with changes, of each of which it has the old text."""
    text = path.read_text()
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def walk(value: Any, trail: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield everything in a document with where it is."""
    yield trail, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from walk(inner, (*trail, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from walk(inner, (*trail, str(index)))


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the containers of a pod, those that come first included."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def pods(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every pod template of a manifest, KubeRay's included."""
    for _, value in walk(document):
        if isinstance(value, dict) and isinstance(value.get("spec"), dict) and "containers" in value["spec"]:
            yield value
