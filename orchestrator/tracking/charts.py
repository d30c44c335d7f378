"""The first charts of an experiment's page in MLflow, as a part of the page's shared view.

MLflow sorts charts by the names of metrics, which puts 24 COCOS counts before the first recall. The view therefore
names the charts to show first: hyper-parameters against the metric, then validation curves. MLflow adds charts of all
other metrics behind them.
"""

from collections.abc import Sequence
from typing import Any

BEST, CURVES = "best of each trial", "val"
"""Sections of the page; charts of metrics ``val/...`` join the second section."""

SCATTERED = 5
"""Most searched hyper-parameters with a chart of their own above the curves."""

COLUMNS = 2
"""Charts beside each other; with MLflow's three, a chart is 200 pixels wide in a window of 1280."""

SHOWN_RUNS = 500
"""Most runs in a chart of all trials."""


def charts_of(metric: str, searched: Sequence[str]) -> dict[str, Any]:
    """Return the part of a view that lists the charts of the page in their order.

    Args:
        metric: Metric that the search maximises, e.g. ``val/rsum``.
        searched: Names of the params in which trials differ.
    """
    best = f"{metric}_best"
    metrics = list(dict.fromkeys([metric, "val/i2t_r1", "val/t2i_r1"]))
    charts = [
        *(
            _chart("SCATTER", BEST, name, xaxis=_axis(name, "PARAM"), yaxis=_axis(best, "METRIC"))
            for name in searched[:SCATTERED]
        ),
        _chart("PARALLEL", BEST, "parallel", selectedParams=list(searched), selectedMetrics=[best], showAllRuns=True),
        _chart("BAR", BEST, best, metricKey=best),
        *(_chart("LINE", CURVES, name, metricKey=name, selectedMetricKeys=[name]) for name in metrics),
    ]
    sections = [
        {"uuid": name, "name": name, "display": True, "isReordered": True, "columns": COLUMNS}
        for name in (BEST, CURVES)
    ]
    # Without the last key, MLflow sorts the sections by name when it adds the charts of other metrics.
    return {"compareRunCharts": charts, "compareRunSections": sections, "isAccordionReordered": True}


def _axis(key: str, kind: str) -> dict[str, str]:
    return {"key": key, "type": kind}


def _chart(kind: str, section: str, key: str, **settings: Any) -> dict[str, Any]:
    return {
        "uuid": f"{section} {kind} {key}",
        "type": kind,
        "metricSectionId": section,
        "runsCountToCompare": SHOWN_RUNS,
        "deleted": False,
        "isGenerated": False,
        **settings,
    }
