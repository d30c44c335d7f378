"""Do scores drift? The reruns of many nights against the first accepted runs.

A drift stays hidden where each night's drop is too small to be found and new references are accepted: no night is far
below its reference, and after a year the scores are far below the first reference. So the mean of the newest reruns is
compared with the first accepted reference, for each cell whose config and data are still those of the first reference.
While no other reference has been accepted, the suite's own tests compare each night with the first reference, and no
test of drift is added.

Nights are no new seeds: a night that runs unchanged code trains the same seeds again, to the same numbers. Therefore
only the seeds are counted, never the nights. With n seeds, the mean over the nights' means has at most the standard
error of one night's mean, however correlated the nights are. The test takes the standard error of one night, with the
spread of the first reference and of the newest rerun. The spread is independent of every night's mean (deviations of
seeds from their mean), so the test's level holds for identical nights and for independent nights.
Averaging over nights reduces the noise of single nights, so a drift well above the smallest drop that matters is found
more surely than from one night.

The rule is the rule of the scores (``changes.py``): one-sided, significant at the level of the group, and at least as
large as the smallest drop that matters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from orchestrator.regression.accepted import Accepted, CellRuns, FirstRuns, asks_the_same
from orchestrator.regression.changes import Change, Finding, Level, compare_score, measure_over_seeds
from orchestrator.regression.ended import read_summary
from orchestrator.results.statistics import Measure, measure

WINDOW = 5
"""Number of the newest reruns that are averaged, including the rerun that is judged."""

SHOWN = 30
"""Number of the newest reruns that a trend shows."""


@dataclass(frozen=True)
class Night:
    """A rerun of the past.

    Attributes:
        name: Name of the rerun's folder.
        cells: Name of a cell -> its runs; without cells of which a seed failed.
    """

    name: str
    cells: Mapping[str, CellRuns]


def read_nights(finished: Sequence[Path]) -> tuple[Night, ...]:
    """Read the newest finished reruns, oldest first.

    Reruns of older versions did not record the conditions of their cells, and are returned as nights without cells.

    Raises:
        UserError: If a summary is damaged.
    """
    return tuple(_night(path) for path in finished[-(SHOWN - 1) :])


def _night(directory: Path) -> Night:
    runs = read_summary(directory).runs
    return Night(directory.name, {name: one for name, one in runs.items() if not one.missing})


def first_of(accepted: Accepted, runs: Mapping[str, CellRuns]) -> dict[str, FirstRuns]:
    """Return the first accepted runs of each cell whose config and data have not changed since then."""
    return {
        name: one
        for name, one in accepted.first.items()
        if name in runs and asks_the_same(one.runs.conditions, runs[name].conditions)
    }


def trend(nights: Sequence[Night], name: str, new: CellRuns, metric: str) -> tuple[tuple[str, float], ...]:
    """Return name and mean score of each past rerun with the config and data of the new rerun, oldest first."""
    found = []
    for night, runs in _comparable(nights, name, new):
        mean = measure_over_seeds(runs.values, metric)
        found += [(night.name, mean.mean)] if mean else []
    return tuple(found)


def compare_drift(
    first: FirstRuns, nights: Sequence[Night], name: str, new: CellRuns, metric: str, *, matters: float, level: Level
) -> Change | None:
    """Compare the newest reruns of a cell with the cell's first accepted runs.

    Args:
        first: The first accepted runs, with the config and data of the new runs.
        nights: Reruns before the new rerun, oldest first.
        name: Name of the cell.
        new: The runs that are judged.
        metric: Name of the suite's score.
        matters: The smallest drop that matters, > 0.
        level: Significance level of the test.

    Returns:
        The comparison, with the finding ``REGRESSION`` or ``OK``; ``None`` where a side has no score.
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
    """Return the mean over the nights and the seeds that all nights have, with the spread of the newest night."""
    seeds = sorted(set.intersection(*({seed for seed in night if metric in night[seed]} for night in window)))
    if not seeds:
        return None
    values = np.array([[night[seed][metric] for seed in seeds] for night in window], dtype=np.float64)
    newest = measure(values[-1])
    return replace(newest, mean=float(values.mean()))


def _comparable(nights: Sequence[Night], name: str, new: CellRuns) -> list[tuple[Night, CellRuns]]:
    held = [(night, night.cells[name]) for night in nights if name in night.cells]
    return [(night, runs) for night, runs in held if asks_the_same(runs.conditions, new.conditions)]
