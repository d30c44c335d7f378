"""Trials of past experiments from which a search starts, read once and copied into the search's journal.

Afterwards the search does not depend on the directories of the past experiments.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from orchestrator.experiment.experiment import Cell, Experiment, data_key
from orchestrator.journal.directory import find_directory, read_history
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.records import WarmStarted
from orchestrator.journal.trial import Stage, Trial, TrialState, WarmTrial
from trainables.config import TrialConfig
from trainables.errors import ConfigError

UNSEEN = ("cocos_every", "cocos_steps")
"""Settings of ``training`` that change statistics, but not the model."""


def read_sources(experiment: Experiment, output: Path) -> dict[str, History]:
    """Return the histories of the experiments named by ``search.warm_start_from``.

    Raises:
        UserError: If an experiment is missing or damaged, or had another metric.
    """
    histories = {}
    for name in experiment.search.warm_start_from:
        history = read_history(find_directory(name, output))
        metric = history.metric
        if metric != experiment.search.metric:
            raise ConfigError(
                f"search.warm_start_from: {name} has search.metric {metric}, not {experiment.search.metric}; "
                f"its values cannot be compared"
            )
        histories[name] = history
    return histories


def start_warm(experiment: Experiment, sources: Mapping[str, History], ledger: Ledger) -> list[str]:
    """Record, once for each study and before its first trial, the trials of other experiments that fit the study.

    Returns:
        A sentence for each experiment from which trials are taken now.
    """
    sentences = []
    for name, history in sources.items():
        if name in ledger.history.warmed_by:
            continue
        studies: dict[str, list[WarmTrial]] = {}
        passed_over = 0
        for cell in experiment.cells():
            config = experiment.trial_config(cell, {})
            same_data = history.data.get(data_key(config)) == ledger.history.data.get(data_key(config))
            points = list(_ended(history, cell))
            alike = (point for point in points if same_data and is_alike(point.first, config, cell))
            studies[cell.name] = [trial for point in alike if (trial := _fitting(point, cell, experiment)) is not None]
            passed_over += len(points) - len(studies[cell.name])
        ledger.append(WarmStarted(source=name, studies=studies, passed_over=passed_over))
        taken = sum(map(len, studies.values()))
        why = "whose data, training or model settings, metric or parameters are not those of the study"
        others = f", {passed_over} passed over {why}" if passed_over else ""
        sentences.append(f"search.warm_start_from: {name}: {taken} trials taken{others}")
    return sentences


def _ended(history: History, cell: Cell) -> Iterator[Point]:
    """Yield the ended points of a search with the dataset and the model of a study, and a loss of its space."""
    for point in points_of(history.stage(Stage.SEARCH)):
        trial = point.first
        is_same_pair = (trial.config.dataset, trial.config.model) == (cell.dataset, cell.model)
        has_ended = point.state is not TrialState.RUNNING
        if is_same_pair and has_ended and trial.config.loss in cell.space.losses:
            yield point


def is_alike(trial: Trial, config: TrialConfig, cell: Cell) -> bool:
    """Whether a trial was trained and rated like the trials of a study, apart from the searched settings.

    For example, a value after 3 epochs says nothing about the point after 30 epochs. ``config`` is that of any trial of
    the study.
    """
    theirs = trial.config
    training = {name: getattr(config.training, name) for name in (*cell.space.training, *UNSEEN)}
    searched = cell.space.model_parameters
    models = [
        {name: value for name, value in trial_config.model_parameters.items() if name not in searched}
        for trial_config in (theirs, config)
    ]
    ratings = [
        (trial_config.vocabulary, trial_config.val_images, trial_config.metric) for trial_config in (theirs, config)
    ]
    return (
        ratings[0] == ratings[1] and models[0] == models[1] and replace(theirs.training, **training) == config.training
    )


def _fitting(point: Point, cell: Cell, experiment: Experiment) -> WarmTrial | None:
    """Return a point as a trial; ``None`` without all parameters within their bounds, or without an objective.

    The value of an objective is the mean over the finished trainings.
    """
    params = point.first.params
    values: tuple[float, ...] = ()
    if not cell.space.holds(params):
        return None
    if point.state is TrialState.FINISHED:
        names = [goal.metric for goal in experiment.search.goals]
        known = all(name in trial.epochs[trial.best_epoch or 0] for trial in point.finished for name in names)
        if not point.finished or not known:
            return None
        values = tuple(point.mean(name) or 0.0 for name in names)
    return WarmTrial(dict(params), point.state, values)
