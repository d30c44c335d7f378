"""Where the store is, how it is opened, and what it may raise."""

import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.text.addresses import without_password
from trainables.extras import missing_modules
from trainables.files import alone

# Read by MLflow when it is imported.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
# What a command prints is its own, and may be JSON.
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
# Retries are the tracker's, which looks first what the store did before an answer was lost: MLflow would have a run
# made again unseen. A slow answer is waited for a while.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
TIMEOUT_IS_OURS = TIMEOUT not in os.environ
os.environ.setdefault(TIMEOUT, "60")

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


class ExperimentDeletedError(ConnectionError):
    """An experiment that somebody has deleted in MLflow's pages, which takes no runs until it is restored."""


def store_failures() -> tuple[type[Exception], ...]:
    """Return what a store may raise beside what MLflow wraps.

    That is what a database and a bucket raise themselves, and what comes of an answer that is not MLflow's.
    """
    from json import JSONDecodeError

    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return MlflowException, SQLAlchemyError, sqlite3.Error, OSError, JSONDecodeError, *_bucket_failures()


def _bucket_failures() -> tuple[type[Exception], ...]:
    """Return what boto3 raises, which is there where artifacts lie in a bucket."""
    if missing_modules("boto3"):
        return ()
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    return Boto3Error, BotoCoreError, ClientError


def hush() -> None:
    """Silence what MLflow says about its own migrations and retries."""
    for name in ("alembic", "mlflow"):
        logging.getLogger(name).setLevel(logging.ERROR)


def first_line(error: Exception) -> str:
    """Return what an error says, without the traces that MLflow puts into it."""
    return without_password((str(error).strip().splitlines() or [type(error).__name__])[0])[:300]


def connect(uri: str, output: Path) -> "MlflowClient":
    """Open the store; a database is made by one process at a time, because two at once break its migration."""
    hush()
    from mlflow import MlflowClient

    with alone(output / ".mlflow.lock"):
        client = MlflowClient(tracking_uri=uri)
        client.search_experiments(max_results=1)
    return client


def count_experiments(uri: str) -> int:
    """Return how many experiments a store holds, after one attempt of a few seconds.

    Raises:
        ConnectionError: If it does not answer.
    """
    hush()
    failures = store_failures()
    from mlflow import MlflowClient

    try:
        with hurried():
            return len(MlflowClient(tracking_uri=uri).search_experiments())
    except failures as error:
        raise ConnectionError(f"{without_password(uri)}: {first_line(error)}") from None


def find_run(client: "MlflowClient", experiment_id: str, trial: str) -> "Run | None":
    """Return the run of a trial, whatever characters its id has; ``None`` where there is none.

    MLflow's filters know no way to write a quotation mark within a string. In a pattern an underscore stands for any
    character; what fits the pattern is compared with the id here.
    """
    pattern = re.sub(r"[^A-Za-z0-9.-]", "_", trial)
    runs = client.search_runs([experiment_id], f"tags.trial LIKE '{pattern}'")
    return next((run for run in runs if run.data.tags["trial"] == trial), None)


@contextmanager
def hurried() -> Iterator[None]:
    """Wait for answers for a few seconds only, because a person waits for them."""
    if not TIMEOUT_IS_OURS:
        yield
        return
    usual = os.environ[TIMEOUT]
    os.environ[TIMEOUT] = "5"
    try:
        yield
    finally:
        os.environ[TIMEOUT] = usual


def forget_artifacts(run_id: str) -> None:
    """Drop what the client keeps to send a run's artifacts: 7 KB with a pool of threads, for the newest 1,024 runs."""
    from mlflow.tracking._tracking_service import utils

    utils._artifact_repos_cache.pop(run_id, None)
