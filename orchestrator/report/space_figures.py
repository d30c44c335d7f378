"""Figures of the search space: parallel coordinates, slices and contours of the surface.

The surface is that of ``results/surface.py``. Slices and contours go through the setting to use: the parameters that
are not drawn have its values. Studies with too few trials for a surface are drawn without one. The lines of parallel
coordinates are ordinary traces, because Plotly's own need WebGL, and its bundle of all charts.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from orchestrator.report import figures as draw
from orchestrator.report.figures import ABOUT, MANY, Figure, Option, Panel
from orchestrator.report.studies import Study, best_studies
from orchestrator.results.answer import Json
from orchestrator.results.bands import Band, value_at
from orchestrator.results.surface import REACH
from orchestrator.text.values import in_digits
from orchestrator.text.wording import metric_words, parameter_names
from trainables.parameter_values import is_number

GRID = 24
"""Number of grid points along each side of a contour."""
SLICES = 6
"""Most parameters of a study that get a slice; the most important parameters get one."""
PAIRS_AMONG = 3
"""Most parameters of a study that are paired in contours."""
TICK = {"showarrow": False, "xanchor": "left", "xshift": 2, "borderpad": 1, "bgcolor": "--veil", "font": {"size": 11}}
"""Looks of the label of a value on an axis of parallel coordinates, right of the axis."""


_SLICED = (
    " The line is the expected value with its 95 % band, the other parameters as in the setting to use. The grey area "
    "has the settings that do not differ significantly from the best."
)
_CONTOURED = (
    f"The expected value over two parameters at a time, of the {PAIRS_AMONG} with the largest effects, the others as "
    "in the setting to use. The line surrounds the settings that do not differ significantly from the best; the cross "
    "is the setting to use. "
)


def space_figures(studies: Sequence[Study], bands: Mapping[str, Band]) -> list[Figure]:
    """Return the figures of the search space, with one option for each study; its surface is in ``bands``."""
    all_spaces = [SearchedTrials(study, bands.get(study.name)) for study in best_studies(studies)]
    spaces = [space for space in all_spaces if space.parameters]
    # The surface of too few settings is not known, and what is not drawn is not described.
    has_surface = any(space.band is not None for space in spaces)
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
            "slices",
            "Slices",
            "The metric against each parameter, coloured by its value; hollow trials were stopped early and count with "
            f"the value that they had reached.{_SLICED if has_surface else ''}",
            [Option(space.study.label, [_slice(space, name) for name in space.sliced]) for space in spaces],
            height=280,
        ),
        Figure(
            "contours",
            "Contours" if has_surface else "Pairs of parameters",
            f"{_CONTOURED if has_surface else 'Two parameters at a time. '}"
            "Every trial is a dot in the colour of its own value.",
            [
                Option(space.study.label, [_contour(space, *pair) for pair in pairs])
                for space in spaces
                if (pairs := list(combinations(space.numbers[:PAIRS_AMONG], 2)))
            ],
            height=340,
        ),
    ]


class SearchedTrials:
    """The trials of a study that have a value, with the parameters in which they differ.

    Attributes:
        values: The maximised metric of each trial.
        parameters: Name -> value in each trial.
        names: Name of a parameter -> its name for people.
        logs: Names of the parameters whose axes are logarithmic.
        band: The surface, where there are enough trials.
    """

    def __init__(self, study: Study, band: Band | None = None) -> None:
        self.study, self.band = study, band
        self.trials = [trial for trial in study.valued if not trial.is_zero_shot]
        self.values = [trial.best_value or 0.0 for trial in self.trials]
        # In conditional search spaces a trial may lack a parameter; only parameters that every trial has can be drawn.
        first = self.trials[0].params if self.trials else {}
        shared = [name for name in first if all(name in trial.params for trial in self.trials)]
        columns = {name: [trial.params[name] for trial in self.trials] for name in shared}
        self.parameters = {name: column for name, column in columns.items() if len(set(map(str, column))) > 1}
        self.names = parameter_names(self.parameters)
        self.logs = {name for name, column in self.parameters.items() if _is_log(study.logs, name, column)}

    @property
    def numbers(self) -> list[str]:
        """Names of the parameters that are numbers, those with the largest effect first, where effects are known."""
        names = [name for name, values in self.parameters.items() if not is_word(values)]
        changes = self.band.changes if self.band else {}
        return sorted(names, key=lambda name: -(changes[name].value if name in changes else 0.0))

    @property
    def sliced(self) -> list[str]:
        """Names of the parameters with a slice: numbers before words."""
        return [*self.numbers, *(name for name in self.parameters if name not in self.numbers)][:SLICES]

    def on_axis(self, name: str) -> tuple[list[float], list[tuple[float, str]]]:
        """Return where the trials are on [0, 1] of a parameter's axis, and its ticks; words are evenly spread."""
        values, log = self.parameters[name], name in self.logs
        if not is_word(values):
            return draw.scaled(values, log=log), number_ticks(values, log=log)
        words = sorted({str(value) for value in values})
        places = {word: place / (len(words) - 1) for place, word in enumerate(words)}
        return [places[str(value)] for value in values], [(place, word) for word, place in places.items()]

    def axis(self, name: str) -> Json:
        """Return the axis of a parameter."""
        values = self.parameters[name]
        if is_word(values):
            return draw.axis(self.names[name], type="category")
        return draw.log_axis(self.names[name], values) if name in self.logs else draw.axis(self.names[name])


def number_ticks(values: Sequence[float], *, log: bool = False) -> list[tuple[float, str]]:
    """Return places on [0, 1] of an axis from the lowest value to the highest: both ends, and round values between."""
    low, high = min(values), max(values)
    if low == high:
        return [(0.5, in_digits(low, 3))]
    steps = (1, 2, 5) if high < 200 * low else (1,)
    rounded = draw.log_ticks(low, high, steps) if log else _round_values(low, high)
    between = [value for value in rounded if low < value < high]
    places = draw.scaled([low, *between, high], log=log)
    texts = [in_digits(low, 3), *(in_digits(value, 6) for value in between), in_digits(high, 3)]
    ticks = zip(places, texts, strict=True)
    # A round value beside an end would be written over the value of the end.
    return [(place, text) for place, text in ticks if place in (places[0], places[-1]) or 0.07 <= place <= 0.93]


def _round_values(low: float, high: float) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten within a range, at most six."""
    size = 10.0 ** np.floor(np.log10((high - low) / 6))
    step = next(size * factor for factor in (1, 2, 5, 10) if (high - low) / (size * factor) <= 6)
    return [float(f"{place * step:.6g}") for place in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def is_word(values: Sequence[Any]) -> bool:
    """Say whether a parameter is no number in some trial."""
    return not all(map(is_number, values))


def _is_log(logs: Mapping[str, bool], name: str, values: Sequence[Any]) -> bool:
    """Say whether a range is logarithmic; listed values count as logarithmic if their spacing is."""
    if is_word(values) or min(values) <= 0:
        return False
    if name in logs:
        return logs[name]
    low, high, middle = min(values), max(values), float(np.median(values))
    return high > 20 * low and middle < (low * high) ** 0.5 * 2


def parallel(space: SearchedTrials) -> Panel:
    """Return the lines of a study's trials; axes run from the lowest to the highest value tried."""
    axes = [*map(space.on_axis, space.parameters), (draw.scaled(space.values), number_ticks(space.values))]
    heights = np.array([places for places, _ in axes])
    low, high = draw.colour_range(space.values)
    shares = np.clip((np.array(space.values) - low) / (high - low), 0, 1) if high > low else np.ones(len(space.values))
    # One trace for each colour: thousands of traces, one a trial, would take seconds to draw.
    places = np.minimum((shares * len(draw.SCALE)).astype(int), len(draw.SCALE) - 1)
    traces = [_bundle(space, heights, np.flatnonzero(places == place), place) for place in np.unique(places)]
    names = [*map(draw.plain, space.names.values()), draw.plain(metric_words(space.study.metric))]
    ends = [-0.1, len(names) - 0.55]
    layout = {
        "xaxis": {"tickvals": list(range(len(names))), "ticktext": names, "range": ends, "gridcolor": "--strong"},
        "yaxis": {"visible": False, "range": [-0.04, 1.04]},
        "annotations": [
            {"x": place, "y": height, "text": draw.plain(text), **TICK}
            for place, (_, ticks) in enumerate(axes)
            for height, text in ticks
        ],
        "showlegend": False,
    }
    return Panel("", traces, layout)


def _bundle(space: SearchedTrials, heights: np.ndarray, trials: np.ndarray, place: int) -> Json:
    """Return the lines of the trials that have the colour at a place of the scale, as one trace with gaps."""
    axes, many, share = heights.shape[0], len(space.trials) > MANY, float(place) / (len(draw.SCALE) - 1)
    x = [number for _ in trials for number in [*range(axes), None]]
    y = [value for trial in trials for value in [*heights[:, trial].round(4).tolist(), None]]
    about: Json = {
        "text": [name for trial in trials for name in [space.trials[trial].id] * (axes + 1)],
        "hovertemplate": f"{ABOUT}<extra></extra>",
        "opacity": (0.2 if many else 0.5) + 0.5 * share**2,
    }
    return draw.line(x, y, color=str(draw.SCALE[place][1]), width=(0.8 if many else 1.2) + share, **about)


def _slice(space: SearchedTrials, name: str) -> Panel:
    values = [value if is_number(value) else draw.plain(str(value)) for value in space.parameters[name]]
    marker = {"symbol": draw.hollow(space.study, space.trials), "color": space.values, "coloraxis": "coloraxis"}
    layout = {
        "xaxis": space.axis(name),
        "yaxis": draw.axis(metric_words(space.study.metric)),
        "showlegend": False,
        # The metric is the title of the vertical axis already.
        **draw.colour_scale("", space.values),
    }
    return Panel(
        "", [*_trend(space, name), draw.dots(space.study, space.trials, values, space.values, **marker)], layout
    )


def _trend(space: SearchedTrials, name: str) -> list[Json]:
    """Return the area of the best settings, and the expected value with its band."""
    if space.band is None or name not in space.band.bounds:
        return []
    surface, shares = space.band.surface, np.linspace(0, 1, 60)
    line_ = _through_setting(space.band, {name: shares})
    mean, low, high = surface.band(surface.predict(line_))
    x = [value_at(space.band.bounds[name], float(share)) for share in shares]
    bottom, top = min([*low, *space.values]), max([*high, *space.values])
    return [
        draw.band(space.band.ranges[name], [bottom] * 2, [top] * 2, "--band2"),
        draw.band(x, low.round(3).tolist(), high.round(3).tolist(), "--band2"),
        draw.line(x, mean.round(3).tolist(), color="--muted", hoverinfo="skip"),
    ]


def _through_setting(band: Band, varied: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return places with given shares of some parameters, and of the others those of the setting to use."""
    count = len(next(iter(varied.values())))
    places = np.tile(band.surface.safest, (count, 1))
    for name, shares in varied.items():
        places[:, list(band.bounds).index(name)] = shares
    return places


def _contour(space: SearchedTrials, first: str, second: str) -> Panel:
    traces: list[Json] = []
    if space.band is not None and {first, second} <= space.band.bounds.keys():
        traces += _field(space.band, first, second)
    rim = {"color": "--surface", "width": 1}
    marker = {"symbol": "circle", "color": space.values, "coloraxis": "coloraxis", "line": rim}
    traces.append(draw.dots(space.study, space.trials, space.parameters[first], space.parameters[second], **marker))
    axes = {"xaxis": space.axis(first), "yaxis": space.axis(second), "showlegend": False}
    return Panel("", traces, {**axes, **draw.colour_scale(space.study.metric, space.values)})


def _field(band: Band, first: str, second: str) -> list[Json]:
    """Return the expected value, the edge of the set of best settings, and the setting to use."""
    shares = np.linspace(0, 1, GRID)
    across, up = (grid.ravel() for grid in np.meshgrid(shares, shares))
    predicted = band.surface.predict(_through_setting(band, {first: across, second: up}))
    mean, *_ = band.surface.band(predicted)
    reached = np.where(band.surface.is_explored(predicted.places), band.surface.reach(predicted), 0.0)
    x, y = ([value_at(band.bounds[name], float(share)) for share in shares] for name in (first, second))
    about = {"type": "contour", "x": x, "y": y, "hoverinfo": "skip"}
    return [
        {
            **about,
            "z": mean.reshape(GRID, GRID).round(3).tolist(),
            "coloraxis": "coloraxis",
            "contours": {"coloring": "heatmap", "showlines": True},
            "line": {"width": 0.5, "color": "--surface"},
            "ncontours": 12,
        },
        {
            **about,
            "z": reached.reshape(GRID, GRID).round(4).tolist(),
            "contours": {"coloring": "none", "start": REACH, "end": REACH, "size": 1},
            # The scale is dark where values are good, and the edge runs there in both themes.
            "line": {"width": 2.5, "color": "#ffffff"},
            "showscale": False,
        },
        {
            **draw.line([band.setting[first]], [band.setting[second]], color="--ink", hoverinfo="skip", mode="markers"),
            "marker": {"symbol": "x", "size": 12, "color": "#ffffff", "line": {"width": 1.5, "color": "#000000"}},
        },
    ]
