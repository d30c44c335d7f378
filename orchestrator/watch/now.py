"""The current state of an experiment: its progress, the running trials, the failed trials."""

from dataclasses import dataclass

from orchestrator.journal.directory import Place, read_error, read_places
from orchestrator.journal.points import points_of
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.report.cost import Fact
from orchestrator.search.status import Status
from orchestrator.search.trial_table import count_words
from orchestrator.text.values import duration_text, format_parameters, metric_text
from orchestrator.watch.experiments import Watched

FAILURES = 20
"""Most failed or diverged trials that are shown; the newest are shown."""

RUNNING = 64
"""Most running trials that are shown."""


@dataclass(frozen=True)
class StageNow:
    """The progress of a stage.

    Attributes:
        name: Name of the stage.
        ended: Number of trials that have ended.
        total: Number of all trials of the stage.
        words: The number of trials in each state, in words.
    """

    name: str
    ended: int
    total: int
    words: str


@dataclass(frozen=True)
class TrialNow:
    """A running trial.

    Attributes:
        id: Id of the trial.
        parameters: The trial's hyper-parameters on one line.
        epoch: Number of the newest epoch / number of all epochs.
        done: Share of the trial's epochs that are trained, in [0, 1].
        best: Best value so far, as text; empty before the first value.
        gpus: Number of GPUs of the trial, as text; empty without a GPU.
        place: Name of the machine and id of the process; empty before the first epoch.
    """

    id: str
    parameters: str
    epoch: str
    done: float
    best: str
    gpus: str
    place: str


@dataclass(frozen=True)
class FailureNow:
    """A trial that failed or diverged.

    Attributes:
        id: Id of the trial.
        state: State of the trial, in words.
        reason: Why the trial ended, in a sentence.
        has_log: Whether the last output of the trial's process is kept.
    """

    id: str
    state: str
    reason: str
    has_log: bool


@dataclass(frozen=True)
class Now:
    """The current state of an experiment.

    Attributes:
        words: State of the experiment, in a word or two.
        is_running: Whether a process runs the experiment.
        problem: Why the journal cannot be read; ``None`` for a readable journal.
        stages: The stages that have begun.
        facts: Running time, best value, forecast and budget.
        running: The running trials that are shown.
        not_shown: Number of running trials that are not shown.
        failures: The newest failures.
        failed: Number of all failed and diverged trials.
        command: The command that resumes the experiment; ``None`` where the experiment runs, or has nothing left to do.
    """

    words: str
    is_running: bool
    problem: str | None
    stages: list[StageNow]
    facts: list[Fact]
    running: list[TrialNow]
    not_shown: int
    failures: list[FailureNow]
    failed: int
    command: str | None

    @property
    def has_gpus(self) -> bool:
        """Whether a running trial has a GPU."""
        return any(trial.gpus for trial in self.running)


def now_of(watched: Watched) -> Now:
    """Return the current state of an experiment."""
    with watched.lock:
        status = watched.status()
        history = status.history
        running = [trial for trial in history.running() if trial.id in history.actors.gpus]
        places = read_places(watched.directory) if running else {}
        failed = [trial for trial in history.trials.values() if trial.state in (TrialState.FAILED, TrialState.DIVERGED)]
        failed.sort(key=lambda trial: -(trial.ended_after or 0.0))
        return Now(
            words=status.words if watched.has_begun else "not begun yet",
            is_running=status.holder is not None,
            problem=watched.problem,
            stages=stages_now(status),
            facts=_facts(watched, status),
            running=[_trial(trial, history.actors.gpus[trial.id], places.get(trial.id)) for trial in running[:RUNNING]],
            not_shown=max(0, len(running) - RUNNING),
            failures=[_failure(watched, trial) for trial in failed[:FAILURES]],
            failed=len(failed),
            command=status.command,
        )


def best_so_far(status: Status) -> tuple[str, Trial] | None:
    """Return the highest value of the search so far, as text, and the trial that reached the value."""
    rated = [
        (value, point.first)
        for point in points_of(status.history.stage(Stage.SEARCH))
        if (value := point.value_so_far) is not None
    ]
    if not rated:
        return None
    value, trial = max(rated, key=lambda pair: pair[0])
    return metric_text(trial.metric, value), trial


def stages_now(status: Status) -> list[StageNow]:
    """Return the progress of each stage that has begun, the evaluation on test included."""
    stages = [StageNow(stage.stage, stage.ended, stage.total, count_words(stage.states)) for stage in status.stages]
    if status.test is not None:
        stages.append(StageNow("test", status.test.evaluated, status.test.total, str(status.test)))
    return stages


def _facts(watched: Watched, status: Status) -> list[Fact]:
    followed = watched.followed
    facts = [
        Fact("Running time", duration_text(followed.history.spending.seconds), "over all starts, without the breaks")
    ]
    best = best_so_far(status)
    if best is not None:
        facts.append(
            Fact(
                f"Best {best[1].metric} so far",
                best[0],
                best[1].id if best[1].has_ended else f"{best[1].id}, which still runs",
            )
        )
    if status.left is not None:
        parts = [f"{stage} {duration_text(seconds)}" for stage, seconds in status.left.stages.items()]
        facts.append(Fact("Left", f"about {duration_text(status.left.seconds)}", ", then ".join(parts)))
    for name, (used, limit) in status.budget.items():
        facts.append(Fact(f"budget.{name}", f"{used:.4g} of {limit:g}", "used up to the newest record"))
    return facts


def _trial(trial: Trial, gpus: float, place: Place | None) -> TrialNow:
    total = trial.total_epochs
    return TrialNow(
        id=trial.id,
        parameters=format_parameters(trial.parameters),
        epoch=f"{trial.last_epoch}/{total}",
        done=min(1.0, trial.last_epoch / total),
        best="" if trial.best_value is None else metric_text(trial.metric, trial.best_value),
        gpus=f"{gpus:g}" if gpus else "",
        place="" if place is None else f"{place.host}, {place.pid}",
    )


def _failure(watched: Watched, trial: Trial) -> FailureNow:
    has_log = read_error(watched.directory, trial.id) is not None
    return FailureNow(trial.id, trial.state.value, trial.error or "", has_log)
