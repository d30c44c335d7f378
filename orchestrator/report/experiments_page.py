"""A page over several experiments: their winners, on one scale if that is fair, and the course of each search."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage
from orchestrator.report.figures import COLOURS, Figure, Json, Option, Panel, axis, plain, short, whole
from orchestrator.report.page import Page
from orchestrator.report.search_figures import highest_means
from orchestrator.report.studies import Study, by_dataset, leaders_of, studies_of
from orchestrator.report.verdict import Standing, bars, interval_note, interval_of, scale, spread_text
from orchestrator.results.candidates import DatasetVerdict
from orchestrator.text.values import duration_text, metric_text, values_text


@dataclass(frozen=True)
class Reported:
    """One of the experiments.

    Attributes:
        history: History of the experiment.
        page: Page of the experiment alone.
        link: Path of this page, relative to the page over all experiments.
        verdicts: Verdicts on the datasets whose candidates were confirmed.
    """

    history: History
    page: Page
    link: str
    verdicts: Sequence[DatasetVerdict] = ()


@dataclass(frozen=True)
class Line:
    """A row in the table of all experiments.

    Attributes:
        name: Name of the experiment.
        link: See ``Reported``.
        outcome: How the newest start of the experiment ended.
        trials: Number of trials of its search.
        took: Time of all trainings of the experiment, as text.
        headlines: Verdicts of the experiment, a line for each dataset.
    """

    name: str
    link: str
    outcome: str
    trials: int
    took: str
    headlines: list[str]


@dataclass(frozen=True)
class Card:
    """Winners of several experiments whose values were measured in the same way, on one scale.

    Attributes:
        dataset: The dataset of all these experiments.
        measure: Description of the values.
        standings: Winners, best first.
        scale: See ``report.verdict.Verdict``.
    """

    dataset: str
    measure: str
    standings: list[Standing]
    scale: list[tuple[float, str]]


@dataclass(frozen=True)
class ExperimentsPage:
    """The page over several experiments.

    Attributes:
        name: Title of the page.
        lines: Rows of the table, in the order in which the experiments were named.
        warnings: Reasons why experiments are hard to compare.
        cards: A card for each dataset and measure.
        figures: Figures by key.
    """

    name: str
    lines: list[Line]
    warnings: list[str]
    cards: list[Card]
    figures: dict[str, Figure]


@dataclass(frozen=True)
class _Winner:
    """The winner of an experiment on a dataset, with low, mean and high of its value."""

    standing: Standing
    interval: tuple[float, float, float] = field(default=(0.0, 0.0, 0.0))


def build_experiments_page(reported: Sequence[Reported]) -> ExperimentsPage:
    """Return the page over experiments in any state; a pure function of their histories."""
    figure = searches_figure(reported)
    return ExperimentsPage(
        name=", ".join(one.page.name for one in reported),
        lines=[_line(one) for one in reported],
        warnings=_differing_data(reported),
        cards=_cards(reported),
        figures={figure.key: figure},
    )


def searches_figure(reported: Sequence[Reported]) -> Figure:
    """Return the best value so far of each experiment over its trials that were trained to their end."""
    options: dict[str, list[Json]] = {}
    metrics: dict[str, str] = {}
    for place, one in enumerate(reported):
        for dataset, trials in _finished(one.history).items():
            metric = trials[0].metric
            label = f"{Path(dataset).name}: {short(metric)}"
            metrics[label] = metric
            options.setdefault(label, []).append(
                {
                    "type": "scatter",
                    "mode": "lines+markers" if len(trials) <= 20 else "lines",
                    "name": plain(one.page.name),
                    "x": list(range(1, len(trials) + 1)),
                    "y": highest_means(trials),
                    "line": {"color": f"--c{place % COLOURS + 1}", "width": 2.5, "shape": "hv"},
                    "hovertemplate": "%{fullData.name}<br>%{x} trials: %{y:.4g}<extra></extra>",
                }
            )
    return Figure(
        key="searches",
        title="How each search went",
        note="The highest value so far over the trials of a search that were trained to their end, in the order in "
        "which they ended. Searches of different spaces or epochs spend different times on a trial.",
        options=[
            Option(
                label,
                [
                    Panel(
                        "",
                        traces,
                        {
                            "xaxis": whole("trials trained to their end", max(len(trace["x"]) for trace in traces)),
                            "yaxis": axis(f"best {short(metrics[label])}"),
                        },
                    )
                ],
            )
            for label, traces in options.items()
        ],
    )


def _finished(history: History) -> dict[str, list[Any]]:
    """Return the finished trials of a search by dataset, in the order in which they ended."""
    groups: dict[str, list[Any]] = {}
    trials = [trial for study in studies_of(history) for trial in study.valued if trial.state == "finished"]
    for trial in sorted(trials, key=lambda trial: trial.ended_after or 0.0):
        groups.setdefault(trial.config.dataset, []).append(trial)
    return groups


def _line(one: Reported) -> Line:
    return Line(
        name=one.page.name,
        link=one.link,
        outcome=one.page.outcome.replace("_", " "),
        trials=len(one.history.stage(Stage.SEARCH)),
        took=duration_text(sum(trial.seconds for trial in one.history.trials.values())),
        headlines=[f"{verdict.dataset}: {verdict.headline}" for verdict in one.page.verdicts],
    )


def _differing_data(reported: Sequence[Reported]) -> list[str]:
    names = dict.fromkeys(name for one in reported for name in one.history.data)
    versions = {name: {one.history.data[name] for one in reported if name in one.history.data} for name in names}
    return [
        f"The experiments had different versions of {name}; their values can't be compared."
        for name, digests in versions.items()
        if len(digests) > 1
    ]


def _cards(reported: Sequence[Reported]) -> list[Card]:
    """Return the winners by dataset and kind of value: a mean over fresh seeds is no value of a single training."""
    groups: dict[tuple[str, str], list[_Winner]] = {}
    for one in reported:
        given = {Path(verdict.dataset).name: verdict for verdict in one.verdicts if verdict.standings}
        for dataset, studies in by_dataset(studies_of(one.history)).items():
            key, winner = _confirmed(one, given[dataset]) if dataset in given else _searched(one, studies)
            if winner is not None:
                groups.setdefault((dataset, key), []).append(winner)
    return [_card(dataset, measure, winners) for (dataset, measure), winners in groups.items()]


def _confirmed(one: Reported, verdict: DatasetVerdict) -> tuple[str, _Winner | None]:
    best, metric = verdict.standings[0], verdict.metric
    values = interval_of(best)
    standing = Standing(
        one.page.name,
        " · ".join(filter(None, (best.candidate.label, values_text(best.candidate.parameters)))),
        spread_text(best.result, metric),
        (50.0, 0.0, 50.0),
        interval_note(values, best.result.seeds, metric),
    )
    return f"{metric}, mean over fresh seeds", _Winner(standing, values)


def _searched(one: Reported, studies: Sequence[Study]) -> tuple[str, _Winner | None]:
    ranked = leaders_of(studies)
    if not ranked:
        return "", None
    study, trial = ranked[0]
    value = study.value_of(trial) or 0.0
    detail = " · ".join(filter(None, (study.name_of(trial), values_text(trial.parameters))))
    standing = Standing(one.page.name, detail, metric_text(trial.metric, value), (50.0, 0.0, 50.0), "unconfirmed")
    return f"{trial.metric}, the best of a search, unconfirmed", _Winner(standing, (value, value, value))


def _card(dataset: str, measure: str, winners: Sequence[_Winner]) -> Card:
    ordered = sorted(winners, key=lambda winner: -winner.interval[1])
    placed = bars([winner.interval for winner in ordered])
    standings = [
        Standing(one.standing.label, one.standing.detail, one.standing.value, bar, one.standing.note)
        for one, bar in zip(ordered, placed, strict=True)
    ]
    return Card(dataset, measure, standings, scale([(low, high) for low, _, high in (one.interval for one in ordered)]))
