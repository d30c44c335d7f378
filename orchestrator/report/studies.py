"""The studies of an experiment for a report: their leaders, the trials that may win, and names on the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from orchestrator.journal.history import History
from orchestrator.journal.points import Point, best_points, points_of
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.analyses import log_ranges
from orchestrator.text.wording import printed

WITH_VALUE = (TrialState.FINISHED, TrialState.STOPPED_EARLY, TrialState.RUNNING)
"""States whose best value depends on the parameters; a diverged trial's value depends on when it diverged."""


@dataclass(frozen=True)
class Study:
    """The trials of one dataset, model and loss.

    Attributes:
        name: Name in the journal, followed by the loss if the study searched the loss as well.
        label: Printed names of what distinguishes the study: its loss, and dataset or model where these differ.
        short_label: The label without the dataset, for a chart of one dataset.
        place: Position in the experiment, from 0; decides colour and symbol.
        trials: Trials of the study's search, at least one, in the order of their numbers.
        repeats: Trials of the study's confirmation, trained again with fresh seeds.
        logs: Range -> whether it is logarithmic, see ``log_ranges``.
    """

    name: str
    label: str
    short_label: str
    place: int
    dataset: str
    model: str
    loss: str
    trials: Sequence[Trial]
    repeats: Sequence[Trial] = ()
    logs: Mapping[str, bool] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The metric that the search maximised."""
        return self.trials[0].metric

    def name_of(self, trial: Trial) -> str:
        """Return the name of a trial where its dataset is named beside it, such as ``NT-Xent 0003``."""
        return f"{self.short_label} {trial.number:04d}"

    @cached_property
    def finished(self) -> list[Trial]:
        """The trials that may win, best first: the first trial of each setting that was trained to its end."""
        return [point.finished[0] for point in best_points(self.trials)]

    @cached_property
    def points(self) -> dict[str, Point]:
        """The setting of each trial with all its trainings, by the trial's id."""
        return {trial.id: point for point in points_of(self.trials) for trial in point.trainings}

    def value_of(self, trial: Trial) -> float | None:
        """Return the value of a trial's setting: the mean of its finished trainings, or the trial's own value."""
        mean = self.points[trial.id].value
        return trial.best_value if mean is None else mean

    @cached_property
    def valued(self) -> list[Trial]:
        """The trials with a value that can be compared, in the order of their numbers."""
        return [trial for trial in self.trials if trial.state in WITH_VALUE and trial.best_value is not None]

    @property
    def leader(self) -> Trial | None:
        """The best finished trial; ``None`` if none has finished."""
        return next(iter(self.finished), None)


def studies_of(history: History) -> list[Study]:
    """Return the studies in the order in which their first trials were created.

    A study that searches the loss becomes one study for each loss, because coefficients of different losses cannot
    share an axis.
    """
    losses: dict[str, set[str]] = {}
    for trial in history.trials.values():
        losses.setdefault(trial.study, set()).add(trial.config.loss)
    groups: dict[str, list[Trial]] = {}
    repeats: dict[str, list[Trial]] = {}
    for trial in history.trials.values():
        part = f"-{trial.config.loss}" if len(losses[trial.study]) > 1 else ""
        (groups if trial.stage is Stage.SEARCH else repeats).setdefault(trial.study + part, []).append(trial)
    configs = {name: trials[0].config for name, trials in groups.items()}
    cells = {name: (Path(config.dataset).name, config.model, config.loss) for name, config in configs.items()}
    labels = _labels(cells)
    logs = log_ranges(history)
    return [
        Study(name, *labels[name], place, *cells[name], trials, repeats.get(name, ()), logs.get(trials[0].study, {}))
        for place, (name, trials) in enumerate(groups.items())
    ]


def by_dataset(studies: Sequence[Study]) -> dict[str, list[Study]]:
    """Return the studies of each dataset, in their order."""
    groups: dict[str, list[Study]] = {}
    for study in studies:
        groups.setdefault(study.dataset, []).append(study)
    return groups


def trial_names(studies: Sequence[Study]) -> dict[str, str]:
    """Return id -> name of each trial of the search where its dataset is named beside it."""
    return {trial.id: study.name_of(trial) for study in studies for trial in study.trials}


def leaders_of(studies: Sequence[Study]) -> list[tuple[Study, Trial]]:
    """Return the leader of each study, best first; for a single study also its second-best trial."""
    if len(studies) == 1:
        return [(studies[0], trial) for trial in studies[0].finished[:2]]
    led = [(study, trial) for study in studies if (trial := study.leader)]
    return sorted(led, key=lambda pair: (-(pair[0].value_of(pair[1]) or 0.0), pair[1].created_after, pair[1].number))


def best_studies(studies: Sequence[Study]) -> list[Study]:
    """Return all studies, dataset by dataset; in each dataset the study with the highest value comes first."""

    def best(study: Study) -> float:
        return max((study.value_of(trial) or 0.0 for trial in study.valued), default=0.0)

    return [study for group in by_dataset(studies).values() for study in sorted(group, key=best, reverse=True)]


def _labels(cells: Mapping[str, tuple[str, str, str]]) -> dict[str, tuple[str, str]]:
    """Return label and short label of each study; its name twice where two studies would have one label."""
    several = [len({cell[part] for cell in cells.values()}) > 1 for part in (0, 1)]
    labels = {}
    for name, (dataset, model, loss) in cells.items():
        short = " · ".join(map(printed, [model] * several[1] + [loss]))
        labels[name] = f"{printed(dataset)} · {short}" if several[0] else short, short
    return labels if len(set(labels.values())) == len(labels) else {name: (name, name) for name in cells}
