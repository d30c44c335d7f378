"""Which store is used: a server with the password that everybody knows is refused, and no password is shown."""

import os
from pathlib import Path

import pytest

from orchestrator.doctor.machine import Check
from orchestrator.tracking.address import PASSWORD, USERNAME, choose_uri, default_uri, store_command
from tests.support.commands import CommandLine
from tests.support.experiments import add_trial, begun
from trainables.errors import ConfigError

OPEN = "http://admin:password1234@127.0.0.1:9"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    with begun(tmp_path / "tiny") as ledger:
        add_trial(ledger, [100.0])
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["ui"], 2),
        (["compare", "tiny", "tiny"], 2),
        (["sync"], 2),
        (["doctor", "tiny"], 2),
        (["doctor", "--json"], 1),
        (["retrieve", "two dogs", "--dataset", "pets"], 2),
    ],
    ids=lambda given: given if isinstance(given, int) else " ".join(given),
)
def test_a_server_with_the_default_password_is_refused(
    output: Path, command: list[str], code: int, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.doctor.machine.check_gpu", lambda: Check("gpu", "ok", "none"))
    ended, said, message = cli.run(*command, "--output", output, "--tracking-uri", OPEN)
    assert ended == code
    assert "default password is in use" in said + message and "change it on the server" in said + message
    assert "password1234" not in said + message


def test_a_default_password_in_the_environment_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_uri(None, tmp_path) == default_uri(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "password1234")
    with pytest.raises(ConfigError, match="default password"):
        choose_uri("http://host:5000", tmp_path)


def test_the_command_that_delivers_can_be_pasted(tmp_path: Path) -> None:
    there = tmp_path / "my runs"
    command = store_command("sync", default_uri(there), there, "tiny", "more")
    assert command == f"orchestrator sync tiny more --output '{there}'"
    command = store_command("sync", "http://me:secret@host:5000", Path("runs"), "tiny")
    assert command == "orchestrator sync tiny --output runs --tracking-uri 'http://me:***@host:5000'"


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (USERNAME, PASSWORD):
        # Set first, so that what the code sets is taken back after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_credentials")
def test_the_password_of_a_server_goes_where_mlflow_looks_for_it(tmp_path: Path) -> None:
    assert choose_uri("http://me:p%40ss%2Fword@host:5000/base", tmp_path) == "http://host:5000/base"
    assert (os.environ[USERNAME], os.environ[PASSWORD]) == ("me", "p@ss/word")
    # What was printed may be pasted where the password is known.
    assert choose_uri("http://you:***@host:5000", tmp_path) == "http://host:5000"
    assert (os.environ[USERNAME], os.environ[PASSWORD]) == ("you", "p@ss/word")


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize("address", ["http://me:***@host", "postgresql://me:***@host/db"])
def test_a_hidden_password_is_no_password(address: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="hides a password"):
        choose_uri(address, tmp_path)


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize("address", ["http://me@host", "postgresql+psycopg2://me:pw@host/db", "databricks://profile"])
def test_other_addresses_stay_as_they_are(address: str, tmp_path: Path) -> None:
    assert choose_uri(address, tmp_path) == address
    assert PASSWORD not in os.environ


@pytest.mark.usefixtures("no_credentials", "here")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param(["ui", "--tracking-uri", "http://me:CANARY@127.0.0.1:9"], 0, id="well formed"),
        pytest.param(["ui", "--tracking-uri=http://me:CANARY/CANARY@127.0.0.1:9"], 2, id="with a slash"),
        pytest.param(["ui", "http://me:CANARY@127.0.0.1:9"], 2, id="without the option"),
        pytest.param(["http://me:CANARY@127.0.0.1:9"], 2, id="without a command"),
        pytest.param(["ui", "--port", "http://me:CANARY@127.0.0.1:9"], 2, id="of another option"),
        pytest.param(["status", "http://me:CANARY@127.0.0.1:9"], 2, id="as an experiment"),
        pytest.param(["search", "http://me:CANARY@127.0.0.1:9"], 2, id="as a file"),
        pytest.param(["doctor", "--storage", "s3://b?endpoint_override=http://key:CANARY@h"], 1, id="storage"),
        pytest.param(["doctor", "--address", "ray://me:CANARY@127.0.0.1:9"], 1, id="cluster"),
        pytest.param(["doctor", "--data-root", "s3://key:CANARY@bucket"], 1, id="data root"),
        pytest.param(["sync", "--output", "s3://key:CANARY@bucket"], 2, id="output"),
    ],
)
def test_a_password_on_a_command_line_is_warned_of_and_not_repeated(
    line: list[str], code: int, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.doctor.machine.check_gpu", lambda: Check("gpu", "ok", "none"))
    ended, said, message = cli.run(*line)
    assert "CANARY" not in said + message
    assert "other users can read a password on a command line" in message
    assert ended == code
