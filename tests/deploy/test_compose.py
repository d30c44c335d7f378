"""The compose file is valid, closed to the outside, and whole."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from orchestrator.tracking.server import DRIVER
from tests.deploy.files import DEPLOY, ROOT, named

FOLDER = DEPLOY / "compose"
SCHEMA = json.loads((Path(__file__).parent / "compose.schema.json").read_text())
FILES = sorted(FOLDER.glob("compose*.yaml"))


def read(name: str = "compose.yaml") -> dict[str, Any]:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def names_in(document: dict[str, Any]) -> None:
    services = document["services"]
    for service in services.values():
        assert set(service.get("secrets", [])) <= document["secrets"].keys()
        assert {config["source"] for config in service.get("configs", [])} <= document["configs"].keys()
        assert set(service.get("networks", [])) <= {"default", *document["networks"]}
        assert set(service.get("depends_on", {})) <= services.keys()
        for volume in service.get("volumes", []):
            source = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", volume).split(":")[0]
            assert source in document["volumes"] or source.startswith((".", "/"))
        for name, value in service.get("environment", {}).items():
            if value.startswith("/run/secrets/"):
                assert value.removeprefix("/run/secrets/") in service["secrets"], name


@pytest.mark.parametrize("path", FILES, ids=named)
def test_files(path: Path) -> None:
    jsonschema.validate(read(path.name), SCHEMA)


def test_names_fit_together() -> None:
    document = read()
    names_in(document)
    for kind in ("configs", "secrets"):
        for entry in document[kind].values():
            assert entry["file"].startswith("secrets/") or (FOLDER / entry["file"]).is_file()
    build = document["x-image"]["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    assert read("compose.gpu.yaml")["services"].keys() <= document["services"].keys()


@pytest.mark.parametrize(
    ("service", "key", "value", "error"),
    [
        pytest.param("ray", "commands", ["ray"], jsonschema.ValidationError, id="unknown key"),
        pytest.param("mlflow", "ports", ["5000:5000"], jsonschema.ValidationError, id="port that is open to all"),
        pytest.param("ray", "secrets", [], AssertionError, id="secret that a variable names"),
        pytest.param("postgres", "volumes", ["postgre:/data"], AssertionError, id="volume"),
        pytest.param("ray", "depends_on", {"s4": {"condition": "service_healthy"}}, AssertionError, id="service"),
    ],
)
def test_a_mistake_is_found(service: str, key: str, value: Any, error: type[Exception]) -> None:
    document = read()
    document["services"][service][key] = value
    with pytest.raises(error):
        jsonschema.validate(document, SCHEMA)
        names_in(document)


def test_ports_are_on_the_loopback_address() -> None:
    ports = [port for service in read()["services"].values() for port in service.get("ports", [])]
    assert len(ports) == 3 and all(port.startswith("${BIND:-127.0.0.1}:") for port in ports)


def test_the_database_is_reached_by_the_tracking_server_alone() -> None:
    document = read()
    assert document["networks"]["database"] == {"internal": True}
    inside = {name for name, service in document["services"].items() if "database" in service.get("networks", [])}
    assert inside == {"postgres", "migrate", "mlflow"} and document["services"]["postgres"]["networks"] == ["database"]


def test_what_stays_up_is_looked_after() -> None:
    for name, service in read()["services"].items():
        if service["restart"] == "unless-stopped":
            assert "healthcheck" in service or "HEALTH_URL" in service["environment"], name
        assert "latest" not in service["image"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_no_service_that_listens_is_root_or_has_a_capability() -> None:
    for name, service in read()["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        if service.get("user", "").startswith("0") or "cap_add" in service:
            assert service["network_mode"] == "none" and service["restart"] == "no", name
    assert [read()["services"][name]["user"] for name in ("postgres", "s3")] == ["999:999", "1000:1000"]


def test_each_service_has_the_keys_that_it_needs_and_no_other() -> None:
    """The code of a plug-in runs in ``ray`` and ``driver``: neither opens MLflow's bucket nor makes accounts there."""
    services = read()["services"]
    having = {
        secret: {name for name, service in services.items() if secret in service.get("secrets", [])}
        for secret in read()["secrets"]
    }
    assert having["s3_access_key"] == having["s3_secret_key"] == {"buckets"}
    assert having["s3_mlflow_access_key"] == having["s3_mlflow_secret_key"] == {"mlflow"}
    assert having["s3_searches_access_key"] == having["s3_searches_secret_key"] == {"ray", "driver"}
    assert having["mlflow_admin_password"] == {"mlflow"}
    assert having["mlflow_driver_password"] == {"mlflow", "driver"}
    assert services["driver"]["environment"]["MLFLOW_TRACKING_USERNAME"] == DRIVER
