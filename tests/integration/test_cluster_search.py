"""The command line on a cluster that is there already, with data and checkpoints in a bucket: no disk is shared."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.storage.bucket import ObjectStore
from tests.support.bucket import CREDENTIALS, free_port, keys, make_bucket, s3_server
from tests.support.hosts import ray_command, ray_environment
from tests.support.precomputed_folder import write_precomputed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parent.parent.parent
SETTINGS = ["datasets=[pets]", "name=pets", "training.epochs=3", "training.batch_size=16", "training.embedding_size=32"]
SETTINGS += ["search.trials=1", "confirm=null"]


@pytest.fixture
def endpoint() -> Iterator[str]:
    with s3_server("127.0.0.1", free_port()) as address:
        make_bucket(address)
        yield address


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of nodes and driver: a home of its own, a token, and the credentials of the bucket."""
    return ray_environment(tmp_path / "home", "secret-of-this-test") | CREDENTIALS


@pytest.fixture
def head(environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """A cluster of one node with one CPU, whose processes all end with the test."""
    Path(environment["HOME"]).mkdir()
    port, log = free_port(), tmp_path / "head.log"
    # Short, because Ray makes sockets under it.
    ray = Path(f"/tmp/icr-h-{os.getpid()}")
    options = ["--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={ray}", "--include-dashboard=false"]
    with log.open("w") as output:
        node = subprocess.Popen(ray_command("--head", *options), env=environment, stdout=output, stderr=output)
    try:
        wait_until(lambda: "Ray runtime started" in log.read_text(), "the head starts", log)
        yield f"127.0.0.1:{port}"
    finally:
        children = psutil.Process(node.pid).children(recursive=True)
        node.send_signal(signal.SIGTERM)
        _, alive = psutil.wait_procs([psutil.Process(node.pid), *children], timeout=120)
        for process in alive:
            process.kill()
        node.wait()
        shutil.rmtree(ray)


def search(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    sets = [part for setting in SETTINGS for part in ("--set", setting)]
    command = [sys.executable, "-c", "from orchestrator.cli import main; main()", "search", "scenes-smoke"]
    environment = {**environment, "PYTHONPATH": str(ROOT)}
    return subprocess.run([*command, *sets, *options], env=environment, capture_output=True, text=True, timeout=280)


def test_data_and_checkpoints_in_a_bucket(
    head: str, endpoint: str, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    write_precomputed(tmp_path / "pets")
    place = f"?endpoint_override={endpoint}"
    ObjectStore.parse(f"s3://bucket/data{place}").put(tmp_path / "pets", "pets")
    options = ["--data-root", f"s3://bucket/data{place}", "--storage", f"s3://bucket/searches{place}"]
    options += ["--output", str(tmp_path / "runs"), "--json"]

    refused = search({**environment, "RAY_AUTH_TOKEN": "another"}, *options, "--address", head)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"error: --address {head}: refuses our token" in refused.stderr

    done = search(environment, *options, "--address", head)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert [row["state"] for row in summary["trials"]] == ["finished", "finished"]
    winner = summary["winners"]["pets"]
    assert winner["test"]["rsum"] > 0
    kept = list((tmp_path / "runs" / "pets" / "trials").glob("*/epoch_*"))
    assert [path.parent.name for path in kept] == [winner["trial"]]
    stored = {key.split("/")[3] for key in keys(endpoint) if key.endswith("manifest.json") and "searches" in key}
    assert stored == {row["trial"] for row in summary["trials"]}

    elsewhere = search(environment, *options[:2], *options[4:])
    assert elsewhere.returncode == 2
    assert "was started with --storage s3://bucket/searches" in elsewhere.stderr
