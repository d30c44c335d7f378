"""Where the store is: what was named, or the database of an output directory."""

import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

from orchestrator.tracking.password import refuse_default_password


def default_uri(output: Path) -> str:
    """Return the store that all experiments under an output directory share."""
    return f"sqlite:///{output.resolve() / 'mlflow.db'}"


def choose_uri(given: str | None, output: Path) -> str:
    """Return the store that was named, or the default one.

    Raises:
        ConfigError: If it is a server with the password that everybody knows.
    """
    if given is not None:
        refuse_default_password(given)
    return given or default_uri(output)


def is_server(uri: str) -> bool:
    """Say whether a store is a tracking server rather than a database."""
    return urlsplit(uri).scheme in ("http", "https")


def without_password(text: str) -> str:
    """Return an address, or a text with addresses in it, as it may be shown: without their passwords."""
    return re.sub(r"(://[^\s/:@]*):[^\s/@]*@", r"\1@", text)


def sync_command(uri: str, output: Path, *experiments: str) -> str:
    """Return the command line that delivers to a store what it missed, ready to be pasted."""
    store = [] if uri == default_uri(output) else ["--tracking-uri", without_password(uri)]
    return shlex.join(["orchestrator", "sync", *experiments, "--output", str(output), *store])
