"""Estimate of how long the rest of a stage takes."""

from collections.abc import Sequence

from orchestrator.journal.trial import Trial, TrialState


def seconds_left(trials: Sequence[Trial], total: int, pace: float, epochs: int | None = None) -> float:
    """Return the seconds left if new trials are as long as ended trials, at the present number of epochs a second.

    Args:
        trials: Trials of the stage.
        total: Trials of the stage in all, >= 0.
        pace: Epochs trained in a second, over all trials at once, > 0.
        epochs: Epochs of a whole trial, used before a trial has ended; by default those of the first trial.
    """
    ended = [trial.last_epoch for trial in trials if trial.state is not TrialState.RUNNING]
    whole = epochs if epochs is not None else next((trial.total_epochs for trial in trials), 0)
    usual = sum(ended) / len(ended) if ended else whole
    left = sum(max(0.0, usual - trial.last_epoch) for trial in trials if trial.state is TrialState.RUNNING)
    return (left + usual * max(0, total - len(trials))) / pace
