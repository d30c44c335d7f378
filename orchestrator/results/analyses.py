"""Analyses of a history beside the questions of ``questions``: equal budgets, optimism, early epochs, ranges, fronts.

Each analysis has a function that returns plain values (``Answer.data``, ``summary.json``), of which its answer is made.

Early epochs. Kendall's tau-b [Kendall1945] compares the ranking of settings by the best values up to an epoch with the
ranking at the end. It is 1 for equal rankings, and 0 for unrelated rankings. Trials that were stopped early are left
out, because their final values are unknown. Where the scheduler stops many trials, the remaining trials are alike, and
their tau is lower than the tau of all trials would be.

Ranges. Where the best settings of a study lie at an end of a range, the best value may lie outside. Three settings that
are drawn uniformly lie in one outermost fifth of a range in 1.6 % of draws. A sampler that has found a good setting
tries neighbouring settings, so that the best may lie at an end by chance. Only a search of a wider range shows why.

Pareto front. Of several objectives, the settings that no other setting dominates: as good in all, better in one.

References:
    [Kendall1945] Kendall, The Treatment of Ties in Ranking Problems. Biometrika 33
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from orchestrator.experiment.experiment import ANY, Cell, known_experiment
from orchestrator.experiment.sections import Objective, Search
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, points_of, ranked
from orchestrator.journal.trial import Stage
from orchestrator.results.answer import Answer, Column, Json, Quantity, table_of
from orchestrator.results.answer import Cell as TableCell
from orchestrator.results.equal_budget import GPU_HOURS, UNITS
from orchestrator.text.values import count_text, duration_text, value_text
from orchestrator.text.wording import (
    listed,
    loss_of_model,
    metric_words,
    number_text,
    parameter_names,
    printed,
    setting_text,
)
from search_spaces import Range

RANKED = 0.5
"""The tau from which an epoch ranks trials like the last: of two trials, the trial ahead then ends ahead in 3 of 4."""

FEWEST = 6
"""Fewest settings trained to their end for a tau: for 6 unrelated settings its standard deviation is already 0.35."""

SHARE = 0.5
"""The share of a study's settings that must be trained to their end before a low tau is attributed to the epoch."""

STOPPING = ("asha", "hyperband", "median")
"""The schedulers that stop trials from ``grace_epochs`` on."""

OUTERMOST = 0.2
"""Share of a range, on its own scale, that counts as its end."""

FEWEST_BEST = 3
"""Best settings that must lie at the end; in a large study a quarter of the settings that were trained to their end."""

ENOUGH = 8
"""Fewest settings trained to their end for a finding about a range; the published settings are among them."""

BUDGETS = 4
"""Most numbers of trials at which losses are shown, each twice the number before."""


def early_answer(dataset: str, data: Mapping[str, Json]) -> Answer | None:
    """Return the answer about early epochs, from ``early_epochs`` of a dataset's studies; ``None`` without a study."""
    if not data:
        return None
    studies = Counter(early["loss"] for early in data.values())
    said = Counter((early["loss"], text) for name, early in data.items() for text in describe_early_epochs(name, early))
    # Repeated searches of a loss, and its models, mostly say the same.
    headline, *notes = (
        text if studies[loss] == 1 else f"{text.removesuffix('.')}, in {times} of {studies[loss]} studies."
        for (loss, text), times in said.items()
    )
    question = "Do early epochs rank trials like the last epoch?"
    return Answer("early_epochs", dataset, question, headline, notes=tuple(notes), figure="early", data=data)


def edges_answer(dataset: str, data: Mapping[str, Sequence[Json]]) -> Answer | None:
    """Return the answer about ranges, from ``space_edges`` of a dataset's studies; ``None`` without a study."""
    if not data:
        return None
    headline, *notes = (text for study, edges in data.items() for edge in edges for text in _edge(study, edge))
    return Answer("edges", dataset, "Were the ranges wide enough?", headline, notes=tuple(notes), data=data)


def optimism_answer(dataset: str, analysis: Json | None, winner: str | None) -> Answer | None:
    """Return the answer about the optimism of a search, see ``optimism_of``; ``None`` without a confirmed candidate."""
    if analysis is None:
        return None
    metric, unit = analysis["metric"], metric_words(analysis["metric"])

    def changed(subject: str, excess: float, ends: str = "") -> str:
        verb = "lost" if excess >= 0 else "gained"
        return f"From the search to fresh seeds {subject} {verb} {number_text(abs(excess), metric)} {unit}{ends}."

    said = []
    candidates = {candidate["trial"]: candidate for candidate in analysis["candidates"]}
    if winner in candidates:
        search, fresh = candidates[winner]["search"], candidates[winner]["fresh"]
        ends = f" ({number_text(search, metric)} to {number_text(fresh, metric)})"
        said.append(changed("the winner", search - fresh, ends))
    if len(candidates) > 1 or not said:
        said.append(changed(count_text(len(candidates), "candidate"), analysis["excess"], " on average"))
    question, numbers = "How optimistic was the search?", {"excess": analysis["excess"]}
    return Answer("optimism", dataset, question, said[0], numbers=numbers, notes=tuple(said[1:]), data=analysis)


def front_answer(dataset: str, front: Sequence[Point], goals: Sequence[Objective]) -> Answer | None:
    """Return the answer about a dataset's Pareto front; ``None`` without a front."""
    if not front:
        return None
    columns = [
        Column("trial", "trial"),
        Column("model", "model", hidden=True),
        Column("loss", "loss", hidden=True),
        Column("name", "loss"),
        Column("setting", "setting"),
        *(Column(goal.metric, metric_words(goal.metric), unit=goal.metric, decimals=2) for goal in goals),
    ]
    rows: list[Sequence[TableCell]] = []
    for point in front:
        config, values = point.first.config, values_at_best(point, goals)
        about = (point.first.id, config.model, config.loss, printed(config.loss))
        setting = setting_text(point.first.parameters)
        rows.append((*about, setting, *(values.get(goal.metric) for goal in goals)))
    objectives = (f"{goal.metric} {'maximised' if goal.direction == 'maximize' else 'minimised'}" for goal in goals)
    question = "Which settings are on the Pareto front?"
    headline = "No other finished setting is better in one objective without being worse in another."
    notes = (
        f"Objectives: {', '.join(objectives)}.",
        "Values are of each training's best epoch; of several trainings of a setting, their mean.",
    )
    return Answer("pareto", dataset, question, headline, table=table_of(columns, rows), notes=notes, figure="front")


def equal_budget_answer(dataset: str, analysis: Json | None) -> Answer | None:
    """Return the answer about a dataset's losses at equal budgets, from ``equal_budgets``; ``None`` without them."""
    if analysis is None:
        return None
    names = loss_names(analysis)
    compared = {comparison["other"]: comparison for comparison in analysis["comparisons"]}
    most = max(curve["candidates"] for curve in analysis["losses"])
    budgets = [2**power for power in range(most.bit_length())][-BUDGETS:]
    metric = analysis["metric"]
    columns = [
        Column("label", "label", hidden=True),
        Column("model", "model", hidden=True),
        Column("loss", "loss", hidden=True),
        Column("name", "loss"),
        Column("candidates", "trials", unit="count"),
        *(Column(f"best_of_{budget}", f"best of {budget}", unit=metric, shows="both") for budget in budgets),
        Column("difference", "behind with equal trials", unit=metric, signed=True),
    ]
    rows: list[Sequence[TableCell]] = []
    for curve in analysis["losses"]:
        label, comparison = curve["label"], compared.get(curve["label"])
        bands = zip(curve["expected"], curve["low"], curve["high"], strict=True)
        at = dict(zip(curve["trials"], (Quantity(best, None, *band) for best, *band in bands), strict=True))
        gap = -comparison["difference"] if comparison else None
        about = (label, curve["model"], curve["loss"], names[label], curve["candidates"])
        rows.append((*about, *map(at.get, budgets), gap))
    closest = min(analysis["comparisons"], key=lambda pair: float(pair["difference"]))
    headline, *notes = _comparison(closest, analysis, names)
    notes.append("In brackets is the range of the best value in 8 of 10 draws of that many trials.")
    return Answer(
        "equal_budget",
        dataset,
        "Whose trials lead at an equal budget?",
        headline,
        closest=closest["other"],
        numbers={name: closest[name] for name in ("difference", "trials")},
        table=table_of(columns, rows),
        notes=tuple(notes),
        figure="budget",
        data=analysis,
    )


def loss_names(analysis: Json) -> dict[str, str]:
    """Return label -> printed name of each loss of ``equal_budgets``, after its model where the models differ."""
    several = len({curve["model"] for curve in analysis["losses"]}) > 1
    return {
        curve["label"]: loss_of_model(curve["loss"], curve["model"] if several else None)
        for curve in analysis["losses"]
    }


def _comparison(comparison: Json, analysis: Json, names: Mapping[str, str]) -> list[str]:
    """Return the sentences about the leading loss and another loss."""
    first, other = names[comparison["first"]], names[comparison["other"]]
    leads = "lead" if comparison["difference"] >= 0 else "trail"
    gap = f"{number_text(abs(comparison['difference']), analysis['metric'])} {metric_words(analysis['metric'])}"
    each = f"With {count_text(comparison['trials'], 'trial')} each"
    return [
        f"{each}, trials of {first} {leads} those of {other} by {gap} on average.",
        *_crossings(comparison, analysis, names),
        f"{comparison['further_trials']} further trials of {other} have at most an even chance to improve on its best.",
    ]


def _crossings(comparison: Json, analysis: Json, names: Mapping[str, str]) -> Iterator[str]:
    """Yield where two curves cross, a sentence for the units of the budget that agree about the loss ahead."""
    pair = {comparison["first"]: comparison["other"], comparison["other"]: comparison["first"]}
    if not any(comparison["crossings"].values()):
        curves = {curve["label"]: curve for curve in analysis["losses"]}
        units = _leaders(*(curves[label] for label in pair))
        for label, of_label in units.items():
            counted = f" in {listed(of_label)}" if len(units) > 1 else ""
            yield f"Trials of {names[label]} lead at every budget{counted} that both losses had."
    budgets: dict[tuple[str, bool], list[str]] = {}
    for unit, places in comparison["crossings"].items():
        if places:
            *before, last = places
            of = "GPU time" if analysis["hours_are"] == GPU_HOURS else "training time"
            at = f"{duration_text(3600 * last['at'])} of {of}" if unit == "hours" else f"{math.ceil(last['at'])} {unit}"
            budgets.setdefault((last["ahead"], bool(before)), []).append(at)
    for (ahead, is_repeated), (first, *others) in budgets.items():
        further = f" ({', '.join(others)})" if others else ""
        before_that = "the lead changes" if is_repeated else f"those of {names[pair[ahead]]} lead"
        yield f"Trials of {names[ahead]} lead from {first}{further} on; with less, {before_that}."


def _leaders(first: Json, other: Json) -> dict[str, list[str]]:
    """Return label -> units in which this curve of two is ahead at the largest budget that both searches had."""
    units: dict[str, list[str]] = {}
    for unit in UNITS:
        low, high = max(first[unit][0], other[unit][0]), min(first[unit][-1], other[unit][-1])
        if low < high:
            expected, against = (np.interp(high, curve[unit], curve["expected"]) for curve in (first, other))
            units.setdefault((first if expected >= against else other)["label"], []).append(unit)
    return units


def rank_correlations(settings: Iterable[Point]) -> tuple[int, dict[int, float]]:
    """Return how many settings of a study were trained to their end, and Kendall's tau-b of each epoch but the last."""
    points = [Point(point.finished) for point in settings if point.finished]
    curves = [point.running_best() for point in points]
    last = min((max(curve) for curve in curves), default=0)
    ends = [curve[max(curve)] for curve in curves]
    if len(points) < FEWEST:
        return len(points), {}
    epochs = (epoch for epoch in range(1, last) if all(epoch in curve for curve in curves))
    order = _order(ends)
    taus = {epoch: _tau_b(_order([curve[epoch] for curve in curves]), order) for epoch in epochs}
    return len(points), {epoch: tau for epoch, tau in taus.items() if math.isfinite(tau)}


def _order(values: Sequence[float]) -> NDArray[np.int8]:
    """Return the sign of the difference of each pair of values, 1, 0 or -1, shape (n, n)."""
    return np.sign(np.subtract.outer(values, values)).astype(np.int8)


def _tau_b(first: NDArray[np.int8], second: NDArray[np.int8]) -> float:
    """Return Kendall's tau-b of two orders, see ``_order``; NaN where one of the two is constant.

    NumPy counts all pairs at once; an import of ``scipy.stats`` takes longer than the counts of thousands of trials.
    """
    pairs = math.sqrt(float(np.count_nonzero(first)) * float(np.count_nonzero(second)))
    return float(np.sum(first * second, dtype=np.int64)) / pairs if pairs else math.nan


def early_epochs(history: History, studies: Mapping[str, Sequence[Point]]) -> dict[str, Json]:
    """Return how well the epochs of each study predict its end, for each study with enough trials.

    Returns:
        Study -> ``loss``, ``any`` where the search chose among several; ``settings`` that were trained to their end and
        ``begun``, all settings; ``grace_epochs``, the first epoch at which the scheduler may stop a trial, ``None``
        where it stops none; ``first_telling_epoch``, from which on every tau is at least ``RANKED``, ``None`` where
        there is none; ``tau``, epoch before the last, as text -> tau-b, without epochs at which all values are equal.
        Nothing for an experiment that this version would refuse, e.g. because a plug-in is missing.
    """
    correlations = {name: rank_correlations(settings) for name, settings in studies.items()}
    experiment = known_experiment(history) if any(tau for _, tau in correlations.values()) else None
    analyses: dict[str, Json] = {}
    for cell in () if experiment is None else experiment.cells():
        settings, tau = correlations.get(cell.name, (0, {}))
        last_weak = max((epoch for epoch, value in tau.items() if value < RANKED), default=0)
        if tau:
            analyses[cell.name] = {
                "loss": cell.loss,
                "settings": settings,
                "begun": len(studies[cell.name]),
                "grace_epochs": cell.scheduler.grace_epochs if cell.scheduler.name in STOPPING else None,
                "first_telling_epoch": min((epoch for epoch in tau if epoch > last_weak), default=None),
                "tau": {str(epoch): value for epoch, value in tau.items()},
            }
    return analyses


def stops_too_early(early: Json) -> bool:
    """Whether the first epoch at which the scheduler stops trials hardly ranks them, see ``early_epochs``."""
    tau = early["tau"].get(str(early["grace_epochs"]))
    return tau is not None and tau < RANKED


def describe_early_epochs(study: str, early: Json) -> list[str]:
    """Return sentences about a study: how well the scheduler's first epoch ranks trials, and the key to change."""
    name = study if early["loss"] == ANY else printed(early["loss"])
    settings, grace, first = early["settings"], early["grace_epochs"], early["first_telling_epoch"]
    over = (
        f"over {settings} settings" if settings == early["begun"] else f"over {settings} of {early['begun']} settings"
    )
    tau = early["tau"].get(str(grace))
    if tau is None and first is None:
        return [f"No epoch of {name} ranks trials like the last epoch: Kendall's τ is below {RANKED:g} {over}."]
    if tau is None:
        said = f"From epoch {first} of {name} on, trials rank like in the last epoch"
        return [f"{said}: Kendall's τ is at least {RANKED:g} {over}."]
    said = f"ranks trials like the last epoch: Kendall's τ = {number_text(tau, decimals=2)} {over}."
    if not stops_too_early(early):
        return [f"Epoch {grace} of {name} {said}"]
    said = f"Epoch {grace} of {name} hardly {said}"
    if settings < SHARE * early["begun"]:
        return [said, "The scheduler chose these settings, which lowers τ; `scheduler.name: none` avoids this."]
    if first is None:
        return [said, "The scheduler may have stopped the best trials there; `scheduler.name: none` stops none."]
    if early["loss"] == ANY:
        key = f"scheduler.grace_epochs: {first}"
    else:
        key = f"overrides: [{{losses: [{early['loss']}], grace_epochs: {first}}}]"
    return [said, f"The scheduler may have stopped the best trials there; set `{key}`."]


def space_edges(history: History, studies: Mapping[str, Sequence[Point]]) -> dict[str, list[Json]]:
    """Return study -> hyper-parameters whose range may have been too narrow; studies without any are left out.

    Returns:
        Study -> for each hyper-parameter ``loss``, ``parameter`` as in the study's space, ``key`` of the experiment
        file that sets the range, ``bound``, ``lowest`` and ``highest`` value of the best settings, ``is_upper`` of the
        end, and ``settings``, the number of best settings.
    """
    best = {name: _best(settings) for name, settings in studies.items()}
    experiment = known_experiment(history) if any(best.values()) else None
    if experiment is None:
        return {}
    study_edges = {cell.name: list(_edges(cell, best[cell.name])) for cell in experiment.cells() if best.get(cell.name)}
    return {name: edges for name, edges in study_edges.items() if edges}


def _best(settings: Sequence[Point]) -> list[Point]:
    """Return the best settings of a study; none where too few were trained to their end."""
    finished = ranked(settings)
    return finished[: max(FEWEST_BEST, len(finished) // 4)] if len(finished) >= ENOUGH else []


def _edges(cell: Cell, best: Sequence[Point]) -> Iterator[Json]:
    for name, bound in cell.space.bounds().items():
        # A hyper-parameter that depends on another hyper-parameter is not in every setting.
        values = [value for point in best if isinstance(value := point.first.params.get(name), int | float)]
        if not isinstance(bound, Range) or len(values) < len(best):
            continue
        shares = [bound.share_of(value) for value in values]
        for is_upper in (False, True):
            at_end = all(share >= 1 - OUTERMOST if is_upper else share <= OUTERMOST for share in shares)
            if at_end and cell.space.takes(name, bound.beyond(OUTERMOST, upper=is_upper)):
                about = {"loss": cell.loss, "parameter": name, "key": cell.space.key_of(name), "bound": str(bound)}
                ends = {"lowest": min(values), "highest": max(values), "is_upper": is_upper}
                yield {**about, **ends, "settings": len(best)}


def _edge(study: str, edge: Json) -> list[str]:
    """Return the sentences about a range that may have been too narrow."""
    name = study if edge["loss"] == ANY else printed(edge["loss"])
    (parameter,) = parameter_names([edge["parameter"]]).values()
    low, high = value_text(edge["lowest"]), value_text(edge["highest"])
    values = low if low == high else f"{low} to {high}"
    end, bound = "upper" if edge["is_upper"] else "lower", edge["bound"].removesuffix(" log")
    best = f"{name}: the {edge['settings']} best settings have {parameter} {values}"
    return [f"{best}, at the {end} end of {bound}.", f"Widen `{edge['key']}`."]


def log_ranges(history: History) -> Mapping[str, Mapping[str, bool]]:
    """Return study -> parameter, as samplers name it -> whether the range of the parameter is logarithmic.

    Parameters without a range, e.g. with listed values, are left out. So are all studies of an experiment that this
    version would refuse, e.g. because a plug-in is missing.
    """
    experiment = known_experiment(history)
    cells = [] if experiment is None else experiment.cells()
    return {
        cell.name: {name: bound.log for name, bound in cell.space.bounds().items() if isinstance(bound, Range)}
        for cell in cells
    }


def goals_of(history: History) -> tuple[Objective, ...]:
    """Return the objectives of an experiment, the metric that names the winner first."""
    search = history.experiment.values.get("search", {})
    # Only the keys of the objectives: other keys may name a loss or a sampler of a plug-in that is not installed here.
    values = {key: search[key] for key in ("metric", "objectives") if key in search}
    return Search.model_validate_json(json.dumps(values)).goals


def pareto_fronts(history: History, goals: Sequence[Objective]) -> dict[str, list[Point]]:
    """Return dataset -> finished points that no other point dominates: as good in all goals, better in one.

    The best in the first objective comes first; equal points are all returned.
    """
    finished = [point for point in points_of(history.stage(Stage.SEARCH)) if point.finished]
    signs = [1 if goal.direction == "maximize" else -1 for goal in goals]
    gains = {
        point.first.id: [sign * value for sign, value in zip(signs, values_at_best(point, goals).values(), strict=True)]
        for point in finished
    }
    fronts: dict[str, list[Point]] = {}
    for point in sorted(finished, key=lambda point: -gains[point.first.id][0]):
        dataset, own = point.first.config.dataset, gains[point.first.id]
        rivals = [gains[other.first.id] for other in finished if other.first.config.dataset == dataset]
        if not any(rival != own and all(map(float.__ge__, rival, own)) for rival in rivals):
            fronts.setdefault(dataset, []).append(point)
    return fronts


def values_at_best(point: Point, goals: Sequence[Objective]) -> Mapping[str, float]:
    """Return the objectives of a point: means over its finished trainings, each at its best epoch."""
    means = {goal.metric: point.mean(goal.metric) for goal in goals}
    return {metric: mean for metric, mean in means.items() if mean is not None}
