"""Caveats, which limit results, such as trials that could not win; and remarks, which limit nothing."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from orchestrator.experiment.experiment import Cell, Experiment, known_experiment
from orchestrator.experiment.overlaps import overlaps
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, by_study, differing, points_of, ranked, trained_alike
from orchestrator.journal.trial import Stage, Trial, TrialState, best_first
from orchestrator.results.surface import spread_of
from orchestrator.text.values import count_text, in_digits, value_text
from orchestrator.text.wording import listed, metric_words, number_text, parameter_names, printed, share_text

NAMED = 6
"""Most trials that a sentence names."""

RISING = 0.02
"""Share of its value by which a metric rises an epoch, from which on a training counts as too short."""

RISING_EPOCHS = 3
"""Epochs before the drop of the learning rate, or the end, over which the rise is a mean; at most a third of all."""

REVISION = 10
"""Leading characters of a revision that identify it."""


def caveats(trials: Sequence[Trial]) -> list[str]:
    """Return what limits the trials of one dataset; nothing where all finished with equal versions."""
    searched = [trial for trial in trials if trial.stage is Stage.SEARCH]
    running = sum(not trial.has_ended for trial in trials)
    higher = _higher_than_the_best(searched, ranked(points_of(searched)))
    return [
        *_mixed_versions(trials),
        *([f"{count_text(running, 'trial')} {'has' if running == 1 else 'have'} not ended yet."] if running else []),
        *([] if higher is None else [_cannot_win(higher)]),
        *still_rising(trials),
    ]


def remarks(trials: Sequence[Trial]) -> list[str]:
    """Return what else happened to the trials of one dataset, which limits nothing."""
    searched = [trial for trial in trials if trial.stage is Stage.SEARCH]
    points = points_of(searched)
    finished = ranked(points)
    higher = _higher_than_the_best(searched, finished)
    sentences = [*_replicates(points), *_settings_without_effect(by_study(points), by_study(finished))]
    for state in (TrialState.STOPPED_EARLY, TrialState.DIVERGED, TrialState.FAILED):
        count = sum(trial.state is state for trial in searched)
        # A single trial that a caveat names is not counted again.
        if count > (higher is not None and higher.state is state):
            sentences.append(f"{count_text(count, 'trial')} {str(state).replace('_', ' ')}, which cannot win.")
    return [*sentences, *without_graphs(trials)]


def without_graphs(trials: Iterable[Trial]) -> list[str]:
    """Say how many trials took their steps without a CUDA graph, though one was asked for, by the reason."""
    reasons = Counter(trial.not_replayed for trial in trials if trial.not_replayed is not None)
    return [f"{count_text(count, 'trial')} trained without CUDA graphs: {reason}." for reason, count in reasons.items()]


def _mixed_versions(trials: Sequence[Trial]) -> list[str]:
    """Name the libraries whose versions differed between the trials, and the code if its revision differed."""
    # Most of thousands of trials share one environment, whose versions are read once.
    environments = {id(record): record for trial in trials for record in trial.environments}.values()
    versions = [_versions(environment) for environment in environments]
    names = dict.fromkeys(name for libraries in versions for name in libraries)
    values = {name: list(dict.fromkeys(libraries.get(name, "none") for libraries in versions)) for name in names}
    mixed = [f"{name} {' and '.join(variants)}" for name, variants in values.items() if len(variants) > 1]
    return [f"Trials were trained with {', with '.join(mixed)}; values may differ for that alone."] if mixed else []


def _versions(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of the libraries, and as ``code`` the leading characters of the revision."""
    commit, dash, state = str(environment.get("git_revision") or "unknown").partition("-")
    return {**environment.get("versions", {}), "code": commit[:REVISION] + dash + state}


def _higher_than_the_best(searched: Sequence[Trial], finished: Sequence[Point]) -> Trial | None:
    """Return the best trial that did not finish, if its value is above that of every finished setting by its metric."""
    highest: dict[str, float] = {}
    for point in finished:
        highest.setdefault(point.first.metric, point.value or 0.0)
    others = best_first(trial for trial in searched if trial.has_ended and trial.state is not TrialState.FINISHED)
    higher = (trial for trial in others if (trial.best_value or 0.0) > highest.get(trial.metric, math.inf))
    return next(higher, None)


def _cannot_win(trial: Trial) -> str:
    how, reached = str(trial.state).replace("_", " "), number_text(trial.best_value or 0.0, trial.metric)
    return f"{trial.id} reached {reached} {metric_words(trial.metric)}, above the best, and {how}: it cannot win."


def _replicates(points: Sequence[Point]) -> list[str]:
    """Say how many settings were trained several times, and by how much the trainings of one setting differ."""
    repeated = [point for point in points if len(point.trainings) > 1]
    if not repeated:
        return []
    again = count_text(sum(len(point.trainings) - 1 for point in repeated), "trial")
    sentence = f"{again} repeated {count_text(len(repeated), 'setting')} with other seeds; each setting has their mean"
    noise, _ = spread_of([[trial.best_value or 0.0 for trial in point.finished] for point in points])
    # Studies may have metrics of their own, over which no deviation is pooled.
    noise = noise if len({point.first.metric for point in repeated}) == 1 else None
    return [f"{sentence}." if noise is None else f"{sentence}, with a standard deviation of {in_digits(noise, 2)}."]


def _settings_without_effect(
    studies: Mapping[str, Sequence[Point]], finished: Mapping[str, Sequence[Point]]
) -> list[str]:
    """Name the hyper-parameters in which settings of a study differ that trained exactly as its best setting did.

    Both have study -> settings, ``finished`` those that were trained to their end, best first.

    A margin that every sample violates is an example: it adds a constant to the loss, and nothing to its gradient.
    """
    sentences = []
    for study, points in studies.items():
        alike = [point.first for point in finished.get(study, ())]
        alike = [trial for trial in alike if trial is alike[0] or trained_alike(trial, alike[0])]
        names = differing(alike)
        if names:
            of = f"{len(alike)} of {count_text(len(points), 'setting')} of {printed(alike[0].config.loss)}"
            named = listed(parameter_names(names).values())
            sentences.append(f"{of}, the best, differ in {named} and had identical results in every epoch.")
    return sentences


def still_rising(trials: Sequence[Trial]) -> list[str]:
    """Name the losses whose metric still rose by ``RISING`` an epoch when the learning rate dropped, or at the end.

    Of a confirmed loss the trainings with fresh seeds count, of another loss its best trial. At the full rate such a
    loss would have risen further, so that the order of the losses may be the order of their pace.
    """
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in best_first(trial for trial in trials if trial.state is TrialState.FINISHED):
        groups.setdefault((trial.config.loss, trial.config.model), []).append(trial)
    named: dict[str, list[str]] = {}
    for (loss, model), of_loss in groups.items():
        fresh = [trial for trial in of_loss if trial.stage is Stage.CONFIRM] or of_loss[:1]
        rises = [rise for trial in fresh if (rise := _rise(trial)) is not None]
        if rises and fmean(rises) >= RISING:
            risen = f"{printed(loss)} with {printed(model)} {share_text(fmean(rises))}"
            named.setdefault(metric_words(of_loss[0].metric), []).append(risen)
    return [
        f"Rise of {metric} an epoch at the full learning rate: {listed(of)}. Longer training may change the order."
        for metric, of in named.items()
    ]


def _rise(trial: Trial) -> float | None:
    """Return the mean rise of the metric an epoch, as a share of its value, before the rate dropped or the end."""
    training = trial.config.training
    last = min(training.learning_rate_drop_epochs * training.epoch_scale, trial.last_epoch)
    span = min(RISING_EPOCHS, last // 3)
    if span < 1 or last - span not in trial.epochs:
        return None
    before, value = (trial.epochs[epoch][trial.metric] for epoch in (last - span, last))
    return (value - before) / span / value if value > 0 else None


def comparability(history: History, dataset: str) -> list[str]:
    """Return what limits comparisons on a dataset: its data, and settings that its losses share.

    A single loss needs no sentence about settings that losses share.
    """
    experiment = known_experiment(history)
    # In the journal these sentences name their dataset, which all sentences here are about.
    of_data = (sentence.removeprefix(f"{dataset}: ") for sentence in history.data_caveats.get(dataset, ()))
    sentences = [*of_data, *_opened_elsewhere(history, dataset)]
    cells = _cells(experiment, dataset)
    if experiment is None or not cells or len(experiment.losses) < 2:
        return sentences
    rates = [] if "learning_rate" in experiment.search.training else [_rates(cells)]
    return [*sentences, *rates, *(f"{sentence}." for sentence in overlaps(experiment, dataset))]


def search_remarks(history: History, dataset: str) -> list[str]:
    """Return what was searched beside the losses, and the trials that ``search.prior`` gave a setting."""
    experiment = known_experiment(history)
    if experiment is None:
        return []
    cells, sentences = _cells(experiment, dataset), []
    if cells and len(experiment.losses) > 1 and "learning_rate" in experiment.search.training:
        sentences.append(_searched(experiment, cells))
    names = {cell.name for cell in cells}
    prior = {study: [point.params for point in points] for study, points in (history.prior or {}).items()}
    searched = [trial for trial in history.stage(Stage.SEARCH) if trial.study in names and trial.candidate is None]
    tried = [training.id for training in searched if training.params in prior.get(training.study, ())]
    if tried:
        named = listed([*tried[:NAMED], *([f"{len(tried) - NAMED} more"] if len(tried) > NAMED else [])])
        count = count_text(len(tried), "trial")
        sentences.append(f"search.prior gave {count} a best setting of another dataset: {named}.")
    return sentences


def _opened_elsewhere(history: History, dataset: str) -> list[str]:
    """Say how often other experiments had opened the test split, and whether the level of the verdict counts them."""
    others = history.opened_elsewhere.get(dataset, {})
    if not others:
        return []
    times, names = count_text(sum(others.values()), "time"), listed([*others][:NAMED])
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    said = f"Other experiments of the output folder had opened the test split of these data {times}: {names}{more}."
    plan = history.plans.get(dataset)
    counted = plan is not None and plan.looks >= sum(others.values())
    return [said if counted else f"{said} The level of the verdict does not count that; `confirm.looks: output` does."]


def _cells(experiment: Experiment | None, dataset: str) -> list[Cell]:
    return [] if experiment is None else [cell for cell in experiment.cells() if cell.dataset == dataset]


def _searched(experiment: Experiment, cells: Sequence[Cell]) -> str:
    """Say which training settings were searched beside the losses."""
    ranges = {parameter: str(cells[0].space.training[parameter]) for parameter in experiment.search.training}
    # Whether a range is logarithmic, or of whole numbers, is in the experiment's file.
    names = listed(
        f"{name} in {ranges[key].removesuffix(' log').removesuffix(' whole')}"
        for key, name in parameter_names(ranges).items()
    )
    budget = count_text(experiment.search.trials, "trial")
    if experiment.search.loss == "choose":
        return f"Searched beside the losses, in one study of {budget}: {names}."
    return f"Each loss had its own search of {names}, beside its parameters, in {budget}."


def _rates(cells: Sequence[Cell]) -> str:
    """Say at which learning rate the losses were trained, where it was not searched."""
    rates = list(dict.fromkeys(value_text(cell.training.learning_rate) for cell in cells))
    if len(rates) > 1:
        return f"The losses were trained at learning rates {', '.join(rates)}, which were not searched."
    return f"All losses were trained at learning rate {rates[0]}: another rate may suit another loss better."
