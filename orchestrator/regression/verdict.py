"""The verdict on a rerun of a suite: each cell's numbers are compared, and the worst finding is the suite's finding.

A drift stays hidden where each night's drop is too small to be found and new references are accepted. No night is far
below its reference, but after a year the scores are far below the first reference. So the mean of the newest reruns is
compared with the first accepted reference, for each cell that still has the config and data of that reference. While no
other reference has been accepted, the suite's own tests compare each night with the first reference, and no test of
drift is added.

Nights are no new seeds: a night that runs unchanged code trains the same seeds again, to the same numbers. Therefore
only the seeds are counted, never the nights. With n seeds, the mean over the nights' means has at most the standard
error of one night's mean, however correlated the nights are. The test takes the standard error of one night, with the
spread of the first reference and of the newest rerun. The spread, from deviations of seeds from their mean, is
independent of every night's mean. So the test's level holds for identical and for independent nights. Averaging over
nights reduces the noise of single nights. So a drift well above the smallest drop that matters is found more surely
than from one night.

The rule is that of the scores (``comparison.py``): one-sided, significant at the level of the group, and not smaller
than the smallest drop that matters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import msgspec
import numpy as np

from orchestrator.reference.published import RETRIEVAL, published_row
from orchestrator.regression.accepted import Accepted, CellRecord, what_changed
from orchestrator.regression.comparison import (
    ALARMS,
    Finding,
    MeanChange,
    compare_gradient,
    compare_score,
    level_of,
    overall,
)
from orchestrator.regression.suite import Suite
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import Measure, measure

ACCEPTED, NEW = "accepted", "new"
"""Labels of the candidates of a cell."""

WINDOW = 5
"""Number of the newest reruns that are averaged, including the rerun that is judged."""

GRADIENTS = ("first/", "last/")
"""Prefixes of the numbers that depend on gradients: training loss and COCOS after the first and the last epoch."""

BLIND = 2.0
"""Drops that matter from which on the detectable drop is said; it is always more than one, see ``comparison.py``."""

TEST_SCORE = "test/rsum"
"""The metric that is compared with the papers' tables."""

Nights = Mapping[str, Mapping[str, CellRecord]]
"""Name of a past rerun -> name of a cell -> its runs, oldest first; without cells of which a seed failed."""

CALLS_FOR_A_CAUSE = (*ALARMS, Finding.INCONCLUSIVE)
"""Findings of cells for which a reader should look for a cause."""

Levels = tuple[float, float, float | None]
"""Levels of a single test of scores, of gradients, and of drift; the last is ``None`` where no drift is tested."""


@dataclass(frozen=True)
class CellResult:
    """The findings about one cell.

    Attributes:
        score: Comparison of the suite's score with the accepted score; ``None`` where nothing was accepted.
        gradients: Comparisons of training loss and COCOS counts with the accepted numbers.
        drift: Comparison of the newest reruns' score with the first accepted score; ``None`` where the first accepted
            score is still the accepted score.
        published: Comparison of the test score with the papers' score; ``None`` where the papers have no such score.
            This comparison counts for ``finding`` only where nothing was accepted.
        mean: Mean of the suite's score over the new seeds.
        identical: Number of finished seeds whose numbers are exactly the numbers of the accepted run.
        causes: Each condition that changed since the accepted run; empty for a cell without an alarm.
        changed: The same for a cell without an alarm, whose numbers stayed identical or not worse.
        trend: Name and mean score of each past rerun with this config and data, oldest first.
    """

    name: str
    finding: Finding
    score: MeanChange | None
    gradients: tuple[MeanChange, ...]
    drift: MeanChange | None
    published: MeanChange | None
    mean: float | None
    seeds: int
    identical: int
    causes: tuple[str, ...]
    notes: tuple[str, ...]
    trend: tuple[tuple[str, float], ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def is_alarm(self) -> bool:
        """Whether the cell regressed, changed, failed, or is inconclusive, so that a reader should look for a cause."""
        return self.finding in CALLS_FOR_A_CAUSE

    @property
    def needed(self) -> int | None:
        """Number of seeds that would settle an inconclusive cell; ``None`` for other cells."""
        return next((change.needed for change in (self.score, self.published) if change and change.needed), None)


@dataclass(frozen=True)
class SuiteResult:
    """The findings about a suite.

    Attributes:
        cells: In the order of the suite.
        false_alarms: Rate, over the whole suite, at which noise alone is called a regression.
        levels: See ``Levels``.
        causes: Each condition that changed for all cells with an alarm.
    """

    suite: str
    finding: Finding
    cells: tuple[CellResult, ...]
    false_alarms: float
    levels: Levels
    causes: tuple[str, ...]


def judge_suite(
    suite: Suite, runs: Mapping[str, CellRecord], accepted: Accepted | None, nights: Nights = MappingProxyType({})
) -> SuiteResult:
    """Compare the runs of a suite's cells with the accepted runs, and with the papers if ``suite.published`` is set.

    ``runs`` holds every cell by its name; a cell that ``accepted`` does not hold is compared with the papers alone.
    """
    reference = accepted or Accepted(suite.name, "", "", "", {})
    first = {n: run for n, run in reference.first.items() if n in runs and run.has_setting_of(runs[n])}
    reference = msgspec.structs.replace(reference, first=first)
    levels = _levels(suite, runs, reference)
    cells = tuple(_judge_cell(suite, cell.title, runs[cell.title], reference, nights, levels) for cell in suite.cells)
    alarmed = [cell.causes for cell in cells if cell.is_alarm]
    return SuiteResult(
        suite=suite.name,
        finding=overall([cell.finding for cell in cells]),
        cells=cells,
        false_alarms=suite.false_alarms,
        levels=levels,
        causes=tuple(line for line in alarmed[0] if all(line in causes for causes in alarmed)) if alarmed else (),
    )


def blind_cells(suite: Suite, accepted: Accepted) -> dict[str, float]:
    """Return cell -> the drop that its accepted seeds detect, where that is more than ``BLIND`` drops that matter.

    The drop is the one that a rerun with as many seeds of the same spread finds with probability ``POWER``.
    """
    runs = {name: run for name, run in accepted.cells.items() if name in {cell.title for cell in suite.cells}}
    level, *_ = _levels(suite, runs, accepted)
    drops = {}
    for name, run in runs.items():
        change = _score(suite, suite.score, run.runs(ACCEPTED, suite.score), run, level)
        if change is not None and change.detectable > BLIND * suite.matters:
            drops[name] = change.detectable
    return drops


def _levels(suite: Suite, runs: Mapping[str, CellRecord], reference: Accepted) -> Levels:
    """Divide the suite's false-alarm rate equally between the groups, and in each group between its tests."""
    looks = 2 if suite.max_seeds > suite.seeds else 1
    known, first = reference.cells, reference.first
    # A cell's score may be compared twice: with the accepted run and with the paper.
    scores = sum((name in known) + bool(suite.published and _paper(suite, name)) for name in runs)
    gradients = sum(len(_gradient_names(runs[name], known[name])) for name in runs if name in known)
    rate = suite.false_alarms / (3 if first else 2)
    drift = level_of(rate, len(first), looks) if first else None
    return level_of(rate, scores, looks), level_of(rate, gradients, looks), drift


def _judge_cell(
    suite: Suite, name: str, new: CellRecord, reference: Accepted, nights: Nights, levels: Levels
) -> CellResult:
    old, first = reference.cells.get(name), reference.first.get(name)
    is_identical = old is not None and old.is_identical(new)
    score, gradients = (None, ()) if old is None else _against_accepted(suite, old, new, levels, is_identical)
    past = comparable(nights, name, new)
    drift = None
    if first is not None and levels[2] is not None:
        window = [*past.values(), new][-WINDOW:]
        drift = compare_drift(first, window, suite.score, matters=suite.matters, level=levels[2])
    paper = _paper(suite, name) if suite.published else None
    published = _score(suite, TEST_SCORE, paper, new, levels[0])
    decisive = [change for change in (score, *gradients, drift) if change]
    if not decisive and not is_identical and published:
        decisive = [published]
    findings = [change.finding for change in decisive if not is_identical or change.finding is not Finding.OK]
    findings += [Finding.IDENTICAL] * is_identical + [Finding.FAILED] * bool(new.missing)
    finding, ours = overall(findings), new.runs(NEW, suite.score)
    changed = () if old is None else tuple(what_changed(old.conditions, new.conditions))
    calls = finding in CALLS_FOR_A_CAUSE
    return CellResult(
        name=name,
        finding=finding,
        score=score,
        gradients=gradients,
        drift=drift,
        published=published,
        mean=None if ours is None else ours.mean(suite.score),
        seeds=len(new.values),
        identical=0 if old is None else sum(old.values.get(seed) == values for seed, values in new.values.items()),
        causes=changed if calls else (),
        changed=() if calls else changed,
        notes=tuple(_notes(new, old)),
        trend=tuple(
            (night, known.mean(suite.score)) for night, runs in past.items() if (known := runs.runs(night, suite.score))
        ),
    )


def _against_accepted(
    suite: Suite, old: CellRecord, new: CellRecord, levels: Levels, is_identical: bool
) -> tuple[MeanChange | None, tuple[MeanChange, ...]]:
    """Compare score and gradients with the accepted run; of an identical cell only the seeds that both runs have."""
    if is_identical:
        shared = {seed: run for seed, run in old.values.items() if seed in new.values}
        old, new = (msgspec.structs.replace(side, values=shared) for side in (old, new))
    score = _score(suite, suite.score, old.runs(ACCEPTED, suite.score), new, levels[0])
    if is_identical and score is not None:
        # Equal numbers exclude a drop, however few seeds a test would call too few.
        score = replace(score, finding=Finding.IDENTICAL, needed=None)
    gradients = []
    for name in _gradient_names(new, old):
        before, after = old.runs(ACCEPTED, name), new.runs(NEW, name)
        if before is not None and after is not None and max(before.count, after.count) > 1:
            gradients.append(compare_gradient(before, after, name, matters=suite.gradients_matter, level=levels[1]))
    return score, tuple(gradients)


def _score(suite: Suite, metric: str, reference: Runs | None, new: CellRecord, level: float) -> MeanChange | None:
    """Compare a score; return ``None`` unless both sides have the score and one side has a spread between seeds."""
    ours = new.runs(NEW, metric)
    if ours is None or reference is None or (reference.measure(metric).std is None and ours.count < 2):
        return None
    return compare_score(reference, ours, metric, matters=suite.matters, level=level)


def comparable(nights: Nights, name: str, new: CellRecord) -> dict[str, CellRecord]:
    """Return past rerun -> runs of a cell, where they have the config and data of the new runs."""
    held = {night: cells[name] for night, cells in nights.items() if name in cells}
    return {night: runs for night, runs in held.items() if runs.has_setting_of(new)}


def compare_drift(
    first: CellRecord, window: Sequence[CellRecord], metric: str, *, matters: float, level: float
) -> MeanChange | None:
    """Compare the newest reruns of a cell with the cell's first accepted runs.

    ``window`` are the newest reruns with the config and data of ``first``, the newest last, at least one. The finding
    is ``REGRESSION`` or ``OK``; nothing is compared where a side has no score.
    """
    reference = first.runs(ACCEPTED, metric)
    nights = [{seed: run[metric] for seed, run in runs.values.items() if metric in run} for runs in window]
    seeds = sorted(set.intersection(*map(set, nights)))
    if reference is None or not seeds:
        return None
    values = np.array([[night[seed] for seed in seeds] for night in nights], dtype=np.float64)
    recent = replace(measure(values[-1]), mean=float(values.mean()))
    label = f"{metric} since {first.when[:10]} (mean of the newest {len(window)} reruns)"
    sides = (Runs(ACCEPTED, means={label: reference.measure(metric)}), Runs(NEW, means={label: recent}))
    change = compare_score(*sides, label, matters=matters, level=level)
    finding = change.finding if change.finding is Finding.REGRESSION else Finding.OK
    return replace(change, finding=finding, needed=None)


def _paper(suite: Suite, name: str) -> Runs | None:
    cell = next(cell for cell in suite.cells if cell.title == name)
    row = published_row(RETRIEVAL, cell.dataset, cell.model, cell.loss, cell.loss_parameters)
    return None if row is None else Runs(row.number, means={TEST_SCORE: Measure(*row.values["rsum"], row.runs)})


def _gradient_names(new: CellRecord, old: CellRecord) -> list[str]:
    """Return the names of the training losses and COCOS counts that every accepted and every new run has."""
    runs = [set(values) for values in (*new.values.values(), *old.values.values())]
    return sorted(name for name in set.intersection(*runs) if name.startswith(GRADIENTS)) if runs else []


def _notes(new: CellRecord, old: CellRecord | None) -> list[str]:
    notes = [f"seed {seed}: {ending}" for seed, ending in sorted(new.missing.items())]
    if old is None:
        notes.append("nothing was accepted for this cell: `orchestrator regress accept` makes this run the reference")
    elif not new.missing and (lost := sorted(set().union(*old.values.values()) - set().union(*new.values.values()))):
        notes.append(f"no longer reported: {', '.join(lost)}")
    return notes
