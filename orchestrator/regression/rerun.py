"""A rerun of a suite, from the description of the suite to the finding, and how its numbers become the reference.

The numbers that are compared come from the journal of the rerun. An accepted rerun is the reference of later reruns.
"""

import getpass
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from orchestrator.experiment.experiment import data_key
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import ExperimentEnded, ExperimentStarted, Record, SuiteStarted, TrialCreated
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.machines.cluster import describe_environment, prepare_joining
from orchestrator.regression.accepted import (
    Accepted,
    AcceptedError,
    CellRecord,
    Conditions,
    read_accepted,
    write_accepted,
)
from orchestrator.regression.answers import answers_about_suite
from orchestrator.regression.comparison import ALARMS, Finding
from orchestrator.regression.reruns import (
    Request,
    Rerun,
    find_fresh,
    name_rerun,
    past_reruns,
    read_nights,
    read_summary,
    still_alarms,
    write_outcome,
)
from orchestrator.regression.suite import Suite
from orchestrator.regression.verdict import Nights, SuiteResult, judge_suite
from orchestrator.searches.display import Progress, displayed, evaluation_displayed
from orchestrator.searches.preparation import open_checkpoints, opened, start, tracked
from orchestrator.searches.resuming import SearchInterruptedError, answered
from orchestrator.text.values import duration_text
from orchestrator.tracking.tracker import TrackingProcess
from orchestrator.tuner.source import PlannedTrials
from orchestrator.winners.winners import evaluate_on_test
from orchestrator.workload.workload import Workload
from trainables.config import TrialConfig
from trainables.extras import require
from trainables.metric_table import COCOS, TEST, VAL, is_in, is_value

if TYPE_CHECKING:
    from orchestrator.tuner.session import Session


def rerun(suite: Suite, request: Request, workload: Workload) -> Rerun:
    """Rerun a suite, or resume a rerun that was interrupted.

    Raises:
        UserError: If suite, data, reference or output is refused, or the suite is running already.
        SearchInterruptedError: If SIGINT or SIGTERM ended the rerun.
    """
    require("search", "a rerun")
    accepted = read_accepted(request.reference, suite.name)
    experiment, parts = suite.experiment(), suite.experiments_of_cells()
    place = opened(parts, workload, request.output, tracking_uri=request.tracking_uri, cluster=request.cluster)
    with place as here:
        home = here.directory
        # A rerun's folder is named by its start alone, and reruns of two suites may start in the same second. So each
        # suite has its own folder in the cluster's storage.
        cluster = here.cluster.below(suite.name)
        past = past_reruns(home)
        fresh = find_fresh(past.finished, request.if_due)
        if fresh is not None:
            summary = read_summary(fresh)
            is_alarm = still_alarms(summary, accepted.when if accepted else None)
            return Rerun(fresh, summary, is_alarm, was_due=False, warnings=past.warnings)
        nights = read_nights(past.finished)
        directory = past.unfinished
        if directory is None or not can_resume_suite(directory, suite, here.digests):
            directory = name_rerun(home)
        directory.mkdir(exist_ok=True)
        if cluster.address is not None:
            prepare_joining()
        # Importing Ray takes seconds, so Ray is imported after all checks that can refuse the rerun.
        from orchestrator.tuner.session import Session

        with closing(Ledger(directory / JOURNAL_FILE)) as ledger, ExitStack() as stack:
            process = TrackingProcess(here.uri, request.output, directory)
            with tracked(process) as tracking, answered(lambda: _interrupted(directory)):
                start(ledger, experiment, here, cluster, {})
                ledger.append(SuiteStarted(suite=suite.model_dump(mode="json")))
                checkpoints = stack.enter_context(closing(open_checkpoints(cluster, ledger.history, directory)))
                ready = workload.expecting(here.digests)
                session = Session(experiment, ledger, ready, checkpoints, here.scratch, cluster=cluster)
                with session.ray:
                    result = _run(suite, directory, session, accepted, nights, quiet=request.quiet)
                ledger.append(ExperimentEnded(outcome="finished", ended_by="trials"))
            runs = cell_runs(suite, ledger.history, directory.name)
            answers = answers_about_suite(result, suite, runs, accepted)
            content = {**asdict(result), "runs": msgspec.to_builtins(runs, str_keys=True)}
            facts = _facts(ledger.history, request.command)
            summary = write_outcome(directory, "Regression rerun", answers, content, facts, ledger.history, suite.score)
            # The rerun has ended, so no training resumes from these checkpoints.
            checkpoints.discard(ledger.history.trials)
    warnings = past.warnings if tracking.problem is None else (*past.warnings, tracking.problem)
    is_alarm = result.finding in ALARMS
    return Rerun(directory, summary, is_alarm, was_due=True, answers=answers, warnings=warnings, result=result)


def _facts(history: History, command: str) -> dict[str, str]:
    environment = history.environment
    return {
        "ended": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "took": duration_text(history.spending.seconds),
        "code": str(environment["git_revision"]),
        "machine": f"{environment['machine']['host']}, {environment['machine']['cpus']} CPUs",
        "versions": ", ".join(f"{name} {value}" for name, value in environment["versions"].items()),
        "again": command,
    }


def _run(
    suite: Suite, directory: Path, session: "Session", accepted: Accepted | None, nights: Nights, *, quiet: bool
) -> SuiteResult:
    """Train and judge; train inconclusive cells with the seeds that would settle them, and judge once more."""

    def look(seeds: Mapping[str, int]) -> SuiteResult:
        _train(suite, directory, session, seeds, quiet=quiet)
        # A rerun that was killed may have begun further seeds, of which this look must not know.
        runs = cell_runs(suite, session.ledger.history, directory.name, seeds)
        return judge_suite(suite, runs, accepted, nights)

    seeds = {cell.title: suite.seeds for cell in suite.cells}
    result = look(seeds)
    more = {
        cell.name: min(cell.needed or suite.max_seeds, suite.max_seeds)
        for cell in result.cells
        if cell.finding is Finding.INCONCLUSIVE and suite.max_seeds > suite.seeds
    }
    return look(seeds | more) if more else result


def _train(suite: Suite, directory: Path, session: "Session", seeds: Mapping[str, int], *, quiet: bool) -> None:
    """Train the missing trials; the test split is opened only for trials that are compared with the papers."""
    from orchestrator.tuner.run import run_trials
    from orchestrator.tuner.scheduler import RecordingScheduler

    ledger = session.ledger
    source = PlannedTrials(lambda: _plan(suite, directory.name, seeds), ledger)
    epochs = max(suite.config(cell, 1).training.total_epochs for cell in suite.cells)
    progress = Progress(ledger.history, sum(seeds.values()), epochs, Stage.REGRESS)
    with displayed(session, suite.name, progress, quiet=quiet) as shown:
        signal = run_trials(shown, source, RecordingScheduler(ledger))
    if signal is not None:
        ledger.append(ExperimentEnded(outcome="interrupted", ended_by="signal"))
        raise _interrupted(directory)
    if suite.published:
        finished = [trial for trial in ledger.history.stage(Stage.REGRESS) if trial.state is TrialState.FINISHED]
        with evaluation_displayed(ledger, finished, quiet=quiet):
            evaluate_on_test(ledger, session.workload, session.checkpoints, directory, finished)


def _plan(suite: Suite, started: str, seeds: Mapping[str, int]) -> Iterator[TrialCreated]:
    """Yield the trials of the cells up to each cell's number of seeds; all cells of a seed before the next seed.

    The name of a study ends with the name of the rerun's folder: all reruns of a suite share an MLflow experiment.
    """
    for seed in range(1, max(seeds.values()) + 1):
        for cell in suite.cells:
            if seed <= seeds[cell.title]:
                study = f"{cell.title}-{started}"
                yield TrialCreated(
                    trial=f"{study}-seed{seed}",
                    stage=Stage.REGRESS,
                    candidate=None,
                    study=study,
                    number=seed,
                    params=cell.loss_parameters,
                    config=suite.config(cell, seed).to_dict(),
                )


def _interrupted(directory: Path) -> SearchInterruptedError:
    return SearchInterruptedError(f"{directory}: resume with the same command")


def can_resume_suite(directory: Path, suite: Suite, digests: Mapping[str, str]) -> bool:
    """Whether a rerun began with the same suite, data and code; trials are not read: newer code may have made them."""
    records, here = read_journal(directory / JOURNAL_FILE), describe_environment()
    start = next((record for record in reversed(records) if isinstance(record, ExperimentStarted)), None)
    return (
        start is not None
        and _suite_of(records) == suite.model_dump(mode="json")
        and start.data == digests
        and all(start.environment.get(name) == here[name] for name in ("git_revision", "versions"))
    )


def _suite_of(records: Sequence[Record]) -> Mapping[str, Any]:
    """Return the suite of the newest start; empty without one."""
    return next((record.suite for record in reversed(records) if isinstance(record, SuiteStarted)), {})


def cell_runs(
    suite: Suite, history: History, started: str, seeds: Mapping[str, int] | None = None
) -> dict[str, CellRecord]:
    """Return name of a cell -> its runs; the names of a rerun's studies end with ``started``, that of its folder.

    ``seeds`` are the numbers of the last seeds that count; by default all count.
    """
    trials: dict[str, list[Trial]] = defaultdict(list)
    for trial in history.stage(Stage.REGRESS):
        title = trial.study.removesuffix(f"-{started}")
        if seeds is None or trial.number <= seeds.get(title, 0):
            trials[title].append(trial)
    return {cell.title: _runs(suite.config(cell, 1), trials[cell.title], history) for cell in suite.cells}


def _runs(config: TrialConfig, trials: Sequence[Trial], history: History) -> CellRecord:
    """Return the runs of a cell, given the config of one of them."""
    environment, without_seed = history.environment, config.to_dict()
    del without_seed["seed"]
    conditions = Conditions(
        config=without_seed,
        data_digest=history.data[data_key(config)],
        git_revision=environment["git_revision"],
        versions=environment["versions"],
        machine=environment["machine"],
    )
    values: dict[int, dict[str, float]] = {}
    missing: dict[int, str] = {}
    for trial in trials:
        if trial.state is TrialState.FINISHED:
            values[trial.config.seed] = _values(trial, history)
        else:
            reason = "" if trial.error is None else f": {trial.error}"
            missing[trial.config.seed] = f"{trial.state}{reason}"
    return CellRecord(conditions, values, missing)


def _values(trial: Trial, history: History) -> dict[str, float]:
    """Return the scores of the best epoch, and training loss and COCOS counts of the first and of the last epoch."""
    best = trial.epochs[trial.best_epoch or trial.last_epoch]
    values = {name: value for name, value in best.items() if is_in(name, VAL) and is_value(name)}
    values |= {f"test/{name}": value for name, value in history.tests.get(trial.id, {}).items()}
    for when, epoch in (("first", 1), ("last", trial.last_epoch)):
        values |= {
            f"{when}/{name}": value
            for name, value in trial.epochs[epoch].items()
            if name == "train/loss" or (is_in(name, COCOS) and is_value(name))
        }
    return values


def accept_rerun(
    suite: Suite,
    output: Path,
    reference: Path,
    *,
    why: str,
    who: str | None = None,
    restart_drift: bool = False,
    typed: str | None = None,
) -> Accepted:
    """Write the numbers of the newest finished rerun under ``output`` as the suite's reference, with a person's reason.

    Without ``who`` the user of this process is named. ``restart_drift`` measures drift from this rerun on, instead of
    from the first accepted runs. ``typed`` is the suite as the user has named it.

    Raises:
        AcceptedError: If no rerun finished, a seed failed, the rerun's cells are not the suite's cells, the file that
            would be replaced is damaged, or the user has no name.
    """
    require("report", "`orchestrator regress accept`")
    try:
        who = who or getpass.getuser()
    except (KeyError, OSError):
        # In a container, the number of a user may have no name.
        raise AcceptedError("the user of this process has no name; name the person who accepts with --who") from None
    before = read_accepted(reference, suite.name)
    home, named = output / suite.name, shlex.quote(typed or suite.name)
    finished = past_reruns(home).finished
    if not finished:
        raise AcceptedError(f"{home}: no finished rerun to accept; run `orchestrator regress {named}` first")
    directory = finished[-1]
    records = read_journal(directory / JOURNAL_FILE)
    ran = validate(Suite, _suite_of(records), JOURNAL_FILE)
    settings, ran_settings = ({cell.title: whole.config(cell, 1) for cell in whole.cells} for whole in (suite, ran))
    if settings != ran_settings:
        raise AcceptedError(f"{directory}: ran other cells, or otherwise, than {suite.name} has now; rerun it first")
    runs = cell_runs(ran, History.of(records), directory.name)
    for name, cell in runs.items():
        if cell.missing or len(cell.values) < 2:
            raise AcceptedError(
                f"{directory}: {name} has {len(cell.values)} finished seeds and {len(cell.missing)} that failed; "
                f"a reference needs two and none that failed"
            )
    when = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    first = {} if before is None or restart_drift else first_references(before, runs)
    accepted = Accepted(suite.name, who, when, why, runs, first)
    write_accepted(reference, accepted)
    return accepted


def first_references(before: Accepted, runs: Mapping[str, CellRecord]) -> dict[str, CellRecord]:
    """Return the first accepted scores of each cell whose config and data have not changed since then.

    ``before`` is the reference that ``runs``, by the names of their cells, replace.
    """
    references: dict[str, CellRecord] = {}
    for name in sorted(before.cells.keys() & runs.keys()):
        old = before.cells[name]
        scores = {
            seed: {metric: value for metric, value in run.items() if is_in(metric, VAL, TEST)}
            for seed, run in old.values.items()
        }
        first = before.first.get(name) or CellRecord(old.conditions, scores, when=before.when)
        if first.has_setting_of(runs[name]):
            references[name] = first
    return references
