"""Figures of the search: values over trials and epochs, losses at equal budgets, and Pareto fronts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from orchestrator.experiment.sections import Objective
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.report import figures as draw
from orchestrator.report.figures import ABOUT, MANY, Figure, Option, Panel
from orchestrator.report.studies import Study, best_studies, by_dataset
from orchestrator.results.analyses import RANKED, loss_names, rank_correlations
from orchestrator.results.answer import Json
from orchestrator.results.equal_budget import UNITS
from orchestrator.text.wording import metric_words, parameter_names, printed
from trainables.metric_table import metric_of

NAMED = 10
"""Learning curves that are drawn of a study with more than ``MANY`` trials, beside the quantiles of all."""
LEARNED = "loss/"
"""Start of the names of metrics that hold learned hyper-parameters."""
BANK = "bank/"
"""Start of the names of metrics of a bank of embeddings."""
FEW = 30
"""Most trials of a dataset for which the chart shown first has all curves."""
INTERVAL = "[%{customdata[0]:.4g}, %{customdata[1]:.4g}]"
"""Place in a hover template of the ends of an interval."""


def over_trials(studies: Sequence[Study]) -> Figure:
    """Return the metric of each trial in the order of the trials, with the best so far as a line."""
    note = (
        "Filled: trained to the end. Hollow: stopped early, or still training. The line is the best so far of the "
        "trials that were trained to the end. Crosses on the floor diverged or failed. A click on a dot finds it in "
        "the leaderboard."
    )
    options = []
    for dataset, group in by_dataset(studies).items():
        values = [trial.best_value for study in group for trial in study.valued if trial.best_value is not None]
        floor = min(values) - 0.05 * (max(values) - min(values) or 1) if values else 0.0
        if traces := [trace for study in group for trace in _trial_traces(study, floor)]:
            last = max(trial.number for study in group for trial in study.trials)
            axes = {"xaxis": draw.whole("trial", last), "yaxis": _metric_axis(group)}
            options.append(Option(printed(dataset), [Panel("", traces, axes)]))
    return Figure("trials", "The search, trial by trial", note, options)


def learning_curves(studies: Sequence[Study]) -> Figure:
    """Return the metric over epochs: the leaders beside each other, then each study with its trials."""
    first = [option for dataset, group in by_dataset(studies).items() for option in _options_of_dataset(dataset, group)]
    study_options = [option for study in best_studies(studies) if study.valued for option in _options_of_study(study)]
    note = (
        f"Up to {FEW} trials of a dataset are drawn together, the leaders in bold. Of a study with more than "
        f"{MANY} trials the best {NAMED} are drawn; the bands hold the middle half and nine tenths of all its trials "
        "that reached an epoch. A hyper-parameter that is trained with the model has curves of its own."
    )
    return Figure("curves", "Learning curves", note, first + study_options)


def early_figure(studies: Sequence[Study]) -> Figure:
    """Return Kendall's tau between the rankings at each epoch and at the end: a line per study for each dataset."""
    options = []
    for dataset, group in by_dataset(studies).items():
        if traces := [trace for study in group for trace in _rank_agreement(study)]:
            last = max(max(trace["x"]) for trace in traces)
            axes = {"xaxis": draw.whole("epoch", last), "yaxis": draw.axis("Kendall's τ with the end")}
            options.append(Option(printed(dataset), [Panel("", traces, axes)]))
    note = (
        "Kendall's τ between the best values up to an epoch and those at the end: 1 is the same order, 0 is none. "
        f"Before a study's line stays at {RANKED:g} or more, early stopping may stop the best trial. Trials that were "
        "stopped early are left out."
    )
    return Figure("early", "Early epochs", note, options)


def budget_figure(budgets: Mapping[str, Json], studies: Sequence[Study]) -> Figure:
    """Return the expected best value of each loss over trials, epochs and hours, with bands, see ``equal_budgets``."""
    note = (
        "The expected best of a number of trials drawn from the search without replacement; the band holds 8 "
        "of 10 draws. With all trials there is one draw, so the band closes there, whatever another search would give. "
        "Trials of a sampler that learns get better, so the left of its curve is too high."
    )
    options = [
        Option(f"{printed(dataset)}: {_unit(budget, unit)}", [_budget(dataset, budget, unit, studies)])
        for dataset, budget in budgets.items()
        for unit in UNITS
        if all(loss[unit][-1] > 0 for loss in budget["losses"])
    ]
    return Figure("budget", "Equal budget", note, options)


def front_figure(fronts: Mapping[str, Sequence[Point]], goals: Sequence[Objective], studies: Sequence[Study]) -> Figure:
    """Return each pair of objectives of each dataset, the front as a line through its members."""
    groups = by_dataset(studies)
    note = (
        "Every setting that was trained to its end is a mark. Filled: on the front, which is listed below. "
        "Hollow: another setting is better in at least one objective, and worse in none."
    )
    options = []
    for dataset, front in fronts.items():
        for y, x in combinations(goals, 2):
            pair = f": {metric_words(y.metric)} and {metric_words(x.metric)}" if len(goals) > 2 else ""
            options.append(Option(printed(dataset) + pair, [_front(groups[Path(dataset).name], front, x, y)]))
    return Figure("front", "Pareto front", note, options)


def _trial_traces(study: Study, floor: float) -> list[Json]:
    finished = [trial for trial in study.valued if trial.state is TrialState.FINISHED]
    others = [trial for trial in study.valued if trial.state is not TrialState.FINISHED]
    broken = [trial for trial in study.trials if trial.state in (TrialState.DIVERGED, TrialState.FAILED)]
    traces: list[Json] = []
    for trials, marker in ((finished, ""), (others, f"{draw.symbol(study)}-open"), (broken, "x-thin-open")):
        if trials:
            heights = [floor if trials is broken else trial.best_value for trial in trials]
            marked = {"symbol": marker} if marker else {}
            drawn = draw.dots(study, trials, [trial.number for trial in trials], heights, **marked)
            # A study has one entry in the legend.
            traces.append({**drawn, "showlegend": False} if traces else drawn)
    if finished:
        numbers, best = [trial.number for trial in finished], highest_means(finished)
        # The line goes on to the newest trial, because no better value has come since.
        numbers, best = [*numbers, max(trial.number for trial in study.trials)], [*best, best[-1]]
        traces.append(draw.line(numbers, best, **draw.style(study), shape="hv", showlegend=False, hoverinfo="skip"))
    return traces


def highest_means(finished: Sequence[Trial]) -> list[float]:
    """Return, after each finished trial, the highest mean of a setting's trainings so far."""
    values: dict[str, list[float]] = {}
    means: dict[str, float] = {}
    maxima, highest = [], -math.inf
    for trial in finished:
        setting = trial.candidate or trial.id
        values.setdefault(setting, []).append(trial.best_value or 0.0)
        before, means[setting] = means.get(setting, -math.inf), fmean(values[setting])
        # Only a setting that led, and has become worse, lets another one lead.
        has_fallen = before == highest and means[setting] < before
        highest = max(means.values()) if has_fallen else max(highest, means[setting])
        maxima.append(highest)
    return maxima


def _options_of_dataset(dataset: str, studies: Sequence[Study]) -> list[Option]:
    """Return all curves of a dataset with few trials, else the leaders'; nothing for a single study with few trials."""
    count = sum(len(study.valued) for study in studies)
    if len(studies) == 1 and count <= FEW:
        return []
    leading = [
        (study, study.leader or max(study.valued, key=lambda trial: trial.best_value or 0.0))
        for study in studies
        if study.valued
    ]
    # The curves of the leaders come last, so that no other curve hides them.
    thin, bold = [], []
    for study, leader in leading:
        bold.append(_curve(leader, study.short_label, width=2.5, **draw.style(study)))
        faint: Json = {"legendgroup": study.name, "showlegend": False, "opacity": 0.55}
        others = [trial for trial in study.valued if count <= FEW and trial is not leader]
        thin += [_curve(trial, trial.id, draw.shade(study.place), 1.2, **faint) for trial in others]
    label = f"{'All trials' if count <= FEW else 'Leaders'} on {printed(dataset)}"
    return [Option(label, [Panel("", [*thin, *bold], _epoch_axes(studies))])] if leading else []


def _options_of_study(study: Study) -> Iterator[Option]:
    """Yield the curves of the metric of a study, and of each hyper-parameter that was trained with the model."""
    ranked = sorted(study.valued, key=lambda trial: -(trial.best_value or 0.0))
    yield Option(study.label, [_curves(study, ranked, study.metric, _metric_axis([study]))])
    # All epochs of a trial have equal names, so only one epoch is read: reading all of a long journal takes long.
    epochs = [trial.epochs[trial.last_epoch] for trial in ranked]
    named = dict.fromkeys(name for metrics in epochs for name in metrics)
    learned = parameter_names(name.removeprefix(LEARNED) for name in named if name.startswith(LEARNED))
    drifts = {name: metric_of(name).printed for name in named if name.startswith(BANK)}
    for metric, words in ({LEARNED + name: words for name, words in learned.items()} | drifts).items():
        having = [trial for trial, metrics in zip(ranked, epochs, strict=True) if metric in metrics]
        values = [value for trial in having for _, value in _values(trial, metric)]
        yield Option(f"{study.label}: {words}", [_curves(study, having, metric, draw.axis_of(words, values))])


def _curves(study: Study, ranked: Sequence[Trial], metric: str, vertical: Json) -> Panel:
    """Return the curves of a metric over the epochs of trials, the study's leader in bold and last."""
    first = next((trial for trial in study.finished if trial in ranked), ranked[0])
    many = len(ranked) > MANY
    others = [trial for trial in (ranked[:NAMED] if many else ranked) if trial is not first]
    traces = _bands(ranked, metric) if many else []
    traces += [_curve(trial, trial.id, "--faint", 1.2, metric, showlegend=False) for trial in others]
    bold = _curve(first, study.name_of(first), draw.shade(study.place), 3, metric)
    return Panel("", [*traces, bold], {**_epoch_axes([study]), "yaxis": vertical})


def _values(trial: Trial, metric: str) -> list[tuple[int, float]]:
    return [(epoch, trial.epochs[epoch][metric]) for epoch in sorted(trial.epochs) if metric in trial.epochs[epoch]]


def _curve(trial: Trial, name: str, color: str, width: float, metric: str = "", **rest: Any) -> Json:
    epochs, values = zip(*_values(trial, metric or trial.metric), strict=True)
    hover = f"{ABOUT}<br>epoch %{{x}}: %{{y:.4g}}<extra></extra>"
    about: Json = {"name": draw.plain(name), "text": [trial.id] * len(epochs), "hovertemplate": hover}
    return draw.line(epochs, values, color=color, width=width, **about, **rest)


def _bands(trials: Sequence[Trial], metric: str) -> list[Json]:
    """Return the 5-95 % and 25-75 % bands and the median over the trials that reached each epoch."""
    reached: dict[int, list[float]] = {}
    for epoch, value in (pair for trial in trials for pair in _values(trial, metric)):
        reached.setdefault(epoch, []).append(value)
    epochs = sorted(reached)
    shares = [0.05, 0.25, 0.5, 0.75, 0.95]
    quantiles = np.array([np.quantile(reached[epoch], shares) for epoch in epochs])
    low, lower, median, upper, high = quantiles.T.tolist()
    hover = "median<br>epoch %{x}: %{y:.4g}<extra></extra>"
    return [
        draw.band(epochs, low, high, "--band1", name="nine tenths of the trials"),
        draw.band(epochs, lower, upper, "--band2", name="middle half"),
        draw.line(epochs, median, color="--muted", width=1.5, dash="dot", name="median", hovertemplate=hover),
    ]


def _epoch_axes(studies: Sequence[Study]) -> Json:
    last = max(trial.last_epoch for study in studies for trial in study.trials)
    return {"xaxis": draw.whole("epoch", last), "yaxis": _metric_axis(studies)}


def _metric_axis(studies: Sequence[Study]) -> Json:
    return draw.axis(metric_words(studies[0].metric))


def _rank_agreement(study: Study) -> list[Json]:
    settings, taus = rank_correlations(points_of(study.trials))
    if not taus:
        return []
    hover = f"{settings} settings<br>epoch %{{x}}: τ %{{y:.2f}}<extra></extra>"
    about: Json = {"name": draw.plain(study.short_label), **draw.style(study), "hovertemplate": hover}
    return [draw.line(list(taus), [round(tau, 3) for tau in taus.values()], mode="lines+markers", **about)]


def _budget(dataset: str, budget: Json, unit: str, studies: Sequence[Study]) -> Panel:
    places = {(study.dataset, study.model, study.loss): study.place for study in studies}
    names = loss_names(budget)
    traces: list[Json] = []
    for number, loss in enumerate(budget["losses"]):
        place = places.get((Path(dataset).name, loss["model"], loss["loss"]), number)
        x, low, high = loss[unit], loss["low"], loss["high"]
        name, color = draw.plain(names[loss["label"]]), draw.shade(place)
        about: Json = {
            "name": name,
            "legendgroup": name,
            "mode": "lines+markers" if len(x) <= 20 else "lines",
            "customdata": list(zip(low, high, strict=True)),
            "hovertemplate": f"{name}<br>%{{x:.4g}}: %{{y:.4g}} {INTERVAL}<extra></extra>",
            "marker": {"color": color, "size": 5},
        }
        traces += [
            draw.band(x, low, high, color.replace("--c", "--soft"), legendgroup=name, showlegend=False),
            draw.line(x, loss["expected"], color=color, width=2.5, dash=draw.dash(place), **about),
        ]
    most = max(loss[unit][-1] for loss in budget["losses"])
    horizontal = draw.whole("trials", round(most)) if unit == "trials" else draw.axis(_unit(budget, unit))
    return Panel("", traces, {"xaxis": horizontal, "yaxis": draw.axis(f"best {metric_words(budget['metric'])}")})


def _unit(budget: Json, unit: str) -> str:
    return str(budget["hours_are"]) if unit == "hours" else unit


def _front(studies: Sequence[Study], front: Sequence[Point], x: Objective, y: Objective) -> Panel:
    members = {point.first.id for point in front}
    # A setting with several trainings has one mark, at their means.
    points = {point.first.id: point for study in studies for point in study.points.values() if point.finished}
    beaten = [point for point in points.values() if point.first.id not in members]
    ordered = sorted(front, key=lambda point: point.mean(x.metric) or 0.0)
    traces = [_marks(beaten, x, y, "beaten", "markers", "circle-open", "--muted")] if beaten else []
    # The front of two objectives is a line; the members of a front of more objectives need not lie on a line.
    traces.append(_marks(ordered, x, y, "on the front", "lines+markers", "circle", "--c1"))
    return Panel("", traces, {"xaxis": _goal_axis(x), "yaxis": _goal_axis(y)})


def _goal_axis(goal: Objective) -> Json:
    better = "higher" if goal.direction == "maximize" else "lower"
    return draw.axis(f"{metric_words(goal.metric)} ({better} is better)")


def _marks(points: Sequence[Point], x: Objective, y: Objective, name: str, mode: str, marker: str, color: str) -> Json:
    values = "%{xaxis.title.text} %{x:.4g}<br>%{yaxis.title.text} %{y:.4g}"
    about: Json = {
        "name": name,
        "mode": mode,
        "text": [point.first.id for point in points],
        "hovertemplate": f"{ABOUT}<br>{values}<extra></extra>",
        "marker": {"color": color, "symbol": marker, "size": 9},
    }
    places = [point.mean(x.metric) for point in points], [point.mean(y.metric) for point in points]
    return draw.line(*places, color=color, width=1.5, dash="dot", **about)
