"""The content of the page about an experiment: its state, its answers, its trials and its figures.

This module does not draw, read files or write HTML.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import PurePath

import msgspec

from orchestrator.experiment.yaml_files import yaml_text
from orchestrator.journal.directory import TrackedRuns
from orchestrator.journal.history import STANDINGS, History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.report.figures import Figure
from orchestrator.report.leaderboard import leaderboard
from orchestrator.report.loss_figures import cocos_figure, weight_figure
from orchestrator.report.queries import ShownQueries
from orchestrator.report.search_figures import budget_figure, early_figure, front_figure, learning_curves, over_trials
from orchestrator.report.space_figures import space_figures
from orchestrator.report.studies import Study, studies_of
from orchestrator.results.answer import Answer
from orchestrator.results.answers import Summary, measure_of
from orchestrator.text.values import count_text, duration_text, flat
from orchestrator.text.wording import number_text, printed
from orchestrator.views.html import Fact

CAVEATS = "caveats"
"""Key of the answer that qualifies a dataset's results."""


class Page:
    """The page about an experiment in any state.

    Args:
        queries: See the attribute.
        unended: State of an experiment whose journal records no end: ``running`` or ``killed``.
        runs: The runs of the trials in MLflow, if they are known.

    Attributes:
        is_rerun: Whether the trials are those of a suite, whose own page compares them.
        state: State of the search, in a word or two; ``as_of`` is the time of the newest record, UTC, if there is any.
        measure: Meaning of the metric of the values.
        answers: Dataset -> its answers, in the order of the page; first, under an empty name, those over all datasets.
        drawn_beside: Keys of the figures that are drawn beside the only answer that needs them.
        makers: Key of a figure -> function that makes the figure, in the order of the page. A live page requests each
            figure when it is needed, because to make all takes most of the time.
        queries: Queries with their answers, in the order of the page.
    """

    def __init__(
        self,
        history: History,
        *,
        queries: Sequence[ShownQueries] = (),
        unended: str = "not ended",
        runs: TrackedRuns | None = None,
    ) -> None:
        studies, summary, experiment = studies_of(history), Summary(history), history.experiment
        trials = list(history.trials.values())
        metric = trials[0].metric if trials else "val/rsum"
        further = [goal.metric for goal in summary.objectives[1:]] if experiment else []
        newest = history.spending.newest
        self.name = experiment.name or "experiment"
        self.is_rerun = history.is_rerun
        self.description = " ".join(experiment.description.split())
        self.state = (history.outcome or unended).replace("_", " ")
        self.as_of = "" if newest is None else f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M:%S} UTC"
        self.measure = measure_of(metric, [summary])
        self.facts = _facts(history)
        self.answers = _answers(summary)
        needed = Counter(answer.figure for group in self.answers.values() for answer in group if answer.figure)
        # A figure of several datasets is drawn once, and several answers lead to it.
        self.drawn_beside = [key for key, times in needed.items() if times == 1]
        self.columns, self.rows = leaderboard(studies, metric, further)
        self.makers = _figure_makers(summary, studies)
        self.queries = queries
        self.cost = _cost(trials, experiment.gpus)
        # As JSON and back, because YAML would write an alias for an object that is there twice.
        values = msgspec.json.decode(msgspec.json.encode(experiment.values))
        # In ASCII, all characters that could not be seen are escaped.
        self.experiment = yaml_text(values, width=100)
        self.digests = dict(history.data)
        known = {key.split(".")[-1]: value for key, value in flat(history.environment).items() if value is not None}
        self.versions = {name.replace("_", " "): str(value) for name, value in known.items()}
        self.runs = runs

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """All figures by key; a figure without data has no options."""
        return {key: make() for key, make in self.makers.items()}


def _figure_makers(summary: Summary, studies: Sequence[Study]) -> dict[str, Callable[[], Figure]]:
    begun = bool(summary.history.experiment)
    ranked = {
        PurePath(dataset).name: [candidate.label for candidate in verdict.candidates]
        for dataset, verdict in summary.verdicts.items()
    }
    space = cache(lambda: {figure.key: figure for figure in space_figures(studies, summary.bands if begun else {})})
    return {
        "front": lambda: front_figure(summary.fronts, summary.objectives, studies),
        "trials": lambda: over_trials(studies),
        "curves": lambda: learning_curves(studies),
        "budget": lambda: budget_figure(summary.equal_budget if begun else {}, studies),
        "early": lambda: early_figure(studies),
        "parallel": lambda: space()["parallel"],
        "slices": lambda: space()["slices"],
        "contours": lambda: space()["contours"],
        "weights": lambda: weight_figure(studies, ranked),
        "cocos": lambda: cocos_figure(studies),
    }


def _answers(summary: Summary) -> dict[str, list[Answer]]:
    """Return the answers by dataset, the caveats of each dataset last; none before the first trial, or of a rerun."""
    if not summary.history.trials or summary.history.is_rerun:
        return {}
    groups: dict[str, list[Answer]] = {"": []}
    for answer in summary.answers:
        groups.setdefault(answer.dataset, []).append(answer)
    return {dataset: sorted(group, key=lambda answer: answer.key == CAVEATS) for dataset, group in groups.items()}


def _facts(history: History) -> list[Fact]:
    trials, repeats = history.stage(Stage.SEARCH), history.stage(Stage.CONFIRM)
    states = Counter(trial.state for trial in trials)
    # Trials that have not ended come last; whether they run or wait is not known here.
    counts = [(states[state], STANDINGS[state]) for state in TrialState if state is not TrialState.RUNNING]
    counts.append((states[TrialState.RUNNING], "not ended"))
    words = ", ".join(f"{number:,} {word}" for number, word in counts if number)
    facts = [("Trials", f"{len(trials):,}", words)]
    if repeats:
        candidates = count_text(len({trial.candidate for trial in repeats}), "candidate")
        facts.append(("Confirmation", count_text(len(repeats), "training"), f"{candidates}, fresh seeds"))
    times = ", ".join(f"{printed(name)}: {count}" for name, count in history.test_openings.items())
    openings = str(sum(history.test_openings.values()))
    return [*facts, ("Test opened", openings, times or "val alone was used to choose")]


def _cost(trials: Sequence[Trial], gpus: float | None) -> list[Fact]:
    """Return trial time, GPU hours, epochs, elapsed time, the time that early stopping saved, and retries."""
    seconds = sum(trial.seconds for trial in trials)
    whole = f"{number_text(seconds, decimals=0)} trial-seconds of training and evaluation"
    facts: list[Fact] = [("Trial time", duration_text(seconds), whole)]
    if gpus is not None:
        facts.append(("GPU hours", number_text(seconds * gpus / 3600, decimals=2), f"{gpus:g} of a GPU a trial"))
    facts.append(("Epochs", f"{sum(len(trial.epochs) for trial in trials):,}", count_text(len(trials), "trial")))
    times = [time for trial in trials for time in (trial.created_after, trial.ended_after) if time is not None]
    if times:
        note = "first trial created to last one ended, without the time between two starts"
        facts.append(("Elapsed", duration_text(max(times) - min(times)), note))
    stopped = [trial for trial in trials if trial.state is TrialState.STOPPED_EARLY and trial.epochs]
    saved = sum(max(0, trial.total_epochs - trial.last_epoch) * trial.seconds / len(trial.epochs) for trial in stopped)
    if saved:
        facts.append(("Early stopping saved", duration_text(saved), "epochs not trained, at the trials' own speed"))
    retries = sum(trial.retries for trial in trials)
    if retries:
        facts.append(("Retries", f"{retries:,}", "after an error; their lost epochs are not in the trial time"))
    return facts
