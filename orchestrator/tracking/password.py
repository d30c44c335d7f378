"""Refuses MLflow's default password, which is public."""

import os
from urllib.parse import urlsplit

from orchestrator.text.addresses import split_password
from trainables.errors import ConfigError

USERNAME, PASSWORD = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
"""Environment variables in which MLflow looks for the credentials of a server."""

DEFAULT_CREDENTIALS = ("admin", "password1234")
"""Default password of MLflow's basic auth."""


def refuse_default_password(uri: str) -> None:
    """Refuse MLflow's default password.

    Raises:
        ConfigError: If the address or the environment has the default password.
    """
    parts = urlsplit(uri)
    _, user, password = split_password(uri)
    given = (user, password) if password else (os.environ.get(USERNAME), os.environ.get(PASSWORD))
    if parts.scheme in ("http", "https") and given == DEFAULT_CREDENTIALS:
        raise ConfigError(
            f"{parts.scheme}://{parts.hostname}: MLflow's default password is in use; change it on the server "
            f"(basic_auth.ini, or its users page), then set {PASSWORD} to the new one"
        )
