"""Cells for claims: the experiment that trains them, its confirmation, and the papers' tables."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

import numpy as np

from orchestrator.claims.claims import Claims, setting_of
from orchestrator.claims.engine import Cells
from orchestrator.experiment.experiment import Experiment, experiment_of
from orchestrator.experiment.yaml_files import Document, override, validate
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.reference.other_papers import other_rows
from orchestrator.reference.published import (
    BLEEKER,
    NT_XENT_COCOS,
    RETRIEVAL,
    SMOOTH_AP_COCOS,
    TRIPLET_COCOS,
    PublishedRow,
    published_rows,
)
from orchestrator.results.confirmation import metrics_of
from orchestrator.results.statistics import Measure, measure
from trainables.errors import ConfigError

BATCHES = 227
"""Batches behind a published COCOS mean, at least: the deviations of tables 2 to 4 are over batches of one run."""

IMAGES, CAPTIONS = 128, 128
"""Queries of each direction in a batch of the paper's triplets."""

RANKED_CAPTIONS = 640
"""Captions that query in a batch of the paper's SmoothAP, five an image."""


PUBLISHED_SETTINGS = {"polynomial_self": "polynomial_self(degree=2)"}
"""Loss of another paper -> the setting of its published rows: the released polynomial is of order 2."""


def cells_experiment(
    claims: Claims, datasets: Sequence[str], models: Sequence[str], seeds: int, overrides: Sequence[str]
) -> Experiment:
    """Return the experiment that trains the cells of claims; without models, those of the claims, or VSE++.

    Raises:
        ConfigError: If the claims have no experiment, or any of its keys is refused.
    """
    if not claims.experiment:
        raise ConfigError(
            f"{claims.name}: has no key experiment, so there is nothing to train; name experiments by --with"
        )
    confirm = {"top": 1, "published": "each", **claims.experiment.get("confirm", {}), "seeds": seeds}
    own = {"name": f"certify-{claims.name}", "datasets": list(datasets), "confirm": confirm}
    values = {**claims.experiment, **own, **({"models": list(models)} if models else {})}
    return validate(Experiment, override(Document(f"{claims.name}: experiment", values), overrides))


def published_cells(claims: Claims) -> Cells:
    """Return the cells of the papers' tables: tables 1 to 4 of Bleeker and de Rijke (2022), or rows of other papers.

    The mean of a COCOS count is that of one run, with the error that its batches leave: it says nothing about seeds.
    Of several rows of another cell the row of the most runs counts.
    """
    cells: dict[tuple[str, str], dict[str, dict[str, Measure]]] = {}
    for table in (RETRIEVAL, TRIPLET_COCOS, NT_XENT_COCOS, SMOOTH_AP_COCOS) if BLEEKER in claims.papers else ():
        for row in published_rows(table):
            values = _values(row, row.runs if table == RETRIEVAL else BATCHES)
            captions = RANKED_CAPTIONS if row.loss == "smooth_ap" else CAPTIONS
            values |= _shares(values, {"i2t": IMAGES, "t2i": captions})
            cells.setdefault((row.dataset, row.model), {}).setdefault(row.loss, {}).update(values)
    others = (row for row in other_rows() if row.number in claims.papers)
    for row in sorted(others, key=lambda row: -row.runs):
        for name in claims.losses:
            loss, setting = setting_of(name)
            if loss == row.loss and (not setting or name == PUBLISHED_SETTINGS.get(loss)):
                cells.setdefault((row.dataset, row.model), {}).setdefault(name, _values(row, row.runs))
    return cells


def _values(row: PublishedRow, runs: int) -> dict[str, Measure]:
    return {name: Measure(mean, std, runs) for name, (mean, std) in row.values.items()}


def _shares(values: Mapping[str, Measure], queries: Mapping[str, int]) -> dict[str, Measure]:
    """Return the shares of queries without a gradient, of counts a batch."""
    shares = {}
    for way, count in queries.items():
        without = values.get(f"{way}_queries_without_gradient")
        if without is not None:
            std = None if without.std is None else without.std / count
            shares[f"{way}_share_without_gradient"] = Measure(without.mean / count, std, without.seeds)
    return shares


def confirmed_cells(histories: Iterable[History], losses: Iterable[str]) -> Cells:
    """Return the cells of confirmations: test metrics and COCOS of each loss over the seeds of one setting.

    Args:
        histories: Histories of experiments; of a cell that several have, the first counts.
        losses: Losses with their settings, see ``claims.setting_of``. Of a loss without a setting the published
            setting counts, or without it the best of its search.
    """
    wanted = list(losses)
    cells: dict[tuple[str, str], dict[str, dict[str, Measure]]] = {}
    for history in histories:
        published = {cell.name: list(cell.space.published_points()) for cell in experiment_of(history).cells()}
        for study, candidates in _candidates(history).items():
            config = candidates[0][0].config
            cell = cells.setdefault((PurePath(config.dataset).name, config.model), {})
            by_preference = sorted(candidates, key=lambda trials: not _is_one_of(published.get(study, ()), trials[0]))
            for name in wanted:
                loss, setting = setting_of(name)
                fitting = candidates if setting is not None else by_preference
                chosen = [trials for trials in fitting if trials[0].config.loss == loss]
                chosen = [trials for trials in chosen if _is_one_of([setting or {}], trials[0])]
                if chosen:
                    cell.setdefault(name, _measures([numbers_of(trial, history) for trial in chosen[0]]))
    return cells


def _candidates(history: History) -> dict[str, list[list[Trial]]]:
    """Return study -> the evaluated repeats of each of its candidates, the best of the search first."""
    repeats: dict[str, list[Trial]] = {}
    for trial in history.stage(Stage.CONFIRM):
        if trial.state is TrialState.FINISHED and trial.id in history.tests and trial.candidate is not None:
            repeats.setdefault(trial.candidate, []).append(trial)
    planned = [name for plan in history.plans.values() for name in plan.candidates]
    studies: dict[str, list[list[Trial]]] = {}
    for candidate in dict.fromkeys([*planned, *repeats]):
        if candidate in repeats:
            studies.setdefault(history.trials[candidate].study, []).append(repeats[candidate])
    return studies


def _is_one_of(settings: Iterable[Mapping[str, object]], trial: Trial) -> bool:
    """Whether a trial has all parameters of one of some settings."""
    parameters = {**trial.config.loss_parameters, **trial.params}
    return any(setting.items() <= parameters.items() for setting in settings)


def numbers_of(trial: Trial, history: History) -> dict[str, float]:
    """Return a training's test metrics and COCOS counts without prefixes, with shares of queries without gradient."""
    values = metrics_of(trial, history)
    numbers = {name.partition("/")[2]: value for name, value in values.items() if name.startswith(("test/", "cocos/"))}
    first = trial.epochs[min(trial.epochs)] if trial.epochs else {}
    batch = trial.config.training.batch_size
    captions = trial.config.training.captions_per_image if trial.config.training.batches == "images" else 1
    for prefix, place, metrics in (("", "cocos", values), ("start_", "cocos_start", first)):
        for way, queries in (("i2t", batch), ("t2i", batch * captions)):
            without = metrics.get(f"{place}/{way}_queries_without_gradient")
            if without is not None:
                numbers[f"{prefix}{way}_share_without_gradient"] = without / queries
    return {name: value for name, value in numbers.items() if "/" not in name}


def _measures(runs: list[dict[str, float]]) -> dict[str, Measure]:
    names = [name for name in runs[0] if all(name in run for run in runs)]
    return {name: measure(np.array([run[name] for run in runs])) for name in names}
