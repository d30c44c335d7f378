"""Each kind of failure of a store has a reason and a remedy of its own."""

import datetime
import ipaddress
import sqlite3
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest.mock import Mock

import pytest
from mlflow.exceptions import MlflowException
from mlflow.store.db import utils
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.doctor.machine import check_store
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.connection import (
    DeliveryBusyError,
    ExperimentDeletedError,
    StoreFailedError,
    StoreMovedError,
    count_experiments,
)
from orchestrator.tracking.failures import KINDS, failure_of
from orchestrator.tracking.registry import client_of
from orchestrator.tracking.sync import DeliveryError, deliver
from tests.servers.postgres import postgres_server
from tests.support.bucket import free_port
from tests.support.experiments import add_trial, begun

SAID = {
    "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed')": (
        "its certificate is not trusted"
    ),
    "SSLError(1, '[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)')": "it does not speak TLS",
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


@pytest.mark.parametrize("ask", [count_experiments, lambda uri: client_of(uri).search_experiments()])
def test_a_database_that_refuses_is_asked_once(monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], object]) -> None:
    """MLflow would ask ten times and wait for 100 s in all, while a person waits without a word."""
    monkeypatch.setattr(utils, "MAX_RETRY_COUNT", 10)
    monkeypatch.setattr(utils, "time", Mock(sleep=Mock(side_effect=AssertionError("it waits"))))
    with pytest.raises((StoreFailedError, MlflowException, SQLAlchemyError), match="Connection refused"):
        ask("postgresql+psycopg2://me@127.0.0.1:1/nothing")


class _Refusing(BaseHTTPRequestHandler):
    """Answers 401 without the account ``me:secret``, and 404 with it: then it is no MLflow, which is the next step."""

    def do_GET(self) -> None:
        account = f"Basic {b64encode(b'me:secret').decode()}"
        self.send_response(404 if self.headers.get("Authorization") == account else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *words: object) -> None:
        """Print nothing."""


@contextmanager
def _serving(certificate: Path | None = None) -> Iterator[int]:
    """Yield the port of a server of the loopback address, with a certificate and its key for https."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _self_signed(path: Path) -> Path:
    """Write a certificate of 127.0.0.1 that no authority signed, with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    built = built.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    signed = built.add_extension(address, critical=False).sign(key, hashes.SHA256())
    form = serialization.PrivateFormat.PKCS8
    written = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM) + written)
    return path


def _said(uri: str, folder: Path) -> tuple[str, str]:
    found = check_store(folder, uri)
    # A search goes on without a store that does not answer, and refuses one that cannot be asked at all.
    assert found.state in ("warn", "fail")
    return found.found, found.way_out


@pytest.mark.proof
def test_servers_that_refuse_are_told_apart_and_each_remedy_leads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    certificate = _self_signed(tmp_path / "certificate.pem")
    with _serving(certificate) as port:
        uri = f"https://127.0.0.1:{port}"
        found, remedy = _said(uri, tmp_path)
        assert "its certificate is not trusted here" in found
        assert "MLFLOW_TRACKING_SERVER_CERT_PATH" in remedy
        monkeypatch.setenv("MLFLOW_TRACKING_SERVER_CERT_PATH", str(certificate))
        found, remedy = _said(uri, tmp_path)
        assert "it refuses this account" in found
        assert "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD" in remedy
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong")
        assert "it refuses this account" in _said(uri, tmp_path)[0]
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
        found, remedy = _said(uri, tmp_path)
        assert "what answers there is no MLflow server" in found
        monkeypatch.delenv("MLFLOW_TRACKING_SERVER_CERT_PATH")
    with _serving() as port:
        found, remedy = _said(f"https://127.0.0.1:{port}", tmp_path)
        assert "it does not speak TLS" in found and remedy.startswith("write http:// in its address")
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
        found, remedy = _said(f"http://127.0.0.1:{port}", tmp_path)
        assert "the proxy of HTTP_PROXY" in found and "NO_PROXY" in remedy
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert "what answers there is no MLflow server" in _said(f"http://127.0.0.1:{port}", tmp_path)[0]


@pytest.mark.proof
def test_databases_that_refuse_are_told_apart(tmp_path: Path) -> None:
    with postgres_server() as server:
        address = server.address
        cases = {
            address.replace("tracking@", "somebody@"): "it refuses this account",
            address.replace("/postgres", "/missing"): "the server has no database of this name",
            f"{address}?sslmode=require": "it does not speak TLS",
            address.replace("psycopg2", "pg8000"): "driver pg8000 is not installed here",
            address.replace("127.0.0.1", "nohost.invalid"): "no host of this name is known here",
        }
        for uri, reason in cases.items():
            assert reason in _said(uri, tmp_path)[0], uri
