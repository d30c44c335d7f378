"""A search from its description to its winners; ``run_search`` has all steps from top to bottom."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.overlaps import overlaps
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.openings import openings_elsewhere
from orchestrator.journal.records import ConfirmationPlan, ExperimentEnded
from orchestrator.journal.trial import Stage
from orchestrator.machines.cluster import Cluster, prepare_joining
from orchestrator.results.answers import summarise
from orchestrator.results.bands import setting_to_use
from orchestrator.results.confirmation import current_plans, most_trainings, trainings_of
from orchestrator.searches.budget import SPENT, BudgetMeter
from orchestrator.searches.display import Progress, displayed, evaluation_displayed
from orchestrator.searches.preparation import check_unchanged, open_checkpoints, opened, start, tracked
from orchestrator.searches.resuming import SearchInterruptedError, answered, how_to_resume
from orchestrator.searches.time_left import PlannedWork
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.studies.past_searches import read_prior, read_sources, start_from_prior, start_warm
from orchestrator.text.addresses import without_password
from orchestrator.text.terminal import path_text, say
from orchestrator.text.values import count_text
from orchestrator.tracking.registry import Registered, register_all
from orchestrator.tracking.tracker import TrackingProcess
from orchestrator.tuner.source import PlannedTrials
from orchestrator.winners.winners import evaluate_on_test, pack_champions, selected, write_files
from orchestrator.workload.workload import Workload
from trainables.files import write_whole

if TYPE_CHECKING:
    from orchestrator.tuner.session import Session


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    Attributes:
        tracking_problem: Records that the MLflow store lacks, and why; ``None`` if it lacks none.
        ended_by: ``trials``, ``plateau``, ``target``, ``hours`` or ``gpu_hours``; of a confirmation alone, also
            ``signal``, or ``None`` if a kill ended the search.
        unregistered: Why winners were not registered, or models not packed; a sentence each.
    """

    history: History
    directory: Path
    tracking_uri: str
    tracking_problem: str | None
    ended_by: str | None
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
    """Search and confirm an experiment, or resume one that was interrupted or extended; see ``begin.search``.

    ``data_root`` is where the data of the workload lie, for the command line that resumes. ``confirm_alone`` confirms
    the best trials so far, and does not resume the search.

    Raises:
        UserError: If experiment, data, output or cluster is refused, or the experiment is running already.
        SearchInterruptedError: If SIGINT or SIGTERM ended it.
    """
    # Options of the command line, beside ``--output``, that a command which resumes needs.
    arguments = {"data-root": data_root, "address": cluster.address, "tracking-uri": tracking_uri}
    options = {name: without_password(value) for name, value in arguments.items() if value is not None}
    if not quiet:
        say(f"{experiment.name}: checking {', '.join(experiment.datasets)}")
    sources, prior = read_sources(experiment, output), read_prior(experiment, output)
    place = opened([experiment], workload, output, tracking_uri=tracking_uri, cluster=cluster)
    with place as here, closing(Ledger(here.directory / JOURNAL_FILE)) as ledger:
        cluster, directory = here.cluster, here.directory
        experiment = experiment.as_begun(ledger.history.experiment)
        check_unchanged(experiment, here.digests, ledger.history, directory)
        checkpoints = open_checkpoints(cluster, ledger.history, directory)
        if cluster.address is not None:
            prepare_joining()
        # Imported after the checks above, because Ray and Optuna take seconds to import.
        from orchestrator.tuner.session import Session

        if not quiet:
            say(describe_start(experiment, ledger.history, directory))
            say(*workload.notes(experiment))
        meter = BudgetMeter(experiment.budget, ledger.history)
        ledger.listeners.append(meter.listen)
        tracking = TrackingProcess(here.uri, output, directory)

        def interrupted() -> SearchInterruptedError:
            return SearchInterruptedError(
                how_to_resume(directory, ledger.history, "confirm" if confirm_alone else None)
            )

        with closing(checkpoints), tracked(tracking), answered(interrupted):
            before = ledger.history.ended_by
            start(ledger, experiment, here, cluster, options)
            begun_from = (*start_warm(experiment, sources, ledger), *start_from_prior(prior, ledger))
            if not quiet:
                say(*overlaps(experiment), *begun_from)
            ready = workload.expecting(here.digests)
            session = Session(experiment, ledger, ready, checkpoints, here.scratch, limit=meter.limit, cluster=cluster)
            with session.ray:
                signal, ended_by = run_stages(session, meter, quiet, confirm_alone=confirm_alone)
            if signal is not None:
                ledger.append(ExperimentEnded(outcome="interrupted", ended_by="signal"))
                raise interrupted()
            ended_by = ended_by or before
            problems = conclude_search(ledger, workload, checkpoints, directory, ended_by, quiet=quiet)
    # After the delivery to MLflow, because a version in the registry belongs to the run of its trial.
    registered, unregistered = register_all(here.uri, directory, tracking.problem)
    problems += unregistered
    return SearchResult(ledger.history, directory, here.uri, tracking.problem, ended_by, registered, problems)


def conclude_search(
    ledger: Ledger, workload: Workload, checkpoints: Checkpoints, directory: Path, ended_by: str | None, *, quiet: bool
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
    repeats = experiment.search.repeats
    searched = "" if repeats == 1 else f" searched {repeats} times"
    words = f"{count_text(len(experiment.studies()), 'study')}{searched}, {count_text(trials, 'trial')}{done}"
    then = "" if experiment.confirm is None else ", then a confirmation with fresh seeds"
    return f"{experiment.name}: {words}{then}\nfiles: {path_text(directory)}"


def run_stages(
    session: "Session", meter: BudgetMeter, quiet: bool, *, confirm_alone: bool
) -> tuple[int | None, str | None]:
    """Run what is left of the search, or none of it, then the confirmation.

    Returns:
        The signal that ended a stage, or ``None``. The end of the search, see ``find_ending``.
    """
    signal = None if confirm_alone else search_stage(session, meter, quiet)
    # Before the confirmation, whose time is none of the budget's.
    ended_by = find_ending(session.experiment, session.ledger.history, meter)
    return (confirm_stage(session, quiet) if signal is None else signal), ended_by


def find_ending(experiment: Experiment, history: History, meter: BudgetMeter) -> str | None:
    """Return the end of a search: its last trial, or a limit of its budget; ``None`` if it was left before its end."""
    incomplete = [cell for cell in experiment.cells() if len(history.study(cell.name)) < experiment.trials_in(cell)]
    running = [trial for trial in history.stage(Stage.SEARCH) if not trial.has_ended]
    if running or not all(meter.is_closed(cell.name) for cell in incomplete):
        return meter.limit()
    return "plateau" if incomplete else "trials"


def search_stage(session: "Session", meter: BudgetMeter, quiet: bool) -> int | None:
    """Run the rest of the search; return the signal that ended it, or ``None`` where the search is done."""
    experiment, ledger = session.experiment, session.ledger
    total = sum(experiment.trials_in(cell) for cell in experiment.cells())
    with stage_displayed(session, Stage.SEARCH, total, quiet) as shown:
        # Imported after the announcement, because Optuna and Ray take seconds to import.
        shown.announce("loading Optuna and Ray")
        from orchestrator.studies.study import Studies
        from orchestrator.tuner.run import run_trials
        from orchestrator.tuner.scheduler import StudyScheduler

        studies = Studies(
            experiment, ledger, meter.is_closed, lambda cell: setting_to_use(cell, ledger.history.study(cell.name))
        )
        return run_trials(shown, studies, StudyScheduler(experiment, ledger))


def confirm_stage(session: "Session", quiet: bool) -> int | None:
    """Train the best trials again with fresh seeds; return the signal that ended the stage, or ``None``.

    The number of trainings is the only limit: the budget is for the search.
    """
    ledger = session.ledger
    plans = current_plans(session.experiment, ledger.history)
    for plan in plans:
        # Recorded before the first training: the level of the verdict depends on how often the test split had been
        # opened by then.
        if ledger.history.plans.get(plan.dataset) != plan:
            ledger.append(plan if plan.dataset in ledger.history.plans else _with_looks_elsewhere(plan, session))
    plans = current_plans(session.experiment, ledger.history)
    if not plans:
        return None
    with stage_displayed(session, Stage.CONFIRM, most_trainings(plans, ledger.history), quiet) as shown:
        from orchestrator.tuner.run import run_trials
        from orchestrator.tuner.scheduler import RecordingScheduler

        unlimited = replace(shown, limit=lambda: None)
        source = PlannedTrials(lambda: trainings_of(plans, ledger.history), ledger)
        return run_trials(unlimited, source, RecordingScheduler(ledger))


def _with_looks_elsewhere(plan: ConfirmationPlan, session: "Session") -> ConfirmationPlan:
    """Return the first plan of a dataset with the looks of other experiments at its test split, where they count."""
    confirm, ledger = session.experiment.confirm, session.ledger
    if confirm is None or confirm.looks == "experiment":
        return plan
    elsewhere = openings_elsewhere(ledger.path.parent, plan.dataset, ledger.history.data)
    return structs.replace(plan, looks=plan.looks + sum(elsewhere.values()))


def stage_displayed(session: "Session", stage: Stage, total: int, quiet: bool) -> AbstractContextManager["Session"]:
    """Show a stage with ``total`` trials during a ``with`` block, which gets the session that draws the stage."""
    experiment = session.experiment
    progress = Progress(session.ledger.history, total, PlannedWork(experiment), stage)
    return displayed(session, f"{experiment.name}: {stage}", progress, quiet=quiet)
