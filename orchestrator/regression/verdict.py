"""What a rerun of a suite comes to: each cell's numbers compared, and one finding for all."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.reference.published import RETRIEVAL, published_row
from orchestrator.regression.accepted import Accepted, CellRuns
from orchestrator.regression.causes import what_changed
from orchestrator.regression.comparison import (
    SEVERITY,
    Change,
    Finding,
    Level,
    compare_gradient,
    compare_score,
    measure_over_seeds,
    overall,
    pooled_spread,
)
from orchestrator.regression.suite import Suite
from orchestrator.significance import Measure

GRADIENTS = ("first/", "last/")
"""How the names of numbers begin that tell of gradients: training loss and COCOS after the first and last epoch."""

TOGETHER = "all cells together"
"""Name of the row about all cells: a small change that they share, as of the data, is seen there first."""

SHARED = ("first/train/loss", "last/train/loss")
"""What is compared over all cells, as a share of the accepted mean of each."""

TEST_SCORE = "test/rsum"
"""What is compared with the papers' tables."""


@dataclass(frozen=True)
class CellResult:
    """What is found about one cell.

    Attributes:
        name: Of the cell.
        finding: The worst of what follows.
        score: The suite's score against the accepted one; ``None`` where nothing was accepted.
        gradients: Training loss and COCOS counts against the accepted ones.
        published: The test score against the papers'; ``None`` where there is no published row. It decides where
            nothing was accepted.
        mean: Of the suite's score over the new seeds; ``None`` where it has none.
        seeds: How many finished.
        identical: How many of them gave, number for number, what the accepted run gave.
        causes: What changed since the accepted run; listed where something slipped.
        notes: What else a reader must know, a sentence each.
    """

    name: str
    finding: Finding
    score: Change | None
    gradients: tuple[Change, ...]
    published: Change | None
    mean: float | None
    seeds: int
    identical: int
    causes: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def needed(self) -> int | None:
        """Seeds that would settle it, where it is inconclusive."""
        return next((one.needed for one in (self.score, self.published) if one and one.needed), None)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class SuiteResult:
    """What is found about a suite.

    Attributes:
        suite: Its name.
        finding: The worst of its cells'.
        cells: In the order of the suite.
        false_alarms: Rate over the whole suite at which nothing but noise is called a regression.
        levels: Of a single test of scores, and of gradients.
    """

    suite: str
    finding: Finding
    cells: tuple[CellResult, ...]
    false_alarms: float
    levels: tuple[float, float]

    def counts(self) -> dict[str, int]:
        """Return how many cells were found what, the worst first."""
        found = [cell.finding for cell in self.cells]
        return {str(finding): found.count(finding) for finding in sorted(set(found), key=SEVERITY.index)}

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return asdict(self)


def judge_suite(suite: Suite, runs: Mapping[str, CellRuns], accepted: Accepted | None) -> SuiteResult:
    """Compare the runs of a suite's cells with what was accepted, and with the papers where the suite says so.

    Args:
        suite: What was run.
        runs: Of every cell, by name.
        accepted: The reference; cells that it does not know are compared with the papers alone.
    """
    known = {} if accepted is None else dict(accepted.cells)
    looks = 2 if suite.max_seeds > suite.seeds else 1
    scored = [name for name in runs if name in known or (suite.published and _paper(suite, name))]
    counted = sum(len(_gradient_names(runs[name], known[name])) for name in runs if name in known) + len(SHARED)
    # Half of the rate each; a score may be compared with the accepted run and with the paper.
    tests = sum((name in known) + bool(suite.published and _paper(suite, name)) for name in scored)
    levels = (Level(suite.false_alarms / 2, tests, looks), Level(suite.false_alarms / 2, counted, looks))
    pools = _Pools(
        _pool([(runs[name], known[name]) for name in runs if name in known], suite.score),
        _pool([(runs[name], None) for name in runs], TEST_SCORE),
    )
    cells = tuple(_judge_cell(suite, cell.title, runs[cell.title], known, levels, pools) for cell in suite.cells)
    cells += _judge_together(suite, runs, known, levels[1])
    finding = overall([cell.finding for cell in cells])
    return SuiteResult(suite.name, finding, cells, suite.false_alarms, (levels[0].each, levels[1].each))


@dataclass(frozen=True)
class _Pools:
    """Spread between seeds over all cells, with its degrees of freedom; ``None`` where nothing has two seeds."""

    score: tuple[float, int] | None
    test: tuple[float, int] | None


def _judge_cell(
    suite: Suite,
    name: str,
    new: CellRuns,
    known: Mapping[str, CellRuns],
    levels: tuple[Level, Level],
    pools: _Pools,
) -> CellResult:
    old = known.get(name)
    score = None if old is None else _score(suite, suite.score, _measure(old, suite.score), new, pools.score, levels[0])
    gradients = () if old is None else _gradients(suite, old, new, levels[1])
    published = _published(suite, name, new, pools, levels[0])
    decisive = [one for one in (score, *gradients) if one] or [one for one in (published,) if one]
    findings = [one.finding for one in decisive] + ([Finding.FAILED] if new.missing else [])
    finding = overall(findings)
    slipped = finding in (Finding.REGRESSION, Finding.FAILED, Finding.INCONCLUSIVE)
    return CellResult(
        name=name,
        finding=finding,
        score=score,
        gradients=gradients,
        published=published,
        mean=None if (ours := _measure(new, suite.score)) is None else ours.mean,
        seeds=len(new.values),
        identical=0 if old is None else _identical(old, new),
        causes=tuple(what_changed(old.conditions, new.conditions)) if old and slipped else (),
        notes=tuple(_notes(suite, new, old)),
    )


def _judge_together(
    suite: Suite, runs: Mapping[str, CellRuns], known: Mapping[str, CellRuns], level: Level
) -> tuple[CellResult, ...]:
    """Compare what all cells share: of each seed, the mean over the cells of what it is to the accepted mean."""
    both = [name for name in runs if name in known]
    changes: list[Change] = []
    for metric in SHARED:
        old = _shared({name: known[name] for name in both}, known, metric)
        new = _shared({name: runs[name] for name in both}, known, metric)
        if len(both) > 1 and old is not None and new is not None and old.seeds > 1:
            changes.append(compare_gradient(metric, old, new, matters=suite.gradients_matter, level=level))
    if not changes:
        return ()
    finding = overall([change.finding for change in changes])
    return (CellResult(TOGETHER, finding, None, tuple(changes), None, None, changes[0].seeds[1], 0, (), ()),)


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


def _score(
    suite: Suite,
    metric: str,
    reference: Measure | None,
    new: CellRuns,
    pool: tuple[float, int] | None,
    level: Level,
) -> Change | None:
    ours = _measure(new, metric)
    if ours is None or reference is None or pool is None:
        return None
    return compare_score(metric, reference, ours, pool, matters=suite.matters, level=level)


def _gradients(suite: Suite, old: CellRuns, new: CellRuns, level: Level) -> tuple[Change, ...]:
    found = []
    for name in _gradient_names(new, old):
        before, after = _measure(old, name), _measure(new, name)
        if before is not None and after is not None:
            found.append(compare_gradient(name, before, after, matters=suite.gradients_matter, level=level))
    return tuple(found)


def _published(suite: Suite, name: str, new: CellRuns, pools: _Pools, level: Level) -> Change | None:
    paper = _paper(suite, name) if suite.published else None
    return _score(suite, TEST_SCORE, paper, new, pools.test, level)


def _paper(suite: Suite, name: str) -> Measure | None:
    cell = next(cell for cell in suite.cells if cell.title == name)
    row = published_row(RETRIEVAL, cell.dataset, cell.model, cell.loss, cell.loss_parameters)
    return None if row is None else Measure(*row.values["rsum"], row.runs)


def _measure(runs: CellRuns, metric: str) -> Measure | None:
    return measure_over_seeds(runs.values, metric)


def _pool(pairs: Sequence[tuple[CellRuns, CellRuns | None]], metric: str) -> tuple[float, int] | None:
    measures = [_measure(runs, metric) for pair in pairs for runs in pair if runs is not None]
    usable = [one for one in measures if one is not None and one.seeds > 1]
    return pooled_spread(usable) if usable else None


def _gradient_names(new: CellRuns, old: CellRuns) -> list[str]:
    """Return the numbers of gradients that every run of both has."""
    runs = [*new.values.values(), *old.values.values()]
    names = [name for name in (runs[0] if runs else {}) if name.startswith(GRADIENTS)]
    return sorted(name for name in names if all(name in run for run in runs))


def _identical(old: CellRuns, new: CellRuns) -> int:
    return sum(old.values.get(seed) == values for seed, values in new.values.items())


def _notes(suite: Suite, new: CellRuns, old: CellRuns | None) -> list[str]:
    notes = [f"seed {seed}: {what}" for seed, what in sorted(new.missing.items())]
    if old is None:
        notes.append("nothing was accepted for it: `orchestrator regress accept` makes this run the reference")
    elif not new.missing and not set(suite_metrics(old)) <= set(suite_metrics(new)):
        lost = sorted(set(suite_metrics(old)) - set(suite_metrics(new)))
        notes.append(f"no longer reported: {', '.join(lost)}")
    return notes


def suite_metrics(runs: CellRuns) -> list[str]:
    """Return the names of all numbers that some seed has."""
    return sorted({name for values in runs.values.values() for name in values})
