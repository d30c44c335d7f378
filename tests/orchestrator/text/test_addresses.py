"""Addresses as they are shown: whatever a password looks like, and wherever it stands, nothing of it is left."""

import ast
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.text.addresses import HIDDEN, check_well_formed, split_password, without_password
from trainables.errors import ConfigError

ROOT = Path(__file__).parents[3]
# Letters that stand nowhere else in the addresses below, so that any of them is a piece of the secret.
SECRET = st.text("QXZ@:/?#[]%&=+;~'\"!$()*,", min_size=1, max_size=12).map(lambda text: f"Q{text}Z")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://host:5000/a", "http://host:5000/a"),
        ("http://[::1]:5000/#/x?a=b", "http://[::1]:5000/#/x?a=b"),
        ("https://me:p%40ss@host:5000", "https://me:***@host:5000"),
        ("http://me:p@ss@host", "http://me:***@host"),
        ("http://me:p/ss@host:1/x", "http://me:***@host:1/x"),
        ("http://me:12/34@host", "http://me:***@host"),
        ("http://token@host", "http://***@host"),
        ("postgresql+psycopg2://me:secret@host/db", "postgresql+psycopg2://me:***@host/db"),
        ("postgresql:///db?host=/tmp&password=se/c@r&sslmode=on", "postgresql:///db?host=/tmp&password=***&sslmode=on"),
        ("mysql://host/db?passwd=a&b", "mysql://host/db?passwd=***"),
        ("API request to http://me:secret@host/a failed", "API request to http://me:***@host/a failed"),
        ("Max retries exceeded with url: /?token=abc/api (x)", "Max retries exceeded with url: /?token=*** (x)"),
        (
            "s3://b/p?endpoint_override=http://key:se@h:9&region=x",
            "s3://b/p?endpoint_override=http://key:***@h:9&region=x",
        ),
        ("s3:/key:secret@bucket is no folder", "s3:/key:***@bucket is no folder"),
        ("--tracking-uri=http://me:secret@host", "--tracking-uri=http://me:***@host"),
        ("sqlite:////tmp/a:b@c/mlflow.db", "sqlite:////tmp/a:b@c/mlflow.db"),
        ("http://h:1/#/runs?viewStateShareKey=leaderboard", "http://h:1/#/runs?viewStateShareKey=leaderboard"),
    ],
)
def test_passwords_are_not_shown(text: str, shown: str) -> None:
    assert without_password(text) == shown
    assert without_password(shown) == shown


@given(SECRET)
@example("Q@x:/Z")
@example("Qhttp://a:b@Z")
def test_no_piece_of_any_password_is_shown(secret: str) -> None:
    for address in (f"http://me:{secret}@host:5000/a", f"postgresql://me:{secret}@host/db"):
        shown = without_password(f"said by {address} just now")
        assert not set("QXZ") & set(shown), shown
        assert shown.startswith("said by ") and shown.endswith(" just now")
    token = without_password(f"http://{quote(secret, safe='')}@host")
    assert token == "http://***@host"
    # The next parameter ends a value, because nothing else can.
    value = secret.replace("&", "")
    assert not set("QXZ") & set(without_password(f"postgresql:///db?host=h&password={value}"))


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_a_well_formed_address_is_taken_apart_and_its_password_hidden(user: str, password: str) -> None:
    address = f"http://{quote(user, safe='')}:{quote(password, safe='')}@host:5000/base"
    check_well_formed(address, "--tracking-uri")
    assert split_password(address) == ("http://host:5000/base", user, password)
    assert without_password(address) == f"http://{quote(user, safe='')}:{HIDDEN}@host:5000/base"


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("http://me:CANARY/x@host", id="slash"),
        pytest.param("http://me:12/CANARY@host", id="what looks like a port"),
        pytest.param("http://me:CANARY?x@host", id="question mark"),
        pytest.param("http://me:CAN ARY@host", id="space"),
        pytest.param("http://me:CANARY", id="no host"),
        pytest.param("http://me:[CANARY@host", id="bracket"),
        pytest.param("http://me:CANARY\u2100@host", id="a letter that stands for several"),
        pytest.param("postgresql://me:CANARY#x@host/db", id="hash"),
    ],
)
def test_an_address_whose_password_nobody_can_tell_is_refused_unseen(address: str) -> None:
    with pytest.raises(ConfigError, match="and spaces as %2F %3F") as refusal:
        check_well_formed(address, "--tracking-uri")
    assert "CANARY" not in str(refusal.value)


@pytest.mark.parametrize(
    "address", ["http://host", "http://[::1]:5000/x", "sqlite:////a b@c", "sqlite://", "file:///x", "databricks://a:b"]
)
def test_addresses_without_a_password_are_well_formed(address: str) -> None:
    check_well_formed(address, "--tracking-uri")


@pytest.mark.proof
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="only Linux lets a process change what ps shows")
def test_what_ps_shows_of_a_command_line_holds_no_password() -> None:
    code = (
        "import sys; from pathlib import Path; from orchestrator.text.addresses import hide_arguments;"
        "hide_arguments(sys.argv[1:]); print(Path('/proc/self/cmdline').read_bytes()); print(sys.argv[-1])"
    )
    # A file name need not be UTF-8.
    arguments = ["\udcff", "--tracking-uri", "http://me:CANARY@host", "--port=1", "http://me:CANARY@host"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    seen, own = done.stdout.splitlines()
    assert "CANARY" not in seen
    assert "--tracking-uri" in seen and "http://me:***@host" in seen and "--port=1" in seen
    assert own == "http://me:CANARY@host"


def test_no_message_is_made_of_an_address_as_it_is() -> None:
    """Addresses of stores are called ``uri``: none of them goes into a text but through ``without_password``."""
    shown = []
    for path in sorted((ROOT / "orchestrator").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FormattedValue):
                name = getattr(node.value, "id", getattr(node.value, "attr", ""))
                shown += [f"{path.name}:{node.lineno}"] if name in ("uri", "tracking_uri") else []
    assert shown == []
