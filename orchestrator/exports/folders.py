"""Folders that are written whole, and replaced only if an export wrote all their files."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from trainables.data.cache import whole_directory
from trainables.errors import ConfigError


@contextmanager
def replaced_folder(folder: Path, holds: str) -> Iterator[Path]:
    """Give a temporary folder that takes the place of ``folder`` when the block ends well.

    Args:
        folder: The folder to write; it may exist already.
        holds: Pattern of the paths that an export writes, within the folder.

    Raises:
        ConfigError: If the folder holds other files.
    """
    refuse_others(folder, holds)
    with whole_directory(folder) as partial:
        yield partial
        if folder.exists():
            shutil.rmtree(folder)


def refuse_others(folder: Path, holds: str) -> None:
    """Raise ConfigError where a file, or a folder with files that no export wrote, has the folder's name."""
    others = [
        path for path in folder.rglob("*") if path.is_file() and not fnmatch(f"{path.relative_to(folder)}", holds)
    ]
    if folder.is_file() or others:
        raise ConfigError(f"{folder}: holds {(others or [folder])[0].name}, which no export wrote; choose another name")
