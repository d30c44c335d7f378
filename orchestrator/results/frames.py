"""The content of a journal as pandas data frames; columns have the names of metrics and keys (``val/rsum``, ``loss``).

The columns of searched parameters are called ``param.NAME``. pandas is imported only when a frame is made.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.journal.history import History
from orchestrator.results.answers import Summary
from orchestrator.results.confirmation import metrics_of
from trainables.metric_table import COCOS, is_in, is_value, spread_of, without_section

if TYPE_CHECKING:
    from pandas import DataFrame


VERDICT_COLUMNS = ("winner", "verdict", "difference", "low", "high", "p", "p_unadjusted", "varies")
"""Columns of ``verdicts_frame``, which has them without any pair too."""


def trials_frame(history: History) -> "DataFrame":
    """Return one row per trial: settings, state, and metrics at its best epoch and on the test split."""
    rows = [
        {
            "trial": trial.id,
            "study": trial.study,
            "stage": str(trial.stage),
            "candidate": trial.candidate,
            **trial.combination,
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
        for trial in history.trials.values()
    ]
    return _frame(rows, ["trial"])


def epochs_frame(history: History) -> "DataFrame":
    """Return one row per trial and epoch, with the metrics of the epoch."""
    rows = [
        {"trial": trial.id, "epoch": epoch, "loss": trial.config.loss, **trial.epochs[epoch]}
        for trial in history.trials.values()
        for epoch in sorted(trial.epochs)
    ]
    return _frame(rows, ["trial", "epoch"])


def cocos_frame(history: History) -> "DataFrame":
    """Return one row per trial and counter, at the best epoch: mean and standard deviation (ddof 0) over batches."""
    rows = [
        {
            "trial": trial.id,
            "counter": without_section(name),
            "loss": trial.config.loss,
            "mean": value,
            "std": metrics.get(spread_of(name)),
        }
        for trial in history.trials.values()
        for metrics in [metrics_of(trial, history)]
        for name, value in metrics.items()
        if is_in(name, COCOS) and is_value(name)
    ]
    return _frame(rows, ["trial", "counter"])


def candidates_frame(history: History) -> "DataFrame":
    """Return one row per dataset and confirmed candidate, the best candidate first.

    ``mean`` and ``sample_std`` belong to the verdict's metric on the test split, ``selected_by`` is the mean on val.
    """
    rows = [
        {
            "dataset": dataset,
            "candidate": candidate.label,
            "rank": rank,
            "metric": verdict.metric,
            "verdict": verdict.word_on(candidate.label),
            "mean": candidate.mean(verdict.metric),
            "sample_std": candidate.measure(verdict.metric).sample_std,
            "seeds": candidate.count,
            "selected_by": candidate.mean(verdict.selection),
            "model": candidate.model,
            "loss": candidate.loss,
            **_params(candidate.parameters),
        }
        for dataset, verdict in Summary(history).verdicts.items()
        for rank, candidate in enumerate(verdict.candidates, start=1)
    ]
    return _frame(rows, ["dataset", "candidate"])


def verdicts_frame(history: History) -> "DataFrame":
    """Return one row per pair of a winner with another candidate, by dataset and name of that candidate.

    Word, difference, interval (``low``, ``high``) and ``p`` belong to one test, in which ``varies`` varies. ``p`` is
    corrected for all pairs of the dataset, ``p_unadjusted`` for nothing.
    """
    rows = [
        {
            "dataset": dataset,
            "other": pair.second,
            "winner": pair.first,
            "verdict": str(pair.verdict),
            "difference": pair.difference,
            **dict(zip(("low", "high"), pair.interval or (None, None), strict=True)),
            "p": pair.p,
            "p_unadjusted": pair.comparison.p,
            "varies": pair.comparison.varies,
        }
        for dataset, verdict in Summary(history).verdicts.items()
        for pair in verdict.pairs
    ]
    return _frame(rows, ["dataset", "other"], VERDICT_COLUMNS)


def winners_frame(history: History) -> "DataFrame":
    """Return one row per dataset: the winner's trial, settings and metrics."""
    winners = Summary(history).winners if history.experiment else {}
    rows = [
        {
            "dataset": dataset,
            "trial": winner.trial,
            "confirmed": winner.confirmed,
            "seeds": winner.seeds,
            "model": winner.setting.config.model,
            "loss": winner.setting.config.loss,
            **_params(winner.setting.parameters),
            **{f"val/{name}": value for name, value in winner.val.items()},
            **{f"test/{name}": value for name, value in (winner.test or {}).items()},
        }
        for dataset, winner in winners.items()
    ]
    return _frame(rows, ["dataset"])


def _params(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {f"param.{name}": value for name, value in parameters.items() if name != "loss"}


def _frame(rows: Sequence[Mapping[str, Any]], index: list[str], columns: Sequence[str] = ()) -> "DataFrame":
    """Return the rows as a frame; without rows it has the ``columns`` that every row would have."""
    from pandas import DataFrame

    return DataFrame(rows, columns=None if rows else [*index, *columns]).set_index(index)
