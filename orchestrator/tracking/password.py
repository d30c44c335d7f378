"""MLflow's default password, which everybody knows, is refused."""

import os
from urllib.parse import urlsplit

from trainables.errors import ConfigError

DEFAULT_CREDENTIALS = ("admin", "password1234")
"""What MLflow's basic auth comes with."""


def refuse_default_password(uri: str) -> None:
    """Refuse to use a server with the password that MLflow's basic auth comes with: everybody knows it.

    Raises:
        ConfigError: If the address or the environment has it.
    """
    parts = urlsplit(uri)
    given = (parts.username, parts.password) if parts.password else _credentials()
    if parts.scheme in ("http", "https") and given == DEFAULT_CREDENTIALS:
        raise ConfigError(
            f"{parts.scheme}://{parts.hostname}: MLflow's default password is in use; change it on the server "
            f"(basic_auth.ini, or its users page), then set MLFLOW_TRACKING_PASSWORD to the new one"
        )


def _credentials() -> tuple[str | None, str | None]:
    return os.environ.get("MLFLOW_TRACKING_USERNAME"), os.environ.get("MLFLOW_TRACKING_PASSWORD")
