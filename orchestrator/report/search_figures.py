"""Figures of the course of the search: the metric over trials, and over epochs."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from orchestrator.journal.trial import Trial, TrialState
from orchestrator.report.figures import Figure, Json, Option, Panel, axis, colour, dots, hollow, plain, short, whole
from orchestrator.report.studies import Study, best_studies, by_dataset, leaders_of
from orchestrator.text.values import values_text

DRAWN = 40
"""Most learning curves of a study that are drawn singly; larger studies show the best ``NAMED`` and quantiles."""
NAMED = 10
FEW = 30
"""Most trials of a dataset for which the chart shown first has all curves."""


def over_trials(studies: Sequence[Study]) -> Figure:
    """Return the metric of each trial in the order of the trials, with the best so far as a line."""
    return Figure(
        key="trials",
        title="The search, trial by trial",
        note="Filled: trained to the end. Hollow: stopped early, or still training. The line is the best so far of the "
        "trials that were trained to the end. Crosses on the floor diverged or failed. A click on a dot finds it in "
        "the leaderboard.",
        options=[Option(dataset, [_over_trials(group)]) for dataset, group in by_dataset(studies).items()],
        absent="No trial has been created yet.",
    )


def learning_curves(studies: Sequence[Study]) -> Figure:
    """Return the metric over epochs: the leaders beside each other, then each study with its trials."""
    first = [option for dataset, group in by_dataset(studies).items() for option in _options_of_dataset(dataset, group)]
    each = [Option(study.label, [_curves(study)]) for study in best_studies(studies) if study.valued]
    return Figure(
        key="curves",
        title="Learning curves",
        note=f"Up to {FEW} trials of a dataset are drawn together, the leaders in bold. Of a study with more than "
        f"{DRAWN} trials the best {NAMED} are drawn; the bands hold the middle half and nine tenths of all its trials "
        "that reached an epoch.",
        options=first + each,
        absent="No trial has finished an epoch yet.",
    )


def _over_trials(studies: Sequence[Study]) -> Panel:
    values = [trial.best_value for study in studies for trial in study.valued if trial.best_value is not None]
    floor = min(values) - 0.05 * (max(values) - min(values) or 1) if values else 0.0
    traces = [trace for study in studies for trace in _trial_traces(study, floor)]
    most = max((trial.number for study in studies for trial in study.trials), default=0)
    return Panel("", traces, {"xaxis": whole("trial", most), "yaxis": axis(_metric(studies))})


def _trial_traces(study: Study, floor: float) -> list[Json]:
    done = [trial for trial in study.valued if trial.state is TrialState.FINISHED]
    open_ = [trial for trial in study.valued if trial.state is not TrialState.FINISHED]
    broken = [trial for trial in study.trials if trial.state in (TrialState.DIVERGED, TrialState.FAILED)]
    traces = [dots(study, done, [t.number for t in done], [t.best_value for t in done])]
    if open_:
        marker = hollow(study, open_[:1])[0]
        circles = dots(study, open_, [t.number for t in open_], [t.best_value for t in open_], symbol=marker)
        traces.append({**circles, "showlegend": not done})
    if broken:
        cross = dots(study, broken, [t.number for t in broken], [floor] * len(broken), symbol="x-thin-open")
        cross["text"] = [plain(f"{trial.id}: {trial.state.value}") for trial in broken]
        traces.append({**cross, "hovertemplate": "%{text}<extra></extra>", "showlegend": not done and not open_})
    return [trace for trace in [*traces, _best_so_far(study, done)] if trace["x"]]


def _best_so_far(study: Study, done: Sequence[Trial]) -> Json:
    best = highest_means(done)
    return {
        "type": "scatter",
        "mode": "lines",
        "legendgroup": study.name,
        "showlegend": False,
        "hoverinfo": "skip",
        "x": [trial.number for trial in done],
        "y": best,
        "line": {"color": colour(study), "width": 2, "shape": "hv"},
    }


def highest_means(done: Sequence[Trial]) -> list[float]:
    """Return, after each finished trial, the highest mean of a setting's trainings so far."""
    values: dict[str, list[float]] = {}
    highest = []
    for trial in done:
        values.setdefault(trial.candidate or trial.id, []).append(trial.best_value or 0.0)
        highest.append(max(map(fmean, values.values())))
    return highest


def _options_of_dataset(dataset: str, studies: Sequence[Study]) -> list[Option]:
    """Return all curves of a dataset with few trials, else the leaders'; nothing for a single study with few trials."""
    count = sum(len(study.valued) for study in studies)
    if count == 0 or (len(studies) == 1 and count <= FEW):
        return []
    if count <= FEW:
        return [Option(f"All trials on {dataset}", [_everyone(studies)])]
    return [Option(f"Leaders on {dataset}", [_leaders(studies)])]


def _everyone(studies: Sequence[Study]) -> Panel:
    """Return the curve of every trial in the colour of its study; the curves of the leaders are bold and come last."""
    leading = {study.name: study.leader or _best(study) for study in studies}
    thin = [
        {
            **_line(trial, trial.id, colour(study), 1.2),
            "legendgroup": study.name,
            "showlegend": False,
            "opacity": 0.55,
        }
        for study in studies
        for trial in study.valued
        if trial is not leading[study.name]
    ]
    bold = [{**trace, "legendgroup": study.name} for study in studies for trace in _leading(study)]
    return Panel("", [*thin, *bold], _epoch_axes(studies))


def _leaders(studies: Sequence[Study]) -> Panel:
    """Return the curve of the leader of each study; or, if none has finished, of its best trial so far."""
    traces = [trace for study in studies for trace in _leading(study)]
    return Panel("", traces, _epoch_axes(studies))


def _leading(study: Study) -> list[Json]:
    trial = study.leader or _best(study)
    return [_line(trial, study.label, colour(study), 2.5)] if trial else []


def _best(study: Study) -> Trial | None:
    return max(study.valued, key=lambda trial: trial.best_value or 0.0, default=None)


def _curves(study: Study) -> Panel:
    ranked = sorted(study.valued, key=lambda trial: -(trial.best_value or 0.0))
    first = next((trial for _, trial in leaders_of([study])), ranked[0])
    many = len(ranked) > DRAWN
    others = [trial for trial in (ranked[:NAMED] if many else ranked) if trial is not first]
    traces = _bands(ranked) if many else []
    traces += [{**_line(trial, trial.id, "--faint", 1.2), "showlegend": False} for trial in others]
    return Panel("", [*traces, _line(first, study.name_of(first), colour(study), 3)], _epoch_axes([study]))


def _line(trial: Trial, name: str, shade: str, width: float) -> Json:
    epochs = sorted(trial.epochs)
    # Written into the template once, because a text at each point would repeat a long schedule for every epoch. In a
    # template, a per cent sign would begin a variable.
    about = plain(values_text(trial.parameters)).replace("%", "&#37;")
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(epochs) == 1 else "lines",
        "name": plain(name),
        "x": epochs,
        "y": [trial.epochs[epoch][trial.metric] for epoch in epochs],
        "text": [plain(trial.id)] * len(epochs),
        "hovertemplate": f"%{{text}}<br>{about}<br>epoch %{{x}}: %{{y:.4g}}<extra></extra>",
        "line": {"color": shade, "width": width},
    }


def _bands(trials: Sequence[Trial]) -> list[Json]:
    """Return the 5-95 % and 25-75 % bands and the median over the trials that reached each epoch."""
    epochs = sorted({epoch for trial in trials for epoch in trial.epochs})
    reached = [[trial.epochs[epoch][trial.metric] for trial in trials if epoch in trial.epochs] for epoch in epochs]
    quantiles = np.array([np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]) for values in reached]).round(3).T
    low, lower, median, upper, high = quantiles.tolist()
    return [
        _band(epochs, low, high, "nine tenths of the trials", "--band1"),
        _band(epochs, lower, upper, "middle half", "--band2"),
        {
            "type": "scatter",
            "mode": "lines",
            "name": "median",
            "x": epochs,
            "y": median,
            "hovertemplate": "median<br>epoch %{x}: %{y:.4g}<extra></extra>",
            "line": {"color": "--muted", "width": 1.5, "dash": "dot"},
        },
    ]


def _band(x: list[int], low: list[float], high: list[float], name: str, shade: str) -> Json:
    """Return the area between two curves as one closed polygon."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x + x[::-1],
        "y": high + low[::-1],
        "fill": "toself",
        "fillcolor": shade,
        "line": {"width": 0},
        "hoverinfo": "skip",
    }


def _epoch_axes(studies: Sequence[Study]) -> Json:
    last = max((trial.last_epoch for study in studies for trial in study.trials), default=0)
    return {"xaxis": whole("epoch", last), "yaxis": axis(_metric(studies))}


def _metric(studies: Sequence[Study]) -> str:
    return short(next((trial.metric for study in studies for trial in study.trials), "val/rsum"))
