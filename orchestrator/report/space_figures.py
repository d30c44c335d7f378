"""The good trials in the search space: parallel coordinates, importance, slices and contours of a smooth mean.

A smooth mean of scattered trials, for slices and contours.

The kernel regression of Nadaraya and Watson with a Gaussian of width ``n^(-1/(4+d))`` of the unit cube (Scott's rule,
halved). The regression does not extrapolate: places without near trials get no value.

Parallel coordinates: a line for each trial through all of its parameters to its value.

The lines are ordinary traces, because Plotly's own ``parcoords`` shows nothing in a browser without WebGL.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from orchestrator.report.figures import (
    MANY,
    SCALE,
    Figure,
    Json,
    Option,
    Panel,
    axis,
    colour,
    dots,
    hollow,
    plain,
    scaled,
    short,
)
from orchestrator.report.importance import FEWEST, rank_correlation
from orchestrator.report.space import Searched, is_word, searched
from orchestrator.report.studies import Study, best_studies

NEAR = 0.35
"""Sum of kernel weights below which a place is left blank; about the weight of one trial at 1.4 widths."""


def smooth(points: np.ndarray, values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the mean of the values around each place.

    Args:
        points: Points of the trials, shape (N, d), scaled to [0, 1].
        values: Values of the trials, shape (N,).
        places: Places of the means, shape (M, d).

    Returns:
        Weighted means, shape (M,); NaN where no trial is near.
    """
    count, dimensions = points.shape
    width = 0.5 * count ** (-1 / (4 + dimensions))
    squares = ((places[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
    weights = np.exp(-squares / (2 * width**2))
    total = weights.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total >= NEAR, weights @ values / total, np.nan)


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


GRID = 36
"""Number of grid points along each side of a contour."""
SLICES = 6
"""Most parameters of a study that get a slice; the most important parameters get one."""
PAIRS_AMONG = 3
"""Most parameters of a study that are paired in contours."""


def space_figures(studies: Sequence[Study]) -> list[Figure]:
    """Return the figures of the search space, with one option for each study."""
    spaces = [space for space in map(searched, best_studies(studies)) if space.parameters]
    most = max((len(space.parameters) for space in spaces), default=1)
    absent = "No study has two trials with different parameters."
    return [
        Figure(
            "parallel",
            "Parallel coordinates",
            "One line a trial, coloured by its value; the best are drawn last. Each axis runs from the lowest to "
            "the highest value tried, by its logarithm where the search space is logarithmic.",
            [Option(space.study.label, [parallel(space)]) for space in spaces],
            height=400,
            absent=absent,
        ),
        Figure(
            "importance",
            "Parameter importance",
            "Share of the metric's variance that a parameter explains by itself: the bias-corrected correlation ratio "
            "ε² over groups of its values. Interactions are not counted, and parameters that the sampler settled early "
            "look less important than they are. ρ is Spearman's rank correlation.",
            [Option(space.study.label, [_importance(space, most)]) for space in spaces if space.shares],
            height=90 + 38 * most,
            absent=f"Needs {FEWEST} trials of a study that differ in a parameter and in the metric.",
        ),
        Figure(
            "slices",
            "Slices",
            "The metric against each parameter; hollow trials were stopped early and count with what they had reached. "
            "The line is a kernel-weighted mean; it stops where no trial is near.",
            [Option(space.study.label, _slices(space)) for space in spaces],
            height=280,
            absent=absent,
        ),
        Figure(
            "contours",
            "Contours",
            f"The same mean over two parameters at a time, of the {PAIRS_AMONG} most important; blank where no trial "
            "is near. Every trial is a dot.",
            [Option(space.study.label, panels) for space in spaces if (panels := _contours(space))],
            height=340,
            absent="Needs a study that searches two numbers or more.",
        ),
    ]


def _importance(space: Searched, most: int) -> Panel:
    shares = space.shares
    texts = [f" {share:.0%}{_direction(space, name)}" for name, share in shares]
    bar: Json = {
        "type": "bar",
        "orientation": "h",
        "x": [round(share, 4) for _, share in shares],
        "y": [plain(name) for name, _ in shares],
        "text": texts,
        "textposition": "outside",
        "cliponaxis": False,
        "hoverinfo": "skip",
        "marker": {"color": colour(space.study)},
        "width": 0.6,
    }
    layout = {
        "xaxis": axis("share of variance, main effect", range=[0, 1.2], tickformat=".0%", dtick=0.25),
        # The axis has room for as many bars as the largest study needs, so that bars are equally thick in all studies.
        "yaxis": {"type": "category", "showgrid": False, "range": [len(shares) - most - 0.5, len(shares) - 0.5]},
        "showlegend": False,
    }
    return Panel("", [bar], layout)


def _direction(space: Searched, name: str) -> str:
    values = space.parameters[name]
    rho = None if is_word(values) else rank_correlation(values, space.values)
    return "" if rho is None else f"  ρ {rho:+.2f}"


def _slices(space: Searched) -> list[Panel]:
    words = [name for name in space.parameters if name not in space.numbers]
    return [_slice(space, name) for name in [*space.numbers, *words][:SLICES]]


def _slice(space: Searched, name: str) -> Panel:
    values = space.parameters[name]
    layout = {
        "xaxis": space.axis(name),
        "yaxis": axis(short(space.trials[0].metric)),
        "showlegend": False,
    }
    shape = hollow(space.study, space.trials)
    trace = dots(space.study, space.trials, [_tick(value) for value in values], space.values, symbol=shape, opacity=0.7)
    return Panel("", [trace, *_trend(space, name)], layout)


def _trend(space: Searched, name: str) -> list[Json]:
    values = space.parameters[name]
    if is_word(values) or len(values) < FEWEST:
        return []
    places = np.linspace(0, 1, 60)
    mean = smooth(np.array(space.unit(name))[:, None], np.array(space.values), places[:, None])
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": space.spread(name, len(places)),
            "y": _blanks(mean),
            "hoverinfo": "skip",
            "line": {"color": "--ink", "width": 2},
        }
    ]


def _contours(space: Searched) -> list[Panel]:
    return [_contour(space, *pair) for pair in combinations(space.numbers[:PAIRS_AMONG], 2)]


def _contour(space: Searched, first: str, second: str) -> Panel:
    x, y = space.parameters[first], space.parameters[second]
    traces: list[Json] = []
    if len(x) >= FEWEST:
        places = np.linspace(0, 1, GRID)
        grid = np.stack(np.meshgrid(places, places), axis=-1).reshape(-1, 2)
        mean = smooth(np.array([space.unit(first), space.unit(second)]).T, np.array(space.values), grid)
        traces.append(_field(space.spread(first, GRID), space.spread(second, GRID), mean.reshape(GRID, GRID)))
    rim = {"color": "--surface", "width": 1}
    points = dots(space.study, space.trials, x, y, color="--ink", symbol="circle", opacity=0.8, line=rim)
    points["customdata"] = [round(value, 2) for value in space.values]
    points["hovertemplate"] = "%{text}<br>%{customdata}<extra></extra>"
    layout = {"xaxis": space.axis(first), "yaxis": space.axis(second), "showlegend": False}
    return Panel("", [*traces, points], layout)


def _field(x: list[float], y: list[float], mean: np.ndarray) -> Json:
    return {
        "type": "contour",
        "x": x,
        "y": y,
        "z": [_blanks(row) for row in mean],
        "colorscale": SCALE,
        "contours": {"coloring": "heatmap", "showlines": True},
        "line": {"width": 0.5, "color": "--surface"},
        "ncontours": 12,
        "connectgaps": False,
        "hoverinfo": "skip",
        "colorbar": {"thickness": 10, "outlinewidth": 0, "len": 0.9},
    }


def _blanks(row: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 3) for value in row]


def _tick(value: Any) -> Any:
    return plain(str(value)) if isinstance(value, str | bool) else value
