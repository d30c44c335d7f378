"""Each kind of failure of a store has a reason and a remedy of its own."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from orchestrator.doctor.machine import check_store
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.connection import DeliveryBusyError, ExperimentDeletedError, StoreMovedError
from orchestrator.tracking.failures import KINDS, failure_of
from orchestrator.tracking.sync import DeliveryError, deliver
from tests.support.experiments import add_trial, begun

SAID = {
    "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed')": (
        "its certificate is not trusted"
    ),
    "SSLError(1, '[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)')": "it does not speak https",
    "ProxyError('Unable to connect to proxy', NewConnectionError('refused'))": "the proxy of HTTP_PROXY",
    "API request to endpoint failed with error code 401 != 200. Response body: 'You are not authenticated.'": (
        "it refuses this account"
    ),
    'connection to server failed: FATAL:  password authentication failed for user "mlflow"': "it refuses this account",
    "(1045, \"Access denied for user 'me'@'localhost' (using password: YES)\")": "it refuses this account",
    "No module named 'MySQLdb'": "the driver of the database is not installed",
    "Can't load plugin: sqlalchemy.dialects:oracle.odd": "the driver of the database is not installed",
    'character with byte sequence 0xcf 0x84 in encoding "UTF8" has no equivalent in encoding "LATIN1"': (
        "the database cannot hold every letter"
    ),
    "'ascii' codec can't encode character '\\u03c4' in position 1": "the database cannot hold every letter",
    "file is not a database": "the database is damaged",
    "attempt to write a readonly database": "the database cannot be written",
    "database or disk is full": "there is no room",
    "database is locked": "another program holds the database",
    'FATAL:  database "mlflow" does not exist': "the server has no database of this name",
    "Failed to resolve 'nohost' ([Errno -2] Name or service not known)": "no host of this name",
    "API request to endpoint /api failed with error code 404 != 200": "what answers there is no MLflow server",
}
"""Text of a library -> beginning of the reason."""


@pytest.mark.parametrize(("said", "reason"), SAID.items())
def test_failures_are_told_apart(said: str, reason: str) -> None:
    failure = failure_of(MlflowException(said), "http://me:secret@host:5000")
    assert failure.reason.startswith(reason)
    assert said.splitlines()[0][:60] in failure.reason, "what the library says is not lost"
    assert len({remedy for _, _, remedy in KINDS}) == len(KINDS) == len(set(SAID.values()))


@pytest.mark.parametrize("number", [401, 403, 404])
def test_values_of_a_statement_decide_nothing(number: int) -> None:
    said = f"(sqlite3.OperationalError) database is locked\n[SQL: INSERT INTO metrics]\n[parameters: (0.5, {number})]"
    assert failure_of(MlflowException(said), "sqlite:///mlflow.db").reason.startswith("another program holds")


def test_a_folder_of_somebody_else_is_no_refused_account() -> None:
    failure = failure_of(PermissionError(13, "Permission denied", "/runs/artifacts/mine"), "sqlite:////runs/mlflow.db")
    assert "/runs/artifacts/mine" in failure.reason
    assert failure.remedy.startswith("give yourself the right to write")


def test_an_unknown_failure_is_quoted() -> None:
    failure = failure_of(ConnectionRefusedError(111, "Connection refused"), "http://host:5000")
    assert failure.reason == "[Errno 111] Connection refused"
    assert failure.remedy.startswith("start the server")


@pytest.mark.parametrize("refused", [ExperimentDeletedError, StoreMovedError, DeliveryBusyError])
def test_what_we_refuse_ourselves_keeps_its_words(refused: type[Exception]) -> None:
    said = "the experiment 404 was deleted in MLflow's pages"
    assert str(failure_of(refused(said), "http://host:5000")) == said


@pytest.mark.parametrize(
    ("revision", "reason", "remedy"),
    [
        ("acf3f17fdcc7", "an older MLflow made its tables", "mlflow db upgrade sqlite:///"),
        ("ffffffffffff", "a newer MLflow made its tables", "install that version of MLflow here, with pip"),
    ],
    ids=["older", "newer"],
)
def test_a_database_of_another_mlflow_is_told_from_a_server_that_is_down(
    output: Path, revision: str, reason: str, remedy: str
) -> None:
    with begun(output / "tiny") as ledger:
        add_trial(ledger, [3.0])
    with closing(sqlite3.connect(output / "mlflow.db")) as database:
        database.execute("update alembic_version set version_num = ?", [revision])
        database.commit()
    with pytest.raises(DeliveryError, match=f"{reason}; .*{remedy}") as raised:
        deliver(output / "tiny", output, default_uri(output))
    assert "start the server" not in str(raised.value)
    found = check_store(output, None)
    assert found.found.endswith(f": {reason}") and remedy in found.way_out
