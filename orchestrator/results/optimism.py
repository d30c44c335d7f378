"""Computes from a journal how optimistic a search was: its values beside the values that fresh seeds gave."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState


@dataclass(frozen=True)
class Incumbent:
    """A trial whose value was the highest of the search when the trial ended.

    Attributes:
        after: Number of trials that had ended by then, this trial included.
        trial: Id of the trial.
        value: Value of the trial in the search.
        confirmed: Mean value of the trial's repeats with fresh seeds; ``None`` without repeats.
        seeds: Number of these repeats.
    """

    after: int
    trial: str
    value: float
    confirmed: float | None
    seeds: int


@dataclass(frozen=True)
class Optimism:
    """How optimistic the search of a dataset was.

    Attributes:
        metric: Metric on val, which selects.
        ended: Number of ended trials of the search.
        incumbents: Incumbents of the search, oldest first.
        excess: Mean value of the confirmed candidates in the search minus their mean value with fresh seeds, over the
            candidates that the search trained to their end; ``None`` without such a candidate.
    """

    metric: str
    ended: int
    incumbents: Sequence[Incumbent]
    excess: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the values as plain values for JSON."""
        return asdict(self)


def optimism_of(history: History) -> dict[str, Optimism]:
    """Return the optimism of the search of each dataset; a dataset is left out where no trial finished."""
    metric = history.metric
    confirmed = _confirmed(history, metric)
    by_dataset: dict[str, list[Trial]] = {}
    for trial in history.stage(Stage.SEARCH):
        by_dataset.setdefault(trial.config.dataset, []).append(trial)
    found = {}
    for dataset, trials in by_dataset.items():
        if incumbents := _incumbents(trials, metric, confirmed):
            ended = sum(trial.has_ended for trial in trials)
            found[dataset] = Optimism(metric, ended, incumbents, _excess(trials, metric, confirmed))
    return found


def describe_optimism(found: Optimism) -> list[str]:
    """Return a sentence about the optimism of a search; none where no candidate tells it."""
    if found.excess is None:
        return []
    more = "higher" if found.excess >= 0 else "lower"
    return [
        f"in the search, {found.metric} of the confirmed candidates that it trained to their end was "
        f"{abs(found.excess):.2f} {more} than with fresh seeds, on average"
    ]


def _confirmed(history: History, metric: str) -> dict[str, tuple[float, int]]:
    """Return candidate -> mean value of its repeats with fresh seeds, and the number of repeats."""
    values: dict[str, list[float]] = {}
    for trial in history.stage(Stage.CONFIRM):
        if trial.state is TrialState.FINISHED and trial.candidate is not None:
            values.setdefault(trial.candidate, []).append(trial.epochs[trial.best_epoch or 0][metric])
    return {candidate: (fmean(found), len(found)) for candidate, found in values.items()}


def _incumbents(trials: Sequence[Trial], metric: str, confirmed: Mapping[str, tuple[float, int]]) -> list[Incumbent]:
    """Return the trials whose value was the highest so far when they ended, oldest first."""
    ended = [trial for trial in trials if trial.has_ended]
    found: list[Incumbent] = []
    for after, trial in enumerate(sorted(ended, key=lambda one: (one.ended_after or 0.0, one.id)), start=1):
        if trial.state is not TrialState.FINISHED:
            continue
        value = trial.epochs[trial.best_epoch or 0][metric]
        if not found or value > found[-1].value:
            mean, seeds = confirmed.get(trial.id, (None, 0))
            found.append(Incumbent(after, trial.id, value, mean, seeds))
    return found


def _excess(trials: Sequence[Trial], metric: str, confirmed: Mapping[str, tuple[float, int]]) -> float | None:
    # Published settings that the search stopped early are left out: with fresh seeds they are trained to their end,
    # which alone makes their values higher.
    excess = [
        trial.epochs[trial.best_epoch][metric] - confirmed[trial.id][0]
        for trial in trials
        if trial.id in confirmed and trial.best_epoch and trial.state is TrialState.FINISHED
    ]
    return fmean(excess) if excess else None
