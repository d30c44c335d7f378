"""A PostgreSQL cluster of our own, as somebody who is not root, gone with the test."""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from tests.support.bucket import free_port
from tests.support.waiting import wait_until

USER = "tracking"
HOST = "127.0.0.1"
QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
"""A cluster that lives for a test may lose what a power cut would lose."""


class PostgresServer:
    """A server with one empty database, whose ``address`` is as SQLAlchemy writes it."""

    def __init__(self, folder: Path) -> None:
        """Make the database and start the server; skips the test where PostgreSQL is missing."""
        initdb, self._postgres = _find("initdb"), _find("postgres")
        self._folder, self._port, self._account = folder, free_port(HOST), _account()
        if self._account is not None:
            os.chown(folder, self._account.pw_uid, self._account.pw_gid)
        plain = ["-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync"]
        _start([initdb, "-D", str(folder / "data"), *plain], folder, self._account).wait()
        # Without its name, SQLAlchemy 2.1 looks for another driver.
        self.address = f"postgresql+psycopg2://{USER}@{HOST}:{self._port}/postgres"
        self._start()

    def restart(self) -> None:
        """End the server as ``pg_ctl restart -m fast`` does, which ends every connection, and start it again."""
        self.end(signal.SIGINT)
        self._start()

    def end(self, number: int = signal.SIGQUIT) -> None:
        self._server.send_signal(number)
        self._server.wait(120)

    def count(self, table: str) -> int:
        """Return the rows of a table; 0 where there is none."""
        with suppress(psycopg2.Error), closing(_connect(self._port)) as connection, connection.cursor() as cursor:
            cursor.execute(f"select count(*) from {table}")
            return int((cursor.fetchone() or [0])[0])
        return 0

    def _start(self) -> None:
        options = [word for option in QUICK for word in ("-c", option)]
        place = ["-D", str(self._folder / "data"), "-h", HOST, "-p", str(self._port), "-k", ""]
        self._server = server = _start([self._postgres, *place, *options], self._folder, self._account)
        log = self._folder / "log"
        wait_until(lambda: server.poll() is not None or _answers(self._port), "PostgreSQL answers", log)
        assert server.poll() is None, log.read_text()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Yield a server that ends with the ``with`` block."""
    # Not under pytest's own folder, which only its user may enter.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        server = PostgresServer(folder)
        try:
            yield server
        finally:
            server.end()
    finally:
        shutil.rmtree(folder)


def _find(program: str) -> str:
    """Return where a program is; Debian keeps those of the server off the PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, places)])
    found = shutil.which(program, path=path)
    if found is None:
        pytest.skip(f"no {program} on the PATH or in /usr/lib/postgresql; on Debian: apt-get install postgresql")
    return found


def _account() -> pwd.struct_passwd | None:
    """Return whom the server runs as: PostgreSQL refuses root. ``None`` is this user."""
    if os.geteuid() != 0:
        return None
    accounts = {account.pw_name: account for account in pwd.getpwall()}
    found = accounts.get("postgres") or accounts.get("nobody")
    if found is None:
        pytest.skip("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as")
    return found


def _start(command: list[str], folder: Path, account: pwd.struct_passwd | None) -> "subprocess.Popen[bytes]":
    who = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "LC_ALL": "C"}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, preexec_fn=_go_with_the_test, **who
        )


def _go_with_the_test() -> None:
    """Let the kernel end this process should the test be killed; after the change of user, which undoes it."""
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


def _connect(port: int) -> Any:
    return psycopg2.connect(host=HOST, port=port, user=USER, dbname="postgres")


def _answers(port: int) -> bool:
    try:
        _connect(port).close()
    except psycopg2.OperationalError:
        return False
    return True
