"""What MLflow's page of an experiment shows first: its trials, the best on top, with the columns that tell them apart,
and its charts: the winners before the curves.

MLflow keeps such a view, which its pages call shared, as JSON in a tag of the experiment; the link names the tag. Left
alone, the page lists the studies, without a number.
"""

import json
from typing import Any

from orchestrator.journal.history import History
from orchestrator.text.values import markdown
from orchestrator.tracking.charts import charts_of

VIEW = "leaderboard"
"""Name of the view in links."""

TRAINING = "workflowType=machine_learning"
"""In a link: MLflow's pages for training, not those for language models."""

TAG = f"mlflow.sharedViewState.{VIEW}"
COUNTS = ("cocos/i2t_queries_without_gradient", "cocos/i2t_negatives_per_query")
RUN_NAME = "attributes.`Run Name`"
WIDTH = 105
"""Of a column, in pixels."""

WIDEST = 14
"""Columns for hyper-parameters, the most that are of use on one page."""


def experiment_tags(history: History) -> dict[str, str]:
    """Return what an experiment's page says of it, and what it shows."""
    description = history.experiment.get("description", "")
    return {
        # Training, not language models: other pages and columns.
        "mlflow.experimentKind": "custom_model_development",
        TAG: json.dumps(_view(history)),
        # MLflow takes it for Markdown; a person's words stay what they are.
        **({"mlflow.note.content": markdown(description)} if description else {}),
    }


def page_of(experiment_id: str) -> str:
    """Return the path of an experiment's page with its view, after the server's address."""
    return f"/#/experiments/{experiment_id}/runs?{TRAINING}&viewStateShareKey={VIEW}"


def _view(history: History) -> dict[str, Any]:
    metric = history.experiment["search"]["metric"]
    searched = _searched(history)
    metrics = [f"{metric}_best", *(["test/rsum"] if history.tests else []), "val/i2t_r1", "val/t2i_r1", *COUNTS]
    tags = ["loss", *(["dataset"] if len(history.experiment["datasets"]) > 1 else [])]
    tags += ["model"] if len(history.experiment["models"]) > 1 else []
    tags += ["state", "stage", *(["winner"] if history.tests else [])]
    columns = [
        *(f"metrics.`{name}`" for name in metrics),
        *(f"params.`{name}`" for name in searched),
        *(f"tags.`{name}`" for name in tags),
    ]
    return {
        "searchFilter": "tags.kind != 'study'",
        "orderByKey": f"metrics.`{metric}_best`",
        "orderByAsc": False,
        "selectedColumns": columns,
        # In this order, not by the alphabet, and when it was made last.
        "columnOrder": [RUN_NAME, *columns, "runDateAndNestInfo", "duration"],
        "columnWidths": {RUN_NAME: 3 * WIDTH} | dict.fromkeys(columns, WIDTH),
        "runsHiddenMode": "FIRST_20_RUNS",
        **charts_of(metric, searched),
    }


def _searched(history: History) -> list[str]:
    """Return the params in which the trials differ, those of their losses first."""
    names = {name: None for trial in history.trials.values() for name in trial.config.loss_parameters}
    search = history.experiment["search"]
    names |= {f"training.{name}": None for name in search.get("training", {})}
    names |= {f"model.{name}": None for name in search.get("model_parameters", {})}
    return list(names)[:WIDEST]
