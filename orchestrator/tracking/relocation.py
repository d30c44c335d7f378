"""The database of an output folder that was moved or copied, which still names the files where they were.

MLflow keeps absolute addresses of artifacts, and has no request that changes them: where a database lies beside its
artifacts, the addresses are corrected in the database itself.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

DATABASE = "mlflow.db"
"""Of an output folder: the store that its experiments share by default."""

ADDRESSES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
"""Tables and columns of MLflow's database that hold the addresses of artifacts."""

ARTIFACTS = "artifacts"
"""Folder of all artifacts beside the database."""


def artifacts_of(output: Path, experiment: str) -> str:
    """Return the address of an experiment's artifacts in an output folder."""
    return (output.resolve() / ARTIFACTS / experiment).as_uri()


def find_former_folders(uri: str) -> list[str]:
    """Return the folders in which the database of an output folder looks for artifacts that lie beside it.

    Args:
        uri: Of a store; only a database that lies beside its artifacts can have been moved with them.

    Returns:
        Paths; none where everything is in its place.

    Raises:
        sqlite3.Error: If it is no database of MLflow's.
    """
    database = _database_of(uri)
    if database is None:
        return []
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        moved = _moved(connection, database.parent)
    here = [old for old, new in moved.items() if _path_of(new).is_dir()]
    return list(dict.fromkeys(str(_path_of(address).parent.parent) for address in here))


def correct_addresses(uri: str) -> None:
    """Let the database of an output folder that was moved or copied name the artifacts where they lie, or will lie.

    Raises:
        sqlite3.Error: If it cannot be read or written.
    """
    database = _database_of(uri)
    if database is None:
        return
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        for old, new in _moved(connection, database.parent).items():
            _replace(connection, old, new)


def _database_of(uri: str) -> Path | None:
    """Return the database that an output folder has by default, if a store is one and there is one."""
    path = Path(uri.removeprefix("sqlite:///"))
    is_default = uri.startswith("sqlite:///") and path.name == DATABASE and path.is_absolute()
    return path if is_default and path.is_file() else None


def _moved(connection: sqlite3.Connection, output: Path) -> dict[str, str]:
    """Return where experiments are said to have their artifacts, and where these belong in this folder.

    Experiments count whose artifacts lie here, or no longer, or not yet, where the database says.
    """
    found: dict[str, str] = {}
    for (address,) in connection.execute("SELECT artifact_location FROM experiments"):
        former = _path_of(address or "")
        here = output / ARTIFACTS / former.name
        is_ours = (address or "").startswith("file:///") and former.parent.name == ARTIFACTS
        if is_ours and former != here and (here.is_dir() or not former.is_dir()):
            found[address] = here.as_uri()
    return found


def _path_of(address: str) -> Path:
    return Path(unquote(address.removeprefix("file://")))


def _replace(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Replace the start of each address that is, or lies under, an old one."""
    for table, column in ADDRESSES:
        connection.execute(
            f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} = ? OR substr({column}, 1, ?) = ?",
            (new, len(old) + 1, old, len(old) + 1, f"{old}/"),
        )
