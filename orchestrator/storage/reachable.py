"""Checks whether the server of a bucket can be reached, and whether there are credentials."""

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

METADATA_SERVICE = ("169.254.169.254", 80)
"""Host and port at which a machine of Amazon's finds the credentials of its role."""

_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def connection_problem(host: str, port: int, seconds: float = 1.0) -> str | None:
    """Return why nothing listens at an address; ``None`` if a server listens."""
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except OSError as error:
        return error.strerror or str(error) or "no answer"
    return None


def endpoint_problem(endpoint: str) -> str | None:
    """Return why a server cannot be used, or ``None``; the empty endpoint is Amazon's server."""
    if not endpoint:
        return None
    parts = urlsplit(endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    problem = connection_problem(parts.hostname or "", port)
    return f"{endpoint} does not answer: {problem}; is the server running?" if problem else None


def credentials_problem() -> str | None:
    """Return how to give credentials if this process has none, else ``None``.

    The S3 client looks for the role of the machine as well, which takes seconds if there is no role.
    """
    files = (Path.home() / ".aws" / name for name in ("credentials", "config"))
    if any(os.environ.get(name) for name in _CREDENTIALS) or any(path.is_file() for path in files):
        return None
    asked = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true"
    if asked and connection_problem(*METADATA_SERVICE, seconds=0.3) is None:
        return None
    return (
        "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or write ~/.aws/credentials; "
        "every node of the cluster needs them too"
    )
