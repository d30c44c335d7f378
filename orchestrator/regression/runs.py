"""The numbers of a rerun that are compared, read from the rerun's journal."""

from collections.abc import Mapping

from orchestrator.experiment.experiment import data_key
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.regression.accepted import CellRuns, Conditions
from orchestrator.regression.suite import Suite


def cell_runs(suite: Suite, history: History, cell_of: Mapping[str, str]) -> dict[str, CellRuns]:
    """Return the runs of every cell.

    Args:
        suite: The suite that is rerun.
        history: The history of the rerun.
        cell_of: Name of a study -> title of the study's cell.
    """
    trials: dict[str, list[Trial]] = {cell.title: [] for cell in suite.cells}
    for trial in history.stage(Stage.REGRESS):
        trials[cell_of[trial.study]].append(trial)
    found: dict[str, CellRuns] = {}
    for cell in suite.cells:
        mine = trials[cell.title]
        found[cell.title] = CellRuns(
            conditions=_conditions(suite, cell.title, history),
            values={trial.config.seed: _values(trial, history) for trial in mine if trial.state is TrialState.FINISHED},
            missing={trial.config.seed: _fate(trial) for trial in mine if trial.state is not TrialState.FINISHED},
        )
    return found


def _values(trial: Trial, history: History) -> dict[str, float]:
    """Return the scores of the best epoch, and training loss and COCOS counts of the first and of the last epoch."""
    best = trial.epochs[trial.best_epoch or trial.last_epoch]
    values = {name: value for name, value in best.items() if name.startswith("val/") and not name.endswith("_best")}
    values |= {f"test/{name}": value for name, value in history.tests.get(trial.id, {}).items()}
    for when, epoch in (("first", 1), ("last", trial.last_epoch)):
        values |= {f"{when}/{name}": value for name, value in trial.epochs[epoch].items() if _tells_of_gradients(name)}
    return values


def _tells_of_gradients(name: str) -> bool:
    return name == "train/loss" or (name.startswith("cocos/") and not name.endswith("_std"))


def _conditions(suite: Suite, title: str, history: History) -> Conditions:
    cell = next(cell for cell in suite.cells if cell.title == title)
    trial = suite.config(cell, 1)
    config = trial.to_dict()
    del config["seed"]
    environment = history.environment
    return Conditions(
        config=config,
        data_digest=history.data[data_key(trial)],
        git_revision=environment["git_revision"],
        versions=environment["versions"],
        machine=environment["machine"],
    )


def _fate(trial: Trial) -> str:
    return str(trial.state) if trial.error is None else f"{trial.state}: {trial.error}"
