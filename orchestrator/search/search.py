"""A search from its description to its winners: the story that ``run_search`` tells from top to bottom."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.overlaps import overlaps
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import ExperimentEnded
from orchestrator.journal.trial import Stage
from orchestrator.machines.cluster import Cluster, prepare_joining
from orchestrator.results.answers import summarise
from orchestrator.search.budget import SPENT, Meter
from orchestrator.search.display import evaluation_displayed
from orchestrator.search.preparation import (
    check_unchanged,
    open_checkpoints,
    opened,
    start,
    tracked,
)
from orchestrator.search.resuming import answered, how_to_resume
from orchestrator.search.stages import run_stages
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.studies.prior import read_prior, start_from_prior
from orchestrator.studies.warm_start import read_sources, start_warm
from orchestrator.text.terminal import path_text, say
from orchestrator.text.values import count_text
from orchestrator.tracking import without_password
from orchestrator.tracking.registry import Registered, register_all
from orchestrator.tracking.tracking_process import TrackingProcess
from orchestrator.winners.champions import pack_champions
from orchestrator.winners.test_split import evaluate_on_test, selected, write_files
from orchestrator.workload.workload import Workload
from trainables.errors import UserError
from trainables.files import write_whole


class SearchInterruptedError(UserError):
    """A search that a signal stopped; the same command resumes it."""

    exit_code = 130


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    Attributes:
        history: The content of the experiment's journal.
        directory: The experiment's directory.
        tracking_uri: Address of the MLflow store.
        tracking_problem: What is missing in the MLflow store and why, or ``None``.
        ended_by: What ended the search: ``trials``, ``plateau``, ``target``, ``hours`` or ``gpu_hours``.
        registered: The winners' versions in the model registry.
        unregistered: Why winners were not registered, or models not packed; a sentence each.
    """

    history: History
    directory: Path
    tracking_uri: str
    tracking_problem: str | None
    ended_by: str
    registered: Sequence[Registered] = ()
    unregistered: Sequence[str] = ()

    @property
    def summary(self) -> dict[str, Any]:
        """The content of ``summary.json``."""
        return summarise(self.history)


def run_search(
    experiment: Experiment,
    workload: Workload,
    output: Path,
    *,
    tracking_uri: str | None = None,
    quiet: bool = False,
    cluster: Cluster = Cluster(),
    data_root: str | None = None,
    confirm_alone: bool = False,
) -> SearchResult:
    """Search and confirm an experiment, or resume one that was interrupted or extended.

    Args:
        experiment: The experiment to search.
        workload: Code that its trials run.
        output: Folder under which everything is written; the experiment gets a folder of its own there.
        tracking_uri: MLflow's store; by default a database under ``output``.
        quiet: Print nothing.
        cluster: Where trials run, and where their checkpoints are kept.
        data_root: Where the workload's data lie, for the command line that resumes; ``None`` where unknown.
        confirm_alone: Confirm the best trials so far, and do not resume the search.

    Raises:
        UserError: If experiment, data, output or cluster is refused, or the experiment is running already.
        SearchInterruptedError: If SIGINT or SIGTERM ended it.
    """
    stages = (Stage.CONFIRM,) if confirm_alone else (Stage.SEARCH, Stage.CONFIRM)
    # Options of the command line, beside ``--output``, that a command which resumes needs.
    given = {"data-root": data_root, "address": cluster.address, "tracking-uri": tracking_uri}
    options = {name: without_password(value) for name, value in given.items() if value is not None}
    if not quiet:
        say(f"{experiment.name}: checking {', '.join(experiment.datasets)}")
    sources, prior = read_sources(experiment, output), read_prior(experiment, output)
    place = opened(experiment, workload, output, tracking_uri=tracking_uri, cluster=cluster)
    with place as here, closing(Ledger(here.directory / JOURNAL_FILE)) as ledger:
        uri, cluster, digests, directory = here.uri, here.cluster, here.digests, here.directory
        experiment = experiment.as_begun(ledger.history.experiment)
        check_unchanged(experiment, digests, ledger.history, directory)
        checkpoints = open_checkpoints(cluster, ledger.history, directory)
        if cluster.address is not None:
            prepare_joining()
        # Imported after the checks above, because Ray and Optuna take seconds to import.
        from orchestrator.tuner.session import Session

        if not quiet:
            say(describe_start(experiment, ledger.history, directory))
            say(*workload.notes(experiment))
        meter = Meter(experiment.budget, ledger.history)
        ledger.listeners.append(meter.listen)
        tracking = TrackingProcess(uri, output, experiment.name, ledger.path)

        def interrupted() -> SearchInterruptedError:
            return SearchInterruptedError(how_to_resume(directory, ledger.history, stages))

        with closing(checkpoints), tracked(tracking), answered(interrupted):
            before = ledger.history.ended_by or "trials"
            start(ledger, experiment, digests, directory, cluster, options, here.tokenizers)
            begun_from = (*start_warm(experiment, sources, ledger), *start_from_prior(prior, ledger))
            for sentence in (*overlaps(experiment), *begun_from):
                if not quiet:
                    say(sentence)
            ready = workload.expecting(digests)
            session = Session(experiment, ledger, ready, checkpoints, here.scratch, limit=meter.limit, cluster=cluster)
            signal, ended_by = run_stages(session, meter, stages, quiet)
            if signal is not None:
                ledger.append(ExperimentEnded(outcome="interrupted", ended_by="signal"))
                raise interrupted()
            ended_by = ended_by or before
            problems = conclude_search(ledger, workload, checkpoints, directory, ended_by, quiet=quiet)
    # After the delivery to MLflow, because a version in the registry belongs to the run of its trial.
    registered, unregistered = register_all(uri, directory, tracking.problem)
    problems += unregistered
    return SearchResult(ledger.history, directory, uri, tracking.problem, ended_by, registered, problems)


def conclude_search(
    ledger: Ledger, workload: Workload, checkpoints: Checkpoints, directory: Path, ended_by: str, *, quiet: bool
) -> list[str]:
    """Open the test split for the selected trials, record the end, and write the files that are made of the winners.

    Returns:
        A sentence about each file that could not be written.
    """
    chosen = selected(ledger.history)
    with evaluation_displayed(ledger, chosen, quiet=quiet):
        evaluate_on_test(ledger, workload, checkpoints, directory, chosen)
    unwritten = write_files(chosen, workload, checkpoints, directory)
    outcome = "budget_spent" if ended_by in SPENT else "finished"
    ledger.append(ExperimentEnded(outcome=outcome, ended_by=ended_by))
    write_whole(directory / "summary.json", json.dumps(summarise(ledger.history), indent=2) + "\n")
    return [*unwritten, *pack_champions(ledger.history, workload, checkpoints, directory)]


def describe_start(experiment: Experiment, history: History, directory: Path) -> str:
    """Return two lines: the work of this start, and the folder of its files."""
    cells = experiment.cells()
    trials = sum(experiment.trials_in(cell) for cell in cells)
    ended = sum(trial.has_ended for trial in history.stage(Stage.SEARCH))
    done = f", {ended} of them ended before" if ended else ""
    words = f"{count_text(len(cells), 'study')}, {count_text(trials, 'trial')}{done}"
    then = "" if experiment.confirm is None else ", then a confirmation with fresh seeds"
    return f"{experiment.name}: {words}{then}\nfiles: {path_text(directory)}"
