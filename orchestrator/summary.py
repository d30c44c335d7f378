"""Who won: a pure function of what the journal says.

Only a trial that finished can win: a diverged or failed one never does, and one that was stopped early was worse than
others of its study when it was. Ties go to the earlier trial.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.history import History, Trial, TrialState

Summary = dict[str, Any]
"""``experiment``, ``metric``, ``ended_by`` (see ``History``), ``winners`` (dataset -> its winner) and ``trials``; what
``summary.json`` holds."""


def find_winners(history: History) -> dict[str, Trial]:
    """Return the winner of each dataset; a dataset none of whose trials finished has none."""
    winners: dict[str, Trial] = {}
    for trial in history.trials.values():
        if trial.state is not TrialState.FINISHED:
            continue
        dataset = trial.config["dataset"]
        best = winners.get(dataset)
        if best is None or _value(trial, history) > _value(best, history):
            winners[dataset] = trial
    return winners


def summarise(history: History) -> Summary:
    """Return the winners per dataset and the list of all trials."""
    winners = find_winners(history)
    return {
        "experiment": history.experiment["name"],
        "metric": history.experiment["search"]["metric"],
        "ended_by": history.ended_by,
        "winners": {dataset: _winner(trial, history) for dataset, trial in winners.items()},
        "trials": [_row(trial) for trial in history.trials.values()],
    }


def checkpoint_root(directory: Path, trial: Trial) -> Path:
    """Return where the checkpoints of a trial lie in an experiment's directory."""
    return directory / "trials" / trial.id


def _value(trial: Trial, history: History) -> float:
    """Return the experiment's metric at the best epoch, which a study may select by a metric of its own."""
    if trial.best_epoch is None:
        return float("-inf")
    return trial.epochs[trial.best_epoch][history.experiment["search"]["metric"]]


def _winner(trial: Trial, history: History) -> dict[str, Any]:
    test = history.tests.get(trial.id)
    return {
        "trial": trial.id,
        **_identity(trial),
        "best_epoch": trial.best_epoch,
        "val": _best_metrics(trial, "val/"),
        "test": None if test is None else dict(test),
        "test_opened_for": history.tests_opened.get(trial.config["dataset"], []),
    }


def _row(trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.id,
        **_identity(trial),
        "state": str(trial.state),
        "epochs": trial.last_epoch,
        "best_epoch": trial.best_epoch,
        "best": _best_metrics(trial, ""),
        "retries": trial.retries,
        "error": trial.error,
    }


def _identity(trial: Trial) -> dict[str, Any]:
    config = trial.config
    names = {name: config[name] for name in ("dataset", "model", "loss")}
    return {"study": trial.study, **names, "params": config["loss_parameters"], "seed": config["seed"]}


def _best_metrics(trial: Trial, prefix: str) -> Mapping[str, float]:
    """Return the metrics of the best epoch whose names begin with a prefix, without it; running bests are left out."""
    if trial.best_epoch is None:
        return {}
    metrics = trial.epochs[trial.best_epoch]
    names = [name for name in metrics if name.startswith(prefix) and not name.endswith("_best")]
    return {name.removeprefix(prefix): metrics[name] for name in names}
