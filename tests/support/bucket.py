"""An S3 server of our own in a process of its own, which the kernel ends should the test be killed.

``python -m tests.support.bucket make|keys ENDPOINT`` does from another network what the functions do in this one.
"""

import json
import re
import secrets
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tests.support.waiting import wait_until

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}

_SERVE = """
import ctypes, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
from moto.server import main
main(["-H", sys.argv[1], "-p", sys.argv[2]])
"""


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free, and that the kernel gives to nobody who does not ask for it by its number."""
    while True:
        port = secrets.choice(range(20_000, 32_000))
        with socket.socket() as probe, suppress(OSError):
            probe.bind((host, port))
            return port


@contextmanager
def refusing_port() -> Iterator[int]:
    """Yield a port at which nothing listens, and which no other process gets meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


@contextmanager
def s3_server(host: str, port: int, within: Sequence[str] = ()) -> Iterator[str]:
    """Yield the endpoint of a server; ``within`` is a command that runs it elsewhere, e.g. in a network namespace."""
    command = [*within, sys.executable, "-c", _SERVE, host, str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://{host}:{port}"
    finally:
        server.kill()
        server.wait()


def make_bucket(endpoint: str) -> None:
    """Make the bucket ``bucket`` as soon as the server answers."""

    def is_made() -> bool:
        with suppress(OSError):
            request = urllib.request.Request(f"{endpoint}/bucket", method="PUT")
            urllib.request.urlopen(request, timeout=60).close()
            return True
        return False

    wait_until(is_made, f"a bucket at {endpoint}")


def keys(endpoint: str, name: str = "bucket") -> list[str]:
    """Return the keys of a bucket, at most a thousand."""
    with urllib.request.urlopen(f"{endpoint}/{name}?list-type=2", timeout=60) as answer:
        return re.findall(r"<Key>([^<]*)</Key>", answer.read().decode())


if __name__ == "__main__":
    print(json.dumps({"make": make_bucket, "keys": keys}[sys.argv[1]](sys.argv[2])))
