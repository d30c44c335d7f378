"""The state of an experiment, followed in its journal: stages, trials by state, budget, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.experiment.experiment import Experiment, experiment_of
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import HALF_TRAINED, NOT_BEGUN, History
from orchestrator.journal.journal import JournalError, JournalReader, JournalReplacedError
from orchestrator.journal.lock import find_holder
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.results.answers import Summary
from orchestrator.results.confirmation import current_plans, most_trainings
from orchestrator.searches.budget import BudgetMeter
from orchestrator.searches.display import EvaluationProgress
from orchestrator.searches.resuming import command_to_resume
from orchestrator.searches.time_left import PlannedWork, TimeLeft, TrainingRate
from orchestrator.storage.set_aside import Unknown, find_unknown


class Followed:
    """The state of an experiment according to its journal so far, which may not exist yet.

    Attributes:
        version: Records read, over all journals that this directory had; it only grows.
        generation: How often the journal was replaced by another.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.version = self.generation = 0
        self._begin()

    def _begin(self) -> None:
        self._reader = JournalReader(self.directory / JOURNAL_FILE)
        self.history = History(str(self.directory / JOURNAL_FILE))
        self.pace = TrainingRate(self.history)

    def read_on(self) -> None:
        """Read the new records.

        Raises:
            JournalError: If the journal is damaged.
        """
        if not self._reader.has_news():
            return
        try:
            self._take_in()
        except JournalReplacedError:
            self._begin()
            self.version, self.generation = self.version + 1, self.generation + 1
            self._take_in()

    def _take_in(self) -> None:
        for record in self._reader.read_on():
            self.version += 1
            self.history.apply(record)
            self.pace.listen(record)


@dataclass(frozen=True)
class StageStatus:
    """The state of one stage.

    Attributes:
        total: Its trials in all, as far as is known now.
        states: Standing (``History.standing``) -> number of trials.
    """

    stage: Stage
    total: int
    states: Mapping[str, int]

    @property
    def waiting(self) -> int:
        """How many trials nobody trains now, half trained or not begun."""
        return self.states.get(HALF_TRAINED, 0) + self.states.get(NOT_BEGUN, 0)

    @property
    def ended(self) -> int:
        """How many trials will not be trained any more."""
        return sum(self.states.values()) - self.waiting - self.states.get(TrialState.RUNNING, 0)

    def to_dict(self) -> dict[str, int]:
        """Return it as plain values for JSON."""
        return {"total": self.total, "ended": self.ended, "waiting": self.waiting, **self.states}


class Status:
    """The state of an experiment whose journal has been read; while no process runs it, no trial runs.

    Attributes:
        holder: Process and host that run it; ``None`` where nobody does.
        stages: The stages that have begun, or are certain to come.
        budget: Name of a limit that is set -> (used, limit).
        command: The command that resumes it; ``None`` where it runs, or where nothing is left to do.
        unknown: Results in the directory that the journal does not know; not looked for while a process runs it.
        test: How far the evaluation on test is; ``None`` where test was not opened.
        left: The time left of the whole; ``None`` where nobody runs it, or before its first epoch.
    """

    def __init__(self, followed: Followed) -> None:
        self.directory, self.history = followed.directory, followed.history
        self.holder = find_holder(self.directory)
        self.unknown, self.command = Unknown(), None
        if self.holder is None:
            # The journal of a killed process does not say that its actors are gone. A copy, because later records are
            # charged to the actors of the history that is followed.
            self.history = replace(self.history, spending=replace(self.history.spending, actors={}))
            self.unknown = find_unknown(self.directory, self.history)
            self.command = command_to_resume(self.directory, self.history)
        self.test = EvaluationProgress.of(self.history)
        self.stages: Sequence[StageStatus] = ()
        self.budget: Mapping[str, tuple[float, float]] = {}
        self.left: TimeLeft | None = None
        if self.history.experiment:
            experiment = experiment_of(self.history)
            self.stages = _stages(experiment, self.history)
            self.budget = BudgetMeter(experiment.budget, self.history).used()
            if self.holder is not None and followed.pace.rate is not None:
                self.left = PlannedWork(experiment).left(self.history, followed.pace.rate, trainings=self._trainings())

    def _trainings(self) -> int | None:
        """Return the trainings of the confirmation once the search is over; an extended search is not over."""
        search, *further = self.stages
        is_confirming = any(status.states.get(TrialState.RUNNING) for status in further)
        is_testing = self.test is not None and not self.test.has_ended
        is_spent = any(used >= limit for used, limit in self.budget.values())
        to_come = search.waiting and not (is_confirming or is_testing or is_spent)
        if search.states.get(TrialState.RUNNING) or to_come or not (further or is_testing):
            return None
        return further[0].total if further else 0

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return self.directory.name

    @property
    def words(self) -> str:
        """The state in a word or two."""
        if self.holder is not None:
            running: list[str] = [status.stage for status in self.stages if status.states.get(TrialState.RUNNING)]
            if self.test is not None and not self.test.has_ended:
                running = ["test"]
            doing = f"{running[-1]} " if running else ""
            return f"{doing}running as {self.holder}"
        if self.history.outcome is None:
            return "killed"
        if self.history.finished and not self.history.searched:
            return "confirmed before the end of the search"
        by = self.history.ended_by
        limit = "" if by in (None, "trials", "signal") else f" (budget.{by})"
        return self.history.outcome.replace("_", " ") + limit

    @property
    def damage(self) -> list[str]:
        """The checkpoints that were found damaged and passed over, a line each."""
        return [f"{trial.id}: {line}" for trial in self.history.trials.values() for line in trial.damage]

    @property
    def warnings(self) -> list[str]:
        """Sentences about results that the directory has and the journal lacks."""
        mend = f"restore {self.directory / JOURNAL_FILE} from a backup before anything else"
        lost = [f"{loss}; {mend}" for loss in (self.unknown.lost, self.unknown.behind) if loss is not None]
        return lost + ([] if self.unknown.moved is None else [self.unknown.moved])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, without the trials."""
        return {
            "running": self.holder is not None,
            "outcome": self.history.outcome,
            "stages": {status.stage.value: status.to_dict() for status in self.stages},
            "test": None if self.test is None else {"evaluated": self.test.evaluated, "total": self.test.total},
            "seconds_left": None if self.left is None else self.left.to_dict(),
            "command": self.command,
            "damage": self.damage,
            "warnings": self.warnings,
            "races": {dataset: race.to_dict() for dataset, race in Summary(self.history).races.items()},
            "budget": {name: {"used": used, "limit": limit} for name, (used, limit) in self.budget.items()},
            "at_a_time_since_memory_ran_out": self.history.concurrency,
        }


def _stages(experiment: Experiment, history: History) -> list[StageStatus]:
    """Return the stages that have begun, or are certain to come."""
    if history.is_rerun:
        total = len(history.stage(Stage.REGRESS))
        return [StageStatus(Stage.REGRESS, total, history.count(Stage.REGRESS, total))]
    total = sum(experiment.trials_in(cell) for cell in experiment.cells())
    search = StageStatus(Stage.SEARCH, total, history.count(Stage.SEARCH, total))
    is_searched = not search.waiting and not search.states.get("running")
    if experiment.confirm is None or not (is_searched or history.stage(Stage.CONFIRM)):
        return [search]
    total = most_trainings(current_plans(experiment, history), history)
    return [search, StageStatus(Stage.CONFIRM, total, history.count(Stage.CONFIRM, total))]


def read_status(followed: Followed) -> Status:
    """Read the new records, and return the experiment's state, whatever process runs it.

    Raises:
        JournalError: If there is no journal, or it is damaged.
    """
    path = followed.directory / JOURNAL_FILE
    followed.read_on()
    if not path.is_file():
        raise JournalError(f"{path}: no such journal; `orchestrator search` makes one")
    return Status(followed)
