"""The good trials in the search space: parallel coordinates, importance, slices and contours."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from orchestrator.report.figures import SCALE, Figure, Json, Option, Panel, axis, colour, dots, hollow, plain, short
from orchestrator.report.importance import FEWEST, rank_correlation
from orchestrator.report.parallel import parallel
from orchestrator.report.space import Searched, is_word, searched
from orchestrator.report.studies import Study, best_studies
from orchestrator.report.surface import smooth

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
