"""Parallel coordinates: a line for each trial through all of its parameters to its value.

The lines are ordinary traces, because Plotly's own ``parcoords`` shows nothing in a browser without WebGL.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from orchestrator.report.figures import MANY, SCALE, Json, Panel, plain, scaled, short
from orchestrator.report.space import Searched, is_word

BINS = 10
"""Number of bundles in which the lines are drawn, the worst trials first; a bundle has one colour."""


def parallel(space: Searched) -> Panel:
    """Return the lines of a study's trials; axes run from the lowest to the highest value tried."""
    columns = {name: _heights(space, name) for name in space.parameters}
    metric = short(space.trials[0].metric)
    heights = np.array([*columns.values(), scaled(space.values)])
    order = np.argsort(space.values, kind="stable")
    # The last bundle, which holds the best trials, has the highest colour of the scale.
    bundles = np.array_split(order, min(BINS, len(order)))[::-1]
    shades = np.linspace(1, 0, len(bundles))
    traces = [_bundle(space, heights, part, float(shade)) for part, shade in zip(bundles, shades, strict=True)][::-1]
    names = [*(plain(name) for name in columns), metric]
    places = list(range(len(names)))
    layout = {
        "xaxis": {"tickvals": places, "ticktext": names, "range": [-0.3, len(names) - 0.7], "gridcolor": "--strong"},
        "yaxis": {"visible": False, "range": [-0.1, 1.1]},
        "annotations": [
            note
            for place, values in enumerate([*space.parameters.values(), space.values])
            for note in _ends(place, values)
        ],
        "showlegend": False,
    }
    return Panel("", traces, layout)


def _bundle(space: Searched, heights: np.ndarray, part: np.ndarray, shade: float) -> Json:
    """Return the lines of some trials as one trace with gaps; ``shade`` places their colour on the scale."""
    axes, many = heights.shape[0], len(space.trials) > MANY
    x = [place for _ in part for place in [*range(axes), None]]
    y = [value for trial in part for value in [*heights[:, trial].round(4).tolist(), None]]
    text = [name for trial in part for name in [plain(space.trials[trial].id)] * (axes + 1)]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "text": text,
        "hovertemplate": "%{text}<extra></extra>",
        "line": {"color": SCALE[round(shade**2 * (len(SCALE) - 1))][1], "width": (0.8 if many else 1.2) + shade},
        "opacity": (0.2 if many else 0.5) + 0.5 * shade**2,
    }


def _heights(space: Searched, name: str) -> list[float]:
    """Return the heights of values on an axis of [0, 1]; words are spread evenly in alphabetical order."""
    values = space.parameters[name]
    if not is_word(values):
        return space.unit(name)
    words = sorted({str(value) for value in values})
    return [words.index(str(value)) / (len(words) - 1) for value in values]


def _ends(place: int, values: Sequence[Any]) -> list[Json]:
    """Return the labels of an axis's ends."""
    words = sorted(map(str, values))
    low, high = (words[0], words[-1]) if is_word(values) else (f"{min(values):.3g}", f"{max(values):.3g}")
    return [
        {"x": place, "y": y, "text": plain(text), "showarrow": False, "yanchor": anchor, "font": {"color": "--muted"}}
        for y, text, anchor in ((0, low, "top"), (1, high, "bottom"))
    ]
