"""The charts that MLflow's page of an experiment opens with, as its shared view keeps them.

MLflow sorts charts by the names of the metrics, so that 24 COCOS counts would stand before the first recall. The view
names the charts that are looked at first: which values win, then the curves of validation. MLflow adds a chart of every
other metric behind them.
"""

from collections.abc import Sequence
from typing import Any

BEST, CURVES = "best of each trial", "val"
"""Sections of the page; charts of metrics ``val/...`` join the second one."""

SCATTERED = 5
"""Searched hyper-parameters that get a chart of their own, the most that fit above the curves."""

SHOWN_RUNS = 500
"""Runs that a chart of all trials draws."""


def charts_of(metric: str, searched: Sequence[str]) -> dict[str, Any]:
    """Return the part of a view that says which charts the page shows, and in which order.

    Args:
        metric: That the search maximises, e.g. ``val/rsum``.
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
    sections = [{"uuid": name, "name": name, "display": True, "isReordered": True} for name in (BEST, CURVES)]
    # Else MLflow sorts the sections by their names as soon as it adds the charts of other metrics.
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
