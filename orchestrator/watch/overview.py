"""The start page: all watched experiments, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.journal.trial import Stage, TrialState
from orchestrator.report.figures import COLOURS, Figure, Json, Option, Panel, axis, plain, short
from orchestrator.search.status import Status
from orchestrator.text.values import format_parameters
from orchestrator.watch.experiments import SMALL, Watched
from orchestrator.watch.now import StageNow, best_so_far, stages_now
from trainables.errors import UserError

COMPARED = 12
"""Most experiments whose curves are drawn; the experiments whose journals were written last are drawn."""

AT_ONCE = 2**19
"""Bytes of journals, beside the newest, that are read while the start page waits; the others follow in a thread."""

DASHES = ("solid", "dash", "dot")
"""Dash patterns of lines that share a colour."""

UNITS = (("hours", 3600), ("minutes", 60), ("seconds", 1))
"""Units of time, in seconds; the axis has the largest unit of which the longest experiment lasted at least two."""

FAILED = (TrialState.FAILED, TrialState.DIVERGED)
"""States of trials that ended without a usable model."""


@dataclass(frozen=True)
class Card:
    """An experiment on the start page.

    Attributes:
        name: Name of the experiment's folder.
        words: State of the experiment, in words.
        is_running: Whether a process runs the experiment.
        problem: Why the experiment cannot be read; ``None`` for a readable experiment.
        stages: The stages that have begun.
        metric: The maximised metric; empty before the first value.
        best: Best value so far, as text; empty before the first value.
        trial: Id of the trial that reached the best value.
        parameters: Hyper-parameters of this trial.
        failed: Number of failed and diverged trials.
    """

    name: str
    words: str
    is_running: bool = False
    problem: str | None = None
    stages: Sequence[StageNow] = ()
    metric: str = ""
    best: str = ""
    trial: str = ""
    parameters: str = ""
    failed: int = 0


@dataclass(frozen=True)
class Overview:
    """The start page.

    Attributes:
        title: Title of the page.
        cards: A card for each experiment, in the order of ``Experiments.all``.
        figure: The best value so far of each experiment; ``None`` where no experiment has a value.
    """

    title: str
    cards: list[Card]
    figure: Figure | None


def overview_of(watched: Sequence[Watched], title: str) -> Overview:
    """Return the start page of experiments."""
    cards: list[Card] = []
    curves: list[Curve] = []
    left = AT_ONCE
    for one in watched:
        at_once = left if cards else SMALL
        left -= one.size if cards and one.size <= at_once else 0
        card, curve = _look(one, at_once)
        cards.append(card)
        curves += [curve] if curve is not None and len(curves) < COMPARED else []
    return Overview(title, cards, _figure(curves))


@dataclass(frozen=True)
class Curve:
    """The best value of an experiment over its running time.

    Attributes:
        name: Name of the experiment.
        metric: The maximised metric.
        seconds: Running time at the end of each trial that was better than all before, and at the newest record.
        values: The best value from each of these times on.
    """

    name: str
    metric: str
    seconds: list[float]
    values: list[float]


def _look(watched: Watched, at_once: int) -> tuple[Card, Curve | None]:
    if not watched.is_at_hand(at_once):
        return Card(watched.name, "its journal is being read"), None
    with watched.lock:
        try:
            status = watched.status()
        except UserError as error:
            return Card(watched.name, "cannot be read", problem=str(error)), None
        best = best_so_far(status)
        failed = sum(count for stage in status.stages for state, count in stage.states.items() if state in FAILED)
        card = Card(
            name=watched.name,
            words=status.words if watched.has_begun else "not begun yet",
            is_running=status.holder is not None,
            problem=watched.problem,
            stages=stages_now(status),
            metric=best[1].metric if best else "",
            best=best[0] if best else "",
            trial=best[1].id if best else "",
            parameters=format_parameters(best[1].parameters) if best else "",
            failed=failed,
        )
        return card, _curve(status)


def _curve(status: Status) -> Curve | None:
    """Return the best value over the trials that were trained to their end; ``None`` without such a trial."""
    finished = [trial for trial in status.history.stage(Stage.SEARCH) if trial.state is TrialState.FINISHED]
    curve = Curve(status.name, finished[0].metric if finished else "", [], [])
    for trial in sorted(finished, key=lambda one: one.ended_after or 0.0):
        value = trial.best_value
        if value is not None and (not curve.values or value > curve.values[-1]):
            curve.seconds.append(trial.ended_after or 0.0)
            curve.values.append(value)
    if not curve.values:
        return None
    # The line continues to the newest record, because no better value has been found since.
    curve.seconds.append(status.history.spending.seconds)
    curve.values.append(curve.values[-1])
    return curve


def _figure(curves: Sequence[Curve]) -> Figure | None:
    """Return the figure of the curves, with a panel for each metric; ``None`` without a curve."""
    metrics = dict.fromkeys(curve.metric for curve in curves)
    longest = max((curve.seconds[-1] for curve in curves), default=0.0)
    unit, size = next((name, size) for name, size in UNITS if longest >= 2 * size or size == 1)
    panels = [
        Panel(
            "",
            [_line(curve, place, size) for place, curve in enumerate(curves) if curve.metric == metric],
            {"xaxis": axis(f"running time in {unit}", rangemode="tozero"), "yaxis": axis(short(metric))},
        )
        for metric in metrics
    ]
    note = "The best value of the trials that were trained to their end, over the running time of each experiment."
    return Figure("side", "Best so far, side by side", note, [Option("all", panels)]) if panels else None


def _line(curve: Curve, place: int, size: int) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(curve.name),
        "x": [seconds / size for seconds in curve.seconds],
        "y": curve.values,
        "line": {"shape": "hv", "color": f"--c{place % COLOURS + 1}", "dash": DASHES[place // COLOURS % len(DASHES)]},
        "hovertemplate": f"{plain(curve.name)}<br>%{{xaxis.title.text}} %{{x:.3g}}<br>%{{y:.4g}}<extra></extra>",
    }
