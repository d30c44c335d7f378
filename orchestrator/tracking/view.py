"""The first view of an experiment's page in MLflow: trials, best first, the columns that differ, and charts.

MLflow keeps such a shared view as JSON in a tag of the experiment, and links name the tag. Without a view, the page
lists the studies without any metric.

MLflow sorts charts by the names of metrics, which puts 24 COCOS counts before the first recall. The view therefore
names the charts to show first: hyper-parameters against the metric, then validation curves. MLflow adds charts of all
other metrics behind them.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from orchestrator.journal.history import History
from orchestrator.text.values import markdown
from orchestrator.tracking.connection import asking, find_run, missing_database
from orchestrator.tracking.description import COUNTS, NOTE, ORDER, at_best
from trainables.extras import is_installed
from trainables.metric_table import running_best


def newest_page(uri: str) -> str | None:
    """Return the path of the page of our experiment with the newest run, best trials first.

    All reruns of a suite are runs of one experiment, which may be much older than the newest of them.

    Returns:
        The part after the server's address; ``None`` where the store does not answer, or has no experiment of ours.
    """
    with suppress(ConnectionError), asking(uri) as client:
        experiments = client.search_experiments(order_by=["creation_time DESC"])
        ours = [experiment.experiment_id for experiment in experiments if TAG in experiment.tags]
        newest = client.search_runs(ours, order_by=["attributes.start_time DESC"], max_results=1) if ours else ()
        for number in (*(run.info.experiment_id for run in newest), *ours):
            return f"/#/experiments/{number}/runs?{TRAINING}&viewStateShareKey={VIEW}"
    return None


def comparison_page(uri: str, trials: Sequence[tuple[str, str]]) -> str | None:
    """Return the path of MLflow's page that compares the runs of some trials, each given as (experiment, trial).

    Returns:
        The part after the server's address; ``None`` where the store does not answer or lacks a trial, or MLflow is
        not installed.
    """
    if not is_installed("tracking") or missing_database(uri) is not None:
        return None
    runs, experiments = [], []
    with suppress(ConnectionError), asking(uri) as client:
        for experiment, trial in trials:
            entity = client.get_experiment_by_name(experiment)
            run = None if entity is None else find_run(client, entity.experiment_id, trial)
            if run is None:
                return None
            runs.append(run.info.run_id)
            experiments.append(run.info.experiment_id)
        query = f"runs={json.dumps(runs)}&experiments={json.dumps(list(dict.fromkeys(experiments)))}"
        return f"/#/compare-runs?{quote(query, safe='=&')}&{TRAINING}"
    return None


BEST, CURVES = "best of each trial", "val"
"""Sections of the page; charts of metrics ``val/...`` join the second section."""

SCATTERED = 5
"""Most searched hyper-parameters with a chart of their own above the curves."""

COLUMNS = 2
"""Charts beside each other; with MLflow's three, a chart is 200 pixels wide in a window of 1280."""

SHOWN_RUNS = 500
"""Most runs in a chart of all trials."""


def _charts(metric: str, searched: Sequence[str]) -> dict[str, Any]:
    """Return the part of a view that lists the charts of the page in their order."""
    best = running_best(metric)
    metrics = list(dict.fromkeys([metric, "val/i2t_r1", "val/t2i_r1"]))
    score = {"key": best, "type": "METRIC"}
    charts = [
        *(
            _chart("SCATTER", BEST, name, xaxis={"key": name, "type": "PARAM"}, yaxis=score)
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


VIEW = "leaderboard"
"""Name of the view in links."""

TRAINING = "workflowType=machine_learning"
"""Part of a link that chooses MLflow's pages for training instead of its pages for language models."""

TAG = f"mlflow.sharedViewState.{VIEW}"
RUN_NAME = "attributes.`Run Name`"
WIDTH = 105
"""Width of a column, in pixels."""

WIDEST = 14
"""Most columns for hyper-parameters."""


LONGEST_NOTE = 20_000
"""Most characters of a tag of an experiment, beyond which MLflow refuses the tag."""


def experiment_tags(history: History) -> dict[str, str]:
    """Return the tags with the description and the view of an experiment's page."""
    description = markdown(history.experiment.description)
    if len(description) > LONGEST_NOTE:
        description = f"{description[: LONGEST_NOTE - 1]}…"
    return {
        # Chooses the pages for training instead of the pages for language models.
        "mlflow.experimentKind": "custom_model_development",
        TAG: json.dumps(_view(history)),
        # MLflow renders Markdown; the description is escaped to be shown as it is.
        **({NOTE: description} if description else {}),
    }


def _view(history: History) -> dict[str, Any]:
    metric = history.metric
    begun = history.experiment
    # The params in which the trials differ, the losses' params first.
    names = [name for trial in history.trials.values() for name in trial.config.loss_parameters]
    names += [f"training.{name}" for name in begun.searched_training] + [f"model.{n}" for n in begun.searched_model]
    searched = list(dict.fromkeys(names))[:WIDEST]
    several = [name for name, values in (("dataset", begun.datasets), ("model", begun.models)) if len(values) > 1]
    confirmed = bool(history.tests)
    # The selection metric's own best, by which trainings are sorted; the others are of the same epoch.
    scores = [running_best(metric), at_best("val/i2t_r1"), at_best("val/t2i_r1")]
    columns = [
        # Before the hyper-parameters, which names of runs have as well: a window of 1280 pixels shows five columns.
        *(f"tags.`{name}`" for name in (*several, "loss", "state")),
        *(f"metrics.`{name}`" for name in scores),
        *(["metrics.`test/rsum`", "tags.`verdict`", "metrics.`seeds`"] if confirmed else []),
        *(f"params.`{name}`" for name in searched),
        *(f"metrics.`{at_best(name)}`" for name in COUNTS),
    ]
    return {
        "searchFilter": "tags.kind != 'study'",
        "orderByKey": f"metrics.`{ORDER}`",
        "orderByAsc": False,
        "selectedColumns": columns,
        # Without this key, MLflow orders the columns alphabetically.
        "columnOrder": [RUN_NAME, *columns, "runDateAndNestInfo", "duration"],
        "columnWidths": {RUN_NAME: 3 * WIDTH} | dict.fromkeys(columns, WIDTH),
        "runsHiddenMode": "FIRST_20_RUNS",
        **_charts(metric, searched),
    }
