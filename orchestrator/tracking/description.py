"""A trial in MLflow's terms: tags, params, dataset, metrics."""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from orchestrator.experiment.experiment import data_key
from orchestrator.journal.history import History
from orchestrator.journal.trial import Trial
from orchestrator.text.values import markdown, values_text, visible
from orchestrator.tracking.artifacts import protocol_of
from orchestrator.tracking.names import at_best, stored_metric, stored_value
from search_spaces.space import is_number
from trainables.config import CHANGEABLE

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Metric

NAMED = ("dataset", "model", "loss", "seed", "vocabulary", "val_images")
"""Keys of a training that, where set, are params of its run under their own names."""

COUNTS = ("cocos/i2t_queries_without_gradient", "cocos/i2t_negatives_per_query")
"""The COCOS counts that are shown beside the scores of a trial's best epoch."""

ERROR = 2000
"""Characters of an error that a tag keeps; the journal has the whole error."""


def tags_of(trial: Trial, history: History) -> dict[str, str]:
    """Return the tags by which trials are found and compared."""
    config, environment = trial.config, history.environment
    tags = {
        **trial.combination,
        "seed": str(config.seed),
        "protocol": protocol_of(config.dataset),
        "stage": str(trial.stage),
        **({"candidate": trial.candidate} if trial.candidate else {}),
        **({"plugins": ", ".join(config.plugins)} if config.plugins else {}),
        "experiment": history.name,
        "data_digest": history.data.get(data_key(config), ""),
        "git_revision": str(environment.get("git_revision")),
        **{f"version.{name}": value for name, value in environment.get("versions", {}).items()},
        # MLflow shows these tags as source and version.
        "mlflow.source.name": "orchestrator",
        "mlflow.source.type": "LOCAL",
        **({"mlflow.source.git.commit": str(revision)} if (revision := environment.get("git_revision")) else {}),
    }
    # A database may refuse control characters, and pages do not show them.
    return {name: visible(str(value)) for name, value in tags.items()}


def note_of(trial: Trial) -> dict[str, str]:
    """Return the tag that MLflow shows as the description of a run: the hyper-parameters that identify it."""
    return {"mlflow.note.content": markdown(values_text(trial.parameters) or "defaults")}


def end_of(trial: Trial) -> dict[str, str]:
    """Return the tags that say how a trial ended."""
    return {"state": str(trial.state), **({"error": visible(trial.error)[:ERROR]} if trial.error else {})}


def params_of(trial: Trial) -> dict[str, Any]:
    """Return the params of a run: coefficients by their names, all other settings by dotted names, as at the start."""
    config = trial.config_in(1).to_dict()
    rest = {f"training.{name}": value for name, value in config["training"].items()}
    names = {name: config[name] for name in NAMED if name in config}
    coefficients = dict(_coefficients(config["loss_parameters"]))
    model = {f"model.{name}": value for name, value in config["model_parameters"].items()}
    return {**coefficients, **names, **model, **rest}


def best_of(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the validation metrics and COCOS counts of a best epoch, by the names for one row of MLflow's table."""
    kept = ((name, value) for name, value in metrics.items() if name.startswith("val/") or name in COUNTS)
    return {at_best(name): value for name, value in kept if not name.endswith("_best")}


def schedule_of(trial: Trial, epoch: int, history: History) -> dict[str, float]:
    """Return the hyper-parameters of an epoch as metrics ``schedule/...``, for a trial that may change them.

    The metrics are numbers by the names of ``params_of``: the loss's, and the searched settings of ``training``.
    """
    if history.experiment.scheduler != "pbt":
        return {}
    config = trial.config_in(epoch).at(epoch)
    searched = [name for name in history.experiment.searched_training if name in CHANGEABLE]
    named = {
        **dict(_coefficients(config.loss_parameters)),
        **{f"training.{name}": getattr(config.training, name) for name in searched},
    }
    return {f"schedule/{name}": float(value) for name, value in named.items() if is_number(value)}


def lineage_of(trial: Trial) -> dict[str, str]:
    """Return the tags that name the trials whose models a trial took over, and the epochs of these moves."""
    steps = [f"{move.source} after epoch {move.epoch}" for move in trial.moves]
    # The description is sent again, because a move changes the hyper-parameters.
    return {"lineage": "; ".join(steps), **note_of(trial)} if steps else {}


def _coefficients(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield hyper-parameters; each coefficient also as a number (``coefficients.1``), which charts put on an axis."""
    for name, value in parameters.items():
        if isinstance(value, list | tuple):
            # Numbers first, because pages of comparisons begin with the first params.
            yield from ((f"{name}.{power}", number) for power, number in enumerate(value))
        yield name, json.dumps(value) if isinstance(value, list | tuple) else value


def dataset_of(trial: Trial, history: History) -> "DatasetInput":
    """Return the dataset of a run, as MLflow shows it."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    config = trial.config
    key = data_key(config)
    digest = history.data.get(key, "")
    source = json.dumps({"dataset": config.dataset, "features": config.features, "digest": digest})
    # MLflow keeps 36 characters of a digest.
    dataset = Dataset(name=config.dataset[-500:], digest=digest[:36], source_type="local", source=source)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])


def metrics_of(values: Mapping[str, float], seconds: float, step: int | None) -> list["Metric"]:
    """Return metrics in MLflow's form.

    Args:
        values: Metrics by name.
        seconds: Date of the metrics, in seconds since the Unix epoch.
        step: Step of the metrics.
    """
    from mlflow.entities import Metric

    at = round(seconds * 1000)
    return [Metric(stored_metric(name), stored_value(value), at, step or 0) for name, value in values.items()]
