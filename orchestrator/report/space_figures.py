"""Figures of the search space: parallel coordinates, importance, and slices and contours with a smooth mean.

The smooth mean of scattered trials is the kernel regression of Nadaraya and Watson with a Gaussian of width
``n^(-1/(4+d))`` of the unit cube (Scott's rule, halved). It does not extrapolate: places without near trials get no
value. The lines of parallel coordinates are ordinary traces, because Plotly's own need WebGL, and its bundle of all
charts.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from orchestrator.report.figures import (
    ABOUT,
    MANY,
    SCALE,
    Figure,
    Json,
    Option,
    Panel,
    axis,
    colour,
    colour_range,
    colour_scale,
    dots,
    hollow,
    line,
    plain,
    scaled,
)
from orchestrator.report.space import FEWEST, Searched, is_word, number_ticks, rank_correlation, searched
from orchestrator.report.studies import Study, best_studies
from orchestrator.text.wording import metric_words, share_text

NEAR = 0.35
"""Sum of kernel weights below which a place is left blank; about the weight of one trial at 1.4 widths."""
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
    return [
        Figure(
            "parallel",
            "Parallel coordinates",
            "One line a trial, coloured by its value; the best are drawn last. Each axis runs from the lowest to "
            "the highest value tried, by its logarithm where the search space is logarithmic.",
            [Option(space.study.label, [parallel(space)]) for space in spaces],
            height=400,
        ),
        Figure(
            "importance",
            "Parameter importance",
            "Share of the metric's variance that a parameter explains by itself: the bias-corrected correlation ratio "
            "ε² over groups of its values. Interactions are not counted, and parameters that the sampler settled early "
            "look less important than they are. ρ is Spearman's rank correlation.",
            [Option(space.study.label, [_importance(space, most)]) for space in spaces if space.shares],
            height=90 + 38 * most,
        ),
        Figure(
            "slices",
            "Slices",
            "The metric against each parameter, coloured by its value; hollow trials were stopped early and count with "
            "the value that they had reached. The line is a kernel-weighted mean; it stops where no trial is near.",
            [Option(space.study.label, _slices(space)) for space in spaces],
            height=280,
        ),
        Figure(
            "contours",
            "Contours",
            f"The same mean over two parameters at a time, of the {PAIRS_AMONG} most important; blank where no trial "
            "is near. Every trial is a dot in the colour of its own value.",
            [Option(space.study.label, panels) for space in spaces if (panels := _contours(space))],
            height=340,
        ),
    ]


def parallel(space: Searched) -> Panel:
    """Return the lines of a study's trials; axes run from the lowest to the highest value tried."""
    heights = np.array([*(space.unit(name) for name in space.parameters), scaled(space.values)])
    low, high = colour_range(space.values)
    shares = np.clip((np.array(space.values) - low) / (high - low), 0, 1) if high > low else np.ones(len(space.values))
    # One trace for each colour: a trace for each of thousands of trials would take seconds to draw.
    places = np.minimum((shares * len(SCALE)).astype(int), len(SCALE) - 1)
    traces = [_bundle(space, heights, np.flatnonzero(places == place), place) for place in np.unique(places)]
    names = [*map(plain, space.names.values()), plain(metric_words(space.metric))]
    ticks = [*(space.ticks(name) for name in space.parameters), number_ticks(space.values)]
    layout = {
        "xaxis": {
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "range": [-0.1, len(names) - 0.55],
            "gridcolor": "--strong",
        },
        "yaxis": {"visible": False, "range": [-0.04, 1.04]},
        "annotations": [_tick(place, height, text) for place, axis_ in enumerate(ticks) for height, text in axis_],
        "showlegend": False,
    }
    return Panel("", traces, layout)


def _bundle(space: Searched, heights: np.ndarray, trials: np.ndarray, place: int) -> Json:
    """Return the lines of the trials that have the colour at a place of the scale, as one trace with gaps."""
    axes, many, share = heights.shape[0], len(space.trials) > MANY, float(place) / (len(SCALE) - 1)
    x = [number for _ in trials for number in [*range(axes), None]]
    y = [value for trial in trials for value in [*heights[:, trial].round(4).tolist(), None]]
    about: Json = {
        "text": [name for trial in trials for name in [plain(space.trials[trial].id)] * (axes + 1)],
        "hovertemplate": f"{ABOUT}<extra></extra>",
        "opacity": (0.2 if many else 0.5) + 0.5 * share**2,
    }
    return line(x, y, color=str(SCALE[place][1]), width=(0.8 if many else 1.2) + share, **about)


def _tick(place: int, height: float, text: str) -> Json:
    """Return the label of a value on an axis of parallel coordinates, right of the axis."""
    looks = {"showarrow": False, "xanchor": "left", "xshift": 2, "borderpad": 1, "bgcolor": "--veil"}
    return {"x": place, "y": height, "text": plain(text), "font": {"size": 11}, **looks}


def _importance(space: Searched, most: int) -> Panel:
    shares = space.shares
    bar: Json = {
        "type": "bar",
        "orientation": "h",
        "x": [round(share, 4) for _, share in shares],
        "y": [plain(space.names[name]) for name, _ in shares],
        "text": [f" {share_text(share)}{_direction(space, name)}" for name, share in shares],
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
    values = [plain(str(value)) if isinstance(value, str | bool) else value for value in space.parameters[name]]
    marker = {"symbol": hollow(space.study, space.trials), "color": space.values, "coloraxis": "coloraxis"}
    layout = {
        "xaxis": space.axis(name),
        "yaxis": axis(metric_words(space.metric)),
        "showlegend": False,
        # The metric is the title of the vertical axis already.
        **colour_scale("", space.values),
    }
    return Panel("", [*_trend(space, name), dots(space.study, space.trials, values, space.values, **marker)], layout)


def _trend(space: Searched, name: str) -> list[Json]:
    values = space.parameters[name]
    if is_word(values) or len(values) < FEWEST:
        return []
    places = np.linspace(0, 1, 60)
    mean = smooth(np.array(space.unit(name))[:, None], np.array(space.values), places[:, None])
    return [line(space.spread(name, len(places)), _blanks(mean), color="--muted", hoverinfo="skip")]


def _contours(space: Searched) -> list[Panel]:
    return [_contour(space, *pair) for pair in combinations(space.numbers[:PAIRS_AMONG], 2)]


def _contour(space: Searched, first: str, second: str) -> Panel:
    traces: list[Json] = []
    if len(space.values) >= FEWEST:
        places = np.linspace(0, 1, GRID)
        grid = np.stack(np.meshgrid(places, places), axis=-1).reshape(-1, 2)
        mean = smooth(np.array([space.unit(first), space.unit(second)]).T, np.array(space.values), grid)
        traces.append(_field(space.spread(first, GRID), space.spread(second, GRID), mean.reshape(GRID, GRID)))
    rim = {"color": "--surface", "width": 1}
    marker = {"symbol": "circle", "color": space.values, "coloraxis": "coloraxis", "line": rim}
    traces.append(dots(space.study, space.trials, space.parameters[first], space.parameters[second], **marker))
    axes = {"xaxis": space.axis(first), "yaxis": space.axis(second), "showlegend": False}
    return Panel("", traces, {**axes, **colour_scale(space.metric, space.values)})


def _field(x: list[float], y: list[float], mean: np.ndarray) -> Json:
    return {
        "type": "contour",
        "x": x,
        "y": y,
        "z": [_blanks(row) for row in mean],
        "coloraxis": "coloraxis",
        "contours": {"coloring": "heatmap", "showlines": True},
        "line": {"width": 0.5, "color": "--surface"},
        "ncontours": 12,
        "connectgaps": False,
        "hoverinfo": "skip",
    }


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


def _blanks(row: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 3) for value in row]
