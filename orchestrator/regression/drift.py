"""Do scores drift? The reruns of many nights against what was accepted first.

A drift hides where each night's loss is too small to be found and now and then a new reference is accepted: no night is
far below its reference, and after a year the scores are far below the first. So the mean of the newest reruns is
compared with the reference that was accepted first, of each cell that still has the config and data of then. While the
first reference is the one that is accepted, the suite's own tests compare each night with it, and nothing is added.

Nights are no new seeds: a night that runs the same code trains the same seeds again, to the same numbers. Therefore the
seeds alone are counted, never the nights. With n seeds, the mean over the nights' means has at most the standard error
of one night's mean, whatever the nights have in common. The test takes the standard error of one night, with the spread
of the first reference and of the newest rerun, which is independent of every night's mean (deviations of seeds from
their mean); so its level holds for nights that agree to the last digit and for nights that have nothing in common.
A night's luck is averaged away, so a drift well above the smallest drop that matters is found more surely than in one
night.

The rule is that of the scores (``comparison.py``): one-sided, significant at the level of the group, and at least as
large as the smallest drop that matters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.regression.accepted import Accepted, CellRuns, Conditions, FirstRuns
from orchestrator.regression.causes import asks_the_same
from orchestrator.regression.changes import Change, Finding, Level, compare_score, measure_over_seeds
from orchestrator.regression.past import read_summary
from orchestrator.results.statistics import Measure, measure

WINDOW = 5
"""So many of the newest reruns are averaged, the one that is judged among them."""

SHOWN = 30
"""So many of the newest reruns stand in a trend."""


@dataclass(frozen=True)
class Night:
    """A rerun of the past.

    Attributes:
        name: Of its folder.
        cells: Its runs by cell; without cells of which a seed failed.
    """

    name: str
    cells: Mapping[str, CellRuns]


def read_nights(finished: Sequence[Path]) -> tuple[Night, ...]:
    """Read the newest finished reruns, oldest first.

    Reruns of older versions, which did not write down the conditions of their cells, are nights without cells.

    Raises:
        UserError: If a summary is damaged.
    """
    return tuple(Night(path.name, _cells(read_summary(path)["runs"])) for path in finished[-(SHOWN - 1) :])


def first_of(accepted: Accepted, runs: Mapping[str, CellRuns]) -> dict[str, FirstRuns]:
    """Return what was accepted first of the cells whose config and data are still those of then."""
    return {
        name: one
        for name, one in accepted.first.items()
        if name in runs and asks_the_same(one.runs.conditions, runs[name].conditions)
    }


def trend(nights: Sequence[Night], name: str, new: CellRuns, metric: str) -> tuple[tuple[str, float], ...]:
    """Return name and mean of a metric of the past reruns that trained what the new one trained, oldest first."""
    found = []
    for night, runs in _comparable(nights, name, new):
        mean = measure_over_seeds(runs.values, metric)
        found += [(night.name, mean.mean)] if mean else []
    return tuple(found)


def compare_drift(
    first: FirstRuns, nights: Sequence[Night], name: str, new: CellRuns, metric: str, *, matters: float, level: Level
) -> Change | None:
    """Compare the newest reruns of a cell with what was accepted first of it.

    Args:
        first: The first reference, of the config and data of the new runs.
        nights: Reruns before the new one, oldest first.
        name: Of the cell.
        new: The runs that are judged.
        metric: The suite's score.
        matters: The smallest drop that matters, > 0.
        level: Of the group of tests.

    Returns:
        A change that is found (``REGRESSION``) or not (``OK``); ``None`` where a side has no score.
    """
    reference = measure_over_seeds(first.runs.values, metric)
    window = [*(runs for _, runs in _comparable(nights, name, new)), new][-WINDOW:]
    recent = _recent([runs.values for runs in window], metric)
    if reference is None or recent is None:
        return None
    label = f"{metric} since {first.when[:10]}, mean of the newest {len(window)} reruns,"
    change = compare_score(label, reference, recent, matters=matters, level=level)
    finding = change.finding if change.finding is Finding.REGRESSION else Finding.OK
    return replace(change, finding=finding, needed=None)


def _recent(window: Sequence[Mapping[int, Mapping[str, float]]], metric: str) -> Measure | None:
    """Return the mean over nights of the seeds that all nights have, with the spread of the newest."""
    seeds = sorted(set.intersection(*({seed for seed in night if metric in night[seed]} for night in window)))
    if not seeds:
        return None
    values = np.array([[night[seed][metric] for seed in seeds] for night in window], dtype=np.float64)
    newest = measure(values[-1])
    return replace(newest, mean=float(values.mean()))


def _comparable(nights: Sequence[Night], name: str, new: CellRuns) -> list[tuple[Night, CellRuns]]:
    held = [(night, night.cells[name]) for night in nights if name in night.cells]
    return [(night, runs) for night, runs in held if asks_the_same(runs.conditions, new.conditions)]


def _cells(written: Mapping[str, Mapping[str, Any]]) -> dict[str, CellRuns]:
    """Return the cells of a summary whose seeds all finished."""
    return {
        name: CellRuns(Conditions(**one["conditions"]), {int(seed): run for seed, run in one["values"].items()}, {})
        for name, one in written.items()
        if "conditions" in one and not one["missing"]
    }
