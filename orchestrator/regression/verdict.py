"""The verdict on a rerun of a suite: each cell's numbers are compared, and the worst finding is the suite's finding.

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

The rule is the rule of the scores (``comparison.py``): one-sided, significant at the level of the group, and at least
as large as the smallest drop that matters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.reference.published import RETRIEVAL, published_row
from orchestrator.regression.accepted import Accepted, CellRuns, FirstRuns, asks_the_same, what_changed
from orchestrator.regression.comparison import (
    SEVERITY,
    Change,
    Finding,
    compare_gradient,
    compare_score,
    level_of,
    measure_over_seeds,
    overall,
)
from orchestrator.regression.reruns import read_summary
from orchestrator.regression.suite import Suite
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
    first: FirstRuns, nights: Sequence[Night], name: str, new: CellRuns, metric: str, *, matters: float, level: float
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
    label = f"{metric} since {first.when[:10]} (mean of the newest {len(window)} reruns)"
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


GRADIENTS = ("first/", "last/")
"""Prefixes of the numbers that depend on gradients: training loss and COCOS after the first and the last epoch."""

TOGETHER = "all cells together"
"""Name of the row about all cells, which is the first to show a small change in all cells, for example of the data."""

SHARED = ("first/train/loss", "last/train/loss")
"""Metrics that are compared over all cells, each as a share of the cell's accepted mean."""

TEST_SCORE = "test/rsum"
"""The metric that is compared with the papers' tables."""


@dataclass(frozen=True)
class CellResult:
    """The findings about one cell.

    Attributes:
        finding: The worst finding of the comparisons below.
        score: Comparison of the suite's score with the accepted score; ``None`` where nothing was accepted.
        gradients: Comparisons of training loss and COCOS counts with the accepted numbers.
        drift: Comparison of the newest reruns' score with the first accepted score; ``None`` where the first accepted
            score is still the accepted score.
        published: Comparison of the test score with the papers' score; ``None`` where the papers have no such score.
            This comparison counts for ``finding`` only where nothing was accepted.
        mean: Mean of the suite's score over the new seeds; ``None`` where no seed has the score.
        identical: Number of finished seeds whose numbers are exactly the numbers of the accepted run.
        causes: Each condition that changed since the accepted run; empty for a cell without an alarm.
        notes: Further remarks for the reader, a sentence each.
        trend: Name and mean score of each past rerun with this config and data, oldest first.
    """

    name: str
    finding: Finding
    score: Change | None
    gradients: tuple[Change, ...]
    drift: Change | None
    published: Change | None
    mean: float | None
    seeds: int
    identical: int
    causes: tuple[str, ...]
    notes: tuple[str, ...]
    trend: tuple[tuple[str, float], ...] = ()

    @property
    def is_alarm(self) -> bool:
        """Whether the cell regressed, changed, failed, or is inconclusive, so that a reader should look for a cause."""
        return self.finding in (Finding.REGRESSION, Finding.CHANGED, Finding.FAILED, Finding.INCONCLUSIVE)

    @property
    def needed(self) -> int | None:
        """Number of seeds that would settle an inconclusive cell; ``None`` for other cells."""
        return next((one.needed for one in (self.score, self.published) if one and one.needed), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class SuiteResult:
    """The findings about a suite.

    Attributes:
        finding: The worst finding of the cells.
        cells: The findings about each cell, in the order of the suite.
        false_alarms: Rate, over the whole suite, at which noise alone is called a regression.
        levels: Levels of a single test of scores, of gradients, and of drift; the last level is ``None`` where no drift
            is tested.
        causes: Each condition that changed for all cells with an alarm.
    """

    suite: str
    finding: Finding
    cells: tuple[CellResult, ...]
    false_alarms: float
    levels: tuple[float, float, float | None]
    causes: tuple[str, ...]

    def counts(self) -> dict[str, int]:
        """Return the number of cells with each finding, the worst finding first."""
        found = [cell.finding for cell in self.cells]
        return {str(finding): found.count(finding) for finding in sorted(set(found), key=SEVERITY.index)}

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        return asdict(self)


def judge_suite(
    suite: Suite, runs: Mapping[str, CellRuns], accepted: Accepted | None, nights: Sequence[Night] = ()
) -> SuiteResult:
    """Compare the runs of a suite's cells with the accepted runs, and with the papers if ``suite.published`` is set.

    Args:
        suite: The suite that was rerun.
        runs: Name of a cell -> its runs, for every cell.
        accepted: The reference; a cell that the reference does not hold is compared with the papers alone.
        nights: Past reruns, oldest first.
    """
    known = {} if accepted is None else dict(accepted.cells)
    first = {} if accepted is None else first_of(accepted, runs)
    past = _Past(known, first, tuple(nights))
    levels = _levels(suite, runs, past)
    cells = tuple(_judge_cell(suite, cell.title, runs[cell.title], past, levels) for cell in suite.cells)
    cells += _judge_together(suite, runs, known, levels.gradients)
    return SuiteResult(
        suite=suite.name,
        finding=overall([cell.finding for cell in cells]),
        cells=cells,
        false_alarms=suite.false_alarms,
        levels=(levels.scores, levels.gradients, levels.drift if first else None),
        causes=_shared_causes(cells),
    )


@dataclass(frozen=True)
class _Past:
    """The runs with which the cells are compared: the reference, the first accepted runs, and the past reruns."""

    known: Mapping[str, CellRuns]
    first: Mapping[str, FirstRuns]
    nights: tuple[Night, ...]


@dataclass(frozen=True)
class _Levels:
    """The significance level of each group of tests."""

    scores: float
    gradients: float
    drift: float


def _levels(suite: Suite, runs: Mapping[str, CellRuns], past: _Past) -> _Levels:
    """Divide the suite's false-alarm rate equally between the groups, and in each group between its tests."""
    looks = 2 if suite.max_seeds > suite.seeds else 1
    # A cell's score may be compared twice: with the accepted run and with the paper.
    scores = sum((name in past.known) + bool(suite.published and _paper(suite, name)) for name in runs)
    gradients = [_gradient_names(runs[name], past.known[name]) for name in runs if name in past.known]
    rate = suite.false_alarms / (3 if past.first else 2)
    return _Levels(
        scores=level_of(rate, scores, looks),
        gradients=level_of(rate, sum(map(len, gradients)) + len(SHARED), looks),
        drift=level_of(rate, len(past.first), looks),
    )


def _judge_cell(suite: Suite, name: str, new: CellRuns, past: _Past, levels: _Levels) -> CellResult:
    old = past.known.get(name)
    is_identical = old is not None and _is_identical(old, new)
    score, gradients = (None, ()) if old is None else _against_accepted(suite, old, new, levels, is_identical)
    drift, first = None, past.first.get(name)
    if first is not None:
        matters, level = suite.matters, levels.drift
        drift = compare_drift(first, past.nights, name, new, suite.score, matters=matters, level=level)
    paper = _paper(suite, name) if suite.published else None
    published = _score(suite, TEST_SCORE, paper, new, levels.scores)
    decisive = [change for change in (score, *gradients, drift) if change]
    if not decisive and not is_identical and published:
        decisive = [published]
    findings = [change.finding for change in decisive if not is_identical or change.finding is not Finding.OK]
    findings += [Finding.IDENTICAL] * is_identical + [Finding.FAILED] * bool(new.missing)
    result = CellResult(
        name=name,
        finding=overall(findings),
        score=score,
        gradients=gradients,
        drift=drift,
        published=published,
        mean=None if (ours := _measure(new, suite.score)) is None else ours.mean,
        seeds=len(new.values),
        identical=0 if old is None else sum(old.values.get(seed) == values for seed, values in new.values.items()),
        causes=(),
        notes=tuple(_notes(suite, new, old)),
        trend=trend(past.nights, name, new, suite.score),
    )
    if old is None or not result.is_alarm:
        return result
    return replace(result, causes=tuple(what_changed(old.conditions, new.conditions)))


def _against_accepted(
    suite: Suite, old: CellRuns, new: CellRuns, levels: _Levels, is_identical: bool
) -> tuple[Change | None, tuple[Change, ...]]:
    """Compare score and gradients with the accepted run; of an identical cell only the seeds that both runs have."""
    old, new = _to_compare(old, new)
    score = _score(suite, suite.score, _measure(old, suite.score), new, levels.scores)
    if is_identical and score is not None:
        # Equal numbers exclude a drop, however few seeds a test would call too few.
        score = replace(score, finding=Finding.IDENTICAL, needed=None)
    return score, _gradients(suite, old, new, levels.gradients)


def _is_identical(old: CellRuns, new: CellRuns) -> bool:
    """Whether there are seeds that both runs have, and each of them gave the same numbers.

    Training is deterministic, so one equal seed says that nothing changed which a further seed could show: that seed
    would only add the spread between seeds, which is no change.
    """
    shared = old.values.keys() & new.values.keys()
    return bool(shared) and all(old.values[seed] == new.values[seed] for seed in shared)


def _to_compare(old: CellRuns, new: CellRuns) -> tuple[CellRuns, CellRuns]:
    """Return the runs to compare: of identical runs only the seeds that both have."""
    if not _is_identical(old, new):
        return old, new
    # The runs of these seeds are equal, so both sides have one mapping.
    shared = {seed: run for seed, run in old.values.items() if seed in new.values}
    return replace(old, values=shared), replace(new, values=shared)


def _shared_causes(cells: Sequence[CellResult]) -> tuple[str, ...]:
    """Return each cause that all cells with an alarm share; the row about all cells has no conditions."""
    alarmed = [cell.causes for cell in cells if cell.is_alarm and cell.name != TOGETHER]
    return tuple(line for line in alarmed[0] if all(line in causes for causes in alarmed)) if alarmed else ()


def _judge_together(
    suite: Suite, runs: Mapping[str, CellRuns], known: Mapping[str, CellRuns], level: float
) -> tuple[CellResult, ...]:
    """Compare all cells at once: for each seed, the mean over the cells of value / accepted mean."""
    both = [name for name in runs if name in known]
    identical = {name for name in both if _is_identical(known[name], runs[name])}
    pairs = {name: _to_compare(known[name], runs[name]) for name in both}
    before, after = ({name: pair[place] for name, pair in pairs.items()} for place in (0, 1))
    changes: list[Change] = []
    for metric in SHARED:
        old, new = _shared(before, known, metric), _shared(after, known, metric)
        if len(both) > 1 and old is not None and new is not None and old.seeds > 1:
            changes.append(compare_gradient(metric, old, new, matters=suite.gradients_matter, level=level))
    if not changes:
        return ()
    finding = Finding.IDENTICAL if len(identical) == len(both) else overall([change.finding for change in changes])
    seeds = changes[0].seeds[1]
    return (CellResult(TOGETHER, finding, None, tuple(changes), None, None, None, seeds, 0, (), ()),)


def _shared(runs: Mapping[str, CellRuns], known: Mapping[str, CellRuns], metric: str) -> Measure | None:
    found = {name: _measure(known[name], metric) for name in runs}
    means = {name: one.mean for name, one in found.items() if one is not None and one.mean}
    if not means:
        return None
    values: dict[int, dict[str, float]] = {}
    for seed in set.intersection(*(set(runs[name].values) for name in means)):
        shares = [runs[name].values[seed][metric] / mean for name, mean in means.items()]
        values[seed] = {metric: sum(shares) / len(shares)}
    return measure_over_seeds(values, metric)


def _score(suite: Suite, metric: str, reference: Measure | None, new: CellRuns, level: float) -> Change | None:
    """Compare a score; return ``None`` unless both sides have the score and one side has a spread between seeds."""
    ours = _measure(new, metric)
    if ours is None or reference is None or (reference.std is None and ours.seeds < 2):
        return None
    return compare_score(metric, reference, ours, matters=suite.matters, level=level)


def _gradients(suite: Suite, old: CellRuns, new: CellRuns, level: float) -> tuple[Change, ...]:
    found = []
    for name in _gradient_names(new, old):
        before, after = _measure(old, name), _measure(new, name)
        if before is not None and after is not None and max(before.seeds, after.seeds) > 1:
            found.append(compare_gradient(name, before, after, matters=suite.gradients_matter, level=level))
    return tuple(found)


def _paper(suite: Suite, name: str) -> Measure | None:
    cell = next(cell for cell in suite.cells if cell.title == name)
    row = published_row(RETRIEVAL, cell.dataset, cell.model, cell.loss, cell.loss_parameters)
    return None if row is None else Measure(*row.values["rsum"], row.runs)


def _measure(runs: CellRuns, metric: str) -> Measure | None:
    return measure_over_seeds(runs.values, metric)


def _gradient_names(new: CellRuns, old: CellRuns) -> list[str]:
    """Return the names of the training losses and COCOS counts that every accepted and every new run has."""
    runs = [*new.values.values(), *old.values.values()]
    names = [name for name in (runs[0] if runs else {}) if name.startswith(GRADIENTS)]
    return sorted(name for name in names if all(name in run for run in runs))


def _notes(suite: Suite, new: CellRuns, old: CellRuns | None) -> list[str]:
    notes = [f"seed {seed}: {what}" for seed, what in sorted(new.missing.items())]
    if old is None:
        notes.append("nothing was accepted for this cell: `orchestrator regress accept` makes this run the reference")
    elif not new.missing and not set(suite_metrics(old)) <= set(suite_metrics(new)):
        lost = sorted(set(suite_metrics(old)) - set(suite_metrics(new)))
        notes.append(f"no longer reported: {', '.join(lost)}")
    return notes


def suite_metrics(runs: CellRuns) -> list[str]:
    """Return the names of all numbers that at least one seed has."""
    return sorted({name for values in runs.values.values() for name in values})
