"""The content of the page: a plain model of the report, made from a ``History`` alone.

This module does not draw, read files or write HTML; ``asdict`` of a ``Page`` is JSON.

The studies of an experiment as a table of contents: the best of each, with links to its charts and trials.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from orchestrator.journal.directory import TrackedRuns
from orchestrator.journal.history import History
from orchestrator.journal.points import best_points
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.report.cost import Fact, cost_facts, cost_figure
from orchestrator.report.figures import Figure
from orchestrator.report.fronts import Front, fronts_of
from orchestrator.report.leaderboard import Column, Row, columns, leaderboard
from orchestrator.report.loss_figures import cocos_figure, learned_figure, learns, weight_figure
from orchestrator.report.queries import Queries
from orchestrator.report.query_comparison import ComparedQueries
from orchestrator.report.search_figures import (
    budget_figure,
    early_figure,
    front_figure,
    incumbent_figure,
    learning_curves,
    over_trials,
    race_figure,
)
from orchestrator.report.space_figures import space_figures
from orchestrator.report.studies import Study, best_studies, by_dataset, names_of, studies_of
from orchestrator.report.verdict import Verdict, ranking, verdicts_of
from orchestrator.results.analyses import goals_of
from orchestrator.results.candidates import DatasetVerdict
from orchestrator.results.caveats import comparability
from orchestrator.results.confirmation import confirmations, races_of
from orchestrator.results.equal_budget import equal_budgets, optimism_of
from orchestrator.results.judged import judged_answer, judged_verdicts
from orchestrator.text.values import count_text, metric_text, values_text


@dataclass(frozen=True)
class Entry:
    """A line of the table of contents.

    Attributes:
        label: Label of the study, by which the page finds its charts and its trials.
        trials: The number of trials, and the number of trials that were trained to their end.
        best: The highest value of the study, as text.
        leader: The trial with this value, with its hyper-parameters; empty if none has finished.
    """

    label: str
    trials: str
    best: str
    leader: str


def contents_of(studies: Sequence[Study]) -> list[Entry]:
    """Return an entry for each study, dataset by dataset, the best study first; a lone study gets no entry."""
    return [_entry(study) for study in best_studies(studies)] if len(studies) > 1 else []


def _entry(study: Study) -> Entry:
    finished = sum(trial.state is TrialState.FINISHED for trial in study.trials)
    counts = f"{count_text(len(study.trials), 'trial')}, {finished:,} finished"
    leader = study.leader
    if leader is None:
        return Entry(study.label, counts, "–", "")
    best = metric_text(leader.metric, study.value_of(leader))
    return Entry(study.label, counts, best, f"{study.name_of(leader)}: {values_text(leader.parameters) or 'defaults'}")


STATE_WORDS = {
    TrialState.FINISHED: "finished",
    TrialState.STOPPED_EARLY: "stopped early",
    TrialState.DIVERGED: "diverged",
    TrialState.FAILED: "failed",
    TrialState.RUNNING: "not ended",
}


@dataclass(frozen=True)
class Reproduction:
    """The commands and settings with which the experiment can be run again.

    Attributes:
        commands: Shell lines.
        experiment: The resolved experiment as YAML.
        digests: Dataset -> SHA-256.
        versions: Recorded packages, revision and machine, by name.
    """

    commands: list[str]
    experiment: str
    digests: Mapping[str, str]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Page:
    """The report.

    Attributes:
        outcome: Outcome of the newest start, in a word or two.
        as_of: Time of the newest record about a trial, UTC; empty before the first such record.
        facts: The most important numbers.
        fronts: A front for each dataset, if the search had several objectives.
        contents: The studies, if there are several.
        figures: Figures by key.
        queries: Retrievals of the winner of each dataset, or the reason for missing retrievals.
        compared: The winner of each confirmed dataset and the best candidate of another loss, query by query.
        learns: Whether a hyper-parameter of a loss was learned with the model.
        runs: The runs of the trials in MLflow, if they are known.
    """

    name: str
    description: str
    outcome: str
    as_of: str
    facts: list[Fact]
    verdicts: list[Verdict]
    columns: list[Column]
    rows: list[Row]
    fronts: list[Front]
    figures: dict[str, Figure]
    queries: list[Queries]
    compared: list[ComparedQueries]
    cost: list[Fact]
    reproduction: Reproduction
    contents: list[Entry]
    learns: bool
    runs: TrackedRuns | None


@dataclass(frozen=True)
class Extras:
    """Content of a page that is not in the history.

    Attributes:
        verdicts: Verdicts on the datasets whose candidates were confirmed.
        queries: Retrievals of the winner of each dataset.
        compared: The winner of each confirmed dataset and another candidate, query by query.
        unended: State of an experiment whose journal records no end: ``running`` or ``killed``.
        runs: The runs of the trials in MLflow, if they are known.
    """

    verdicts: Sequence[DatasetVerdict] = ()
    queries: Sequence[Queries] = ()
    compared: Sequence[ComparedQueries] = ()
    unended: str = "not ended"
    runs: TrackedRuns | None = None


def build_page(history: History, extras: Extras | None = None, *, drawn: bool = True) -> Page:
    """Return the page of an experiment in any state.

    Args:
        history: History of the experiment.
        extras: Content of the page that is not in the history.
        drawn: Whether to make the figures, which takes most of the time; a live page requests each figure when needed.
    """
    extras = extras or Extras()
    studies = studies_of(history)
    # A page calls a dataset by the last part of its path.
    compared = {Path(dataset).name: sentences for dataset, sentences in comparability(history).items()}
    trials = list(history.trials.values())
    metric = trials[0].metric if trials else "val/rsum"
    rows = leaderboard(studies)
    return Page(
        name=history.experiment.name or "experiment",
        description=" ".join(history.experiment.description.split()),
        outcome=history.outcome or extras.unended,
        as_of=_as_of(trials),
        facts=_facts(history, len(studies), metric),
        verdicts=[
            replace(verdict, warnings=[*verdict.warnings, *compared.get(verdict.dataset, ())])
            for verdict in verdicts_of(
                by_dataset(studies), extras.verdicts, names_of(studies), _judged(history, extras.verdicts)
            )
        ],
        columns=columns(metric, [goal.metric for goal in goals_of(history)[1:]], rows),
        rows=rows,
        fronts=fronts_of(history, names_of(studies)),
        figures={key: make() for key, make in figure_makers(history, studies, extras).items()} if drawn else {},
        queries=list(extras.queries),
        compared=[_named(one, names_of(studies)) for one in extras.compared],
        cost=cost_facts(trials, history.experiment.gpus),
        reproduction=_reproduction(history),
        contents=contents_of(studies),
        learns=learns(studies),
        runs=extras.runs,
    )


def _judged(history: History, verdicts: Sequence[DatasetVerdict]) -> dict[str, list[str]]:
    """Return dataset -> sentences about people's judgements."""
    answers = (
        judged_answer(verdict.dataset, judged_verdicts(confirmations(history)[verdict.dataset])) for verdict in verdicts
    )
    return {one.dataset: [said.rstrip(".") for said in one.sentences] for one in answers if one is not None}


def figure_makers(history: History, studies: Sequence[Study], extras: Extras) -> dict[str, Callable[[], Figure]]:
    """Return key of a figure -> function that makes the figure."""
    names = names_of(studies)
    space = cache(lambda: {figure.key: figure for figure in space_figures(studies)})

    def races() -> Figure:
        metric = next((trial.metric for trial in history.trials.values()), "val/rsum")
        return race_figure(races_of(history), metric, names)

    return {
        "trials": lambda: over_trials(studies),
        "curves": lambda: learning_curves(studies),
        "budget": lambda: budget_figure(equal_budgets(history) if history.experiment else {}, studies),
        "incumbents": lambda: incumbent_figure(optimism_of(history) if history.experiment else {}),
        "race": races,
        "early": lambda: early_figure(studies),
        "parallel": lambda: space()["parallel"],
        "importance": lambda: space()["importance"],
        "slices": lambda: space()["slices"],
        "contours": lambda: space()["contours"],
        "weights": lambda: weight_figure(studies, ranking(extras.verdicts)),
        "cocos": lambda: cocos_figure(studies),
        "front": lambda: front_figure(history, studies),
        "learned": lambda: learned_figure(studies),
        "spent": lambda: cost_figure(studies),
    }


def _named(compared: ComparedQueries, names: Mapping[str, str]) -> ComparedQueries:
    """Return a comparison with the page's names of trials."""
    return replace(compared, first=names.get(compared.first, ""), second=names.get(compared.second, ""))


def _as_of(trials: Sequence[Trial]) -> str:
    times = [time for trial in trials for time in (trial.created, trial.ended) if time is not None]
    return datetime.fromtimestamp(max(times), UTC).strftime("%Y-%m-%d %H:%M UTC") if times else ""


def _facts(history: History, studies: int, metric: str) -> list[Fact]:
    trials = history.stage(Stage.SEARCH)
    states = Counter(trial.state for trial in trials)
    words = ", ".join(f"{states[state]:,} {word}" for state, word in STATE_WORDS.items() if states[state])
    facts = [Fact("Trials", f"{len(trials):,}", words), Fact("Studies", str(studies), _cells(history))]
    repeats = history.stage(Stage.CONFIRM)
    if repeats:
        candidates = len({trial.candidate for trial in repeats})
        facts.append(
            Fact("Confirmation", count_text(len(repeats), "training"), f"{candidates} candidates, fresh seeds")
        )
    points = best_points(trials)
    if points and len(history.experiment.datasets) <= 1:
        facts.append(Fact(f"Best {metric}", metric_text(metric, points[0].value), "of the trials trained to their end"))
    opened = ", ".join(f"{Path(name).name}: {times}" for name, times in history.test_openings.items())
    facts.append(Fact("Test opened", str(sum(history.test_openings.values())), opened or "selection used val alone"))
    return facts


def _cells(history: History) -> str:
    begun = history.experiment
    names = {"dataset": begun.datasets, "model": begun.models, "loss": begun.losses}
    return " × ".join(count_text(len(found), noun) for noun, found in names.items())


def _reproduction(history: History) -> Reproduction:
    name = history.experiment.name or "experiment"
    return Reproduction(
        commands=[
            "orchestrator search experiment.yaml --data-root DATA --output OUTPUT",
            f"orchestrator report {name} --output OUTPUT",
        ],
        # In ASCII, safe_dump escapes all characters that could not be seen.
        experiment=yaml.safe_dump(_plain(history.experiment.values), sort_keys=False, allow_unicode=False, width=100),
        digests=dict(history.data),
        versions=_versions(history.environment),
    )


def _versions(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return the recorded packages, revision and machine as a flat mapping."""
    facts: dict[str, str] = {}
    for name, value in environment.items():
        if isinstance(value, Mapping):
            facts |= _versions(value)
        elif value is not None:
            facts[name.replace("_", " ")] = str(value)
    return facts


def _plain(value: Any) -> Any:
    """Return mappings and sequences as the dicts and lists that YAML can hold."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
