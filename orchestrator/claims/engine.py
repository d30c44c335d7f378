"""Does a claim hold? Every part of its form is a test, and a claim holds only where all its tests are significant.

A part becomes one-sided tests of Student's kind on means over seeds, without assuming equal spreads [Welch1947]. There
is one for each group (dataset and model), metric and opponent that the part names. A claim about many cells is an
intersection. Its p-value is the largest of its tests', which errs at most as often as the level says, however many
tests there are [Berger1982]. Similarity is two one-sided tests against a margin, not the absence of a significant
difference [Schuirmann1987]. The p-values of all claims of a page are Holm-adjusted [Holm1979]. So of pages without a
true claim, at most ``Claims.level`` call any claim true. A claim is contradicted where one of its tests is significant
the other way. This is corrected for the number of its tests and, by Holm, for the claims of the page.

Ranks: ``opposed`` takes the mean over groups and metrics of Spearman's correlation over the losses. Its p-value is from
``RELABELLINGS`` random relabellings of the losses within the groups.

References:
    [Welch1947] Welch, The generalization of Student's problem when several different population variances are
        involved, Biometrika 34, 28-35.
    [Berger1982] Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24, 295-300.
    [Schuirmann1987] Schuirmann, A comparison of the two one-sided tests procedure and the power approach,
        J. Pharmacokinetics and Biopharmaceutics 15, 657-680.
    [Holm1979] Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statistics 6, 65-70.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from orchestrator.claims.claims import Claim, Claims, Part
from orchestrator.reference.published import study_dataset
from orchestrator.results.statistics import SAME, Measure, difference_of, holm, one_sided

RELABELLINGS = 9999
"""Random relabellings of the losses from which the p-value of ``opposed`` is taken."""

FEWEST_SEEDS = 2
"""Fewest seeds of a mean that can be tested."""


class Outcome(StrEnum):
    """The answer to a claim."""

    HOLDS = "holds"
    CONTRADICTED = "contradicted"
    NOT_SHOWN = "not shown"
    NOT_RUN = "not run here"
    """A cell that the claim needs is missing."""


Group = tuple[str, str]
"""Dataset and model."""

Cells = Mapping[Group, Mapping[str, Mapping[str, Measure]]]
"""Group -> loss -> metric without a prefix -> mean over the seeds with its spread."""


@dataclass(frozen=True)
class Test:
    """One test of a claim.

    Attributes:
        metric: Metric of the test, of a correlation both.
        subject: The loss that the test is about, and its opponent if there is one.
        difference: Measured difference, mean or correlation, in the metric's unit.
        measures: The kind of ``difference``: ``difference``, ``mean`` or ``correlation``.
        p: One-sided p-value with which the part of the claim holds.
        p_against: One-sided p-value with which its opposite holds.
    """

    group: Group
    metric: str
    subject: str
    difference: float
    p: float
    p_against: float
    measures: str = "difference"


@dataclass(frozen=True)
class Missing:
    """A number that a claim needs and no cell has.

    Attributes:
        group: Dataset and model; as the claim names them where there is no such group at all.
        loss: The loss with its setting; empty where the group is missing.
        metric: The metric; empty where the group is missing.
        why: ``lacks``, or ``has a single run of``, which has no spread.
    """

    group: Group
    loss: str = ""
    metric: str = ""
    why: str = "lacks"


@dataclass(frozen=True)
class ClaimResult:
    """The answer to a claim with its tests.

    Attributes:
        tests: Its tests; empty where a cell is missing.
        p: The largest p-value of its tests, Holm-adjusted over the claims of the page; ``None`` without tests.
        p_against: The smallest p-value of an opposite, corrected in the same way; ``None`` without tests.
    """

    claim: Claim
    outcome: Outcome
    tests: tuple[Test, ...] = ()
    p: float | None = None
    p_against: float | None = None
    missing: tuple[Missing, ...] = ()

    @property
    def deciding(self) -> Test | None:
        """The test that decides: of a contradicted claim the one most against it, else the weakest; or ``None``."""
        if self.outcome is Outcome.CONTRADICTED:
            return min(self.tests, key=lambda test: test.p_against)
        return max(self.tests, key=lambda test: test.p, default=None)

    @property
    def p_of_answer(self) -> float | None:
        """The corrected p-value of the answer: of a contradicted claim that of its opposite."""
        return self.p_against if self.outcome is Outcome.CONTRADICTED else self.p


def decide_claims(claims: Claims, cells: Cells) -> list[ClaimResult]:
    """Return the answer to each claim of a page over the cells that were run."""
    made = {claim.id: _tests_of(claim, cells) for claim in claims.claims}
    whole = {name: tests for name, (tests, missing) in made.items() if not missing}
    largest = holm([max(test.p for test in tests) for tests in whole.values()])
    against = holm([min(1.0, min(test.p_against for test in tests) * len(tests)) for tests in whole.values()])
    corrected = dict(zip(whole, zip(largest, against, strict=True), strict=True))
    results = []
    for claim in claims.claims:
        tests, missing = made[claim.id]
        if missing:
            results.append(ClaimResult(claim, Outcome.NOT_RUN, missing=tuple(missing)))
            continue
        p, p_against = corrected[claim.id]
        opposite = Outcome.CONTRADICTED if p_against <= claims.level else Outcome.NOT_SHOWN
        outcome = Outcome.HOLDS if p <= claims.level else opposite
        results.append(ClaimResult(claim, outcome, tuple(tests), p, p_against))
    return results


def _tests_of(claim: Claim, cells: Cells) -> tuple[list[Test], list[Missing]]:
    tests: list[Test] = []
    missing: dict[Missing, None] = {}
    for part in claim.holds_if:
        groups = [group for group in cells if _selects(part, group)]
        lacking = list(_lacking(part, groups, cells))
        missing |= dict.fromkeys(lacking)
        if not lacking:
            tests += _tests_of_part(part, groups, cells)
    return tests, list(missing)


def _selects(part: Part, group: Group) -> bool:
    dataset, model = group
    known = {dataset, study_dataset(dataset)}
    return (not part.datasets or bool(known & set(part.datasets))) and (not part.models or model in part.models)


def _lacking(part: Part, groups: Sequence[Group], cells: Cells) -> Iterator[Missing]:
    if not groups:
        yield Missing((" or ".join(part.datasets), " or ".join(part.models)))
    for group in groups:
        for loss in part.all_losses:
            measures = cells[group].get(loss, {})
            for metric in (*part.metrics, *part.and_metrics):
                if metric not in measures:
                    yield Missing(group, loss, metric)
                elif measures[metric].seeds < FEWEST_SEEDS:
                    yield Missing(group, loss, metric, "has a single run of")


def _tests_of_part(part: Part, groups: Sequence[Group], cells: Cells) -> list[Test]:
    if part.kind == "opposed":
        return [_opposed(part, groups, cells)]
    tests: list[Test] = []
    for group in groups:
        measures = cells[group]
        for place, metric in enumerate(part.metrics):
            if part.kind in ("above", "below"):
                tests += _tests_of_pair(part, group, metric, part.loss, (measures[part.loss][metric],))
                continue
            first, others, compared, named = part.loss, part.against, metric, metric
            if part.kind == "same_best":
                first = max(part.losses, key=lambda loss: measures[loss][metric].mean)
                others = tuple(loss for loss in part.losses if loss != first)
                compared = part.and_metrics[place]
                named = f"{metric}, {compared}"
            for other in others:
                pair = measures[first][compared], measures[other][compared]
                tests += _tests_of_pair(part, group, named, f"{first} - {other}", pair)
    return tests


def _tests_of_pair(part: Part, group: Group, metric: str, subject: str, pair: tuple[Measure, ...]) -> Iterator[Test]:
    """Yield the tests of a part on the difference of two means, or on a single mean."""
    # A bound that is compared with a mean has no error.
    first, second = pair if len(pair) > 1 else (*pair, Measure(0.0, 0.0, 2))
    test = difference_of(first, second)
    gap, error, freedom = test.difference, math.sqrt(test.total), test.freedom if test.total else 1.0
    measures = "difference" if len(pair) > 1 else "mean"
    # The means of equal values over 4 and over 5 seeds differ by rounding, and so does each value from its mean.
    rounding = SAME * max(1.0, abs(first.mean), abs(second.mean))
    error = error if error > rounding else 0.0
    for bound, sign in _bounds(part):
        distance = sign * (gap - bound) if abs(gap - bound) > rounding else 0.0
        p, against = _one_sided(distance, error, freedom), _one_sided(-distance, error, freedom)
        # The best has the highest mean, and nobody is above by the margin.
        p = 1.0 if part.kind == "best" and gap < 0 else p
        yield Test(group, metric, subject, gap, p, against, measures)


def _bounds(part: Part) -> list[tuple[float, int]]:
    """Return the bounds of the true difference or mean; it has to be above a bound with sign 1, below one with -1."""
    margin, than = part.margin or 0.0, part.than or 0.0
    return {
        "beats": [(part.by, 1)],
        "best": [(-margin, 1)],
        "not_better": [(margin, -1)],
        "alike": [(-margin, 1), (margin, -1)],
        "above": [(than, 1)],
        "below": [(than, -1)],
        "same_best": [(-margin, 1)],
    }[part.kind]


def _opposed(part: Part, groups: Sequence[Group], cells: Cells) -> Test:
    """Return the permutation test of the mean rank correlation over groups and pairs of metrics."""
    pairs = list(zip(part.metrics, part.and_metrics, strict=True))
    count = len(part.losses)
    # Entry (i, j) of a group's table is the share of the correlation that loss i of the first order and loss j of the
    # second have. The metrics of a group are relabelled together, because they are measured on the same trainings.
    tables = np.zeros((len(groups), count, count))
    for table, group in zip(tables, groups, strict=True):
        for pair in pairs:
            first, second = (_ranks([cells[group][loss][metric].mean for loss in part.losses]) for metric in pair)
            table += np.outer(first, second) / (len(groups) * len(pairs))
    shuffled = tables.ravel()[_relabellings(len(groups), count)].sum(1)
    correlation = float(np.trace(tables, axis1=1, axis2=2).sum())
    below = float(((shuffled <= correlation + 1e-12).sum() + 1) / (RELABELLINGS + 1))
    above = float(((shuffled >= correlation - 1e-12).sum() + 1) / (RELABELLINGS + 1))
    subject = f"{len(groups) * len(pairs)} orders of {count} losses"
    metric = f"{part.metrics[0]}, {part.and_metrics[0]}"
    return Test(("all", "all"), metric, subject, correlation, below, above, "correlation")


@lru_cache(maxsize=4)
def _relabellings(groups: int, count: int) -> np.ndarray:
    """Return the entries of the groups' tables that random relabellings of the losses add up.

    Returns:
        Shape (relabellings, groups x count), intp.
    """
    blocks = np.broadcast_to(np.arange(count), (RELABELLINGS, groups, count))
    orders = np.random.default_rng(0).permuted(blocks, axis=2)
    rows = np.arange(groups)[:, None] * count + np.arange(count)
    return np.asarray((rows * count + orders).reshape(RELABELLINGS, groups * count), dtype=np.intp)


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Return the ranks around their mean, ties shared, scaled to the length 1; zeros where all values are equal."""
    column = np.asarray(values, dtype=np.float64)
    signs = np.sign(column[:, None] - column).sum(1)
    length = math.sqrt(float(signs @ signs))
    return np.asarray(signs / length if length else signs)


def _one_sided(distance: float, error: float, freedom: float) -> float:
    """Return P(T >= distance / error); 1/2 where there is neither."""
    return float(one_sided(distance, error, freedom)) if distance or error else 0.5
