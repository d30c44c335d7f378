"""What MLflow's server answers: every route of the installed MLflow is named here as served or refused."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import mlflow
import pytest
from starlette.applications import Starlette
from starlette.responses import FileResponse, PlainTextResponse
from starlette.routing import Route

from orchestrator.machines.visitors import own_name
from orchestrator.tracking.server import (
    CALLS,
    DIFFERENCES_ONLY,
    INFO,
    NO_GATEWAY,
    OBJECTS,
    SERVED,
    TOKEN,
    WITHOUT_ASSISTANT,
    TrackingServer,
    parse,
)
from tests.servers.mlflow_server import AUTH

LIST = """
import json
from mlflow.server import app as flask_app
from mlflow.server.auth import create_app

def native(routes):
    for route in routes:
        if hasattr(route, "effective_candidates"):
            yield from native(route.effective_candidates())
        elif route.path:
            yield route.path

application = create_app()
print(json.dumps([*native(application.routes), *(rule.rule for rule in flask_app.url_map.iter_rules())]))
"""

REFUSED = {
    r"/ajax-api/3\.0/mlflow/assistant/.*": 11,
    r"/gateway/.*": 12,
    r"/(ajax-)?api/2\.0/mlflow/gateway-proxy": 1,
    r"/(ajax-)?api/3\.0/mlflow/gateway/.*": 76,
    r"/(ajax-)?api/3\.0/mlflow/mcp-servers.*": 46,
    r"/ajax-api/3\.0/jobs/.*": 4,
    r"/(ajax-)?api/3\.0/mlflow/(jobs|prompt-optimization|genai|scorers?|issues)/?.*": 39,
    r"/v1/traces": 1,
    r"/api/3\.0/mlflow/server-info": 2,
    r"/(ajax-)?api/[23]\.0/mlflow/(get-)?(unified-|online-)?traces?(-artifact|-details)?(/.*)?": 54,
    r"/(ajax-)?api/2\.0/mlflow/webhooks.*": 12,
    r"/(ajax-)?api/3\.0/mlflow/(workspaces|demo|datasets|label-schemas|review-queues|ui-telemetry).*": 74,
    r"/(ajax-)?api/2\.0/mlflow/(upload-artifact|runs/create-promptlab-run|artifacts/presigned-.*)": 6,
    r"/(ajax-)?api/2\.0/mlflow-artifacts/(mpu|presigned)/.*": 8,
    # Misspelt by MLflow; the spelling that the pages use is served.
    r"/(ajax-)?api/2\.0mlflow/experiments/search-datasets": 2,
    r"/build/.*": 1,
}
"""Expression of refused paths -> number of routes that it fits."""


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The paths of all routes of MLflow with accounts; a name in angle or curly brackets is replaced by ``x``."""
    pytest.importorskip("flask_wtf", reason="MLflow's basic auth needs Flask-WTF (mlflow[auth])")
    folder = tmp_path_factory.mktemp("accounts")
    (folder / "auth.ini").write_text(AUTH.format(folder=folder, name="admin", password="of a test, and long"))
    settings = {
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "of a test",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "_MLFLOW_SGI_NAME": "uvicorn",
    }
    ended = subprocess.run(
        [sys.executable, "-c", LIST], env={**os.environ, **settings}, stdout=subprocess.PIPE, check=True
    )
    return [re.sub(r"<[^>]+>|{[^}]+}", "x", path) for path in json.loads(ended.stdout)]


@pytest.mark.proof
def test_every_route_of_mlflow_is_either_served_or_named_as_refused(routes: list[str]) -> None:
    fits = {path: [family for family in REFUSED if re.fullmatch(family, path)] for path in routes}
    assert [path for path in routes if bool(SERVED.fullmatch(path)) == bool(fits[path])] == []
    assert Counter(family for path in routes for family in fits[path]) == REFUSED


@pytest.mark.proof
def test_every_served_call_is_a_route_of_mlflow(routes: list[str]) -> None:
    listed = [f"{start}/{end}" for start, ends in CALLS.items() for end in ends.split()]
    assert [call for call in listed if not {f"/api/{call}", f"/ajax-api/{call}"} & set(routes)] == []
    for shape in OBJECTS:
        assert any(re.fullmatch(f"/api/{shape}", path) for path in routes), shape


ASSISTANT = "/ajax-api/3.0/mlflow/assistant/config"
SEARCH = "/ajax-api/2.0/mlflow/experiments/search"


def ask(server: TrackingServer, method: str, path: str, query: str, *headers: tuple[str, str]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    received = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not received:
            # A client that stays connected sends nothing more.
            await asyncio.Event().wait()
        return received.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
        "server": ("127.0.0.1", 5000),
    }
    asyncio.run(server(scope, receive, send))
    return sent


def status(path: str, *headers: tuple[str, str], token: str | None = None, query: str = "") -> tuple[int, str]:
    """Return the status of an answer and the headers that redirect and set a cookie, of a server around "yes"."""
    sent = ask(TrackingServer(PlainTextResponse("yes"), token), "PUT", path, query, *headers)
    return sent[0]["status"], str([value for name, value in sent[0]["headers"] if name in (b"location", b"set-cookie")])


SERVED_PATHS = ("/", SEARCH, INFO, "/static-files/a/b.js", "/api/2.0/mlflow-artifacts/artifacts/a/b.pt")
SPELLINGS = ("/ajax-api//3.0/mlflow/assistant/message", f"{SEARCH}/", f"{SEARCH}\n", f"//{SEARCH}", f"/x{SEARCH}")
REFUSED_PATHS = (ASSISTANT, INFO.replace("/ajax-api", "/api"), "/gateway/mlflow/v1/models", "/v1/traces", *SPELLINGS)


@pytest.mark.parametrize("path", [*SERVED_PATHS, *REFUSED_PATHS])
def test_only_served_paths_reach_mlflow(path: str) -> None:
    assert status(path)[0] == (200 if path in SERVED_PATHS else 404)


def test_with_a_token_nothing_but_the_health_check_is_answered_without_it() -> None:
    assert status("/health", token="secret")[0] == 200
    wrong = ("authorization", "Bearer guess"), ("cookie", "orchestrator_ui_5000=")
    for path in ("/", SEARCH, ASSISTANT):
        assert status(path, token="secret")[0] == status(path, *wrong, token="secret")[0] == 401
    assert status("/", token="secret", query="token=guess")[0] == 401
    assert status(SEARCH, token="secret", query="token=secret")[0] == 401, "an address of a call ends up in logs"
    assert status(SEARCH, ("authorization", "Bearer secret"), token="secret")[0] == 200
    assert status(SEARCH, ("cookie", "orchestrator_ui_5000=secret"), token="secret")[0] == 200
    code, headers = status("/", token="secret", query="token=secret")
    assert code == 303
    assert "orchestrator_ui_5000=secret; HttpOnly; Path=/; SameSite=strict" in headers
    assert status(ASSISTANT, ("authorization", "Bearer secret"), token="secret")[0] == 404


@pytest.mark.parametrize("host", ["127.0.0.1:5000", "LOCALHOST:5000", "[::1]:5000", "127.0.0.1"])
def test_the_cookie_goes_to_no_name_that_other_servers_of_this_machine_share(host: str) -> None:
    """Another user's server at another port of 127.0.0.1 would get it from the browser."""
    code, headers = status("/", ("host", host), token="secret", query="token=secret")
    port = ":5000" if host.endswith("5000") else ""
    assert (code, headers) == (303, f"[b'http://{own_name('secret')}{port}/?token=secret']")
    code, headers = status("/", ("host", own_name("secret") + port), token="secret", query="token=secret")
    assert code == 303 and "orchestrator_ui_5000=secret" in headers and "Domain" not in headers
    assert own_name("another") != own_name("secret")


OWN = ("host", "localhost:5000")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([("origin", "http://localhost:5000")], 200),
        ([("origin", "http://localhost:5001")], 403),
        ([("origin", "http://127.0.0.1:5000")], 403),
        ([("origin", "null")], 403),
        ([("sec-fetch-site", "same-site"), ("sec-fetch-mode", "cors")], 403),
        ([("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], 200),
    ],
)
@pytest.mark.parametrize("token", [None, "secret"], ids=["accounts", "token"])
def test_a_page_of_another_server_is_refused_also_with_the_token(
    headers: list[tuple[str, str]], code: int, token: str | None
) -> None:
    known = ("authorization", "Bearer secret")
    assert status(SEARCH, OWN, known, *headers, token=token)[0] == code


BUILD = Path(mlflow.__file__).parent / "server" / "js" / "build"
"""MLflow's pages as they are installed."""


def test_the_page_is_changed_before_the_scripts_of_mlflow_run() -> None:
    application = Starlette(routes=[Route("/", lambda request: FileResponse(BUILD / "index.html"))])
    # MLflow's own page has this tag; a browser that has kept that page must not go on with it.
    (plain, *_) = ask(TrackingServer(application), "HEAD", "/", "")
    tag = dict(plain["headers"])[b"etag"].decode()
    start, content = ask(TrackingServer(application), "GET", "/", "", ("if-none-match", tag))
    headers, page = dict(start["headers"]), content["body"]
    assert start["status"] == 200
    assert int(headers[b"content-length"]) == len(page)
    assert b"etag" not in headers
    added = WITHOUT_ASSISTANT + DIFFERENCES_ONLY
    assert 0 < page.index(added) < page.index(b"<script defer")
    assert page.replace(added, b"") == (BUILD / "index.html").read_bytes()


def test_mlflow_knows_its_assistant_by_the_names_that_hide_it() -> None:
    scripts = b"".join(path.read_bytes() for path in BUILD.glob("static/js/main.*.js"))
    for key in re.findall(rb'setItem\("(.+?)_v1"', WITHOUT_ASSISTANT):
        assert b'key:"%s",version:1' % key in scripts
    # Both the panel and the button that opens it.
    assert scripts.count(b'"data-assistant-ui":"true"') >= 2


def test_the_switches_that_are_turned_on_are_the_three_of_the_comparison_whatever_their_labels() -> None:
    (part,) = re.findall(rb'data-component-id\*="(.+?)"', DIFFERENCES_ONLY)
    assert b"label" not in DIFFERENCES_ONLY, "labels are translated"
    scripts = b"".join(path.read_bytes() for path in BUILD.glob("static/js/*.js"))
    switch = rb'\.Switch,\{componentId:"[^"]*%s\d+"[^}]*checked:this\.state\.(\w+)' % re.escape(part)
    assert sorted(re.findall(switch, scripts)) == [b"onlyShowMetricDiff", b"onlyShowParamDiff", b"onlyShowTagDiff"]


def test_the_page_of_runs_is_told_that_there_is_no_gateway_and_mlflow_is_not_asked() -> None:
    server = TrackingServer(PlainTextResponse("of MLflow"))
    start, content = ask(server, "GET", NO_GATEWAY, "gateway_path=api/2.0/endpoints/")
    assert (start["status"], json.loads(content["body"])) == (200, {"endpoints": []})
    assert ask(server, "POST", NO_GATEWAY, "")[0]["status"] == 404
    assert ask(TrackingServer(PlainTextResponse("of MLflow"), "secret"), "GET", NO_GATEWAY, "")[0]["status"] == 401


def test_other_answers_than_the_page_are_passed_on_as_they_are() -> None:
    start, content = ask(TrackingServer(PlainTextResponse("refused", 403)), "GET", "/", "")
    assert (start["status"], content["body"]) == (403, b"refused")


def test_a_server_that_others_reach_asks_for_an_account_or_a_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--backend-store-uri", "sqlite:///x.db"]
    monkeypatch.delenv(TOKEN, raising=False)
    assert parse([*words, "--host", "127.0.0.1"]).port == 5000
    with pytest.raises(SystemExit) as refused:
        parse([*words, "--host", "0.0.0.0"])
    assert refused.value.code == 2
    assert "--app-name basic-auth" in capsys.readouterr().err
    assert parse([*words, "--host", "0.0.0.0", "--app-name", "basic-auth"]).app_name == "basic-auth"
    monkeypatch.setenv(TOKEN, "secret")
    assert parse([*words, "--host", "0.0.0.0"]).app_name is None
