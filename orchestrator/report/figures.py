"""Shared parts of all figures: Plotly's JSON, colours by name, and strings that Plotly shows literally.

A colour is the name of a CSS custom property (``--c1``). The page looks up its value when drawing, so that only the
stylesheet depends on light or dark mode.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.journal.trial import Trial, TrialState
from orchestrator.report.studies import Study
from orchestrator.text.values import visible

Json = dict[str, Any]

COLOURS = 7
MANY = 100
"""Number of trials of a study above which dots get smaller."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "pentagon", "star", "hexagon", "triangle-down")
SCALE = [[place / 4, f"--scale{place}"] for place in range(5)]
"""Colour scale from low to high."""


@dataclass(frozen=True)
class Panel:
    """One drawing.

    Attributes:
        caption: Text above the drawing.
        data: Traces.
        layout: Axes and other settings of this drawing.
    """

    caption: str
    data: list[Json]
    layout: Json


@dataclass(frozen=True)
class Option:
    """One choice of a figure: its panels side by side."""

    label: str
    panels: list[Panel]


@dataclass(frozen=True)
class Figure:
    """A figure of the report.

    Attributes:
        key: Anchor of the figure.
        title: Title of the figure.
        note: Explanation of the figure.
        options: Choices; the page shows the first choice at first.
        height: Height of a panel in CSS pixels.
        absent: Reason for a missing figure; empty if the figure has options.
    """

    key: str
    title: str
    note: str
    options: list[Option]
    height: int = 380
    absent: str = ""


def plain(text: str) -> str:
    """Return a string whose tags and entities Plotly shows literally."""
    return html.escape(visible(text), quote=False)


def colour(study: Study) -> str:
    """Return the colour of a study."""
    return f"--c{study.place % COLOURS + 1}"


def symbol(study: Study) -> str:
    """Return the marker of a study, which distinguishes studies without colour."""
    return SYMBOLS[study.place % len(SYMBOLS)]


def hollow(study: Study, trials: Sequence[Trial]) -> list[str]:
    """Return the marker of each trial: hollow if it was not trained to its end."""
    finished = symbol(study)
    return [finished if trial.state is TrialState.FINISHED else f"{finished}-open" for trial in trials]


def log_ticks(low: float, high: float) -> Json:
    """Return the ticks of a logarithmic axis: decades, with 2 and 5 between them if there are few."""
    steps = (1, 2, 5) if high < 200 * low else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [float(f"{step}e{decade}") for decade in decades for step in steps]
    return {"tickvals": values, "ticktext": [f"{value:g}" for value in values]}


def whole(title: str, highest: int) -> Json:
    """Return an axis of whole numbers from 0 or 1 on, with ticks only at whole numbers."""
    return axis(title, **({"dtick": 1} if highest <= 10 else {}))


def axis(title: str, **rest: Any) -> Json:
    """Return an axis with its title."""
    return {"title": {"text": plain(title)}, **rest}


def dots(study: Study, trials: Sequence[Trial], x: Sequence[Any], y: Sequence[Any], **marker: Any) -> Json:
    """Return a dot for each trial; ``text`` holds the ids, by which the page finds the trial of a dot."""
    size = 8 if len(study.trials) <= MANY else 5
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(study.label),
        "legendgroup": study.name,
        "x": list(x),
        "y": list(y),
        "text": [plain(trial.id) for trial in trials],
        "hovertemplate": "%{text}<br>%{xaxis.title.text} %{x}<br>%{yaxis.title.text} %{y:.4g}<extra></extra>",
        "marker": {"color": colour(study), "symbol": symbol(study), "size": size, **marker},
    }


def short(metric: str) -> str:
    """Return the name of a metric on an axis: ``val/rsum`` is ``val rsum``."""
    return metric.replace("/", " ").replace("_", " ")


def scaled(values: Sequence[float], *, log: bool = False) -> list[float]:
    """Return values, or their logarithms with ``log``, scaled to [0, 1] by their extremes; constants are 0.5."""
    if log:
        values = [math.log(value) for value in values]
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]
