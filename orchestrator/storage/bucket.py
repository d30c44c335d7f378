"""A place in an S3 bucket that every node of a cluster reaches: directories there are whole or not there at all.

An object store has neither renames nor appends. A directory's files are uploaded first and its manifest last; a
directory without a manifest does not exist. No key is ever written twice, so that two writers cannot spoil each other's
files.
"""

import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tenacity import before_sleep_log, retry, retry_if_exception, wait_random_exponential

from orchestrator.text.addresses import without_password
from trainables.checkpoint import MANIFEST
from trainables.errors import DataError, UserError
from trainables.files import alone, default_cache, make_in_cache, whole_directory, write_whole, writing_to

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
    except UnicodeError:
        # For example, a part between two dots is empty, or longer than 63 characters.
        return "it is no name of a host"
    return None


def credentials_problem() -> str | None:
    """Return how to give credentials if this process has none, else ``None``.

    The S3 client looks for the role of the machine as well, which takes seconds if there is no role.
    """
    files = {"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"}
    paths = (Path(os.environ.get(name) or Path.home() / ".aws" / file) for name, file in files.items())
    if any(os.environ.get(name) for name in _CREDENTIALS) or any(path.is_file() for path in paths):
        return None
    asked = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true"
    if asked and connection_problem(*METADATA_SERVICE, seconds=0.3) is None:
        return None
    return (
        "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or write ~/.aws/credentials; "
        "every node of the cluster needs them too"
    )


QUERY = frozenset({"endpoint_override", "region", "scheme"})
"""The parameters that may follow the question mark of an address."""

_NO_CREDENTIALS = (
    "credentials do not belong into an address, which is written down; give AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY to every node"
)
_ENDPOINT = re.compile(r"(https?://(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d+)?)?")
"""The address of a server, without user, path or parameters; or no address."""


def _is_endpoint(text: str) -> bool:
    with suppress(ValueError):
        # The second part raises an error where the number of the port is too high, or an address of IPv6 is none.
        return _ENDPOINT.fullmatch(text) is not None and urlsplit(text).port != 0
    return False


_log = logging.getLogger(__name__)


class StorageError(UserError):
    """A storage that cannot be used: no such bucket, no credentials, no permission, no answer."""


def _may_pass(error: BaseException) -> bool:
    """Say whether another attempt may help: the store did not answer, or had too much to do."""
    if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
        return False
    return not any(reason in str(error) for reason in ("NO_SUCH_BUCKET", "ACCESS_DENIED"))


_patient = retry(
    retry=retry_if_exception(_may_pass),
    stop=lambda state: (state.seconds_since_start or 0.0) >= state.args[0].patience,
    wait=wait_random_exponential(multiplier=0.2, max=20),
    before_sleep=before_sleep_log(_log, logging.WARNING),
    reraise=True,
)
"""Repeats a request of a store while its failure may pass; a missing file is reported at once."""


@dataclass(frozen=True)
class ObjectStore:
    """A prefix in a bucket; pickled as its address, and opened again where it is used.

    Attributes:
        prefix: Beginning of all keys, without slashes at its ends.
        endpoint: ``http://host:port`` of a server other than Amazon's; empty for Amazon's servers.
        region: Region of the bucket; empty for the region that the environment names.
        patience: Seconds for which requests are repeated, >= 0; so long a training waits for its checkpoint.
    """

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    patience: float = 600.0

    @classmethod
    def parse(cls, address: str, environ: Mapping[str, str] = os.environ) -> "ObjectStore":
        """Read ``s3://bucket/prefix?endpoint_override=...``.

        Raises:
            StorageError: If the text is no address of a bucket, or holds credentials.
        """
        try:
            parts = urlsplit(address)
        except ValueError:
            raise StorageError("--storage and --data-root: must be s3://bucket/prefix") from None
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        # The text behind the question mark is not shown, because it may be anything.
        shown = without_password(address.partition("?")[0])
        if parts.scheme != "s3" or not parts.netloc:
            raise StorageError(f"{shown}: must be s3://bucket/prefix")
        if "@" in parts.netloc or ":" in parts.netloc:
            raise StorageError(f"{shown}: {_NO_CREDENTIALS}")
        if unknown := set(query) - QUERY:
            raise StorageError(f"{shown}: unknown {', '.join(sorted(unknown))}; known are {', '.join(sorted(QUERY))}")
        default = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
        endpoint = query.get("endpoint_override", default).rstrip("/")
        if endpoint and "://" not in endpoint:
            endpoint = f"{query.get('scheme', 'https')}://{endpoint}"
        if not _is_endpoint(endpoint):
            raise StorageError(f"{shown}: endpoint_override must be http://host:port; {_NO_CREDENTIALS}")
        region = query.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
        return cls(parts.netloc, parts.path.strip("/"), endpoint, region)

    @property
    def address(self) -> str:
        """The ``s3://`` address, complete but for credentials; ``parse`` reads it back."""
        query = {"endpoint_override": self.endpoint, "region": self.region}
        query_text = "&".join(f"{key}={value}" for key, value in query.items() if value)
        return f"s3://{self._path('')}" + (f"?{query_text}" if query_text else "")

    def below(self, key: str) -> "ObjectStore":
        """Return the part of the store under a key."""
        return replace(self, prefix=f"{self.prefix}/{key}".lstrip("/"))

    def check(self) -> None:
        """Prove that files can be written to the store and deleted, without waiting for a server that is not there.

        Raises:
            StorageError: If files cannot be written or deleted; the message says why, and the remedy.
        """
        self.reach()
        key, impatient = f".writable-{secrets.token_hex(8)}", replace(self, patience=0.0)
        try:
            impatient.write(key, b"")
            impatient.remove(key)
        except OSError as error:
            raise StorageError(f"{self.address}: {explain(error)}") from None

    def reach(self) -> None:
        """Make sure that there are a server and credentials, without waiting for either.

        Raises:
            StorageError: If there is no server, or no credentials.
        """
        parts = urlsplit(self.endpoint)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if self.endpoint and (problem := connection_problem(parts.hostname or "", port)):
            problem = f"{self.endpoint} does not answer: {problem}; is the server running?"
            raise StorageError(f"{self.address}: {problem}")
        if problem := credentials_problem():
            raise StorageError(f"{self.address}: {problem}")

    def put(self, source: Path, key: str) -> None:
        """Upload a directory that has a manifest, the manifest last."""
        names = sorted((path.name for path in source.iterdir()), key=lambda name: name == MANIFEST)
        for name in names:
            self._upload(source / name, f"{key}/{name}")

    def get(self, key: str, target: Path) -> None:
        """Download a directory, with its subdirectories, into a local directory.

        Raises:
            FileNotFoundError: If the store has none.
        """
        names = list(self.listing(key))
        if not names:
            raise FileNotFoundError(f"{self.address}: no {key}")
        for name in names:
            if {"", ".."} & {*name.split("/")}:
                raise StorageError(f"{self.address}: {key}/{name} leads out of its folder; refused")
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            self._download(f"{key}/{name}", target / name)

    @_patient
    def read(self, key: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: If the store has none.
        """
        with self._system.open_input_stream(self._path(key)) as stream:
            return bytes(stream.read())

    @_patient
    def write(self, key: str, content: bytes) -> None:
        """Write a file; an older file of the key is replaced."""
        with self._system.open_output_stream(self._path(key)) as stream:
            stream.write(content)

    @_patient
    def remove(self, key: str) -> None:
        """Delete a file, if it is there."""
        with suppress(FileNotFoundError):
            self._system.delete_file(self._path(key))

    @_patient
    def listing(self, key: str) -> dict[str, list[int]]:
        """Return the files under a key by their paths relative to it, each with its size and time of change."""
        from pyarrow.fs import FileSelector, FileType

        base = self._path(key)
        entries = self._system.get_file_info(FileSelector(base, recursive=True, allow_not_found=True))
        files = (entry for entry in entries if entry.type == FileType.File)
        return {entry.path.removeprefix(f"{base}/"): [entry.size, entry.mtime_ns] for entry in files}

    def folders(self) -> list[str]:
        """Return the sorted names of the folders right under the prefix, asking a store that does not answer only once.

        Raises:
            StorageError: If the store does not answer, or refuses.
        """
        from pyarrow.fs import FileSelector, FileType

        self.reach()
        try:
            is_there = self._system.get_file_info(self.bucket).type != FileType.NotFound
            entries = self._system.get_file_info(FileSelector(self._path(""), allow_not_found=True)) if is_there else []
        except OSError as error:
            raise StorageError(f"{self.address}: {explain(error)}") from None
        if not is_there:
            raise StorageError(f"{self.address}: there is no such bucket; make it, or name another")
        return sorted(entry.base_name for entry in entries if entry.type == FileType.Directory)

    @_patient
    def delete(self, key: str) -> None:
        """Delete a directory, if it is there, its manifest first."""
        self.remove(f"{key}/{MANIFEST}")
        with suppress(FileNotFoundError):
            self._system.delete_dir(self._path(key))

    def move(self, key: str, target: str) -> None:
        """Copy all files under a key to another key within the store, then delete them under the first."""
        names = sorted(self.listing(key), key=lambda name: name.endswith(MANIFEST))
        for name in names:
            self._copy(f"{key}/{name}", f"{target}/{name}")
        for name in reversed(names):
            self.remove(f"{key}/{name}")

    @_patient
    def _copy(self, key: str, target: str) -> None:
        self._system.copy_file(self._path(key), self._path(target))

    def _path(self, key: str) -> str:
        return "/".join(part for part in (self.bucket, self.prefix, key) if part)

    @_patient
    def _upload(self, source: Path, key: str) -> None:
        with source.open("rb") as file, self._system.open_output_stream(self._path(key)) as stream:
            shutil.copyfileobj(file, stream, 2**22)

    @_patient
    def _download(self, key: str, target: Path) -> None:
        with self._system.open_input_stream(self._path(key)) as stream, target.open("wb") as file:
            shutil.copyfileobj(stream, file, 2**22)

    @property
    def _system(self) -> Any:
        return _open(self.endpoint, self.region)


def is_bucket(place: str) -> bool:
    """Say whether a place is an address rather than a folder."""
    return "://" in place


def explain(error: OSError) -> str:
    """Return the error of a store in one line, with the remedy where the reason is known."""
    said = str(error).split(" (Request ID")[0].replace("\n", " ")
    if "NO_SUCH_BUCKET" in said:
        return "there is no such bucket; make it, or name another"
    if "ACCESS_DENIED" in said or "INVALID_ACCESS_KEY" in said or "SIGNATURE" in said.upper():
        return f"these credentials do not allow it: {said}"
    return said


@lru_cache(maxsize=8)
def _open(endpoint: str, region: str) -> Any:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    options: dict[str, Any] = {"region": region} if region else {}
    if endpoint:
        parts = urlsplit(endpoint)
        options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme, "region": region or "us-east-1"}
    # Files are uploaded in the foreground, so that a failure of an upload is known.
    return S3FileSystem(
        **options, background_writes=False, connect_timeout=5, retry_strategy=AwsStandardS3RetryStrategy(max_attempts=3)
    )


def fetch_dataset(store: ObjectStore, name: str) -> Path:
    """Return a local data root that holds a dataset, a folder of the bucket, as it is now.

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
        make_in_cache(root)
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
