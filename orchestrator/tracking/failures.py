"""Why a store fails, told apart by what a person has to do: each kind of failure has a remedy of its own.

The libraries below MLflow raise the same classes for most of these failures, so that their texts decide.
"""

import re
import shlex
import sqlite3
import sys
from json import JSONDecodeError
from pathlib import Path
from typing import NamedTuple

from orchestrator.text.addresses import database_of, without_password
from orchestrator.text.terminal import path_text
from trainables.extras import missing_modules


class Failure(NamedTuple):
    """Why a store fails, and what helps; both without passwords and without a full stop.

    ``remedy`` is empty where the reason says what helps, or where nothing has to be done.
    """

    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason


class RefusedError(ConnectionError):
    """We refuse to use a store that answers; what helps is in the message, or whoever catches the error says it."""


def store_failures() -> tuple[type[Exception], ...]:
    """Return the errors that a store may raise.

    Beside errors of its own, MLflow raises errors of the database, of the bucket, and of answers that are not MLflow's.
    """
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    # Drivers raise UnicodeError where the encoding of a database lacks a letter.
    failures = MlflowException, SQLAlchemyError, sqlite3.Error, OSError, JSONDecodeError, UnicodeError
    if missing_modules("boto3"):
        return failures
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    return *failures, Boto3Error, BotoCoreError, ClientError


def first_line(error: Exception) -> str:
    """Return the first line of an error's text without passwords; MLflow appends traces in further lines.

    The line is cut where it is longer than what we say ourselves, with two addresses of files.
    """
    return without_password((str(error).strip().splitlines() or [type(error).__name__])[0])[:1000]


_SCHEMA = re.compile(r"out-of-date database schema \(found version (\w+)")

KINDS = (
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|self.signed certificate|certificate has expired|"
        r"root certificate file",
        "its certificate is not trusted here",
        "name the file of its authority in MLFLOW_TRACKING_SERVER_CERT_PATH (a database: sslrootcert in its address)",
    ),
    (
        r"WRONG_VERSION_NUMBER|wrong version number|record layer failure|HTTP_REQUEST|does not support SSL",
        "it does not speak TLS",
        "write http:// in its address (a database: without sslmode), or let the server have a certificate",
    ),
    (
        r"ProxyError|unable to connect to proxy|407 Proxy|Proxy Authentication",
        "the proxy of HTTP_PROXY or HTTPS_PROXY does not lead to it",
        "add its host to NO_PROXY, or correct the proxy",
    ),
    (
        r"\b401\b|Unauthorized|\b403\b|PERMISSION_DENIED|password authentication failed|"
        r"Access denied for user|no password supplied|pg_hba|role \"[^\"]*\" does not exist",
        "it refuses this account",
        "correct MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (a database: user and password in its address)",
    ),
    (
        r"No module named|Can't load plugin|libpq|DLL load failed",
        "the driver of the database is not installed here",
        "install its package with pip, or name an installed driver: postgresql+DRIVER://...",
    ),
    (
        r"has no equivalent in encoding|codec can't|Incorrect string value|invalid byte sequence|character with byte "
        r"sequence",
        "the database cannot hold every letter",
        "make it anew in UTF-8 (PostgreSQL: ENCODING 'UTF8', MySQL: utf8mb4), then deliver everything with sync",
    ),
    (
        r"file is not a database|malformed|file is encrypted",
        "the database is damaged",
        "rename its file: `orchestrator sync` makes it again from the journals",
    ),
    (
        r"readonly database|read-only|unable to open database file|Permission denied",
        "the database cannot be written",
        "give yourself the right to write its file and its folder, or name another store with --tracking-uri",
    ),
    (
        r"database or disk is full|No space left",
        "there is no room for it",
        "make room on its disk; then `orchestrator sync` delivers what is missing",
    ),
    (
        r"database is locked",
        "another program holds the database",
        "end that program, or wait until it is done; then `orchestrator sync` delivers what is missing",
    ),
    (
        r"database \"[^\"]*\" does not exist|Unknown database",
        "the server has no database of this name",
        "make it with createdb, or correct the name in the address",
    ),
    (
        r"Name or service not known|nodename nor servname|No address associated|Failed to resolve|could not translate",
        "no host of this name is known here",
        "correct the host in its address",
    ),
    (
        r"\b404\b|Expecting value|Not Found|not a valid JSON",
        "what answers there is no MLflow server",
        "correct the address: host and port of the server, without a path",
    ),
)
"""Expression of texts of errors -> reason and remedy; the first that matches counts."""


def failure_of(error: Exception, uri: str) -> Failure:
    """Return why a store fails, from an error of ``store_failures``; the last lines say what its libraries say."""
    said = first_line(error)
    if isinstance(error, RefusedError):
        # Its text has names that a user chose, which an expression below may match.
        return Failure(said, "")
    if schema := _SCHEMA.search(str(error)):
        return _of_schema(schema[1], uri)
    # SQLAlchemy appends the statement with its values, such as an epoch 404.
    text = str(error).partition("\n[SQL:")[0]
    for expression, reason, remedy in KINDS:
        if re.search(expression, text):
            return Failure(f"{reason} ({said:.200})", remedy)
    return Failure(
        said, "start the server, or look whether it is busy; then `orchestrator sync` delivers what is missing"
    )


def _of_schema(found: str, uri: str) -> Failure:
    """Return the failure of a database whose tables are of another MLflow."""
    import mlflow.store

    migrations = Path(mlflow.store.__file__).parent / "db_migrations" / "versions"
    if not any(migrations.glob(f"*{found}*.py")):
        return Failure("a newer MLflow made its tables", "install that version of MLflow here, with pip")
    database = database_of(uri)
    saved = "back it up" if database is None else f"copy {path_text(database)}"
    # The address of a database on a server may hold a password, which the user writes in place of the stars.
    program = path_text(Path(sys.executable).with_name("mlflow"))
    command = shlex.join([program, "db", "upgrade", without_password(uri)])
    return Failure("an older MLflow made its tables", f"{saved}, then run `{command}`")
