"""Every manifest is what Kubernetes and KubeRay accept, fenced in, and built from what is there."""

import copy
import json
import shutil
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from orchestrator.machines.cluster import WAITING, count_waiting
from tests.deploy.files import BASE, DEPLOY, KUBERNETES, OVERLAYS, containers, documents, named, pods
from tests.deploy.kustomize import KustomizationError, build

VERSIONS = ["1.31", "1.34"]
KUBERAY = json.loads((Path(__file__).parent / "kuberay.schema.json").read_text())
MANIFESTS = [path for path in sorted(KUBERNETES.glob("**/*.yaml")) if path.name != "kustomization.yaml"]


def validate(document: dict[str, Any], version: str) -> None:
    """Check a manifest; KubeRay's by our schema of it, and the pods inside by Kubernetes' own."""
    if document["apiVersion"] != "ray.io/v1":
        kubernetes_validate.validate(document, version, strict=True)
        return
    jsonschema.validate(document, KUBERAY)
    for pod in pods(document):
        template = {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {"name": "x", **pod.get("metadata", {})}}
        kubernetes_validate.validate(template, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=named)
def test_what_is_applied(folder: Path, version: str) -> None:
    built = build(folder)
    for document in built:
        validate(document, version)
    assert {document["metadata"].get("namespace", "icr") for document in built} == {"icr"}


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        pytest.param("Deployment", "spec.template.spec.containers.0.imagePullPolice", "x", id="key of a container"),
        pytest.param("RayCluster", "spec.workerGroupSpecs.0.maxReplica", 8, id="key of a worker group"),
        pytest.param("RayJob", "spec.entrypoint", 1, id="entrypoint"),
    ],
)
def test_a_mistake_is_found(kind: str, path: str, value: object) -> None:
    [document] = [copy.deepcopy(one) for folder in OVERLAYS for one in build(folder) if one["kind"] == kind][:1]
    validate(document, VERSIONS[-1])
    place: Any = document
    *way, last = path.split(".")
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[last] = value
    with pytest.raises(jsonschema.ValidationError):
        validate(document, VERSIONS[-1])


def test_every_file_is_in_a_kustomization() -> None:
    listed = set()
    for file in KUBERNETES.glob("**/kustomization.yaml"):
        [kustomization] = documents(file)
        patches = [patch["path"] for patch in kustomization.get("patches", []) if "path" in patch]
        listed |= {(file.parent / path).resolve() for path in [*kustomization["resources"], *patches]}
    assert listed - {BASE.resolve()} == {path.resolve() for path in MANIFESTS}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        pytest.param("  - raycluster.yaml", "  - raycluser.yaml", "is not there", id="a resource that is not there"),
        pytest.param("patches:", "patched:", "is not known", id="an unknown key"),
        pytest.param("  - driver.yaml", "  - driver.yaml\n  - driver.yaml", "more than once", id="a resource twice"),
        pytest.param("  - name: icr-orchestrator", "  - name: icr-orchestra", "no container", id="an image of nothing"),
    ],
)
def test_a_mistake_in_a_kustomization_is_found(old: str, new: str, complaint: str, tmp_path: Path) -> None:
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    overlay = tmp_path / "kubernetes" / "overlays" / "raycluster"
    build(overlay)
    file = overlay / "kustomization.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(KustomizationError, match=complaint):
        build(overlay)


def test_patches_do_what_they_are_for() -> None:
    [cluster] = [one for one in build(KUBERNETES / "overlays" / "raycluster") if one["kind"] == "CronJob"]
    [container] = next(pods(cluster))["spec"]["containers"]
    assert container["args"][:3] == ["join-ray.sh", "orchestrator", "regress"]
    assert {"MLFLOW_TRACKING_PASSWORD", "RAY_AUTH_TOKEN"} <= {variable["name"] for variable in container["env"]}
    [job] = [one for one in build(KUBERNETES / "overlays" / "rayjob") if one["kind"] == "CronJob"]
    assert job["spec"]["suspend"] is True


def every_pod() -> Iterator[Any]:
    for folder in OVERLAYS:
        for document in build(folder):
            for index, pod in enumerate(pods(document)):
                yield pytest.param(pod, id=f"{folder.name}-{document['kind']}-{document['metadata']['name']}-{index}")


@pytest.mark.parametrize("pod", list(every_pod()))
def test_pods_are_fenced_in_and_have_no_key_that_they_do_not_need(pod: dict[str, Any]) -> None:
    """As the namespace's restricted profile wants it, with limits and without a key to Kubernetes unless Ray's head."""
    spec = pod["spec"]
    of_ray = any(container["name"] in ("ray-head", "ray-worker") for container in spec["containers"])
    assert of_ray or spec["automountServiceAccountToken"] is False
    for container in containers(pod):
        context = {**spec.get("securityContext", {}), **container["securityContext"]}
        assert context["runAsNonRoot"] is True and context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert context["allowPrivilegeEscalation"] is False and context["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
        assert container["image"].partition(":")[2] not in ("", "latest") and "/" not in container["image"]
    # Pods that run plug-ins have the key of their bucket and the account of searches; the tracking server has the rest.
    names = {reference["name"] for one in containers(pod) for _, reference in references(one)}
    own = pod.get("metadata", {}).get("labels", {}).get("app.kubernetes.io/name") == "mlflow"
    assert not names & ({"s3-searches"} if own else {"s3-mlflow", "mlflow"})


@pytest.mark.parametrize("folder", OVERLAYS, ids=named)
def test_names_fit_together(folder: Path) -> None:
    """Volumes, settings and secrets that a pod names are there, or are made as the runbook says."""
    built = build(folder)
    there = {(one["kind"], one["metadata"]["name"]) for one in built}
    for document in built:
        claims = {one["metadata"]["name"] for one in document.get("spec", {}).get("volumeClaimTemplates", [])}
        for pod in pods(document):
            volumes = pod["spec"].get("volumes", [])
            for volume in volumes:
                claim = volume.get("persistentVolumeClaim")
                assert claim is None or ("PersistentVolumeClaim", claim["claimName"]) in there
            for container in containers(pod):
                mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
                assert mounts <= claims | {volume["name"] for volume in volumes}
                for kind, reference in references(container):
                    assert kind != "configMapRef" or ("ConfigMap", reference["name"]) in there
                    assert kind == "configMapRef" or is_made(reference), reference


def references(container: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for source in [*container.get("envFrom", []), *(one.get("valueFrom", {}) for one in container.get("env", []))]:
        for kind in ("configMapRef", "secretRef", "secretKeyRef"):
            if kind in source:
                yield kind, source[kind]


def is_made(reference: dict[str, Any]) -> bool:
    """Say whether the runbook makes a secret, with its key."""
    lines = (DEPLOY / "README.md").read_text().splitlines()
    made = [line for line in lines if f"create secret generic {reference['name']} " in line]
    return any(f"--from-literal={reference.get('key', '')}" in line for line in made)


@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=named)
def test_nothing_is_reached_that_no_policy_allows(folder: Path) -> None:
    """Everything is forbidden first; what a policy then allows is for pods that there are."""
    built = build(folder)
    policies = {one["metadata"]["name"]: one["spec"] for one in built if one["kind"] == "NetworkPolicy"}
    assert policies["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    labels = [pod.get("metadata", {}).get("labels", {}) for one in built for pod in pods(one)]
    of_ray = {"icr/ray", "icr/scales", "kuberay-operator"}
    for name, spec in policies.items():
        wanted = spec["podSelector"].get("matchLabels", {})
        if folder != BASE or not of_ray & set(wanted):
            assert any(wanted.items() <= one.items() for one in labels), name


METADATA = ip_address("169.254.169.254")
"""Where a cloud gives the keys of a machine away."""


@pytest.mark.parametrize("folder", OVERLAYS, ids=named)
def test_no_policy_lets_a_pod_out_to_anywhere(folder: Path) -> None:
    """Each way out of the namespace names addresses and one port of HTTPS; the metadata of a cloud is in none."""
    for document in build(folder):
        for rule in document["spec"].get("egress", []) if document["kind"] == "NetworkPolicy" else []:
            assert rule["to"], document["metadata"]["name"]
            blocks = [peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer]
            assert not blocks or {port["port"] for port in rule["ports"]} <= {443, 6443}
            for block in blocks:
                closed = [ip_network(part) for part in block.get("except", [])]
                assert METADATA not in ip_network(block["cidr"]) or any(METADATA in part for part in closed)


@pytest.mark.parametrize("folder", OVERLAYS, ids=named)
def test_ray_clusters_ask_for_the_token_and_keep_the_labels_of_kuberay(folder: Path) -> None:
    """A RayJob's head service has no endpoints where the pod overrides a label of KubeRay's."""
    clusters = [
        one["spec"].get("rayClusterSpec", one["spec"]) for one in build(folder) if one["apiVersion"] == "ray.io/v1"
    ]
    assert clusters
    for spec in clusters:
        assert spec["authOptions"] == {"mode": "token", "secretName": "ray-token"}
        for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
            labels = group["template"]["metadata"]["labels"]
            assert not any(name.startswith(("app.kubernetes.io/", "ray.io/")) for name in labels), labels


def test_the_operator_is_selected_by_the_label_that_every_installation_sets() -> None:
    """KubeRay's Helm chart names the operator's pod after the release; the component is the same everywhere."""
    [policy] = [one for one in build(BASE) if one["kind"] == "NetworkPolicy" and one["metadata"]["name"] == "ray"]
    selected = [peer["podSelector"]["matchLabels"] for rule in policy["spec"]["ingress"] for peer in rule["from"]]
    assert {"app.kubernetes.io/component": "kuberay-operator"} in selected


@pytest.mark.parametrize("folder", OVERLAYS, ids=named)
def test_several_nodes_come_at_a_time(folder: Path) -> None:
    drivers = [pod for one in build(folder) for pod in pods(one) if WAITING in str(pod)]
    assert drivers
    for pod in drivers:
        said = {one["name"]: one.get("value") for inside in containers(pod) for one in inside.get("env", [])}
        assert count_waiting(said) > 1


def test_both_copies_of_basic_auth_are_the_same() -> None:
    import configparser

    [config] = [one for one in build(BASE) if one["kind"] == "ConfigMap" and one["metadata"]["name"] == "basic-auth"]
    texts = [(DEPLOY / "basic_auth.ini").read_text(), config["data"]["basic_auth.ini"]]
    parsers = [configparser.ConfigParser() for _ in texts]
    for parser, text in zip(parsers, texts, strict=True):
        parser.read_string(text)
    assert parsers[0] == parsers[1] and "admin_password" not in parsers[0]["mlflow"]
