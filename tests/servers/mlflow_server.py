"""The tracking server of the image on a port of the loopback address, which can be killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

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
    """One server; ``start`` after ``kill`` serves the same store at the same ``uri``."""

    def __init__(self, store: str, folder: Path) -> None:
        """Choose a port; ``folder`` is for the log and the artifacts."""
        self._store, self._folder = store, folder
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

    def start(self) -> None:
        """Start it, and wait until it answers."""
        artifacts = (self._folder / "served-artifacts").as_uri()
        place = ["--host", HOST, "--port", str(self._port), "--artifacts-destination", artifacts]
        command = [sys.executable, "-m", "orchestrator.tracking.server", "--backend-store-uri", self._store, *place]
        # Its working directory is not the checkout's.
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self._log.open("ab") as log:
            # A session of its own, so that all of its processes can be ended together.
            self._process = subprocess.Popen(
                command, cwd=self._folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        process = self._process
        wait_until(lambda: process.poll() is not None or self._answers(), "the server answers", self._log)
        assert process.poll() is None, self._log.read_text()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

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
        with suppress(OSError):
            urllib.request.urlopen(f"{self.uri}/health", timeout=10).close()
            return True
        return False
