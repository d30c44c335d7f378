"""A rerun of a suite, from the description of the suite to the finding."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger, PlannedTrial
from orchestrator.journal.records import ExperimentEnded, ExperimentStarted, SuiteStarted
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.machines.cluster import Cluster, describe_environment, prepare_joining
from orchestrator.regression.accepted import Accepted, CellRuns, read_accepted, written_runs
from orchestrator.regression.answers import answers_of
from orchestrator.regression.comparison import Finding
from orchestrator.regression.notices import to_junit
from orchestrator.regression.reruns import (
    SUMMARY,
    EndedRerun,
    cell_runs,
    find_fresh,
    name_rerun,
    past_reruns,
    read_summary,
    still_alarms,
)
from orchestrator.regression.suite import Suite
from orchestrator.regression.verdict import Night, SuiteResult, judge_suite, read_nights
from orchestrator.report.render import write_answers_page
from orchestrator.results.answer import Answer
from orchestrator.search.display import Progress, evaluation_displayed
from orchestrator.search.preparation import displayed, open_checkpoints, opened, start, tracked
from orchestrator.search.resuming import answered
from orchestrator.studies.source import PlannedTrials
from orchestrator.tracking.tracking_process import TrackingProcess
from orchestrator.winners.winners import evaluate_on_test
from orchestrator.workload.workload import Workload
from trainables.errors import UserError
from trainables.extras import require
from trainables.files import write_whole

if TYPE_CHECKING:
    from orchestrator.tuner.session import Session


class RerunInterruptedError(UserError):
    """A signal stopped the rerun; running the command again resumes the rerun."""

    exit_code = 130


@dataclass(frozen=True)
class Request:
    """What to rerun, and where.

    Attributes:
        reference: File of the accepted reference, which may not exist yet.
        output: Folder under which the rerun writes.
        tracking_uri: Address of the MLflow store; by default a database under ``output``.
        cluster: Where trials run, and where their checkpoints are kept.
        if_due: Seconds for which a result counts as fresh: nothing is rerun while the newest result is fresh. ``None``
            reruns in any case.
        command: The user's command, which the page shows.
    """

    suite: Suite
    reference: Path
    output: Path
    tracking_uri: str | None = None
    cluster: Cluster = field(default_factory=Cluster)
    if_due: float | None = None
    command: str = ""


@dataclass(frozen=True)
class Rerun:
    """The outcome of a rerun.

    Attributes:
        directory: Folder of the rerun's journal, page, JUnit file and summary.
        result: The findings; ``None`` where no rerun was due.
        answers: The findings as answers, the suite's first; empty where no rerun was due.
        is_alarm: Whether a cell regressed or failed, in this rerun or in a fresh rerun that nobody has accepted.
        tracking_problem: Which records are missing in MLflow and why, or ``None``.
        clock_problem: Which reruns are dated in the future and were ignored, or ``None``.
    """

    directory: Path
    summary: EndedRerun
    result: SuiteResult | None
    is_alarm: bool
    answers: Sequence[Answer] = ()
    tracking_problem: str | None = None
    clock_problem: str | None = None


def rerun(request: Request, workload: Workload, *, quiet: bool = False) -> Rerun:
    """Rerun a suite, or resume a rerun that was interrupted.

    Raises:
        UserError: If suite, data, reference or output is refused, or the suite is running already.
        RerunInterruptedError: If SIGINT or SIGTERM ended the rerun.
    """
    require("search", "a rerun")
    suite = request.suite
    accepted = read_accepted(request.reference, suite.name)
    experiment = suite.experiment()
    place = opened(experiment, workload, request.output, tracking_uri=request.tracking_uri, cluster=request.cluster)
    with place as here:
        home, digests = here.directory, here.digests
        # A rerun's folder is named by its start alone, and reruns of two suites may start in the same second, so each
        # suite has its own folder in the cluster's storage.
        cluster = here.cluster.below(suite.name)
        past = past_reruns(home)
        fresh = find_fresh(past.finished, request.if_due)
        if fresh is not None:
            summary = read_summary(fresh)
            is_alarm = still_alarms(summary, accepted.when if accepted else None)
            return Rerun(fresh, summary, None, is_alarm, clock_problem=past.warning)
        nights = read_nights(past.finished)
        directory = find_unfinished(past.started, suite, digests) or name_rerun(home)
        directory.mkdir(exist_ok=True)
        if cluster.address is not None:
            prepare_joining()
        # Importing Ray takes seconds, so Ray is imported after all checks that can refuse the rerun.
        from orchestrator.tuner.session import Session

        with closing(Ledger(directory / JOURNAL_FILE)) as ledger, ExitStack() as stack:
            process = TrackingProcess(here.uri, request.output, suite.name, ledger.path)
            with tracked(process) as tracking, answered(lambda: _interrupted(directory)):
                start(ledger, experiment, digests, directory, cluster, tokenizers=here.tokenizers)
                ledger.append(SuiteStarted(suite=suite.model_dump(mode="json")))
                checkpoints = stack.enter_context(closing(open_checkpoints(cluster, ledger.history, directory)))
                ready = workload.expecting(digests)
                session = Session(experiment, ledger, ready, checkpoints, here.scratch, cluster=cluster)
                found = _run(Work(suite, directory, session), accepted, nights, quiet=quiet)
                ledger.append(ExperimentEnded(outcome="finished", ended_by="trials"))
            answers = _write_results(request, ledger, accepted, found, directory)
            # The rerun has ended, so no training resumes from these checkpoints.
            checkpoints.discard(ledger.history.trials)
    summary = read_summary(directory)
    return Rerun(directory, summary, found, summary.is_alarm, answers, tracking.problem, past.warning)


@dataclass(frozen=True)
class Work:
    """The objects that the first and the second look of a rerun share."""

    suite: Suite
    directory: Path
    session: "Session"

    @property
    def ledger(self) -> Ledger:
        """The journal's ledger."""
        return self.session.ledger

    def study(self, title: str) -> str:
        """Return the name of a cell's study: unique, because all reruns of a suite share an MLflow experiment."""
        return f"{title}-{self.directory.name}"

    def runs(self) -> dict[str, CellRuns]:
        """Return each cell's numbers so far."""
        return cell_runs(
            self.suite, self.ledger.history, {self.study(cell.title): cell.title for cell in self.suite.cells}
        )

    def plan(self, seeds: Mapping[str, int]) -> Iterator[PlannedTrial]:
        """Yield the trials of the cells up to each cell's number of seeds; all cells of a seed before the next seed."""
        for seed in range(1, max(seeds.values()) + 1):
            for cell in self.suite.cells:
                if seed <= seeds.get(cell.title, 0):
                    study = self.study(cell.title)
                    config = self.suite.config(cell, seed)
                    yield PlannedTrial(f"{study}-seed{seed}", study, seed, config, cell.loss_parameters)


def _run(work: Work, accepted: Accepted | None, nights: tuple[Night, ...], *, quiet: bool) -> SuiteResult:
    """Train and judge; train inconclusive cells with the seeds that would settle them, and judge once more."""
    suite = work.suite
    seeds = {cell.title: suite.seeds for cell in suite.cells}
    for look in (1, 2):
        _train(work, seeds, quiet=quiet)
        found = judge_suite(suite, work.runs(), accepted, nights)
        more = {
            cell.name: min(cell.needed or suite.max_seeds, suite.max_seeds)
            for cell in found.cells
            if cell.finding is Finding.INCONCLUSIVE and suite.max_seeds > suite.seeds
        }
        if look == 2 or not more:
            return found
        seeds |= more
    raise AssertionError("two looks at most")


def _train(work: Work, seeds: Mapping[str, int], *, quiet: bool) -> None:
    """Train the missing trials; the test split is opened only for trials that are compared with the papers."""
    from orchestrator.tuner.run import run_trials
    from orchestrator.tuner.scheduler import RecordingScheduler

    ledger = work.ledger
    source = PlannedTrials(lambda: work.plan(seeds), Stage.REGRESS, ledger)
    epochs = max(work.suite.config(cell, 1).training.total_epochs for cell in work.suite.cells)
    progress = Progress(ledger.history, sum(seeds.values()), epochs, Stage.REGRESS)
    with displayed(work.session, work.suite.name, progress, quiet=quiet) as shown:
        signal = run_trials(shown, source, RecordingScheduler(ledger))
    if signal is not None:
        ledger.append(ExperimentEnded(outcome="interrupted", ended_by="signal"))
        raise _interrupted(work.directory)
    if work.suite.published:
        finished = _finished(ledger)
        with evaluation_displayed(ledger, finished, quiet=quiet):
            evaluate_on_test(ledger, work.session.workload, work.session.checkpoints, work.directory, finished)


def _interrupted(directory: Path) -> RerunInterruptedError:
    return RerunInterruptedError(f"{directory}: resume with the same command")


def _finished(ledger: Ledger) -> list[Trial]:
    return [trial for trial in ledger.history.stage(Stage.REGRESS) if trial.state is TrialState.FINISHED]


def find_unfinished(started: Sequence[Path], suite: Suite, digests: Mapping[str, str]) -> Path | None:
    """Return the newest rerun if that rerun has not ended, and has the same suite, data and code."""
    if not started or (started[-1] / SUMMARY).exists():
        return None
    records = read_journal(started[-1] / JOURNAL_FILE)
    here = describe_environment()
    wanted = (suite.model_dump(mode="json"), dict(digests), here["git_revision"], here["versions"])
    suites = [record.suite for record in records if isinstance(record, SuiteStarted)]
    starts = [record for record in records if isinstance(record, ExperimentStarted)]
    if not suites or not starts:
        return None
    environment = starts[-1].environment
    same = (suites[-1], starts[-1].data, environment["git_revision"], environment["versions"]) == wanted
    return started[-1] if same else None


def _write_results(
    request: Request, ledger: Ledger, accepted: Accepted | None, found: SuiteResult, directory: Path
) -> list[Answer]:
    """Write page and JUnit file, then the summary: a folder with a summary is a rerun that has ended.

    Returns:
        The findings as answers.
    """
    suite, history = request.suite, ledger.history
    studies = {trial.study: trial.study.removesuffix(f"-{directory.name}") for trial in history.trials.values()}
    runs = cell_runs(suite, history, studies)
    ended, seconds = time.time(), history.spending.seconds
    environment = history.environment
    facts = [
        ("ended", f"{datetime.fromtimestamp(ended, UTC):%Y-%m-%d %H:%M} UTC"),
        ("took", f"{seconds / 60:.1f} min"),
        ("code", str(environment["git_revision"])),
        ("machine", f"{environment['machine']['host']}, {environment['machine']['cpus']} CPUs"),
        ("versions", ", ".join(f"{name} {value}" for name, value in environment["versions"].items())),
        ("again", request.command),
    ]
    answers = answers_of(found, suite, runs, accepted)
    write_answers_page(suite.name, "Regression rerun", answers, directory / "report.html", facts=facts)
    write_whole(directory / "junit.xml", to_junit(suite.name, answers, seconds))
    numbers = {name: written_runs(one) for name, one in runs.items()}
    summary = {**found.to_dict(), "ended": ended, "seconds": seconds, "runs": numbers}
    write_whole(directory / SUMMARY, json.dumps(summary, indent=1, allow_nan=False) + "\n")
    return answers
