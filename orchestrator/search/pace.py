"""How long the rest of a stage may take."""

from collections.abc import Sequence

from orchestrator.journal.trial import Trial, TrialState


def seconds_left(trials: Sequence[Trial], total: int, pace: float, epochs: int | None = None) -> float:
    """Return the time left if new trials are as long as ended ones, and as many epochs are trained a second as so far.

    Args:
        trials: Of the stage.
        total: Trials of the stage in all, >= 0.
        pace: Epochs trained in a second, over all trials at once, > 0.
        epochs: Of a whole trial, for a stage of which no trial has ended; by default those of its first trial.
    """
    ended = [trial.last_epoch for trial in trials if trial.state is not TrialState.RUNNING]
    whole = epochs if epochs is not None else next((trial.total_epochs for trial in trials), 0)
    usual = sum(ended) / len(ended) if ended else whole
    left = sum(max(0.0, usual - trial.last_epoch) for trial in trials if trial.state is TrialState.RUNNING)
    return (left + usual * max(0, total - len(trials))) / pace
