"""The curve of a study's run in MLflow: the best value so far against the number of ended trials."""

from collections.abc import Iterator
from statistics import fmean

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState


class StudyCurve:
    """The curve of one study, which keeps its past, so that a new point takes constant time.

    Args:
        study: Name of the study.
    """

    def __init__(self, study: str) -> None:
        self._study = study
        self._read, self._count = 0, 0
        self._finished: dict[str, list[float]] = {}
        self._best: float | None = None

    def grow(self, history: History) -> Iterator[tuple[int, dict[str, float], float]]:
        """Yield a point of the curve for each trial that ended since the last call.

        Args:
            history: History of the experiment, the same object at each call.

        Yields:
            The number of trials that had ended, the metrics (the best value of a finished trial so far, and that
            number), and the date at which the trial ended, in seconds since the Unix epoch.
        """
        new = history.ended[self._read :]
        for trial in new:
            self._read += 1
            # Repeats train settings that the study has already found.
            if trial.study == self._study and trial.stage is not Stage.CONFIRM:
                self._count += 1
                self._note(trial)
                best = {} if self._best is None else {f"{trial.metric}_best": self._best}
                yield self._count, {**best, "trials_ended": float(self._count)}, trial.ended or 0.0

    def _note(self, trial: Trial) -> None:
        if trial.state is not TrialState.FINISHED or trial.best_value is None:
            return
        trainings = self._finished.setdefault(trial.candidate or trial.id, [])
        trainings.append(trial.best_value)
        if len(trainings) > 1:
            # Trainings of one setting count with their mean, so that a replicate may lower the best value.
            self._best = max(map(fmean, self._finished.values()))
        elif self._best is None or trial.best_value > self._best:
            self._best = trial.best_value
