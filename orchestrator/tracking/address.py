"""The address of the store: the address that the user named, or the database of an output folder.

MLflow's default password is public, so it is refused.
"""

import os
import shlex
import socket
from pathlib import Path
from urllib.parse import urlsplit

from orchestrator.text.addresses import HIDDEN, check_well_formed, database_address, split_password, without_password
from orchestrator.text.terminal import typed_program
from orchestrator.tracking.connection import DATABASE
from orchestrator.tracking.failures import first_line
from trainables.errors import ConfigError
from trainables.extras import require

USERNAME, PASSWORD = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
"""Environment variables in which MLflow looks for the credentials of a server."""

HOST, PORT = "127.0.0.1", 5000
"""Address on which `orchestrator ui` serves the pages of a database, where the port is free."""


def free_port(port: int) -> int:
    """Return a port of ``HOST`` that is free: this port, or for 0 a port that the system chooses.

    Raises:
        OSError: If the port is taken.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
        return int(probe.getsockname()[1])


DEFAULT_CREDENTIALS = ("admin", "password1234")
"""Default password of MLflow's basic auth."""


def refuse_default_password(uri: str) -> None:
    """Refuse MLflow's default password.

    Raises:
        ConfigError: If the address or the environment has the default password.
    """
    parts = urlsplit(uri)
    _, user, password = split_password(uri)
    credentials = (user, password) if password else (os.environ.get(USERNAME), os.environ.get(PASSWORD))
    if parts.scheme in ("http", "https") and credentials == DEFAULT_CREDENTIALS:
        raise ConfigError(
            f"{parts.scheme}://{parts.hostname}: MLflow's default password is in use; change it on the server "
            f"(basic_auth.ini, or its users page), then set {PASSWORD} to the new password"
        )


def default_uri(output: Path) -> str:
    """Return the default store, which all experiments under an output directory share."""
    return database_address(output.resolve() / DATABASE)


def choose_uri(uri: str | None, output: Path) -> str:
    """Return the named store, or the default store.

    An error of any library may show the address. So user name and password of a server move from the address into the
    environment of this process, where MLflow looks for them.

    Raises:
        ConfigError: If the address cannot be read, or MLflow's default password is in use.
        MissingExtraError: If a store was named, and MLflow is not installed.
    """
    if not uri:
        return default_uri(output)
    require("tracking", "a tracking store (--tracking-uri, MLFLOW_TRACKING_URI)")
    check_well_formed(uri, "--tracking-uri")
    bare, user, password = split_password(uri)
    if password == HIDDEN and not (is_server(uri) and os.environ.get(PASSWORD)):
        raise ConfigError(
            f"--tracking-uri {without_password(uri)}: {HIDDEN} hides a password; write the "
            f"password in its place or, of a server, set {PASSWORD}"
        )
    refuse_default_password(uri)
    _check_driver(uri)
    if not is_server(uri) or user is None or not (password or os.environ.get(PASSWORD)):
        return uri
    os.environ[USERNAME] = user
    if password and password != HIDDEN:
        os.environ[PASSWORD] = password
    return bare


def _check_driver(uri: str) -> None:
    """Refuse a database whose Python driver is not installed."""
    if not is_database(uri):
        return
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    shown = f"--tracking-uri {without_password(uri)}"
    try:
        make_url(uri).get_dialect().import_dbapi()
    except ImportError as error:
        # A module's name is not always that of its package: psycopg2 is in psycopg2-binary, MySQLdb in mysqlclient.
        raise ConfigError(
            f"{shown}: the database's driver {error.name or error} is not installed here; install its package with "
            f"pip, or name an installed driver: postgresql+DRIVER://..."
        ) from None
    except ArgumentError as error:
        raise ConfigError(f"{shown}: {first_line(error)}; name a database as DIALECT+DRIVER://HOST/NAME") from None


def is_server(uri: str) -> bool:
    """Say whether a store is a tracking server rather than a database."""
    return urlsplit(uri).scheme in ("http", "https")


def is_database(uri: str) -> bool:
    """Say whether a store is a database that this process opens itself."""
    return urlsplit(uri).scheme.partition("+")[0] in ("sqlite", "postgresql", "mysql", "mssql")


def pages_of(uri: str, output: Path) -> tuple[str, str]:
    """Return the address of a store's pages, without a password, and what must run for it; empty for a server."""
    if is_server(uri):
        return without_password(uri), ""
    return f"http://{HOST}:{PORT}", f"(while `{store_command('ui', uri, output)}` runs, with the host that it prints)"


def store_command(name: str, uri: str, output: Path, *experiments: str) -> str:
    """Return the command line of ``sync`` or ``ui`` for a store, ready to be pasted."""
    store = [] if uri == default_uri(output) else ["--tracking-uri", without_password(uri)]
    return shlex.join([typed_program(), name, *experiments, "--output", str(output), *store])


def sync_command(uri: str, output: Path, directory: Path) -> str:
    """Return the command line that delivers the experiment of a directory, which may be a rerun of a suite."""
    return store_command("sync", uri, output, os.path.relpath(directory.resolve(), output.resolve()))
