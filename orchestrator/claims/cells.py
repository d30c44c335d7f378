"""Cells for claims: the experiment that trains them, its confirmation, and the papers' tables."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath

from orchestrator.claims.claims import Claims, setting_of
from orchestrator.claims.engine import Groups
from orchestrator.experiment.experiment import Experiment, experiment_of
from orchestrator.experiment.yaml_files import Document, override, validate
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial
from orchestrator.reference.published import (
    BLEEKER,
    NT_XENT_COCOS,
    RETRIEVAL,
    SMOOTH_AP_COCOS,
    TRIPLET_COCOS,
    PublishedRow,
    other_rows,
    published_rows,
)
from orchestrator.results.confirmation import Confirmation, confirmations
from orchestrator.results.runs import RunId, Runs
from orchestrator.results.statistics import Measure, Sample
from trainables.errors import ConfigError
from trainables.metric_table import COCOS, COCOS_START, TEST, at_start, in_section, is_value, name_parts, values_in
from trainables.ranks import Ranks

BATCHES = 227
"""Batches behind a published COCOS mean, at least: the deviations of tables 2 to 4 are over batches of one run."""

IMAGES, CAPTIONS = 128, 128
"""Queries of each direction in a batch of the paper's triplets."""

EPOCHS_TO_95, NEARLY = "epochs_to_95", 0.95
"""Metric of a training: the epochs until its value on val is this share of its best."""

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
    confirm = claims.experiment.get("confirm") or {}
    # Any other value is refused with the rest of the experiment.
    if isinstance(confirm, Mapping):
        confirm = {"top": 1, "published": "each", **confirm, "seeds": seeds}
    own = {"name": f"certify-{claims.name}", "datasets": list(datasets), "confirm": confirm}
    values = {**claims.experiment, **own, **({"models": list(models)} if models else {})}
    return validate(Experiment, override(Document(f"{claims.name}: experiment", values), overrides))


def published_cells(claims: Claims) -> Groups:
    """Return the cells of the papers' tables: tables 1 to 4 of Bleeker and de Rijke (2022), or rows of other papers.

    The mean of a COCOS count is that of one run, with the error that its batches leave: it says nothing about seeds.
    Of several rows of another cell the row of the most runs counts.
    """
    cells: dict[tuple[str, str], dict[str, dict[str, Measure]]] = {}
    for table in (RETRIEVAL, TRIPLET_COCOS, NT_XENT_COCOS, SMOOTH_AP_COCOS) if BLEEKER in claims.papers else ():
        for row in published_rows(table):
            values = _values(row, row.runs if table == RETRIEVAL else BATCHES)
            captions = RANKED_CAPTIONS if row.loss == "smooth_ap" else CAPTIONS
            values |= _measured_shares(row, {"i2t": IMAGES, "t2i": captions})
            cells.setdefault((row.dataset, row.model), {}).setdefault(row.loss, {}).update(values)
    others = (row for row in other_rows() if row.number in claims.papers)
    for row in sorted(others, key=lambda row: -row.runs):
        for name in claims.losses:
            loss, setting = setting_of(name)
            if loss == row.loss and (not setting or name == PUBLISHED_SETTINGS.get(loss)):
                cells.setdefault((row.dataset, row.model), {}).setdefault(name, _values(row, row.runs))
    return {
        (dataset, model): {
            loss: Runs(loss, means=values, dataset=dataset, model=model, loss=setting_of(loss)[0])
            for loss, values in losses.items()
        }
        for (dataset, model), losses in cells.items()
    }


def _measured_shares(row: PublishedRow, queries: Mapping[str, int]) -> dict[str, Measure]:
    means, deviations = (
        _shares({name: parts[place] or 0.0 for name, parts in row.values.items()}, queries) for place in (0, 1)
    )
    return {name: Measure(mean, deviations[name], BATCHES) for name, mean in means.items()}


def _values(row: PublishedRow, runs: int) -> dict[str, Measure]:
    return {name: Measure(mean, std, runs) for name, (mean, std) in row.values.items()}


def _shares(values: Mapping[str, float], queries: Mapping[str, int]) -> dict[str, float]:
    """Return the shares of queries without a gradient, of counts a batch."""
    counts = {way: values.get(f"{way}_queries_without_gradient") for way in queries}
    return {
        f"{way}_share_without_gradient": without / queries[way]
        for way, without in counts.items()
        if without is not None
    }


def confirmed_cells(histories: Iterable[History], claims: Claims) -> Groups:
    """Return the cells of confirmations: test metrics and COCOS of each loss in the trainings of one setting.

    Metrics of which the ranks on test tell a value of each image have these values.

    Args:
        histories: Histories of experiments; of a cell that several have, the first counts.
        claims: The claims, with their losses and settings, see ``claims.setting_of``. Of a loss without a setting the
            published setting counts, or without it the best of its search.

    Raises:
        ConfigError: If experiments have other data under one name of a dataset.
    """
    histories = list(histories)
    _check_same_data(histories)
    groups: dict[tuple[str, str], dict[str, Runs]] = {}
    queries: dict[tuple[str, str], Ranks] = {}
    for history in histories:
        published = {cell.name: list(cell.space.published_points()) for cell in experiment_of(history).cells()}
        for confirmation in confirmations(history).values():
            images: dict[str, Mapping[str, Sample]] | None = None
            for name in claims.losses:
                for candidate in _fitting(name, confirmation, published):
                    group = PurePath(candidate.dataset).name, candidate.model
                    if name in groups.setdefault(group, {}):
                        continue
                    images = _images(confirmation, claims) if images is None else images
                    # Images are compared one by one, so all cells of a group answer the same queries.
                    ranks = confirmation.kept_ranks
                    same = ranks is not None and queries.setdefault(group, ranks).has_queries_of(ranks)
                    cell = _runs(name, candidate, confirmation, images if same else {})
                    groups[group][name] = replace(cell, trials=_choices(name, candidate, confirmation, published))
    return groups


def _images(confirmation: Confirmation, claims: Claims) -> dict[str, Mapping[str, Sample]]:
    """Return metric -> trial -> value of each image, of the claims' metrics that are means over queries."""
    known: dict[str, Mapping[str, Sample]] = {}
    for metric in claims.metrics:
        # Counts of batches, and metrics such as a median rank, have no value of an image.
        with suppress(KeyError):
            known[metric] = confirmation.kept_values(in_section(metric, TEST))
    return known


def _check_same_data(histories: Sequence[History]) -> None:
    """Refuse datasets that have the same folder's name and other data: their losses would meet in one cell."""
    digests: dict[tuple[str, str], tuple[str, str | None]] = {}
    for history in histories:
        for key, digest in history.data.items():
            dataset, _, inputs = key.rpartition(":")
            name = PurePath(dataset).name
            known, other = digests.setdefault((name, inputs), (digest, history.name))
            if digest != known:
                raise ConfigError(
                    f"{history.name}: its data of {name} are not those of {other}, and losses are compared "
                    f"on equal data; give one of the two alone"
                )


def _fitting(
    name: str, confirmation: Confirmation, published: Mapping[str, Sequence[Mapping[str, object]]]
) -> list[Runs]:
    """Return the candidates that a loss with its setting means, the preferred first.

    ``published`` are the published settings of each study's loss, by the name of the study.
    """
    loss, setting = setting_of(name)
    trials = confirmation.history.trials
    # A plan begins with the best of the search.
    planned = confirmation.plan.candidates
    candidates = {
        candidate.label: candidate
        for candidate in confirmation.candidates
        if candidate.values and candidate.loss == loss
    }
    ordered = [candidates[label] for label in dict.fromkeys([*planned, *candidates]) if label in candidates]
    if setting is None:
        return sorted(
            ordered,
            key=lambda candidate: not _has(published.get(trials[candidate.label].study, ()), trials[candidate.label]),
        )
    return [candidate for candidate in ordered if _has([setting], trials[candidate.label])]


def _choices(
    name: str, candidate: Runs, confirmation: Confirmation, published: Mapping[str, Sequence[Mapping[str, object]]]
) -> int | None:
    """Return the number of trials of one search of which a cell is the best; ``None`` if it was not chosen so."""
    _, setting = setting_of(name)
    trials = confirmation.history.trials
    if candidate.is_repeated:
        return candidate.trials
    own = trials[candidate.label]
    if setting is None and _has(published.get(own.study, ()), own):
        return None
    searched = (trial for trial in confirmation.history.stage(Stage.SEARCH) if trial.study == own.study)
    return sum(trial.has_ended and not trial.is_zero_shot and _has([setting or {}], trial) for trial in searched)


def _has(settings: Iterable[Mapping[str, object]], trial: Trial) -> bool:
    """Whether a trial has all parameters of one of some settings."""
    # Where the search chose the loss, names of ``params`` begin with the loss; those of ``parameters`` do not.
    parameters = {**trial.config.loss_parameters, **trial.parameters, **trial.params}
    return any(setting.items() <= parameters.items() for setting in settings)


def _runs(name: str, candidate: Runs, confirmation: Confirmation, images: Mapping[str, Mapping[str, Sample]]) -> Runs:
    """Return a candidate with its metrics as claims name them: test metrics, COCOS, and counts of the first steps."""
    trials = _trials(candidate, confirmation)
    values = {}
    for run, metrics in candidate.values.items():
        named = ((name_parts(metric), value) for metric, value in metrics.items() if is_value(metric))
        own = {parts.short: value for parts, value in named if parts.section in (TEST, COCOS)}
        trial = trials[run]
        training, epochs = trial.config.training, trial.epochs
        captions = training.captions_per_image if training.batches == "images" else 1
        queries = {"i2t": training.batch_size, "t2i": training.batch_size * captions}
        # Counts of the first steps are in the first epoch alone.
        start = _shares(values_in(epochs[min(epochs)], COCOS_START), queries)
        values[run] = own | _shares(own, queries) | {at_start(metric): share for metric, share in start.items()}
        curve = {epoch: metrics[trial.metric] for epoch, metrics in epochs.items() if trial.metric in metrics}
        if (needed := epochs_to_share(curve)) is not None:
            values[run][EPOCHS_TO_95] = needed
    kept = {
        metric: {run: of_trial[trial.id] for run, trial in trials.items()}
        for metric, of_trial in images.items()
        if all(trial.id in of_trial for trial in trials.values())
    }
    return replace(candidate, label=name, values=values, images=kept)


def epochs_to_share(curve: Mapping[int, float]) -> float | None:
    """Return the first epoch whose value on val is ``NEARLY`` of the best of all epochs; ``None`` without a value.

    Example:
        >>> epochs_to_share({1: 100.0, 2: 191.0, 3: 200.0, 4: 189.0})
        2.0
    """
    enough = NEARLY * max(curve.values(), default=0.0)
    return next((float(epoch) for epoch in sorted(curve) if curve[epoch] >= enough), None)


def _trials(candidate: Runs, confirmation: Confirmation) -> dict[RunId, Trial]:
    """Return run of a candidate -> its training; of a loss that was searched repeatedly, by search and seed."""
    trials = {}
    for trial in confirmation.repeats:
        is_own = trial.candidate == candidate.label
        if confirmation.is_repeated:
            is_own = (trial.config.model, trial.compared_loss) == candidate.kind
        run = RunId(trial.search if confirmation.is_repeated else 0, trial.config.seed)
        if is_own and run in candidate.values and trial.epochs:
            trials[run] = trial
    return trials
