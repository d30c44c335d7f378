"""What a search takes from past searches, read once and copied into its journal: it depends on no other folder then.

``search.warm_start_from`` names experiments whose trials the samplers get as results. ``search.prior`` takes settings
that did best on other datasets, which a study tries right after the published settings. The space stays as it is, and
the sampler learns from the values that these settings reach in this study alone. ``tests.benchmarks prior`` compares
the regrets.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from orchestrator.experiment.experiment import Cell, Experiment, data_key
from orchestrator.journal.directory import JOURNAL_FILE, find_directory, read_history
from orchestrator.journal.history import History
from orchestrator.journal.journal import JournalError
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.points import Point, points_by_study, points_of, ranked
from orchestrator.journal.records import PriorRead, WarmStarted
from orchestrator.journal.trial import PriorPoint, Stage, Trial, TrialState, WarmTrial
from orchestrator.text.terminal import say
from orchestrator.text.values import count_text
from trainables.config import TrialConfig
from trainables.errors import ConfigError

SHARE = 4
"""Of this many trials of a study, at most one is taken from the prior; one trial in any case."""

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
            alike = (point for point in points if same_data and _is_alike(point.first, config, cell))
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


def _is_alike(trial: Trial, config: TrialConfig, cell: Cell) -> bool:
    """Whether a trial was trained and rated like the trials of a study, apart from the searched settings.

    For example, a value after 3 epochs says nothing about the point after 30 epochs. ``config`` is that of any trial of
    the study.
    """

    def compared(settings: TrialConfig) -> tuple[Any, ...]:
        ours = {name: getattr(config.training, name) for name in (*cell.space.training, *UNSEEN)}
        searched = cell.space.model_parameters
        models = {name: value for name, value in settings.model_parameters.items() if name not in searched}
        training = replace(settings.training, **ours)
        return settings.vocabulary, settings.val_images, settings.metric, models, training

    return compared(trial.config) == compared(config)


def _fitting(point: Point, cell: Cell, experiment: Experiment) -> WarmTrial | None:
    """Return a point as a trial; ``None`` without all parameters within their bounds, or without an objective.

    The value of an objective is the mean over the finished trainings.
    """
    params = point.first.params
    names = [goal.metric for goal in experiment.search.goals]
    if not cell.space.holds(params):
        return None
    if point.state is not TrialState.FINISHED:
        return WarmTrial(dict(params), point.state, ())
    if not point.finished or any(name not in trial.at_best for trial in point.finished for name in names):
        return None
    return WarmTrial(dict(params), point.state, tuple(point.mean(name) or 0.0 for name in names))


def read_prior(experiment: Experiment, output: Path) -> Mapping[str, Sequence[PriorPoint]]:
    """Return study -> the settings from elsewhere that it is to try, in their order; empty without ``search.prior``.

    An experiment that has begun keeps the settings of its journal. A damaged journal of another experiment is left out,
    with a line on standard error.

    Raises:
        JournalError: If the experiment's own journal is damaged.
    """
    directory = output / experiment.name
    if experiment.search.prior == "none":
        return {}
    recorded = read_history(directory).prior if (directory / JOURNAL_FILE).is_file() else None
    if recorded is not None:
        return recorded
    elsewhere = _histories(experiment, output)
    return {
        cell.name: tuple(islice(_best(elsewhere, cell, experiment), max(1, experiment.trials_in(cell) // SHARE)))
        for cell in experiment.cells()
    }


def start_from_prior(prior: Mapping[str, Sequence[PriorPoint]], ledger: Ledger) -> list[str]:
    """Record, once and before the first trial, the settings that ``read_prior`` returned.

    Returns:
        A sentence about them, where they are recorded now.
    """
    history = ledger.history
    if not prior or history.prior is not None or history.trials:
        return []
    ledger.append(PriorRead(studies=prior))
    settings, having = sum(map(len, prior.values())), sum(map(bool, prior.values()))
    return [f"search.prior: {count_text(settings, 'setting')} of other datasets for {having} of {len(prior)} studies"]


def _histories(experiment: Experiment, output: Path) -> list[History]:
    """Return the other experiments under the output that maximised the same metric, the newest first."""
    histories = []
    for path in output.glob(f"*/{JOURNAL_FILE}"):
        if path.parent.name != experiment.name:
            try:
                histories.append(read_history(path.parent))
            except JournalError:
                # No reason to refuse this search.
                name = path.parent.name
                line = f"search.prior: {name} is left out, its journal is damaged; see `orchestrator status {name}`"
                say(line, error=True)
    alike = [history for history in histories if history.trials and history.metric == experiment.search.metric]
    return sorted(alike, key=lambda history: max(trial.created for trial in history.trials.values()), reverse=True)


def _best(histories: Sequence[History], cell: Cell, experiment: Experiment) -> Iterator[PriorPoint]:
    """Yield the best setting of each other dataset, of its newest search that trained like the study."""
    config = experiment.trial_config(cell, {})
    datasets, known = {Path(cell.dataset).name}, [*cell.space.first_points(), *cell.enqueued]
    for history in histories:
        for study, points in points_by_study(history.trials.values()).items():
            theirs = points[0].first.config
            dataset = Path(theirs.dataset).name
            best = ranked(points)
            is_same = (theirs.model, theirs.loss) == (cell.model, cell.loss)
            if dataset in datasets or not best or not is_same or not _is_alike(points[0].first, config, cell):
                continue
            datasets.add(dataset)
            params = best[0].first.params
            if cell.space.holds(params) and params not in known:
                known.append(params)
                yield PriorPoint(params, study)
