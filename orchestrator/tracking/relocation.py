"""Corrects the database of an output folder that was moved or copied.

MLflow stores absolute addresses of artifacts and has no request that changes them. Where a database lies beside its
artifacts, this module corrects the addresses in the database itself.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

DATABASE = "mlflow.db"
"""Name of the database in an output folder, which its experiments share by default."""

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
        uri: Address of a store; only a database that lies beside its artifacts can have been moved with them.

    Returns:
        Paths; empty where nothing was moved.

    Raises:
        sqlite3.Error: If the file is no database of MLflow.
    """
    database = _database_of(uri)
    if database is None:
        return []
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        moved = _moved(connection, database.parent)
    here = [old for old, new in moved.items() if _path_of(new).is_dir()]
    return list(dict.fromkeys(str(_path_of(address).parent.parent) for address in here))


def correct_addresses(uri: str) -> None:
    """Correct the addresses of artifacts in the database of an output folder that was moved or copied.

    Raises:
        sqlite3.Error: If the database cannot be read or written.
    """
    database = _database_of(uri)
    if database is None:
        return
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        for old, new in _moved(connection, database.parent).items():
            _replace(connection, old, new)


def _database_of(uri: str) -> Path | None:
    """Return the path of a store that is an output folder's default database and exists; else ``None``."""
    path = Path(uri.removeprefix("sqlite:///"))
    is_default = uri.startswith("sqlite:///") and path.name == DATABASE and path.is_absolute()
    return path if is_default and path.is_file() else None


def _moved(connection: sqlite3.Connection, output: Path) -> dict[str, str]:
    """Return address in the database -> address in this folder, for artifacts that are here or at neither place."""
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
    """Replace the start of each address that equals an old address or lies under it."""
    for table, column in ADDRESSES:
        connection.execute(
            f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} = ? OR substr({column}, 1, ?) = ?",
            (new, len(old) + 1, old, len(old) + 1, f"{old}/"),
        )
