"""A PostgreSQL cluster of our own, as somebody who is not root, gone with the test."""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2
import pytest

from tests.support.bucket import free_port
from tests.support.waiting import wait_until

USER = "tracking"
HOST = "127.0.0.1"
QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
"""A cluster that lives for a test may lose what a power cut would lose."""


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yield the address of an empty database, as SQLAlchemy writes it; skips the test where PostgreSQL is missing."""
    initdb, postgres = _find("initdb"), _find("postgres")
    account = _account()
    # Not under pytest's own folder, which only its user may enter.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        data, port = folder / "data", free_port(HOST)
        plain = ["-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync"]
        _start([initdb, "-D", str(data), *plain], folder, account).wait()
        options = [word for option in QUICK for word in ("-c", option)]
        server = _start([postgres, "-D", str(data), "-h", HOST, "-p", str(port), "-k", "", *options], folder, account)
        try:
            wait_until(lambda: server.poll() is not None or _answers(port), "PostgreSQL answers", folder / "log")
            assert server.poll() is None, (folder / "log").read_text()
            # Without its name, SQLAlchemy 2.1 looks for another driver.
            yield f"postgresql+psycopg2://{USER}@{HOST}:{port}/postgres"
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait(120)
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


def _answers(port: int) -> bool:
    try:
        psycopg2.connect(host=HOST, port=port, user=USER, dbname="postgres").close()
    except psycopg2.OperationalError:
        return False
    return True
