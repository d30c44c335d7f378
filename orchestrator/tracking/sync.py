"""Delivers the journal of an experiment to a store after the experiment's process has ended, and compares the two."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from orchestrator.journal.directory import read_history
from orchestrator.journal.history import History
from orchestrator.journal.lock import find_holder
from orchestrator.text.addresses import database_of, without_password
from orchestrator.tracking import connection
from orchestrator.tracking.address import sync_command
from orchestrator.tracking.connection import (
    DeliveryBusyError,
    ExperimentDeletedError,
    StoreFailedError,
    StoreMovedError,
    asking,
    find_experiment,
    missing_database,
    refuse_moved,
    take_turn,
)
from orchestrator.tracking.failures import failure_of, store_failures
from orchestrator.tracking.store import ENDED_STATUS, Run, Store, existing_runs
from trainables.errors import UserError
from trainables.extras import require


def find_differences(uri: str, output: Path, history: History) -> list[str]:
    """Return a line about each trial whose run differs from the history, to which no process may be adding records.

    Raises:
        MlflowException: If the store does not answer; see ``store_failures``.
        ExperimentDeletedError: If the experiment was deleted in MLflow's pages.
        StoreMovedError: If the folder of the database was moved or copied.
    """
    if (database := missing_database(uri)) is not None:
        return [f"there is no {database}"] if history.trials else []
    client = connection.connect(uri, output)
    entity = find_experiment(client, history.name)
    runs: dict[str, list[Run]] = defaultdict(list)
    for name, run in () if entity is None else existing_runs(client, str(entity.experiment_id)):
        runs[name].append(run)
    return list(_differences(history, runs))


def _differences(history: History, stored_runs: Mapping[str, list[Run]]) -> Iterator[str]:
    for trial in history.trials.values():
        runs, studies = stored_runs[trial.id], [study.id for study in stored_runs[trial.study]]
        status, is_tested = ENDED_STATUS[trial.state], trial.id in history.tests
        if len(runs) != 1:
            yield f"{trial.id} has {len(runs)} runs"
        elif runs[0].parent not in studies:
            yield f"{trial.id} is below a run that is not that of its study"
        elif (runs[0].status, runs[0].step, runs[0].tested) != (status, trial.last_epoch, is_tested):
            yield f"{trial.id} is {runs[0].status} at epoch {runs[0].step}, not {status} at {trial.last_epoch}"


ATTEMPTS = 3
"""Attempts at one delivery before the store counts as not answering."""


class DeliveryError(UserError):
    """The store does not answer, or refuses a request."""


@dataclass(frozen=True)
class Delivery:
    """The result of the delivery of one experiment.

    Attributes:
        runs: The number of trials whose runs now agree with the journal.
        running: Whether a search of the experiment is running, which continues to deliver by itself.
        duplicates: The number of runs that had been made twice, and are in MLflow's trash now.
        sent: Whether anything was sent; the running search may be delivering to the same store.
    """

    experiment: str
    runs: int
    running: bool
    duplicates: int = 0
    sent: bool = True


class DeletedError(DeliveryError):
    """The experiment was deleted in MLflow's pages, and its restoration was not asked for."""


def refuse_moved_database(uri: str, names: Collection[str]) -> None:
    """Refuse a database whose folder was moved or copied, before experiments of some names are delivered to it.

    A store that does not answer is left to ``deliver``, which says why.

    Raises:
        DeliveryError: If the database keeps files of its experiments in the folder from which it comes.
        MissingExtraError: If MLflow is not installed.
    """
    require("tracking", "`orchestrator sync`")
    if database_of(uri) is None or missing_database(uri) is not None:
        return
    try:
        with suppress(StoreFailedError), asking(uri) as client:
            for experiment in client.search_experiments():
                # Files at neither place matter to what is delivered alone.
                refuse_moved(client, experiment, is_writing=experiment.name in names)
    except StoreMovedError as error:
        raise DeliveryError(str(error)) from None


def deliver(
    directory: Path,
    output: Path,
    uri: str,
    *,
    restores: bool = False,
    held: bool = False,
    on_wait: Callable[[], None] = lambda: None,
) -> Delivery:
    """Make a store agree with an experiment's journal; only differences are sent.

    One process at a time delivers an experiment to a store. This function calls ``on_wait`` and waits for another such
    delivery, unless a search is running, which delivers until its end. ``restores`` brings back an experiment that was
    deleted in MLflow's pages. ``held`` says that this process holds the folder, so that no search is running.

    Raises:
        UserError: If the journal is damaged.
        DeletedError: If the experiment was deleted in MLflow's pages and ``restores`` is false.
        DeliveryError: If the store does not answer, refuses a request, or belongs to another folder.
        MissingExtraError: If MLflow is not installed.
    """
    require("tracking", "`orchestrator sync`")
    try:
        turn = take_turn(uri, directory)
    except DeliveryBusyError:
        if not held and find_holder(directory) is not None:
            history = read_history(directory)
            return Delivery(history.name, len(history.trials), running=True, sent=False)
        on_wait()
        turn = take_turn(uri, directory, waits=True)
    failures, lasting, duplicates = store_failures(), (ExperimentDeletedError, StoreMovedError), 0
    with turn:
        # In this order, and not before the turn: the journal of a search that has ended has all that it recorded.
        is_running = not held and find_holder(directory) is not None
        history = read_history(directory)
        try:
            # Each attempt makes a new ``Store``, which reads what the attempt before has left there.
            for attempt in Retrying(
                stop=stop_after_attempt(ATTEMPTS),
                wait=wait_exponential(multiplier=0.5),
                retry=retry_if_exception(lambda error: isinstance(error, failures) and not isinstance(error, lasting)),
                reraise=True,
            ):
                with attempt:
                    store = Store(uri, output, directory, history.name, restores=restores)
                    duplicates += store.duplicates
                    store.deliver(history, history.trials, is_over=not is_running)
        except ExperimentDeletedError as error:
            remedy = f"`{sync_command(uri, output, directory)}` brings it back"
            raise DeletedError(f"{error}: {remedy}; if it is not wanted, remove {directory}") from None
        except StoreMovedError as error:
            raise DeliveryError(str(error)) from None
        except failures as error:
            raise DeliveryError(
                f"{without_password(uri)}: {failure_of(error, uri)}; the journal keeps everything"
            ) from None
    return Delivery(history.name, len(history.trials), is_running, duplicates)
