"""The stages of a search: the search itself, then the confirmation of its best trials."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.records import ConfirmationPlanned
from orchestrator.journal.trial import Stage
from orchestrator.results.confirmation import current_plans, most_trainings, trainings_of
from orchestrator.search.budget import Meter
from orchestrator.search.display import Progress
from orchestrator.search.preparation import displayed
from orchestrator.search.time_left import PlannedWork
from orchestrator.studies.source import PlannedTrials

if TYPE_CHECKING:
    from orchestrator.tuner.session import Session


def run_stages(
    session: "Session", meter: Meter, stages: Collection[Stage], quiet: bool
) -> tuple[int | None, str | None]:
    """Run what is left of the stages.

    Returns:
        The signal that ended a stage, or ``None``; and the end of the search, see ``find_ending``, or ``None`` where
        the search is none of the stages.
    """
    ended_by = None
    if Stage.SEARCH in stages:
        signal = search_stage(session, meter, quiet)
        # Before the confirmation, whose time is none of the budget's.
        ended_by = find_ending(session.experiment, session.ledger.history, meter)
        if signal is not None:
            return signal, ended_by
    return confirm_stage(session, quiet), ended_by


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
        from orchestrator.studies.study import Studies
        from orchestrator.tuner.run import run_trials
        from orchestrator.tuner.scheduler import StudyScheduler

        studies = Studies(experiment, ledger, meter.is_closed)
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
    progress = Progress(session.ledger.history, total, epochs, stage, PlannedWork.of(experiment))
    return displayed(session, f"{experiment.name}: {stage}", progress, quiet=quiet)
