"""Datasets in a bucket: the first actor of a node fetches a dataset, and all actors of the node map its files.

A dataset is fetched again when the sizes or times of its files in the bucket have changed.
"""

import hashlib
import json
import shutil
from pathlib import Path

from orchestrator.storage.bucket import ObjectStore, explain
from trainables.errors import DataError
from trainables.files import alone, default_cache, whole_directory, write_whole, writing_to


def fetch_dataset(store: ObjectStore, name: str) -> Path:
    """Return a local data root that holds a dataset of the bucket as it is now.

    Args:
        store: The data root in the bucket.
        name: Name of a folder in the bucket.

    Raises:
        DataError: If there is no such folder, the store does not answer, or the local disk cannot be written.
    """
    if not name or name.startswith(("/", ".")) or "/" in name:
        raise DataError(f"{name}: must be the name of a folder in {store.address}")
    root = default_cache().with_name("fetched") / hashlib.sha256(store.address.encode()).hexdigest()[:16]
    try:
        listing = json.dumps(store.listing(name), sort_keys=True)
    except OSError as error:
        raise DataError(f"--data-root {store.address}: cannot be read: {explain(error)}") from None
    if listing == "{}":
        raise DataError(f"{name}: no such folder in {store.address}; upload it there")
    with writing_to(root):
        root.mkdir(parents=True, exist_ok=True)
        with alone(root / f".{name}.lock"):
            _fetch(store, root / name, root / f".{name}.json", listing)
    return root


def _fetch(store: ObjectStore, target: Path, record: Path, listing: str) -> None:
    """Fetch a folder unless its files in the bucket are unchanged since the last fetch."""
    if target.is_dir() and record.is_file() and record.read_text(encoding="utf-8") == listing:
        return
    # A killed fetch leaves its partial folder; the lock keeps other processes from writing a folder now.
    for old in (target, *target.parent.glob(f".{target.name}.*/")):
        shutil.rmtree(old, ignore_errors=True)
    record.unlink(missing_ok=True)
    with whole_directory(target) as partial:
        store.get(target.name, partial)
    write_whole(record, listing)
