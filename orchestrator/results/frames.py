"""What the journal says as pandas data frames; columns have the names of metrics and keys (``val/rsum``, ``loss``).

Searched parameters stand under ``param.NAME``. pandas comes with MLflow, and is imported when a frame is made.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orchestrator.journal.history import History
from orchestrator.journal.trial import Trial
from orchestrator.results.confirmed import metrics_of, verdicts_of
from orchestrator.results.summary import conclude

if TYPE_CHECKING:
    from pandas import DataFrame

COCOS = "cocos/"


def trials_frame(history: History) -> "DataFrame":
    """Return a row a trial, by its id: settings, state, and metrics at its best epoch and on the test split."""
    return _frame(trial_rows(history), ["trial"])


def epochs_frame(history: History) -> "DataFrame":
    """Return a row an epoch of a trial, by trial and epoch, with the metrics of the epoch."""
    return _frame(epoch_rows(history), ["trial", "epoch"])


def cocos_frame(history: History) -> "DataFrame":
    """Return a row a counter of a trial at its best epoch: mean and standard deviation (ddof 0) over batches."""
    rows = []
    for trial in history.trials.values():
        metrics = metrics_of(trial, history)
        for name in metrics:
            if name.startswith(COCOS) and not name.endswith("_std"):
                counter = {"trial": trial.id, "counter": name.removeprefix(COCOS), "loss": trial.config.loss}
                rows.append({**counter, "mean": metrics[name], "std": metrics.get(f"{name}_std")})
    return _frame(rows, ["trial", "counter"])


def candidates_frame(history: History) -> "DataFrame":
    """Return a row a confirmed candidate, by dataset and candidate, best first.

    ``mean`` and ``sample_std`` are of the metric of the verdict on the test split, ``selected_by`` is the mean on val.
    """
    rows = []
    for dataset, verdict in _verdicts(history):
        for one in verdict["standings"]:
            result = one["result"] or {}
            about = {"dataset": dataset, "candidate": one["label"], "rank": one["rank"], "metric": verdict["metric"]}
            rows.append(
                {
                    **about,
                    **{name: result.get(name) for name in ("mean", "sample_std", "seeds")},
                    "selected_by": one["selected_by"],
                    "model": one["model"],
                    "loss": one["loss"],
                    **_params(one["parameters"]),
                }
            )
    return _frame(rows, ["dataset", "candidate"])


def verdicts_frame(history: History) -> "DataFrame":
    """Return a row a comparison of a winner with another candidate, by dataset and the other's name."""
    rows = []
    for dataset, verdict in _verdicts(history):
        for one in verdict["comparisons"]:
            interval = one["interval"] or {}
            rows.append(
                {
                    "dataset": dataset,
                    "other": one["label"],
                    "winner": verdict["winner"],
                    "roles": ", ".join(one["roles"]),
                    "verdict": one["verdict"],
                    "difference": one["difference"],
                    "low": interval.get("low"),
                    "high": interval.get("high"),
                    **{name: one[name] for name in ("welch_p", "holm_p", "paired_p", "effect")},
                }
            )
    return _frame(rows, ["dataset", "other"])


def winners_frame(history: History) -> "DataFrame":
    """Return a row a dataset: the winner's trial, settings and metrics."""
    winners = conclude(history)["winners"] if history.experiment else {}
    rows = [
        {
            "dataset": dataset,
            **{name: one[name] for name in ("trial", "confirmed", "seeds", "model", "loss")},
            **_params(one["parameters"]),
            **{f"val/{name}": value for name, value in one["val"].items()},
            **{f"test/{name}": value for name, value in (one["test"] or {}).items()},
        }
        for dataset, one in winners.items()
    ]
    return _frame(rows, ["dataset"])


def trial_rows(history: History) -> Iterator[dict[str, Any]]:
    """Yield a mapping a trial, with plain values."""
    for trial in history.trials.values():
        yield {
            **_about(trial),
            "state": history.standing(trial),
            "seed": trial.config.seed,
            "epochs": trial.last_epoch,
            "best_epoch": trial.best_epoch,
            "retries": trial.retries,
            "error": trial.error,
            **_params(trial.parameters),
            **metrics_of(trial, history),
        }


def epoch_rows(history: History) -> Iterator[dict[str, Any]]:
    """Yield a mapping an epoch of a trial, with plain values."""
    for trial in history.trials.values():
        for epoch in sorted(trial.epochs):
            yield {"trial": trial.id, "epoch": epoch, "loss": trial.config.loss, **trial.epochs[epoch]}


def _about(trial: Trial) -> dict[str, Any]:
    about = {"trial": trial.id, "study": trial.study, "stage": str(trial.stage), "candidate": trial.candidate}
    return {**about, **trial.combination}


def _params(parameters: Any) -> dict[str, Any]:
    return {f"param.{name}": value for name, value in parameters.items() if name != "loss"}


def _verdicts(history: History) -> list[tuple[str, dict[str, Any]]]:
    return [(dataset, verdict.to_dict()) for dataset, verdict in verdicts_of(history).items()]


def _frame(rows: Any, index: list[str]) -> "DataFrame":
    from pandas import DataFrame

    listed = list(rows)
    return DataFrame(listed, columns=None if listed else index).set_index(index)
