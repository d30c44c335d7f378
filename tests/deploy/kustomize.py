"""What ``kubectl apply --kustomize`` would send, as far as our kustomizations go; there is no kustomize to ask.

Patches are the two forms that kustomize knows: a strategic merge (maps merge, lists of named things merge by
name, other lists are replaced), and operations of JSON patch.
"""

import copy
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.files import containers, documents, pods

KEYS = {"apiVersion", "kind", "namespace", "resources", "patches", "images"}


class KustomizationError(Exception):
    """A kustomization that kustomize would refuse, or that would do nothing."""


def build(folder: Path) -> list[dict[str, Any]]:
    kustomization = _read(folder / "kustomization.yaml")
    resources = [resource for name in kustomization["resources"] for resource in _load(folder / name)]
    identities = [_identity(resource) for resource in resources]
    if twice := {one for one in identities if identities.count(one) > 1}:
        raise KustomizationError(f"{folder}: {twice} more than once")
    for patch in kustomization.get("patches", []):
        _patch(resources, patch, folder)
    for image in kustomization.get("images", []):
        _name_image(resources, image)
    for resource in resources:
        if resource["kind"] != "Namespace":
            resource["metadata"]["namespace"] = kustomization["namespace"]
    return resources


def _read(file: Path) -> dict[str, Any]:
    [kustomization] = documents(file)
    if (kustomization["apiVersion"], kustomization["kind"]) != ("kustomize.config.k8s.io/v1beta1", "Kustomization"):
        raise KustomizationError(f"{file}: no kustomization")
    if unknown := set(kustomization) - KEYS:
        raise KustomizationError(f"{file}: {unknown} is not known here")
    return kustomization


def _load(path: Path) -> list[dict[str, Any]]:
    if path.is_dir():
        return build(path)
    if not path.is_file():
        raise KustomizationError(f"{path}: is not there")
    return documents(path)


def _identity(resource: dict[str, Any]) -> tuple[str, str, str]:
    return resource["apiVersion"], resource["kind"], resource["metadata"]["name"]


def _patch(resources: list[dict[str, Any]], patch: dict[str, Any], folder: Path) -> None:
    wanted = patch["target"]
    version = "/".join(filter(None, (wanted.get("group"), wanted["version"])))
    target = (version, wanted["kind"], wanted["name"])
    found = [resource for resource in resources if _identity(resource) == target]
    if not found:
        raise KustomizationError(f"{folder}: a patch is for {target}, which is not there")
    if "path" in patch and not (folder / patch["path"]).is_file():
        raise KustomizationError(f"{folder / patch['path']}: is not there")
    text = (folder / patch["path"]).read_text() if "path" in patch else patch["patch"]
    content = yaml.safe_load(text)
    if isinstance(content, list):
        for operation in content:
            _operate(found[0], operation)
    elif _identity(content) != target:
        raise KustomizationError(f"{folder}: the patch for {target} says that it is for {_identity(content)}")
    else:
        _merge(found[0], content)


def _operate(resource: dict[str, Any], operation: dict[str, Any]) -> None:
    if operation["op"] != "add":
        raise KustomizationError(f"{operation}: is not known here")
    *way, last = operation["path"].strip("/").split("/")
    place: Any = resource
    for step in way:
        if step not in place:
            raise KustomizationError(f"{operation['path']}: is not there")
        place = place[step]
    place[last] = operation["value"]


def _merge(base: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        there = base.get(key)
        if isinstance(there, dict) and isinstance(value, dict):
            _merge(there, value)
        elif isinstance(there, list) and all(isinstance(item, dict) and "name" in item for item in [*there, *value]):
            _merge_named(there, value)
        else:
            base[key] = copy.deepcopy(value)


def _merge_named(base: list[dict[str, Any]], patch: list[dict[str, Any]]) -> None:
    for item in patch:
        same = [there for there in base if there["name"] == item["name"]]
        if same:
            _merge(same[0], item)
        else:
            base.append(copy.deepcopy(item))


def _name_image(resources: list[dict[str, Any]], image: dict[str, str]) -> None:
    found = False
    for resource in resources:
        for pod in pods(resource):
            for container in containers(pod):
                if container["image"].split(":")[0] == image["name"]:
                    container["image"] = f"{image['name']}:{image['newTag']}"
                    found = True
    if not found:
        raise KustomizationError(f"no container has the image {image['name']}")
