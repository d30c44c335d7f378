"""The figures of the report as Plotly objects for notebooks, in the light colours of the page."""

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from orchestrator.journal.history import History
from orchestrator.report.figures import ABOUT, Figure, Panel, plain
from orchestrator.report.leaderboard import texts_on_charts
from orchestrator.report.page import Page
from orchestrator.results.answer import Json
from orchestrator.views.html import stylesheet

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure

_PROPERTY = re.compile(r"^ *(--[a-z]+\d*): light-dark\(((?:[^(),]|\([^)]*\))+),", re.MULTILINE)
_RGB = re.compile(r"rgb\((\d+) (\d+) (\d+) / ([\d.]+)\)")


def plotly_figures(history: History) -> dict[str, "PlotlyFigure"]:
    """Return the drawings of the report of an experiment, by name; a figure without data is left out.

    A figure with a choice, or with several drawings side by side, becomes several figures, whose names differ after a
    colon, such as ``curves: nt_xent``.
    """
    page = Page(history)
    trials = texts_on_charts(page.columns, page.rows)
    return {
        name: _figure(f"{figure.title}: {panel.caption}" if panel.caption else figure.title, panel, figure, trials)
        for figure in page.figures.values()
        for name, panel in _panels(figure)
    }


def _panels(figure: Figure) -> list[tuple[str, Panel]]:
    """Return the drawings of a figure with unique names."""
    named: list[tuple[str, Panel]] = []
    for option in figure.options:
        for panel in filter(lambda panel: panel.data, option.panels):
            parts = [option.label] if len(figure.options) > 1 else []
            # A number follows the dot in the caption, and changes with the next trial, so the name leaves it out.
            parts += [panel.caption.partition(" · ")[0]] if len(option.panels) > 1 else []
            key = ": ".join([figure.key, *(part for part in dict.fromkeys(parts) if part)])
            again = sum(name == key or name.startswith(f"{key} (") for name, _ in named)
            named.append((f"{key} ({again + 1})" if again else key, panel))
    return named


def _figure(title: str, panel: Panel, figure: Figure, trials: Mapping[str, str]) -> "PlotlyFigure":
    from plotly.graph_objects import Figure as PlotlyFigure

    sizes: Json = {"title": {"text": plain(title)}, "height": figure.height, "template": "plotly_white"}
    traces = [_with_trials(trace, trials) for trace in panel.data]
    return PlotlyFigure(data=_painted(traces), layout=_painted({**sizes, **panel.layout}))


def _with_trials(trace: Json, trials: Mapping[str, str]) -> Json:
    """Return a trace with what is known of its trials, as the script of the page adds it."""
    if ABOUT not in trace.get("hovertemplate", ""):
        return trace
    return {**trace, "hovertext": [trials.get(trial, trial) for trial in trace["text"]]}


def _painted(value: Any) -> Any:
    """Return a value whose names of colours are replaced by colours."""
    if isinstance(value, str):
        return light_colours().get(value, value)
    if isinstance(value, list):
        return [_painted(item) for item in value]
    if isinstance(value, dict):
        return {key: _painted(item) for key, item in value.items()}
    return value


@cache
def light_colours() -> dict[str, str]:
    """Return name in the stylesheet -> light colour of the page in Plotly's notation."""
    colours = _PROPERTY.findall(stylesheet())
    return {name: _RGB.sub(r"rgba(\1,\2,\3,\4)", colour.strip()) for name, colour in colours}
