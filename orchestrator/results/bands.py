"""The set of best settings of a study, which coefficients matter, and the setting to use: answers from its surface.

A surface (``surface.py``) needs a study whose parameters are numbers that each trial has. It sees

    trained to the end   the mean over the setting's trainings. Replicates and confirmations with fresh seeds count,
                         and their spread is the noise of seeds; without any it is estimated with the surface
    stopped early        an estimate of the value at the end, with its error, see ``surface.gain_to_end``
    diverged             the lowest value of the study, with the spread of all values as its error. Without them, a
                         region in which every training diverges would look unexplored
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import combinations

import numpy as np

from orchestrator.experiment.experiment import Cell, known_experiment
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.answer import Answer, Column, Quantity, table_of
from orchestrator.results.answer import Cell as TableCell
from orchestrator.results.surface import Array, Observed, Surface, gain_to_end, spread_of
from orchestrator.text.values import count_text, in_digits, value_text
from orchestrator.text.wording import (
    decimals_of,
    interval_text,
    listed,
    loss_of_model,
    metric_name,
    number_text,
    parameter_names,
    setting_text,
    share_text,
)
from search_spaces import Range, StudySpace, Values
from trainables.metric_table import without_section
from trainables.parameter_values import is_number

BEST_SETTINGS, EFFECTS = "best_settings", "effects"
"""Keys of the answers."""

FEWEST = 12
"""Fewest settings with a value, known or estimated, for a surface."""

FEWEST_KNOWN = 4
"""Fewest settings that were trained to their end."""

WHOLE = 0.9
"""Share of the explored part of a range from which on the set takes the whole range."""

WIDE = 10.0
"""Width of an interval in points of rsum from which on digits after the point say nothing."""

SOME = 0.05
"""Share of the space of which nothing is said from which on a sentence says so."""

TOGETHER = 0.5
"""Correlation of two parameters within the set from which on they must be chosen together."""

ABOUT = (
    Column("study", "study", hidden=True),
    Column("loss", "loss", hidden=True),
    Column("name", "loss"),
    Column("parameter", "parameter", hidden=True),
    Column("shown", "parameter"),
)
"""First columns of both tables, one row for each parameter of a study; ``Band.about`` fills them."""


@dataclass(frozen=True)
class Band:
    """The surface of a study, with its parameters.

    Attributes:
        bounds: Searched parameter -> its bounds, in the order of the dimensions of ``surface``.
        trials: The first trial of each of the N settings that the surface rests on.
        places: Where these lie in the ranges, shape (N, d), see ``place_of``.
        best: The setting with the highest mean, trained to its end.
        known: Number of settings that were trained to their end.
        stopped: Number of settings whose value at the end is an estimate.
        several_models: Whether its model is named, because the experiment has several.
    """

    cell: Cell
    bounds: Mapping[str, Range | Values]
    surface: Surface
    trials: Sequence[Trial]
    places: Array
    best: Point
    known: int
    stopped: int
    diverged: int
    several_models: bool = False

    @cached_property
    def setting(self) -> dict[str, float]:
        """The setting to use: the place of the set with the highest lower end, see ``Surface.safest``."""
        # To the last digit, so that the setting of a trial is known as such.
        matches = np.flatnonzero(np.abs(self.places - self.surface.safest).max(axis=1) <= 1e-9)
        if not len(matches):
            return self._values(self.surface.safest)
        return {name: self.trials[matches[0]].params[name] for name in self.bounds}

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Parameter -> lowest and highest value in the set of best settings."""
        lows, highs = self._values(self._inside.min(axis=0)), self._values(self._inside.max(axis=0))
        return {name: (lows[name], highs[name]) for name in self.bounds}

    @cached_property
    def whole(self) -> frozenset[str]:
        """The parameters of which the set takes the whole explored range."""
        shares = self.surface.widths
        return frozenset(name for name, share in zip(self.bounds, shares, strict=True) if share >= WHOLE)

    @cached_property
    def together(self) -> list[tuple[str, str, float]]:
        """Pairs of parameters that must be chosen together, with their correlation within the set, strongest first."""
        with np.errstate(invalid="ignore"):
            # NaN where the set has a single value of a parameter; it is below every limit.
            likeness = np.atleast_2d(np.corrcoef(self._inside.T))
        pairs = [
            (first, second, float(likeness[row, column]))
            for (row, first), (column, second) in combinations(enumerate(self.bounds), 2)
        ]
        return sorted((pair for pair in pairs if abs(pair[2]) >= TOGETHER), key=lambda pair: -abs(pair[2]))

    @cached_property
    def changes(self) -> dict[str, Quantity]:
        """Parameter -> how much the expected value changes over its range, with its 95 % interval."""
        estimates = {name: self.surface.change(place) for place, name in enumerate(self.bounds)}
        return {name: Quantity(value, None, low, high) for name, (value, low, high) in estimates.items()}

    @cached_property
    def matters(self) -> list[str]:
        """The parameters with an effect, the largest first."""
        parameters = [name for name, change in self.changes.items() if change.low is not None and change.low > 0]
        return sorted(parameters, key=lambda name: -self.changes[name].value)

    def expected(self, place: Array) -> Quantity:
        """Return the expected value at a place, with its 95 % interval."""
        mean, low, high = self.surface.band(self.surface.predict(place[None]))
        return Quantity(float(mean[0]), None, float(low[0]), float(high[0]))

    @cached_property
    def names(self) -> dict[str, str]:
        """Parameter -> its printed name."""
        return parameter_names(self.bounds)

    def about(self, parameter: str) -> tuple[str, ...]:
        """Return the first cells of a parameter's row, see ``ABOUT``."""
        return self.cell.name, self.cell.loss, self.loss, parameter, self.names[parameter]

    @property
    def of(self) -> tuple[str, str]:
        """Model and loss of the study."""
        return self.cell.model, self.cell.loss

    @property
    def loss(self) -> str:
        """Printed name of the loss, after its model where the experiment has several."""
        return loss_of_model(self.cell.loss, self.cell.model if self.several_models else None)

    @property
    def _inside(self) -> Array:
        return self.surface.places[self.surface.is_best]

    def _values(self, place: Array) -> dict[str, float]:
        return {
            name: value_at(bound, float(share)) for (name, bound), share in zip(self.bounds.items(), place, strict=True)
        }


def bands(history: History, studies: Mapping[str, Sequence[Point]]) -> dict[str, Band]:
    """Return study -> its band, for each study with enough trials; ``studies`` has the settings of each."""
    experiment = known_experiment(history)
    repeats: dict[str, list[Trial]] = {}
    for trial in history.stage(Stage.CONFIRM):
        repeats.setdefault(trial.study, []).append(trial)
    several = experiment is not None and len(experiment.models) > 1
    study_bands = {
        cell.name: band_of(cell, studies.get(cell.name, ()), repeats.get(cell.name, ()), several_models=several)
        for cell in (experiment.cells() if experiment else ())
    }
    return {name: band for name, band in study_bands.items() if band is not None}


def setting_to_use(cell: Cell, trials: Sequence[Trial]) -> dict[str, float] | None:
    """Return the setting to use by the surface over the trials of a search; ``None`` without a surface."""
    band = band_of(cell, points_of(trials))
    return None if band is None else band.setting


def band_of(
    cell: Cell, points: Sequence[Point], repeats: Sequence[Trial] = (), *, several_models: bool = False
) -> Band | None:
    """Return the band of a study; ``None`` with too few trials, or where its parameters are no numbers of each trial.

    ``repeats`` are the trainings that confirm some of the trials.
    """
    bounds = searched_numbers(cell.space)
    points = [point for point in points if not point.first.is_zero_shot]
    known = [point for point in points if point.finished]
    if not bounds or len(points) < FEWEST or len(known) < FEWEST_KNOWN:
        return None
    if any(not bounds.keys() <= point.first.params.keys() for point in points):
        return None
    fresh: dict[str, list[float]] = {}
    for trial in repeats:
        if trial.state is TrialState.FINISHED and trial.best_value is not None:
            fresh.setdefault(str(trial.candidate), []).append(trial.best_value)
    values = [_values_of(point, fresh) for point in known]
    rows = [(point, float(np.mean(of)), float(len(of)), 0.0) for point, of in zip(known, values, strict=True)]
    curves = [point.running_best() for point in known]
    stopped = list(_estimates(points, curves))
    diverged = [point for point in points if point.state is TrialState.DIVERGED]
    means = [value for _, value, _, _ in rows]
    rows += stopped
    lowest, spread = min(value for _, value, _, _ in rows), float(np.std(means))
    rows += [(point, lowest, 1.0, spread) for point in diverged]
    if len(rows) < FEWEST or len(set(means)) < 2:
        return None
    noise, freedom = spread_of(values)
    places = np.array([place_of(bounds, point.first) for point, *_ in rows])
    columns = np.array([row[1:] for row in rows])
    observed = Observed(places, columns[:, 0], columns[:, 1], columns[:, 2], noise or None, freedom)
    best = max(zip(known, means, strict=True), key=lambda pair: pair[1])[0]
    surface, counts = Surface(observed, cell.seed), (len(known), len(stopped), len(diverged))
    return Band(cell, bounds, surface, [point.first for point, *_ in rows], places, best, *counts, several_models)


def _values_of(point: Point, fresh: Mapping[str, Sequence[float]]) -> list[float]:
    own = [trial.best_value for trial in point.finished if trial.best_value is not None]
    return own + [value for trial in point.trainings for value in fresh.get(trial.id, ())]


def _estimates(
    points: Sequence[Point], finished: Sequence[Mapping[int, float]]
) -> Iterator[tuple[Point, float, float, float]]:
    # Thousands of settings are stopped at the same few epochs.
    gain_from = cache(partial(gain_to_end, finished=finished))
    for point in points:
        last, reached = point.newest_best if point.state is TrialState.STOPPED_EARLY else (0, 0.0)
        if last and (gain := gain_from(last)):
            yield point, reached + gain[0], 1.0, gain[1]


def searched_numbers(space: StudySpace) -> dict[str, Range | Values]:
    """Return the bounds of the searched parameters; none where some depend on others, or are no numbers."""
    varied = {
        name: bound for name, bound in space.bounds().items() if isinstance(bound, Range) or len(bound.values) > 1
    }
    numbers = all(isinstance(bound, Range) or all(map(is_number, bound.values)) for bound in varied.values())
    return varied if numbers and not space.is_conditional else {}


def place_of(bounds: Mapping[str, Range | Values], trial: Trial) -> Array:
    """Return where a trial lies in the ranges, shape (d,), in [0, 1]; listed numbers are spaced evenly."""
    return np.array([_share_of(bound, trial.params[name]) for name, bound in bounds.items()])


def _share_of(bound: Range | Values, value: float) -> float:
    if isinstance(bound, Range):
        return bound.share_of(value)
    return sorted(bound.values).index(value) / (len(bound.values) - 1)


def value_at(bound: Range | Values, share: float) -> float:
    """Return the value of a parameter at a share of its range; of listed numbers the nearest."""
    if isinstance(bound, Range):
        return bound.at(share)
    return float(sorted(bound.values)[round(share * (len(bound.values) - 1))])


def band_answers(dataset: str, loss_bands: Sequence[Band], winner: tuple[str, str] | None = None) -> list[Answer]:
    """Return the answers about the coefficients of a dataset's losses, from its bands; none without a surface.

    The band of ``winner``, its model and loss, comes first; the others follow by their best value.
    """
    if not loss_bands:
        return []
    ordered = sorted(loss_bands, key=lambda band: (band.of != winner, -(band.best.value or 0.0)))
    return [_best_settings(dataset, ordered, winner), _effects(dataset, ordered)]


def _best_settings(dataset: str, loss_bands: Sequence[Band], winner: tuple[str, str] | None) -> Answer:
    first, words = loss_bands[0], _metrics(loss_bands)
    expected = {metric: f"expected {name} at the setting to use" for metric, name in words.items()}
    if len(words) == 1:
        expected = dict.fromkeys(words, "expected at the setting to use")
    notes = list(_notes(first))
    if winner is not None and winner != first.of:
        named = loss_of_model(winner[1], winner[0] if first.several_models else None)
        notes[:0] = [
            f"{named}, the winner's loss, has no surface: that needs {FEWEST} settings of numbers, "
            f"{FEWEST_KNOWN} of them trained to the end.",
            f"These are settings of {first.loss}.",
        ]
    columns = [
        *ABOUT,
        Column("range", "best settings"),
        Column("low", "from", unit="number", hidden=True),
        Column("high", "to", unit="number", hidden=True),
        Column("setting", "setting to use"),
        Column("best", "best trial"),
        *_value_columns("expected", expected, "both"),
        Column("share", "share of the space", unit="share"),
        Column("unexplored", "unexplored", unit="share"),
    ]
    rows: list[Sequence[TableCell]] = []
    for band in loss_bands:
        setting = band.expected(band.surface.safest)
        for place, (name, (low, high)) in enumerate(band.ranges.items()):
            at = (in_digits(band.setting[name], 2), value_text(band.best.first.params[name]))
            values = (setting if place == 0 and metric == band.cell.metric else None for metric in words)
            shares = (band.surface.share, band.surface.unexplored) if place == 0 else (None, None)
            rows.append((*band.about(name), _range(band, name), low, high, *at, *values, *shares))
    return Answer(
        BEST_SETTINGS,
        dataset,
        "Which settings are as good as the best?",
        _headline(first),
        numbers={"share": first.surface.share, "unexplored": first.surface.unexplored},
        table=table_of(columns, rows),
        notes=tuple(notes),
        figure="slices",
    )


def _metrics(loss_bands: Sequence[Band]) -> dict[str, str]:
    """Return metric -> its name of the metrics by which the studies select, which may differ; each has columns."""
    return {band.cell.metric: band.cell.metric.replace("/", " ") for band in loss_bands}


def _value_columns(key: str, headings: Mapping[str, str], shows: str) -> list[Column]:
    """Return a column for each metric, from metric -> heading; ``key`` is the key of the first column."""
    keys = [key, *(f"{key}_{without_section(metric)}" for metric in list(headings)[1:])]
    return [Column(name, headings[metric], metric, shows=shows) for name, metric in zip(keys, headings, strict=True)]


def _headline(band: Band) -> str:
    if len(band.whole) == len(band.bounds):
        return (
            f"No range of {band.loss} can be narrowed: settings all over it do not differ significantly from the best."
        )
    parts = [_range(band, parameter) for parameter in band.bounds if parameter not in band.whole]
    whole = [band.names[parameter] for parameter in band.bounds if parameter in band.whole]
    parts += [f"any {listed(whole)}"] if whole else []
    return f"{band.loss} settings with {listed(parts)} do not differ significantly from the best."


def _range(band: Band, name: str) -> str:
    if name in band.whole:
        return f"any {band.names[name]}"
    low, high = (in_digits(end, 2) for end in band.ranges[name])
    return f"{band.names[name]} {low}" + ("" if low == high else f" to {high}")


def _notes(band: Band) -> Iterator[str]:
    metric, name = band.cell.metric, metric_name(band.cell.metric)

    def expected(place: Array) -> str:
        return _with_interval(band.expected(place), metric, f"{name}, 95 % interval")

    setting = setting_text({parameter: float(f"{value:.2g}") for parameter, value in band.setting.items()})
    yield f"Setting to use: {setting}; expected are {expected(band.surface.safest)}."
    reached = number_text(band.best.value or 0.0, metric)
    yield f"The best trial reached {reached}; expected are {expected(place_of(band.bounds, band.best.first))}."
    for first, second, likeness in band.together[:2]:
        coefficient, other, needed = band.names[first], band.names[second], "larger" if likeness > 0 else "smaller"
        yield f"Choose {coefficient} and {other} together: a larger {coefficient} needs a {needed} {other}."
    if band.surface.unexplored >= SOME:
        unseen = share_text(band.surface.unexplored)
        yield f"Of {unseen} of the space nothing is said: a peak a tenth of a range wide would not be seen there."
    parts = [f"{count_text(band.known, 'setting')} trained to the end"]
    parts += [f"{band.stopped} stopped early (ends estimated)"] if band.stopped else []
    parts += [f"{band.diverged} diverged"] if band.diverged else []
    yield f"The surface rests on {listed(parts)}."


def _effects(dataset: str, loss_bands: Sequence[Band]) -> Answer:
    words = _metrics(loss_bands)
    columns = [
        *ABOUT,
        Column("bound", "range"),
        *_value_columns("change", {metric: f"change of {name}" for metric, name in words.items()}, "apart"),
        Column("effect", "effect"),
    ]
    rows: list[Sequence[TableCell]] = []
    for band in loss_bands:
        for name in sorted(band.bounds, key=lambda parameter: -band.changes[parameter].value):
            effect = "yes" if name in band.matters else "not shown"
            values = (band.changes[name] if metric == band.cell.metric else None for metric in words)
            rows.append((*band.about(name), str(band.bounds[name]), *values, effect))
    headline, *notes = _effect_sentences(loss_bands[0])
    question = "Which coefficients matter?"
    notes.append("A change is measured with the other coefficients at the setting to use.")
    return Answer(EFFECTS, dataset, question, headline, table=table_of(columns, rows), notes=tuple(notes))


def _effect_sentences(band: Band) -> Iterator[str]:
    """Yield the largest effect, of which there may be none, and the coefficients without one; the table has all."""
    metric, name, loss = band.cell.metric, metric_name(band.cell.metric), band.loss
    for parameter in band.matters[:1]:
        size = _with_interval(band.changes[parameter], metric, f"{name}, 95 % CI")
        yield f"{loss}: {band.names[parameter]} changes the value by {size}, over its range."
    others = {name: band.changes[name].high or 0.0 for name in band.bounds if name not in band.matters}
    if others:
        most = (f"{band.names[key]} (at most {number_text(max(high, 0.0), metric)})" for key, high in others.items())
        yield f"{loss}: no effect is shown of {listed(most)}."


def _with_interval(value: Quantity, metric: str, between: str) -> str:
    """Return a value and its interval, with the digits that the width of the interval allows."""
    low, high = value.low or 0.0, value.high or 0.0
    decimals = 0 if high - low > WIDE and decimals_of(metric) == 1 else None
    ends = interval_text(low, high, metric, decimals=decimals)
    return f"{number_text(value.value, metric, decimals=decimals)} {between} {ends}"
