"""What the run of a study shows while its trials run: the best value so far against the number of ended trials."""

from collections.abc import Iterator
from statistics import fmean

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState


def study_trials(history: History, study: str) -> list[Trial]:
    """Return the trials of a study but its repeats, which train what the study has already found."""
    own = (trial for trial in history.trials.values() if trial.study == study)
    return [trial for trial in own if trial.stage is not Stage.CONFIRM]


def study_progress(history: History, study: str, after: int = 0) -> Iterator[tuple[int, dict[str, float], float]]:
    """Yield a point of the curve for each trial that ended.

    Args:
        history: Of the experiment.
        study: Its name.
        after: How many points are known already.

    Yields:
        The number of trials that had ended, the metrics (the best value of a finished trial so far, and that number),
        and the date at which the trial ended, in seconds since the Unix epoch.
    """
    ended = [trial for trial in study_trials(history, study) if trial.has_ended]
    # In the order of their ends: the journal's running time cannot jump, as a date can.
    ended.sort(key=lambda trial: (trial.ended_after or 0.0, trial.number))
    trainings: dict[str, list[float]] = {}
    for count, trial in enumerate(ended, start=1):
        if trial.state is TrialState.FINISHED and trial.best_value is not None:
            trainings.setdefault(trial.candidate or trial.id, []).append(trial.best_value)
        if count > after:
            # Trainings of one setting count with their mean, so that a replicate may lower the best value.
            best = {f"{trial.metric}_best": max(map(fmean, trainings.values()))} if trainings else {}
            yield count, {**best, "trials_ended": float(count)}, trial.ended or 0.0
