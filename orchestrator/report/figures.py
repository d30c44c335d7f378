"""Shared parts of all figures: Plotly's JSON, colours by name, and strings that Plotly shows literally.

A colour is the name of a CSS custom property (``--c1``). The page looks up its value when drawing, so that only the
stylesheet depends on light or dark mode. In the same way, a trace has the ids of its trials (``text``), and the page
writes the facts about each trial into ``hovertext``. So no chart repeats the parameters of all trials.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from orchestrator.journal.trial import Trial, TrialState
from orchestrator.report.studies import Study
from orchestrator.results.answer import Json
from orchestrator.text.values import visible
from orchestrator.text.wording import metric_words

COLOURS = 7
DASHES = ("solid", "dash", "dot")
WIDE = 20
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""
MANY = 100
"""Number of trials of a study above which dots get smaller."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "pentagon", "star", "hexagon", "triangle-down")
SCALE = [[place / 4, f"--scale{place}"] for place in range(5)]
"""Colour scale from low to high."""
ABOUT = "%{hovertext}"
"""Place in a hover template of what is known of a trial: its name, its parameters and its value."""


@dataclass(frozen=True)
class Panel:
    """One drawing."""

    caption: str
    data: list[Json]
    layout: Json


class Option(NamedTuple):
    """One choice of a figure: its panels side by side."""

    label: str
    panels: list[Panel]


@dataclass(frozen=True)
class Figure:
    """A figure of the report with its anchor (``key``); its panels are ``height`` CSS pixels high.

    The page shows the first option at first. A figure without data has no option, and is not shown.
    """

    key: str
    title: str
    note: str
    options: list[Option]
    height: int = 380


def plain(text: str) -> str:
    """Return a string whose tags and entities Plotly shows literally."""
    return html.escape(visible(text), quote=False)


def shade(place: int) -> str:
    """Return the colour of the study, or else of the line, at a place of a figure, from 0."""
    return f"--c{place % COLOURS + 1}"


def dash(place: int) -> str:
    """Return the dash of the line at a place of a figure, so that lines of one colour differ."""
    return DASHES[place // COLOURS % len(DASHES)]


def style(study: Study) -> Json:
    """Return what distinguishes the lines of a study: colour, dash, and the entry of the legend that hides them."""
    return {"color": shade(study.place), "dash": dash(study.place), "legendgroup": study.name}


def symbol(study: Study) -> str:
    """Return the marker of a study, which distinguishes studies without colour."""
    return SYMBOLS[study.place % len(SYMBOLS)]


def hollow(study: Study, trials: Sequence[Trial]) -> list[str]:
    """Return the marker of each trial: hollow if it was not trained to its end."""
    finished = symbol(study)
    return [finished if trial.state is TrialState.FINISHED else f"{finished}-open" for trial in trials]


def dots(study: Study, trials: Sequence[Trial], x: Sequence[Any], y: Sequence[Any], **marker: Any) -> Json:
    """Return a dot for each trial; ``text`` holds the ids, by which the page finds the trial of a dot."""
    size = 8 if len(study.trials) <= MANY else 5
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(study.short_label),
        "legendgroup": study.name,
        "x": list(x),
        "y": list(y),
        "text": [trial.id for trial in trials],
        "hovertemplate": f"{ABOUT}<extra></extra>",
        "marker": {"color": shade(study.place), "symbol": symbol(study), "size": size, **marker},
    }


def line(x: Sequence[Any], y: Sequence[Any], *, color: str, width: float = 2, **rest: Any) -> Json:
    """Return a line of some width in CSS pixels; a line of one point is a dot.

    ``rest`` is ``dash`` and ``shape`` of the line, and settings of the trace, such as ``name``.
    """
    drawn = {key: rest.pop(key) for key in ("dash", "shape") if key in rest}
    mode = rest.pop("mode", "lines" if len(x) != 1 else "lines+markers")
    trace = {"type": "scatter", "mode": mode, "x": list(x), "y": list(y), **rest}
    return {**trace, "line": {"color": color, "width": width, **drawn}}


def band(x: Sequence[Any], low: Sequence[float], high: Sequence[float], color: str, **rest: Any) -> Json:
    """Return the area between two curves as one closed polygon."""
    around, edge = [*x, *reversed(x)], [*high, *reversed(low)]
    return {**line(around, edge, color=color, width=0, hoverinfo="skip", **rest), "fill": "toself", "fillcolor": color}


def axis(title: str, **rest: Any) -> Json:
    """Return an axis with its title."""
    return {"title": {"text": plain(title)}, **rest}


def whole(title: str, highest: int) -> Json:
    """Return an axis of whole numbers from 0 or 1 on, with ticks only at whole numbers."""
    return axis(title, **({"dtick": 1} if highest <= 10 else {}))


def log_axis(title: str, values: Sequence[float]) -> Json:
    """Return a logarithmic axis of positive values, with as many ticks as a small drawing has room for."""
    low, high = min(values), max(values)
    places = log_ticks(low, high, (1, 2, 5) if high < 20 * low else (1, 3) if high < 1000 * low else (1,))
    return axis(title, type="log", tickvals=places, ticktext=[f"{value:g}" for value in places])


def axis_of(title: str, values: Sequence[float]) -> Json:
    """Return the axis of values, logarithmic where the largest is many times the smallest; 0 has no place on it."""
    is_wide = bool(values) and min(values) > 0 and max(values) > WIDE * min(values)
    return log_axis(title, values) if is_wide else axis(title)


def log_ticks(low: float, high: float, steps: Sequence[int]) -> list[float]:
    """Return the ticks of a logarithmic axis: the steps of each decade that the range touches."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [float(f"{step}e{decade}") for decade in decades for step in steps]


def scaled(values: Sequence[float], *, log: bool = False) -> list[float]:
    """Return values, or their logarithms with ``log``, scaled to [0, 1] by their extremes; constants are 0.5."""
    if log:
        values = [math.log(value) for value in values]
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]


def colour_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the values at the ends of a colour scale; values beyond the lower end have its colour.

    The lower end is the lowest value, but at most 1.5 interquartile ranges below the lower quartile. So a few trials
    that learned nothing do not leave all others in one colour.
    """
    lower, upper = np.quantile(values, [0.25, 0.75])
    return max(min(values), float(lower - 1.5 * (upper - lower))), max(values)


def colour_scale(metric: str, values: Sequence[float]) -> Json:
    """Return the part of a layout that gives values their colours, with the scale and its title beside the drawing."""
    low, high = colour_range(values)
    title = {"text": plain(metric_words(metric)), "side": "right"}
    bar = {"title": title, "thickness": 10, "outlinewidth": 0, "len": 1, "x": 1.01}
    return {"coloraxis": {"colorscale": SCALE, "cmin": low, "cmax": high, "colorbar": bar}}
