"""Shows addresses of servers, databases and buckets without the secrets that they hold.

Every address that is printed, written to a file or sent to another program goes through ``without_password``. It hides
too much rather than too little: in an address that is not well formed, a password may reach to the last ``@``.
"""

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trainables.errors import ConfigError

HIDDEN = "***"
"""Text that takes the place of a secret."""

# An address that was made a path has one slash after the colon.
_ADDRESS = re.compile(r"(:/+)([^\s/]\S*)")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]*\]|[^\s:@/?#]*)(:\d*)?")
_WITH_HOST = re.compile(r"https?|(postgresql|mysql|mssql)(\+\w+)?", re.IGNORECASE)
_USER = re.compile(r"[\w.%+~-]*")
_AUTHORITY = re.compile(r"[^/?#]*")
# A secret that is not percent-encoded may hold an ampersand: it ends where the next name and its "=" begin.
_PARAMETER = re.compile(
    r"([?&;](?:[\w.%-]*(?:pass|pwd|secret|token|credential|signature|(?:access|account|api|private)[_-]?key)[\w.%-]*"
    r"|auth|key|pw|sig)=).*?(?=&[\w.%-]+=|\s|$)",
    re.IGNORECASE,
)


def without_password(text: str) -> str:
    """Return an address, or a text with addresses in it, with each secret as ``***``.

    Secrets are passwords, user names without a password, which may be tokens, and parameters behind a question mark
    whose names suggest a secret. A text whose secrets are hidden already stays as it is.
    """
    return _PARAMETER.sub(rf"\1{HIDDEN}", _ADDRESS.sub(_hide_userinfo, text))


def check_well_formed(address: str, name: str) -> None:
    """Refuse an address in which the end of its password cannot be found.

    Args:
        address: A URI, which is not shown.
        name: The name of the address in the message.

    Raises:
        ConfigError: If the address names a host and has white space, an ``@`` after the host, or a port that is no
            number.
    """
    scheme, _, rest = address.partition("://")
    if _WITH_HOST.fullmatch(scheme) is None or rest.startswith("/"):
        return
    host = (_AUTHORITY.match(rest) or [""])[0]
    is_whole = "@" not in rest[len(host) :] and _HOST.fullmatch(host.rpartition("@")[2]) is not None
    if not is_whole or re.search(r"\s", address) or not _can_be_split(address):
        raise ConfigError(
            f"{name}: {scheme}://...: the password and the host cannot be separated; in a user name or password, write "
            f"/ ? # @ : % [ ] and spaces as %2F %3F %23 %40 %3A %25 %5B %5D and %20"
        )


def _can_be_split(address: str) -> bool:
    try:
        urlsplit(address)
    except ValueError:
        # The error, about brackets or letters that become several when normalised, would quote the address.
        return False
    return True


def split_password(address: str) -> tuple[str, str | None, str | None]:
    """Return a well-formed address without user name and password, and these two, decoded; ``None`` where missing."""
    parts = urlsplit(address)
    userinfo, _, host = parts.netloc.rpartition("@")
    user, colon, password = userinfo.partition(":")
    return parts._replace(netloc=host).geturl(), unquote(user) or None, unquote(password) if colon else None


_SQLITE = re.compile(r"sqlite(\+pysqlite)?:///")

# SQLAlchemy decodes the path, and takes what follows a question mark for options.
_QUOTED = str.maketrans({"%": "%25", "?": "%3F"})


def database_address(database: Path) -> str:
    """Return the address of a database file, whatever characters its path has.

    Example:
        >>> database_address(Path("/runs/mlflow.db")), database_address(Path("/feature%2Fnew/mlflow.db"))
        ('sqlite:////runs/mlflow.db', 'sqlite+pysqlite:////feature%252Fnew/mlflow.db')
    """
    path = str(database)
    quoted = path.translate(_QUOTED)
    # For an address that begins otherwise, MLflow would make a folder with the name that is not decoded.
    return f"sqlite:///{path}" if quoted == path else f"sqlite+pysqlite:///{quoted}"


def database_of(uri: str) -> Path | None:
    """Return the file of a database of SQLite, by its address; ``None`` for all other stores."""
    beginning = _SQLITE.match(uri)
    return None if beginning is None or "?" in uri else Path(unquote(uri[beginning.end() :]))


def hide_arguments(arguments: list[str]) -> None:
    """Overwrite, as far as the system allows it, the secrets of given arguments that ``ps`` shows to every user.

    Linux shows, as the command line, the present content of the memory that held it at the start. Ray copies the
    command line from there into the description of its jobs.
    """
    import ctypes

    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return
    # The fields after the name of the process begin with the third; the 48th and 49th say where the arguments lie.
    start, end = int(fields[45]), int(fields[46])
    memory = ctypes.string_at(start, end - start) if 0 < start < end else b""
    for argument in arguments:
        secret, shown = os.fsencode(argument), os.fsencode(without_password(argument))
        matches = re.finditer(re.escape(secret) + b"\0", memory) if secret != shown else ()
        for place in matches:
            ctypes.memmove(start + place.start(), shown[: len(secret)].ljust(len(secret), b" "), len(secret))


def _hide_userinfo(address: re.Match[str]) -> str:
    """Return an address from its colon on without its secrets and without the secrets of addresses inside it."""
    slashes, rest = address.groups()
    host = (_AUTHORITY.match(rest) or [""])[0]
    if ":" not in host and "@" not in host:
        # Without a user, the rest belongs to the path; a parameter may hold another address.
        return slashes + host + _ADDRESS.sub(_hide_userinfo, rest[len(host) :])
    # A text that looks like a port may be the beginning of a password with a slash in it.
    userinfo, at, after = rest.rpartition("@")
    if not at:
        return slashes + rest
    user, colon, _ = userinfo.partition(":")
    is_name = colon and _USER.fullmatch(user) is not None
    return f"{slashes}{user}:{HIDDEN}@{after}" if is_name else f"{slashes}{HIDDEN}@{after}"
