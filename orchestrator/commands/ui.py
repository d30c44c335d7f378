"""``orchestrator ui``: MLflow's pages about the searches, on the loopback address."""

import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import Output, TrackingUri
from orchestrator.machines.processes import bound_process
from orchestrator.text.terminal import say
from trainables.errors import ConfigError

HOST, PORT = "127.0.0.1", 5000


def ui(
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on; another if this is taken.")] = PORT,
) -> None:
    """Serve MLflow's pages of the newest experiment, best trials first; Ctrl-C ends the server."""
    from orchestrator.tracking import is_server, newest_page, without_password
    from orchestrator.tracking.fetching import find_store

    uri = find_store(tracking_uri, output)
    if is_server(uri):
        say(f"the store is a server already: {without_password(uri).rstrip('/')}{newest_page(uri) or ''}")
        return
    chosen = choose_port(port)
    say(f"MLflow on {without_password(uri)}")
    say(f"open http://{HOST}:{chosen}{newest_page(uri) or ''} (Ctrl-C ends it; it takes some seconds to start)")
    raise typer.Exit(serve(uri, chosen))


def serve(uri: str, port: int) -> int:
    """Run MLflow's server until the server or this process ends; return its exit code, or 0 after an interrupt."""
    quiet = {"PYTHONWARNINGS": "ignore", "MLFLOW_DISABLE_TELEMETRY": "true"}
    # Set in the environment, because other users can read command lines, and the address may contain a password.
    store = {"MLFLOW_BACKEND_STORE_URI": uri, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment = {**os.environ, **quiet, **store}
    place = ["--host", HOST, "--port", str(port), "--workers", "1", "--uvicorn-opts", "--log-level warning"]
    command = [sys.executable, "-m", "mlflow", "ui", *place]
    with bound_process(command, environment) as server:
        try:
            return server.wait()
        except KeyboardInterrupt:
            return 0


def choose_port(wanted: int) -> int:
    """Return a free port of the loopback address: the wanted port, or a port that the system chooses."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ConfigError(f"--port {wanted}: neither this nor any other port of {HOST} is free")
