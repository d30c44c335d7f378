"""``orchestrator ui`` and ``orchestrator sync``: the pages of MLflow, and the records that it missed."""

import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import AnyExperimentNames, Json, Output, TrackingUri
from orchestrator.journal.directory import find_directories, find_experiments, path_below
from orchestrator.journal.journal import JournalError
from orchestrator.machines.processes import bound_process
from orchestrator.machines.visitors import own_name
from orchestrator.text.addresses import without_password
from orchestrator.text.terminal import say
from orchestrator.tracking.address import HOST, PORT, choose_uri, free_port, is_server
from orchestrator.tracking.connection import count_experiments
from orchestrator.tracking.failures import RefusedError
from orchestrator.tracking.registry import find_store, register_all
from orchestrator.tracking.sync import DeletedError, Delivery, DeliveryError, deliver, refuse_moved_database
from orchestrator.tracking.view import newest_page
from trainables.errors import ConfigError, UserError


def ui(
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on; another if this is taken.")] = PORT,
) -> None:
    """Serve MLflow's pages of the newest experiment, best trials first; Ctrl-C ends the server.

    The printed address holds a token, without which no other user of the machine gets in.
    """
    uri = find_store(tracking_uri, output)
    if is_server(uri):
        say(f"the store is a server already: {without_password(uri).rstrip('/')}{newest_page(uri) or ''}")
        return
    chosen = choose_port(port)
    say(f"MLflow on {without_password(uri)}")
    token = secrets.token_urlsafe(24)
    page = (newest_page(uri) or "/").removeprefix("/")
    say(f"open http://{own_name(token)}:{chosen}/?token={token}{page} (Ctrl-C ends it; it takes some seconds to start)")
    # Set in the environment, because other users can read command lines, and these are secrets.
    private = {"PYTHONWARNINGS": "ignore", "MLFLOW_BACKEND_STORE_URI": uri, "ORCHESTRATOR_UI_TOKEN": token}
    command = [sys.executable, "-m", "orchestrator.tracking.server", "--host", HOST, "--port", str(chosen)]
    with bound_process(command, {**os.environ, **private}) as server, suppress(KeyboardInterrupt):
        raise typer.Exit(server.wait())


def choose_port(wanted: int) -> int:
    """Return a free port of the loopback address: the wanted port, or a port that the system chooses."""
    for port in (wanted, 0):
        with suppress(OSError):
            return free_port(port)
    raise ConfigError(f"--port {wanted}: neither this nor any other port of {HOST} is free")


def sync(
    experiments: AnyExperimentNames = None,
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    as_json: Json = False,
) -> None:
    """Send MLflow the records that it missed, or all records to another store. Safe to repeat.

    By default all searches, reruns and claims under OUTPUT. Exit code 1: one was not delivered, all others were.
    """
    directories = find_directories(experiments or (), output) or find_experiments(output)
    if not directories:
        raise JournalError(f"{output}: holds no experiment; name another with --output")
    uri = choose_uri(tracking_uri, output)
    refuse_moved_database(uri, {directory.name for directory in directories})
    done: list[Delivery] = []
    problems: list[str] = []
    failures: dict[str, str] = {}
    for directory in directories:
        name = path_below(directory, output)
        waits = partial(say, f"{name}: waits for another process that delivers it to this store", error=True)
        try:
            done.append(deliver(directory, output, uri, restores=bool(experiments), on_wait=waits))
            problems += register_all(uri, directory)[1]
        except DeletedError as error:
            # `restores` is off, so the user did not name this experiment.
            problems.append(str(error))
        except (UserError, OSError) as error:
            failures[name] = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
            if isinstance(error, DeliveryError) and not _answers(uri):
                untried = [path_below(path, output) for path in directories[directories.index(directory) + 1 :]]
                failures |= dict.fromkeys(untried, "not tried, because the store does not answer")
                break
    if as_json:
        said = {"tracking_uri": without_password(uri), "experiments": [*map(asdict, done)], "unregistered": problems}
        print(json.dumps({**said, "failed": failures}, indent=2))
    else:
        say(*(f"warning: {problem}" for problem in problems), error=True)
        say(*(line for delivery in done for line in _lines(delivery)))
    if failures:
        say(*(f"error: {name} was not delivered: {problem}" for name, problem in failures.items()), error=True)
        raise typer.Exit(1)


def _answers(uri: str) -> bool:
    """Say whether a store that has failed for one experiment answers at all."""
    try:
        count_experiments(uri)
    except ConnectionError as error:
        return isinstance(error, RefusedError)
    return True


def _lines(delivery: Delivery) -> Iterator[str]:
    """Yield the lines about the delivery of one experiment."""
    if not delivery.sent:
        yield f"{delivery.experiment}: its search is running and delivers to this store itself; nothing was sent"
        return
    continues = ", search continues" if delivery.running else ""
    yield f"{delivery.experiment}: {delivery.runs} runs agree with the journal{continues}"
    if delivery.duplicates:
        yield f"{delivery.experiment}: {delivery.duplicates} runs that were there twice are in MLflow's trash now"
