"""Opens MLflow's store, and locks what two processes must not do at once."""

import hashlib
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote
from uuid import uuid4

from orchestrator.environment import set_for_mlflow
from orchestrator.text.addresses import database_address, database_of, without_password
from orchestrator.tracking.failures import Failure, RefusedError, failure_of, store_failures
from trainables.files import alone

TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
TIMEOUT_IS_OURS = TIMEOUT not in os.environ
set_for_mlflow()

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

DATABASE = "mlflow.db"
"""Name of the database in an output folder, which its experiments share by default."""

ARTIFACTS = "artifacts"
"""Folder of all artifacts beside the database."""


class ExperimentDeletedError(RefusedError):
    """The experiment was deleted in MLflow's pages; until it is restored, it accepts no runs."""


class StoreMovedError(RefusedError):
    """The database keeps the files of runs in another folder, from which its folder was moved or copied."""


def refuse_moved(client: "MlflowClient", experiment: "Experiment", *, is_writing: bool = True) -> None:
    """Refuse a database whose files are looked for in the folder from which an output folder was moved or copied.

    MLflow stores absolute addresses of files: it makes a relative one absolute, and has no request that changes one.
    Files would be written to the former folder, which may belong to another search by now. ``is_writing`` refuses files
    at neither place, too.

    Raises:
        StoreMovedError: If the files lie beside the database, and are looked for elsewhere.
    """
    address, database = experiment.artifact_location or "", database_of(str(client.tracking_uri))
    if database is None or database.name != DATABASE or not address.startswith("file:///"):
        return
    former = Path(unquote(address.removeprefix("file://")))
    here = database.parent / ARTIFACTS / former.name
    if former.parent.name != ARTIFACTS or former == here:
        return
    if not here.is_dir() and (former.is_dir() or not is_writing):
        return
    raise StoreMovedError(
        f"{database}: keeps its files in {former.parent.parent}, from where its folder was moved or copied. Move it "
        f"back, or rename {DATABASE} and make it again: `orchestrator sync --output "
        f"{shlex.quote(str(database.parent))}`"
    )


def find_experiment(client: "MlflowClient", name: str, *, restores: bool = False) -> "Experiment | None":
    """Return the experiment of a name, or ``None``.

    Raises:
        ExperimentDeletedError: If the experiment was deleted in MLflow's pages, and ``restores`` is false.
        StoreMovedError: If the folder of the database was moved or copied.
    """
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return None
    if experiment.lifecycle_stage == "deleted":
        if not restores:
            raise ExperimentDeletedError(f"the experiment {name} was deleted in MLflow's pages")
        client.restore_experiment(experiment.experiment_id)
    refuse_moved(client, experiment)
    return experiment


def missing_database(uri: str) -> Path | None:
    """Return the file of a SQLite database that nobody has made yet; ``None`` for all other stores."""
    database = database_of(uri)
    return None if database is None or database.exists() else database


def connect(uri: str, output: Path) -> "MlflowClient":
    """Open the store under a lock, because two processes that create the database at once would break its migration.

    A new database of SQLite appears whole: a process that is killed during the migration would leave tables that the
    next migration trips over.
    """
    from mlflow import MlflowClient

    ask_once(uri)
    with alone(output / ".mlflow.lock"):
        if (database := missing_database(uri)) is not None:
            for remains in database.parent.glob(f".{database.name}.*.unfinished"):
                remains.unlink(missing_ok=True)
            # A new name each time, because MLflow keeps what it opened by the name.
            unfinished = database.with_name(f".{database.name}.{uuid4().hex}.unfinished")
            MlflowClient(tracking_uri=database_address(unfinished)).search_experiments(max_results=1)
            unfinished.replace(database)
        client = MlflowClient(tracking_uri=uri)
        client.search_experiments(max_results=1)
    return client


class StoreFailedError(ConnectionError):
    """A store does not answer, or refuses a request; ``failure`` says why, and what helps."""

    def __init__(self, uri: str, failure: Failure) -> None:
        super().__init__(f"{without_password(uri)}: {failure.reason}")
        self.failure = failure


class DeliveryBusyError(RefusedError):
    """Another process delivers the same experiment to the same store."""


def take_turn(uri: str, directory: Path, *, waits: bool = False) -> ExitStack:
    """Lock the delivery of an experiment's directory to a store, until what is returned is closed.

    Two deliveries at once would each find that the runs are missing, and make them twice.

    Raises:
        DeliveryBusyError: If another process delivers, and ``waits`` is false.
    """
    # One store has one name here, however its address is written.
    database = database_of(uri)
    store = without_password(uri).rstrip("/") if database is None else str(database.resolve())
    place = directory.resolve()
    digest = hashlib.sha256(f"{store}\n{place.name}".encode()).hexdigest()[:16]
    turn = ExitStack()
    try:
        turn.enter_context(alone(place.parent / f".delivery-{digest}.lock", waits=waits))
    except BlockingIOError:
        raise DeliveryBusyError(f"another process delivers {place.name} to this store") from None
    return turn


def ask_once(uri: str) -> None:
    """Let MLflow ask a database once: it would ask one that refuses ten times, and wait for 100 s in silence.

    The tracker and ``sync`` try again, as they do with a server (``environment.set_for_mlflow``).
    """
    if not uri.startswith(("http:", "https:")):
        from mlflow.store.db import utils

        utils.MAX_RETRY_COUNT = 1


@contextmanager
def asking(uri: str) -> Iterator["MlflowClient"]:
    """Ask a store within a ``with`` block; each answer has a few seconds, because a person is waiting.

    Raises:
        StoreMovedError: As the block raises it.
        StoreFailedError: If the store does not answer, or refuses a request.
    """
    failures = store_failures()
    from mlflow import MlflowClient

    ask_once(uri)
    usual = os.environ[TIMEOUT]
    os.environ[TIMEOUT] = "5" if TIMEOUT_IS_OURS else usual
    try:
        yield MlflowClient(tracking_uri=uri)
    except StoreMovedError:
        raise
    except failures as error:
        raise StoreFailedError(uri, failure_of(error, uri)) from None
    finally:
        os.environ[TIMEOUT] = usual


def count_experiments(uri: str) -> int:
    """Return how many experiments a store holds; the errors are those of ``asking``."""
    with asking(uri) as client:
        experiments = client.search_experiments()
        for experiment in experiments:
            refuse_moved(client, experiment, is_writing=False)
        return len(experiments)


def find_run(client: "MlflowClient", experiment_id: str, trial: str) -> "Run | None":
    """Return the run of a trial, whatever characters its id has; ``None`` where the trial has no run.

    A string in an MLflow filter cannot contain a quotation mark. The filter therefore has underscores, which match any
    character, and the id of each matching run is compared here.
    """
    pattern = re.sub(r"[^A-Za-z0-9.-]", "_", trial)
    runs = client.search_runs([experiment_id], f"tags.trial LIKE '{pattern}'")
    return next((run for run in runs if run.data.tags["trial"] == trial), None)
