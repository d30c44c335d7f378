"""Cells for claims: from the paper's tables, and from the confirmations of experiments."""

from collections.abc import Iterable, Mapping
from pathlib import PurePath

import numpy as np

from orchestrator.claims.engine import Cells
from orchestrator.experiment.journalled import experiment_of
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.reference.published import NT_XENT_COCOS, RETRIEVAL, SMOOTH_AP_COCOS, TRIPLET_COCOS, published_rows
from orchestrator.results.statistics import Measure, measure

BATCHES = 227
"""Batches behind a published COCOS mean, at least: the deviations of tables 2 to 4 are over batches of one run."""

IMAGES, CAPTIONS = 128, 128
"""Queries of each direction in a batch of the paper's triplets."""

RANKED_CAPTIONS = 640
"""Captions that query in a batch of the paper's SmoothAP, five an image."""


def published_cells() -> Cells:
    """Return the cells of tables 1 to 4 of Bleeker and de Rijke (2022).

    The mean of a COCOS count is that of one run, with the error that its batches leave: it says nothing about seeds.
    """
    cells: dict[tuple[str, str], dict[str, dict[str, Measure]]] = {}
    for table in (RETRIEVAL, TRIPLET_COCOS, NT_XENT_COCOS, SMOOTH_AP_COCOS):
        for row in published_rows(table):
            runs = row.runs if table == RETRIEVAL else BATCHES
            values = {name: Measure(mean, std, runs) for name, (mean, std) in row.values.items()}
            captions = RANKED_CAPTIONS if row.loss == "smooth_ap" else CAPTIONS
            values |= _shares(values, {"i2t": IMAGES, "t2i": captions})
            cells.setdefault((row.dataset, row.model), {}).setdefault(row.loss, {}).update(values)
    return cells


def _shares(values: Mapping[str, Measure], queries: Mapping[str, int]) -> dict[str, Measure]:
    """Return the shares of queries without a gradient, of counts a batch."""
    shares = {}
    for way, count in queries.items():
        without = values.get(f"{way}_queries_without_gradient")
        if without is not None:
            std = None if without.std is None else without.std / count
            shares[f"{way}_share_without_gradient"] = Measure(without.mean / count, std, without.seeds)
    return shares


def confirmed_cells(histories: Iterable[History]) -> Cells:
    """Return the cells of confirmations: test metrics and COCOS of each loss over the seeds of one setting.

    Of several confirmed settings of a loss, the published setting counts; without it, the first.
    """
    runs: dict[tuple[str, str], dict[str, list[dict[str, float]]]] = {}
    for history in histories:
        for trials in _settings(history).values():
            config = trials[0].config
            losses = runs.setdefault((PurePath(config.dataset).name, config.model), {})
            losses.setdefault(config.loss, [numbers_of(trial, history) for trial in trials])
    return {group: {loss: _measures(values) for loss, values in losses.items()} for group, losses in runs.items()}


def _settings(history: History) -> dict[str, list[Trial]]:
    """Return candidate -> its evaluated repeats, candidates at published settings first."""
    repeats: dict[str, list[Trial]] = {}
    for trial in history.stage(Stage.CONFIRM):
        if trial.state is TrialState.FINISHED and trial.id in history.tests and trial.candidate is not None:
            repeats.setdefault(trial.candidate, []).append(trial)
    published = {cell.name: list(cell.space.published_points()) for cell in experiment_of(history).cells()}

    def is_searched(candidate: str) -> bool:
        trial = history.trials[candidate]
        return not any(point.items() <= trial.params.items() for point in published.get(trial.study, ()))

    return {candidate: repeats[candidate] for candidate in sorted(repeats, key=is_searched)}


def numbers_of(trial: Trial, history: History) -> dict[str, float]:
    """Return a training's test metrics and COCOS counts without prefixes, with shares of queries without gradient."""
    at_best = trial.epochs.get(trial.best_epoch or 0, {})
    first = trial.epochs[min(trial.epochs)] if trial.epochs else {}
    numbers = {name: value for name, value in history.tests.get(trial.id, {}).items() if "/" not in name}
    numbers |= {name.removeprefix("cocos/"): value for name, value in at_best.items() if name.startswith("cocos/")}
    batch = trial.config.training.batch_size
    captions = trial.config.training.captions_per_image if trial.config.training.batches == "images" else 1
    for prefix, metrics in (
        ("", at_best),
        ("start_", {n.replace("cocos_start/", "cocos/"): v for n, v in first.items()}),
    ):
        for way, queries in (("i2t", batch), ("t2i", batch * captions)):
            without = metrics.get(f"cocos/{way}_queries_without_gradient")
            if without is not None:
                numbers[f"{prefix}{way}_share_without_gradient"] = without / queries
    return numbers


def _measures(runs: list[dict[str, float]]) -> dict[str, Measure]:
    names = [name for name in runs[0] if all(name in run for run in runs)]
    return {name: measure(np.array([run[name] for run in runs])) for name in names}
