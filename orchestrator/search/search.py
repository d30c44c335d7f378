"""A search from its description to its winners: the story that ``run_search`` tells from top to bottom."""

import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.overlaps import overlaps
from orchestrator.journal.confirmation_records import ConfirmationPlanned
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.experiment_records import ExperimentEnded
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Stage
from orchestrator.machines.cluster import Cluster, prepare_joining
from orchestrator.results.confirming import current_plans, most_trainings, trainings_of
from orchestrator.results.summary import summarise
from orchestrator.search.budget import SPENT, Meter
from orchestrator.search.display import Progress
from orchestrator.search.preparation import (
    check_unchanged,
    displayed,
    open_checkpoints,
    opened,
    start,
    tracked,
)
from orchestrator.search.resuming import command_to_resume
from orchestrator.studies.planned import PlannedTrials
from orchestrator.studies.warm_start import read_sources, start_warm
from orchestrator.text.terminal import say
from orchestrator.text.values import count_text
from orchestrator.tracking import without_password
from orchestrator.tracking.registry import Registered, register_all
from orchestrator.tracking.tracker import Tracker
from orchestrator.winners.champions import pack_champions
from orchestrator.winners.test_split import evaluate_on_test, selected
from orchestrator.winners.weights import write_files
from orchestrator.workload.workload import Workload
from trainables.errors import UserError
from trainables.files import write_whole

if TYPE_CHECKING:
    from orchestrator.tuner.session import Session


class SearchInterruptedError(UserError):
    """A search that was told to stop; the same command resumes it."""

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
    sources = read_sources(experiment, output)
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
        meter = Meter(experiment.budget, ledger.history)
        ledger.listeners.append(meter.listen)
        tracking = Tracker(uri, output, experiment.name, ledger.past)
        with closing(checkpoints), tracked(ledger, tracking) as tracker, answered(directory, ledger, stages):
            signal, ended_by = None, ledger.history.ended_by or "trials"
            start(ledger, experiment, digests, directory, cluster, options)
            for sentence in (*overlaps(experiment), *start_warm(experiment, sources, ledger)):
                if not quiet:
                    say(sentence)
            ready = workload.expecting(digests)
            session = Session(experiment, ledger, ready, checkpoints, here.scratch, limit=meter.limit, cluster=cluster)
            if Stage.SEARCH in stages:
                signal = search_stage(session, meter, quiet)
                ended_by = find_ending(experiment, ledger.history, meter)
            if signal is None:
                signal = confirm_stage(session, quiet)
            if signal is not None:
                ledger.append(ExperimentEnded(outcome="interrupted", ended_by="signal"))
                raise SearchInterruptedError(_how_to_resume(directory, ledger.history, stages))
            chosen = selected(ledger.history)
            evaluate_on_test(ledger, workload, checkpoints, directory, chosen)
            unwritten = write_files(chosen, workload, checkpoints, directory)
            outcome = "budget_spent" if ended_by in SPENT else "finished"
            ledger.append(ExperimentEnded(outcome=outcome, ended_by=ended_by))
            write_whole(directory / "summary.json", json.dumps(summarise(ledger.history), indent=2) + "\n")
            unpacked = pack_champions(ledger.history, workload, checkpoints, directory)
    # After the delivery to MLflow, because a version in the registry belongs to the run of its trial.
    registered, unregistered = register_all(uri, directory, tracker.problem)
    problems = (*unwritten, *unpacked, *unregistered)
    return SearchResult(ledger.history, directory, uri, tracker.problem, ended_by, registered, problems)


@contextmanager
def answered(directory: Path, ledger: Ledger, stages: Collection[Stage]) -> Iterator[None]:
    """Answer a Ctrl-C that comes while no trial runs, e.g. while Ray starts, like a Ctrl-C while trials run.

    Raises:
        SearchInterruptedError: In place of ``KeyboardInterrupt``.
    """
    try:
        yield
    except KeyboardInterrupt:
        # Printed before MLflow gets its last records, which may take seconds.
        say("stopping; what the journal holds is kept", error=True)
        raise SearchInterruptedError(_how_to_resume(directory, ledger.history, stages)) from None


def _how_to_resume(directory: Path, history: History, stages: Collection[Stage]) -> str:
    verb = None if Stage.SEARCH in stages else "confirm"
    command = command_to_resume(directory, history, verb)
    return f"{directory}: " + (f"resume with: {command}" if command else "resume with the same command")


def describe_start(experiment: Experiment, history: History, directory: Path) -> str:
    """Return two lines: the work of this start, and the folder of its files."""
    cells = experiment.cells()
    trials = sum(experiment.trials_in(cell) for cell in cells)
    ended = sum(trial.has_ended for trial in history.stage(Stage.SEARCH))
    done = f", {ended} of them ended before" if ended else ""
    words = f"{count_text(len(cells), 'study')}, {count_text(trials, 'trial')}{done}"
    then = "" if experiment.confirm is None else ", then a confirmation with fresh seeds"
    return f"{experiment.name}: {words}{then}\nfiles: {os.path.relpath(directory)}"


def find_ending(experiment: Experiment, history: History, meter: Meter) -> str:
    """Return the end of a search that no signal ended: its last trial, or a limit of its budget."""
    incomplete = [cell for cell in experiment.cells() if len(history.study(cell.name)) < experiment.trials_in(cell)]
    running = [trial for trial in history.stage(Stage.SEARCH) if not trial.has_ended]
    if running or not all(meter.is_closed(cell.name) for cell in incomplete):
        limit = meter.limit()
        if limit is not None:
            return limit
    return "plateau" if incomplete else "trials"


def search_stage(session: "Session", meter: Meter, quiet: bool) -> int | None:
    """Run the rest of the search; return the signal that ended it, or ``None`` where the search is done."""
    experiment, ledger = session.experiment, session.ledger
    total = sum(experiment.trials_in(cell) for cell in experiment.cells())
    with stage_displayed(session, Stage.SEARCH, total, quiet) as shown:
        # Imported after the announcement, because Optuna and Ray take seconds to import.
        shown.announce("loading Optuna and Ray")
        from orchestrator.studies.populations import Populations
        from orchestrator.studies.study import Studies
        from orchestrator.tuner.run import run_trials
        from orchestrator.tuner.scheduler import PopulationScheduler, StudyScheduler

        studies = Studies(experiment, ledger, meter.is_closed)
        if experiment.scheduler.name == "pbt":
            populations = Populations(experiment, studies, ledger, session.checkpoints)
            return run_trials(shown, populations, PopulationScheduler(experiment.scheduler, ledger))
        return run_trials(shown, studies, StudyScheduler(experiment, ledger))


def confirm_stage(session: "Session", quiet: bool) -> int | None:
    """Train the best trials again with fresh seeds; return the signal that ended the stage, or ``None``.

    The number of trainings is the only limit: the budget is for the search.
    """
    ledger = session.ledger
    plans = current_plans(session.experiment, ledger.history)
    for plan in plans:
        # Recorded before the first training, because the level of the verdict depends on how often the test split had
        # been opened when the confirmation was planned.
        if ledger.history.plans.get(plan.dataset) != plan:
            ledger.append(ConfirmationPlanned.of(plan))
    if not plans:
        return None
    with stage_displayed(session, Stage.CONFIRM, most_trainings(plans, ledger.history), quiet) as shown:
        from orchestrator.tuner.run import run_trials
        from orchestrator.tuner.scheduler import RecordingScheduler

        unlimited = replace(shown, limit=lambda: None)
        source = PlannedTrials(lambda: trainings_of(plans, ledger.history), Stage.CONFIRM, ledger)
        return run_trials(unlimited, source, RecordingScheduler(ledger))


def stage_displayed(session: "Session", stage: Stage, total: int, quiet: bool) -> AbstractContextManager["Session"]:
    """Show a stage with ``total`` trials during a ``with`` block, which gets the session that draws the stage."""
    experiment = session.experiment
    epochs = max(cell.training.total_epochs for cell in experiment.cells())
    progress = Progress(session.ledger.history, total, epochs, stage)
    return displayed(session, f"{experiment.name}: {stage}", progress, quiet=quiet)
