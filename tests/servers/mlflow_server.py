"""The tracking server of the image on a port of the loopback address, which can be killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.support.waiting import wait_until

HOST = "127.0.0.1"
ROOT = Path(__file__).parent.parent.parent

AUTH = """[mlflow]
default_permission = READ
database_uri = sqlite:///{folder}/auth.db
admin_username = {name}
admin_password = {password}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
"""


class MlflowServer:
    """One server, which runs for the length of a ``with`` block.

    ``start`` after ``kill`` serves the same store at the same ``uri``, which has no credentials.
    """

    def __init__(
        self,
        store: str,
        folder: Path,
        artifacts: str | None = None,
        *,
        account: tuple[str, str] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        """Choose a port; ``folder`` is for the log and, by default, the artifacts; ``account`` is name and password."""
        self._store, self._folder = store, folder
        self._artifacts = artifacts or (folder / "served-artifacts").as_uri()
        self._account, self._environment = account, environment or {}
        self._log = folder / "mlflow-server.log"
        # Bound, but not listening: on Linux the server may have the port, also after a kill, and nobody else gets it.
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind((HOST, 0))
        self._port = self._place.getsockname()[1]
        if sys.platform != "linux":
            self._place.close()
        self._process: subprocess.Popen[bytes] | None = None
        self.uri = f"http://{HOST}:{self._port}"

    def __enter__(self) -> "MlflowServer":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        place = ["--host", HOST, "--port", str(self._port), "--artifacts-destination", self._artifacts]
        command = [sys.executable, "-m", "orchestrator.tracking.server", "--backend-store-uri", self._store, *place]
        command += self._auth()
        # Its working directory is not the checkout's.
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **self._environment}
        with self._log.open("ab") as log:
            # A session of its own, so that all of its processes can be ended together.
            self._process = subprocess.Popen(
                command, cwd=self._folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        process = self._process
        wait_until(lambda: process.poll() is not None or self._answers(), "the server answers", self._log)
        assert process.poll() is None, self._log.read_text()

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order; nothing happens if it does not run."""
        self._end(signal.SIGTERM)

    def _auth(self) -> list[str]:
        if self._account is None:
            return []
        pytest.importorskip("flask_wtf", reason="MLflow's basic auth needs Flask-WTF (mlflow[auth])")
        file = self._folder / "auth.ini"
        file.write_text(AUTH.format(folder=self._folder, name=self._account[0], password=self._account[1]))
        self._environment["MLFLOW_AUTH_CONFIG_PATH"] = str(file)
        self._environment.setdefault("MLFLOW_FLASK_SERVER_SECRET_KEY", "of a test")
        return ["--app-name", "basic-auth"]

    def _end(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            try:
                self._process.wait(120)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait(120)
            self._process = None

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.uri}/health", timeout=10).close()
        except HTTPError:
            return True
        except OSError:
            return False
        return True
