from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.storage.bucket import ObjectStore
from tests.support.bucket import CREDENTIALS, free_port, make_bucket, s3_server


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server("127.0.0.1", free_port()) as address:
        make_bucket(address)
        yield address


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {**CREDENTIALS, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(endpoint: str, request: pytest.FixtureRequest) -> ObjectStore:
    """A part of the bucket that only this test uses."""
    name = request.node.name.replace("[", "/").rstrip("]")
    return ObjectStore.parse(f"s3://bucket/{name}?endpoint_override={endpoint}")
