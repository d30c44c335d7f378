"""How often unchanged suites raise an alarm, and how often a drop is found, by the product on simulated reruns."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from orchestrator.regression.accepted import Accepted, CellRecord
from orchestrator.regression.comparison import Finding, compare_score
from orchestrator.regression.suite import Suite
from orchestrator.regression.verdict import judge_suite
from orchestrator.results.runs import Runs
from tests.support.regression_results import CONDITIONS, make_suite

NAMES = ("val/rsum", "last/train/loss", "first/cocos/negatives", "last/cocos/negatives")
CENTRES, SPREADS = (400.0, 2.0, 30.0, 30.0), (3.0, 0.1, 2.0, 2.0)


def is_found(size: np.ndarray, error: np.ndarray, freedom: int, *, matters: float, level: float) -> np.ndarray:
    """Say by SciPy whether each difference is significant at a one-sided level, and large enough to matter."""
    return (stats.t.sf(size / error, freedom) <= level) & (size >= matters) & (size > 0)


def sensitive_suite(cells: int, rate: float) -> Suite:
    """Return a suite in which every difference matters, so that noise alone is tested."""
    named = [{"dataset": f"pets{number}", "loss": "nt_xent"} for number in range(cells)]
    return make_suite(cells=named, matters=1e-9, gradients_matter=1e-9, false_alarms=rate)


def share_with_alarms(
    generator: np.random.Generator, suite: Suite, scales: Sequence[float], suites: int, *, nights: int
) -> float:
    """Return the share of unchanged suites that raise an alarm; ``scales`` multiply the spreads of the cells.

    A reference has six seeds and a rerun three. With ``nights`` past reruns and a first reference, drift is tested too.
    """

    def draw(seeds: range) -> dict[str, CellRecord]:
        spreads = np.outer(scales, SPREADS)[:, None]
        values = generator.normal(np.array(CENTRES), spreads, (len(suite.cells), len(seeds), len(NAMES)))
        rows = [
            {seed: dict(zip(NAMES, row, strict=True)) for seed, row in zip(seeds, one, strict=True)} for one in values
        ]
        return {cell.title: CellRecord(CONDITIONS, one) for cell, one in zip(suite.cells, rows, strict=True)}

    alarms = 0
    for _ in range(suites):
        first, known, newest = draw(range(6)), draw(range(10, 16)), draw(range(20, 23))
        reference = Accepted("quick", "ada", "2026-01-02T03:04:05Z", "right", known, first if nights else {})
        past = {str(night): draw(range(20, 23)) for night in range(nights)}
        alarms += judge_suite(suite, newest, reference, past).finding in (Finding.REGRESSION, Finding.CHANGED)
    return alarms / suites


def shares_of_drops(
    generator: np.random.Generator,
    drops: Sequence[float],
    seeds: tuple[int, int],
    cells: int,
    matters: float,
    level: float,
) -> list[float]:
    """Return for each true drop of a score, in standard deviations, the share of cells in which it is found."""
    shares = []
    for drop in drops:
        found = 0
        for _ in range(cells):
            old, new = generator.normal(0, 1, seeds[0]), generator.normal(-drop, 1, seeds[1])
            sides = (Runs.of_seeds("", {s: {"x": v} for s, v in enumerate(side.tolist())}) for side in (old, new))
            found += compare_score(*sides, "x", matters=matters, level=level).finding is Finding.REGRESSION
        shares.append(found / cells)
    return shares
