"""Two trials side by side: where their settings differ, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.trial import Trial
from orchestrator.results.confirmed import verdicts_of
from orchestrator.results.summary import find_winners
from trainables.errors import UserError


class NoSuchTrialError(UserError):
    """A trial that no experiment has."""

    exit_code = 2


@dataclass(frozen=True)
class Side:
    """One of the two.

    Attributes:
        experiment: Name of its experiment.
        trial: As the journal has it.
        test: Its test metrics, where the test split was opened for it.
        why: Why this trial stands for its experiment; empty where it was named itself.
    """

    experiment: str
    trial: Trial
    test: Mapping[str, float]
    why: str = ""


@dataclass(frozen=True)
class TrialComparison:
    """What is printed.

    Attributes:
        settings: Dotted key -> its two values, where they differ; ``None`` where one has no such key.
        metrics: Metric -> its two values at the best epochs; ``None`` where one lacks it.
    """

    first: Side
    second: Side
    settings: Mapping[str, tuple[Any, Any]]
    metrics: Mapping[str, tuple[float | None, float | None]]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        sides = [
            {
                "experiment": side.experiment,
                "trial": side.trial.id,
                "parameters": side.trial.parameters,
                "why": side.why,
            }
            for side in (self.first, self.second)
        ]
        return {
            "trials": sides,
            "settings": {name: list(pair) for name, pair in self.settings.items()},
            "metrics": {name: list(pair) for name, pair in self.metrics.items()},
        }


def compare_trials(first: str, second: str, output: Path) -> TrialComparison:
    """Compare two trials of any experiments under an output folder.

    Args:
        first: Id of a trial, or ``experiment/trial``; an experiment's name stands for its winner, see ``_winner``.
        second: The same.
        output: Root of all output.

    Raises:
        UserError: If there is no such trial, or several experiments have it; the message tells how to name it.
    """
    sides = (find_side(first, output), find_side(second, output))
    flat = [dict(_flat(side.trial.config)) for side in sides]
    names = sorted({*flat[0], *flat[1]})
    settings = {name: (flat[0].get(name), flat[1].get(name)) for name in names}
    values = [_values(side) for side in sides]
    shown = sorted({*values[0], *values[1]}, key=_order)
    return TrialComparison(
        *sides,
        settings={name: pair for name, pair in settings.items() if pair[0] != pair[1]},
        metrics={name: (values[0].get(name), values[1].get(name)) for name in shown},
    )


def find_side(name: str, output: Path) -> Side:
    """Return a trial by its name; see ``compare_trials``."""
    experiment, _, trial_id = name.rpartition("/")
    found: list[Side] = []
    for path in sorted(output.glob(f"{experiment or '*'}/{JOURNAL_FILE}")):
        history = History.of(read_journal(path))
        own = history.experiment.get("name", path.parent.name)
        wanted, why = history.trials.get(trial_id), ""
        if wanted is None and not experiment and own == name:
            wanted, why = _winner(history, name)
        if wanted is not None:
            found.append(Side(own, wanted, history.tests.get(wanted.id, {}), why))
    if not found:
        raise NoSuchTrialError(
            f"{name}: no such trial or experiment under {output}; `orchestrator status EXPERIMENT` lists the trials"
        )
    if len(found) > 1:
        places = ", ".join(f"{side.experiment}/{side.trial.id}" for side in found)
        raise NoSuchTrialError(f"{name}: there are several: {places}; name one of them so")
    return found[0]


def _winner(history: History, name: str) -> tuple[Trial, str]:
    """Return the trial that stands for an experiment, and why.

    It is a trial of the search that finished: the one whose settings won the confirmation, if that is over, else the
    one with the highest value. One that was stopped early, diverged or failed never wins, and the repeats of a
    confirmation are the same settings again, of which the highest is only the luckiest.

    Raises:
        NoSuchTrialError: If no trial has finished, or there is a winner on each of several datasets.
    """
    found = {
        dataset: (trial, "the best of the search, unconfirmed") for dataset, trial in find_winners(history).items()
    }
    for dataset, verdict in verdicts_of(history).items():
        if verdict.winner is not None:
            found[dataset] = (history.trials[verdict.winner.candidate.label], "the winner of the confirmation")
    if not found:
        raise NoSuchTrialError(f"{name}: no trial of its search has finished, so none stands for it; name a trial")
    if len(found) > 1:
        places = ", ".join(f"{name}/{trial.id}" for trial, _ in found.values())
        raise NoSuchTrialError(f"{name}: has a winner on each of its datasets: {places}; name one of them so")
    return next(iter(found.values()))


def _values(side: Side) -> dict[str, float]:
    trial = side.trial
    best = trial.epochs[trial.best_epoch] if trial.best_epoch is not None else {}
    values = {name: value for name, value in best.items() if not name.endswith(("_best", "_std"))}
    return values | {f"test/{name}": value for name, value in side.test.items()}


def _order(name: str) -> tuple[int, str]:
    groups = ("val/", "test/", "train/", "loss/", "cocos/", "time/")
    return next((index for index, group in enumerate(groups) if name.startswith(group)), len(groups)), name


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        rows += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return rows
