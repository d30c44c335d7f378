"""The content of a journal as pandas data frames; columns have the names of metrics and keys (``val/rsum``, ``loss``).

The columns of searched parameters are called ``param.NAME``. pandas is imported only when a frame is made.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from orchestrator.journal.history import History
from orchestrator.journal.trial import Trial
from orchestrator.results.confirmation import confirmations, metrics_of, verdicts_of
from orchestrator.results.winner import winners_of

if TYPE_CHECKING:
    from pandas import DataFrame

COCOS = "cocos/"


def trials_frame(history: History) -> "DataFrame":
    """Return one row per trial: settings, state, and metrics at its best epoch and on the test split."""
    return _frame(trial_rows(history), ["trial"])


def epochs_frame(history: History) -> "DataFrame":
    """Return one row per trial and epoch, with the metrics of the epoch."""
    return _frame(epoch_rows(history), ["trial", "epoch"])


def cocos_frame(history: History) -> "DataFrame":
    """Return one row per trial and counter, at the best epoch: mean and standard deviation (ddof 0) over batches."""
    rows = []
    for trial in history.trials.values():
        metrics = metrics_of(trial, history)
        for name in metrics:
            if name.startswith(COCOS) and not name.endswith("_std"):
                counter = {"trial": trial.id, "counter": name.removeprefix(COCOS), "loss": trial.config.loss}
                rows.append({**counter, "mean": metrics[name], "std": metrics.get(f"{name}_std")})
    return _frame(rows, ["trial", "counter"])


def candidates_frame(history: History) -> "DataFrame":
    """Return one row per dataset and confirmed candidate, the best candidate first.

    ``mean`` and ``sample_std`` belong to the verdict's metric on the test split, ``selected_by`` is the mean on val.
    """
    rows = []
    for dataset, verdict in verdicts_of(history).items():
        for rank, one in enumerate(verdict.candidates, start=1):
            rows.append(
                {
                    "dataset": dataset,
                    "candidate": one.label,
                    "rank": rank,
                    "metric": verdict.metric,
                    "mean": one.result.mean,
                    "sample_std": one.result.sample_std,
                    "seeds": one.result.seeds,
                    "selected_by": one.selected_by,
                    "model": one.model,
                    "loss": one.loss,
                    **_params(one.parameters),
                }
            )
    return _frame(rows, ["dataset", "candidate"])


def verdicts_frame(history: History) -> "DataFrame":
    """Return one row per comparison of a winner with another candidate, by dataset and name of that candidate."""
    rows = []
    for dataset, verdict in verdicts_of(history).items():
        for one in verdict.comparisons:
            rows.append(
                {
                    "dataset": dataset,
                    "other": one.label,
                    "winner": verdict.candidates[0].label,
                    "roles": ", ".join(one.roles),
                    "verdict": one.verdict,
                    "difference": one.difference,
                    "low": one.interval.low if one.interval else None,
                    "high": one.interval.high if one.interval else None,
                    "welch_p": one.welch_p,
                    "holm_p": one.holm_p,
                }
            )
    return _frame(rows, ["dataset", "other"])


def winners_frame(history: History) -> "DataFrame":
    """Return one row per dataset: the winner's trial, settings and metrics."""
    winners = winners_of(history, confirmations(history)) if history.experiment else {}
    rows = [
        {
            "dataset": dataset,
            "trial": one.trial,
            "confirmed": one.confirmed,
            "seeds": one.seeds,
            "model": one.setting.config.model,
            "loss": one.setting.config.loss,
            **_params(one.setting.parameters),
            **{f"val/{name}": value for name, value in one.val.items()},
            **{f"test/{name}": value for name, value in (one.test or {}).items()},
        }
        for dataset, one in winners.items()
    ]
    return _frame(rows, ["dataset"])


def trial_rows(history: History) -> Iterator[dict[str, Any]]:
    """Yield one mapping per trial, with plain values."""
    for trial in history.trials.values():
        yield {
            **_about(trial),
            "state": history.standing(trial),
            "seed": trial.config.seed,
            "epochs": trial.last_epoch,
            "best_epoch": trial.best_epoch,
            "epochs_to_95": trial.epochs_to_95(),
            "retries": trial.retries,
            "error": trial.error,
            **_params(trial.parameters),
            **metrics_of(trial, history),
        }


def epoch_rows(history: History) -> Iterator[dict[str, Any]]:
    """Yield one mapping per trial and epoch, with plain values."""
    for trial in history.trials.values():
        for epoch in sorted(trial.epochs):
            yield {"trial": trial.id, "epoch": epoch, "loss": trial.config.loss, **trial.epochs[epoch]}


def _about(trial: Trial) -> dict[str, Any]:
    about = {"trial": trial.id, "study": trial.study, "stage": str(trial.stage), "candidate": trial.candidate}
    return {**about, **trial.combination}


def _params(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {f"param.{name}": value for name, value in parameters.items() if name != "loss"}


def _frame(rows: Iterable[Mapping[str, Any]], index: list[str]) -> "DataFrame":
    from pandas import DataFrame

    listed = list(rows)
    return DataFrame(listed, columns=None if listed else index).set_index(index)
