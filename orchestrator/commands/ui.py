"""``orchestrator ui``: MLflow's pages about the searches, on the loopback address."""

import os
import secrets
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import Output, TrackingUri
from orchestrator.machines.processes import bound_process
from orchestrator.text.terminal import say
from orchestrator.tracking import is_server, newest_page, without_password
from orchestrator.tracking.address import HOST, PORT
from orchestrator.tracking.fetching import find_store
from trainables.errors import ConfigError


def ui(
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on; another if this is taken.")] = PORT,
) -> None:
    """Serve MLflow's pages of the newest experiment, best trials first; Ctrl-C ends the server.

    The printed address holds a token that is new at each start; without it no other user of the machine gets in.
    """
    uri = find_store(tracking_uri, output)
    if is_server(uri):
        say(f"the store is a server already: {without_password(uri).rstrip('/')}{newest_page(uri) or ''}")
        return
    chosen = choose_port(port)
    say(f"MLflow on {without_password(uri)}")
    token = secrets.token_urlsafe(24)
    page = (newest_page(uri) or "/").removeprefix("/")
    say(f"open http://{HOST}:{chosen}/?token={token}{page} (Ctrl-C ends it; it takes some seconds to start)")
    raise typer.Exit(serve(uri, chosen, token))


def serve(uri: str, port: int, token: str) -> int:
    """Run MLflow's server until the server or this process ends; return its exit code, or 0 after an interrupt."""
    # Set in the environment, because other users can read command lines, and these are secrets.
    private = {"PYTHONWARNINGS": "ignore", "MLFLOW_BACKEND_STORE_URI": uri, "ORCHESTRATOR_UI_TOKEN": token}
    command = [sys.executable, "-m", "orchestrator.tracking.server", "--host", HOST, "--port", str(port)]
    with bound_process(command, {**os.environ, **private}) as server:
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
