"""MLflow's server reduced to what the pages of tracking and registry, and clients that log, need.

MLflow serves more on the same port: an assistant with a Bash tool, a gateway to language models, an MCP registry, jobs,
traces, webhooks. No setting leaves them out, so requests are compared with the routes below, and every other request
is answered with 404 before MLflow sees it. ``orchestrator ui`` and the image run this module:

    python -m orchestrator.tracking.server --host 127.0.0.1 --port 5000 --backend-store-uri sqlite:///mlflow.db

Without accounts (``--app-name basic-auth``) every request needs the token in ``ORCHESTRATOR_UI_TOKEN``, where one is
set: in the address once, then in a cookie; clients send it as ``MLFLOW_TRACKING_TOKEN``.
"""

import argparse
import hmac
import os
import re
from collections.abc import Sequence

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.environment import set_for_mlflow_server
from orchestrator.machines.visitors import LOOPBACK, is_foreign, own_name, own_place
from orchestrator.text.terminal import say

TOKEN = "ORCHESTRATOR_UI_TOKEN"
"""Environment variable with the token that every request needs; an unset or empty one asks for none."""

ACCOUNTS = "ORCHESTRATOR_ACCOUNTS"
"""Environment variable by which the workers know whether to ask for an account."""

DRIVER, DRIVER_PASSWORD = "driver", "ICR_DRIVER_PASSWORD"
"""Account with which searches log, and the environment variable with its password: no administrator."""

HEALTH = "/health"

PAGES = ("/", "/static-files/.+", HEALTH, "/version", "/get-artifact", "/model-versions/get-artifact", "/graphql")
"""Pages, their files and the artifacts they show, as regular expressions."""

INFO = "/ajax-api/3.0/mlflow/server-info"
"""Served to pages alone: clients would learn that a bucket takes large files past the server, which is not served."""

CALLS = {
    "2.0/mlflow/experiments": (
        "create delete delete-experiment-tag get get-by-name restore search search-datasets set-experiment-tag update"
    ),
    "2.0/mlflow/runs": (
        "create delete delete-tag get log-batch log-inputs log-metric log-model log-parameter outputs restore search"
        " set-tag update"
    ),
    "2.0/mlflow/metrics": "get-history get-history-bulk get-history-bulk-interval",
    "2.0/mlflow/artifacts": "list",
    "2.0/mlflow/logged-models": "search",
    "2.0/mlflow/registered-models": (
        "alias create delete delete-tag get get-latest-versions rename search set-tag update"
    ),
    "2.0/mlflow/model-versions": (
        "create delete delete-tag get get-download-uri search set-tag transition-stage update"
    ),
    # Accounts, which exist with `--app-name basic-auth` alone.
    "2.0/mlflow/users": "create create-ui current delete get list update-admin update-password",
    "3.0/mlflow/users": "current/permissions permissions/get permissions/grant permissions/list permissions/revoke"
    " roles/list",
    "3.0/mlflow/roles": "assign create delete get list permissions/add permissions/list permissions/remove"
    " permissions/update unassign update users/list",
}
"""Start of the path after ``/api/`` or ``/ajax-api/`` -> the ends of the served paths."""

OBJECTS = (
    "2.0/mlflow/logged-models(/[^/]+(/(params|tags|tags/[^/]+|artifacts/directories|artifacts/files))?)?",
    "2.0/mlflow-artifacts/artifacts(/.+)?",
)
"""Served paths with names of objects in them, as regular expressions after ``/api/`` or ``/ajax-api/``."""


_API = [*(f"{start}/({'|'.join(ends.split())})" for start, ends in CALLS.items()), *OBJECTS]

NO_GATEWAY = "/ajax-api/2.0/mlflow/gateway-proxy"
"""Answered here as by an MLflow without a gateway: the page of runs asks, and shows an error where it is refused."""

SERVED = re.compile("|".join([*PAGES, INFO, "/signup", f"/(ajax-)?api/({'|'.join(_API)})"]), re.DOTALL)
"""The paths that are passed on to MLflow; a path must match as a whole."""

WITHOUT_ASSISTANT = b"""<script>
localStorage.setItem("mlflow.assistant.fab.autoOpenedOnFirstLoad_v1", "true");
localStorage.setItem("mlflow.assistant.panelOpen_v1", "false");
</script><style>[data-assistant-ui] { display: none !important; }</style>"""
"""Before the scripts of MLflow's page: its assistant is not served, so neither its panel nor its button is shown."""

DIFFERENCES_ONLY = b"""<script>
{
  const seen = new WeakSet();
  const part = '[data-component-type="switch"][data-component-id*="_comparerunview.tsx_"]';
  new MutationObserver(() => {
    for (const control of document.querySelectorAll(`${part} [role="switch"]`)) {
      if (!seen.has(control)) control.click();
      seen.add(control);
    }
  }).observe(document, { childList: true, subtree: true });
}
</script>"""
"""Turns on each switch of a comparison of runs once, as it appears: no address and no setting of MLflow does."""

VALIDATORS = (b"etag", b"last-modified", b"if-none-match", b"if-modified-since")
"""Headers by which a browser would keep a page that it has, from before these changes of the page."""


class TrackingServer:
    """MLflow's application behind the allow-list and, where one is set, the token."""

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        """Wrap MLflow's application; ``None`` or an empty token lets every request pass to the allow-list."""
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on to MLflow."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        if scope["type"] != "http":
            return
        answer = self._answer(Request(scope))
        if answer is not None:
            await answer(scope, receive, send)
        elif scope["path"] == "/" and scope["method"] == "GET":
            await self._send_page(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _send_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with MLflow's page and our changes of it; answers that are no such page stay as they are."""
        sent: list[Message] = []

        async def keep(message: Message) -> None:
            sent.append(message)

        headers = [(name, value) for name, value in scope["headers"] if name not in VALIDATORS]
        await self._app({**scope, "headers": headers}, receive, keep)
        start, body = sent[0], b"".join(message.get("body", b"") for message in sent[1:])
        page = body.replace(b"<head>", b"<head>" + WITHOUT_ASSISTANT + DIFFERENCES_ONLY, 1)
        left_out = (*VALIDATORS, b"content-length")
        headers = [(name, value) for name, value in start["headers"] if name.lower() not in left_out]
        length = (b"content-length", str(len(page)).encode())
        await send({**start, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": page})

    def _answer(self, request: Request) -> Response | None:
        """Return the response to a request that MLflow does not get; ``None`` for a request that is passed on."""
        # MLflow matches the same decoded path, so no other spelling of a refused path can pass.
        path = request.scope["path"]
        if path != HEALTH and is_foreign(request.headers):
            return PlainTextResponse("refused: a page of another site asks\n", 403)
        if self._token and path != HEALTH:
            cookie = f"orchestrator_ui_{(request.scope.get('server') or ('', 80))[1]}"
            token = request.query_params.get("token") if path == "/" else None
            if token is not None and self._knows(token):
                if (place := own_place(request.headers.get("host", ""), token)) is not None:
                    return RedirectResponse(str(request.url.replace(netloc=place)), 303)
                # The browser keeps the part after # and remembers an address without the token.
                response = RedirectResponse("/", 303)
                response.set_cookie(cookie, token, httponly=True, samesite="strict")
                return response
            bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
            if not (self._knows(request.cookies.get(cookie, "")) or self._knows(bearer)):
                return PlainTextResponse("refused: open the address that `orchestrator ui` has printed\n", 401)
        if path == NO_GATEWAY and request.method == "GET":
            return JSONResponse({"endpoints": []})
        if SERVED.fullmatch(path) is None:
            message = f"{path} is not served here: tracking and the registry of models alone are"
            return JSONResponse({"error_code": "ENDPOINT_NOT_FOUND", "message": message}, 404)
        return None

    def _knows(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())


def application() -> TrackingServer:
    """Return the application for the environment that ``main`` has made; each worker calls this."""
    if os.environ[ACCOUNTS] == "true":
        from mlflow.server.auth import create_app

        return TrackingServer(create_app())
    from mlflow.server.fastapi_app import app

    return TrackingServer(app, os.environ.get(TOKEN))


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until a signal ends the process; the options are named as those of ``mlflow server``."""
    options = parse(arguments)
    _set_environment(options)
    uvicorn.run(
        "orchestrator.tracking.server:application",
        factory=True,
        host=options.host,
        port=options.port,
        workers=options.workers,
        log_level="warning",
        # The startup of MLflow's application only cleans up after its assistant, with `docker` where there is one.
        lifespan="off",
        ws="none",
        # A request that a client never ends would otherwise keep a server that is asked to end alive for ever.
        timeout_graceful_shutdown=30,
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; a server that other machines reach and that asks nobody for anything is refused."""
    made = argparse.ArgumentParser("python -m orchestrator.tracking.server", description=main.__doc__)
    made.add_argument("--host", default="127.0.0.1")
    made.add_argument("--port", type=int, default=5000)
    made.add_argument("--workers", type=int, default=1)
    # Other users can read command lines: an address with a password belongs into the environment.
    store = os.environ.get("MLFLOW_BACKEND_STORE_URI")
    made.add_argument("--backend-store-uri", default=store, required=store is None)
    made.add_argument("--artifacts-destination", help="place of the artifacts that go through the server")
    made.add_argument("--allowed-hosts", help="Host headers that are accepted, with * as wildcard, by comma")
    made.add_argument("--app-name", choices=["basic-auth"], help="ask for an account, as MLFLOW_AUTH_CONFIG_PATH says")
    options = made.parse_args(arguments)
    if options.app_name is None and not os.environ.get(TOKEN) and options.host not in ("127.0.0.1", "::1", "localhost"):
        made.error(
            f"--host {options.host}: others could write without a password; add --app-name basic-auth or {TOKEN}"
        )
    return options


def _set_environment(options: argparse.Namespace) -> None:
    """Set for MLflow's application what ``mlflow server`` would; check stores and accounts before a worker starts."""
    set_for_mlflow_server()
    if token := os.environ.get(TOKEN):
        names = [*LOOPBACK, own_name(token)]
        allowed = [*filter(None, [options.allowed_hosts]), *names, *(f"{name}:*" for name in names)]
        options.allowed_hosts = ",".join(allowed)
        # Whether the page that asks is the server's own is checked here, for all names of the server.
        os.environ.setdefault("MLFLOW_SERVER_CORS_ALLOWED_ORIGINS", f"http://{own_name(token)}:*")
    if options.allowed_hosts:
        os.environ["MLFLOW_SERVER_ALLOWED_HOSTS"] = options.allowed_hosts
    # Imported after the allowed hosts are set, because MLflow's Flask application reads them on import.
    from mlflow.environment_variables import _MLFLOW_AUTH_ADMIN_BOOTSTRAPPED, _MLFLOW_IN_JOB_EXECUTOR, _MLFLOW_SGI_NAME
    from mlflow.server import constants
    from mlflow.server.handlers import initialize_backend_stores
    from mlflow.utils.server_cli_utils import resolve_default_artifact_root

    proxied, store = options.artifacts_destination, options.backend_store_uri
    root = resolve_default_artifact_root(proxied is not None, "", store)
    os.environ |= {
        constants.BACKEND_STORE_URI_ENV_VAR: store,
        constants.REGISTRY_STORE_URI_ENV_VAR: store,
        constants.ARTIFACT_ROOT_ENV_VAR: root,
        _MLFLOW_SGI_NAME.name: "uvicorn",
        _MLFLOW_IN_JOB_EXECUTOR.name: "false",
        ACCOUNTS: str(options.app_name is not None).lower(),
    }
    if proxied is not None:
        os.environ |= {constants.SERVE_ARTIFACTS_ENV_VAR: "true", constants.ARTIFACTS_DESTINATION_ENV_VAR: proxied}
    initialize_backend_stores(store, store, root)
    if options.app_name is not None:
        _make_accounts()
        os.environ[_MLFLOW_AUTH_ADMIN_BOOTSTRAPPED.name] = "true"


def _make_accounts() -> None:
    """Make the administrator if there is none, and the account of the searches with the password that is given."""
    from mlflow.server import auth

    auth.get_flask_server_secret_key()
    auth.bootstrap_admin_user()
    password = os.environ.pop(DRIVER_PASSWORD, "")
    if not password:
        return
    if not auth.store.has_user(DRIVER):
        auth.store.create_user(DRIVER, password)
    elif not auth.store.authenticate_user(DRIVER, password):
        auth.store.update_user(DRIVER, password=password)
        say(f"the account {DRIVER} has the password in {DRIVER_PASSWORD} now", error=True)


if __name__ == "__main__":
    main()
