"""No secret, no default password and no registry stands in a file of deploy/."""

import re
from pathlib import Path

import pytest
import yaml

from tests.deploy.files import DEPLOY, named, walk

FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file() and path.name != "requirements.lock"]
SECRET = re.compile(r"password|passwd|token|secret|_key$|access_key|webhook", re.IGNORECASE)
HOST = re.compile(r"\b[\w-]+(\.[\w-]+)*\.(io|com|org|net|dev|cloud)(:\d+)?/")
GROUPS = re.compile(r"[\w.-]*\b(kubernetes|k8s|ray)\.io/|nvidia\.com/")
"""Names of Kubernetes that look like hosts."""


def literals(path: Path) -> list[str]:
    """Return the values that a YAML file gives to what is named like a secret."""
    found = []
    for document in yaml.safe_load_all(path.read_text()):
        for trail, value in walk(document):
            if trail and SECRET.search(trail[-1]):
                found.append(value)
            if isinstance(value, dict) and SECRET.search(str(value.get("name", ""))):
                found.append(value.get("value"))
    return [value for value in found if isinstance(value, str)]


def is_reference(value: str) -> bool:
    """Say whether a value only says where a secret is, or which kind it is of."""
    names = {"required", "token", "postgres", "ray-token", "webhook", "mlflow", "mlflow-driver", "password"}
    names |= {"s3-mlflow", "s3-searches"}
    return value.startswith(("/", "secrets/", "${", "~/")) or value in names


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".yaml"], ids=named)
def test_yaml(path: Path) -> None:
    assert [value for value in literals(path) if not is_reference(value)] == []


def test_a_secret_and_a_registry_are_found(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a: {POSTGRES_PASSWORD: hunter2}\nenv: [{name: RAY_AUTH_TOKEN, value: abc123}]\n")
    assert sorted(value for value in literals(file) if not is_reference(value)) == ["abc123", "hunter2"]
    hosts = ("images.example.io/team/x:1", "FROM registry.example.com:5000/x", "https://packages.example.org/s")
    assert all(HOST.search(text) for text in hosts)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_texts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "password1234" not in text
    assert HOST.search(GROUPS.sub("", text)) is None
