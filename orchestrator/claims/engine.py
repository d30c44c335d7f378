"""Does a claim hold? Every part of its form is a question about cells, and all have to be answered so.

A part compares pairs of candidates (``results.comparison``): a loss with another, or with a number. One question
(``results.question``) asks whether the true difference is above a bound, and one whether it is below. There is a pair
for each group (dataset and model), metric and opponent that the part names. Seeds and images vary in a test where both
candidates have values of images in the metric. Else the seeds alone vary: in counts of batches and in papers' tables.

A claim about many cells is an intersection. Its p-value is the largest of its tests', which errs at most as often as
the level says, however many tests there are [Berger1982]. Similarity is two one-sided tests against a margin, not the
absence of a significant difference [Schuirmann1987]. Claims about orders of losses are in ``orders``. The p-values of
all claims of a page are Holm-adjusted [Holm1979]. A claim is contradicted where one of its tests is significant the
other way. This is corrected for the number of its tests and, by Holm, for the claims of the page.

A p-value counts up to ``SHARE`` of ``Claims.level``, because Student's tests of few seeds with unlike spreads err more
often than they say. So of pages without a true claim, at most ``Claims.level`` call any claim true
(``python -m tests.benchmarks claims``).

References:
    [Berger1982] Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24, 295-300.
    [Schuirmann1987] Schuirmann, A comparison of the two one-sided tests procedure and the power approach,
        J. Pharmacokinetics and Biopharmaceutics 15, 657-680.
    [Holm1979] Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statistics 6, 65-70.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from orchestrator.claims.claims import Claim, Claims, Part
from orchestrator.claims.orders import Shown, opposed, same_best
from orchestrator.reference.published import study_dataset
from orchestrator.results.comparison import Comparison, compare, scatters
from orchestrator.results.question import Direction, Pair, Question
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import Measure, holm

SHARE = 0.7
"""Share of the level up to which a p-value counts."""


class Outcome(StrEnum):
    """The answer to a claim."""

    HOLDS = "holds"
    CONTRADICTED = "contradicted"
    NOT_SHOWN = "not shown"
    NOT_RUN = "not run here"
    """A cell that the claim needs is missing."""


Group = tuple[str, str]
"""Dataset and model."""

Groups = Mapping[Group, Mapping[str, Runs]]
"""Group -> loss, as claims name it -> its runs, by metrics without a prefix."""


@dataclass(frozen=True)
class Test:
    """One test of a claim.

    Attributes:
        metric: Metric of the test, of an order both.
        subject: The loss that the test is about, and its opponent if there is one.
        difference: Measured difference, mean or slope, in the metric's unit; of several metrics in the last one.
        p: One-sided p-value with which the part of the claim holds.
        p_against: One-sided p-value with which its opposite holds.
        measures: The kind of ``difference``: ``difference``, ``mean`` or ``slope``, the change a rank.
        varies: What varies in the test, see ``Comparison.varies``.
    """

    group: Group
    metric: str
    subject: str
    difference: float
    p: float
    p_against: float
    measures: str = "difference"
    varies: str = "seeds"


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


def decide_claims(claims: Claims, groups: Groups) -> list[ClaimResult]:
    """Return the answer to each claim of a page over the cells that were run."""
    level = SHARE * claims.level
    made = {claim.id: _tests_of(claim, groups, level) for claim in claims.claims}
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
        opposite = Outcome.CONTRADICTED if p_against <= level else Outcome.NOT_SHOWN
        outcome = Outcome.HOLDS if p <= level else opposite
        results.append(ClaimResult(claim, outcome, tuple(tests), p, p_against))
    return results


def _tests_of(claim: Claim, groups: Groups, level: float) -> tuple[list[Test], list[Missing]]:
    tests: list[Test] = []
    missing: dict[Missing, None] = {}
    for part in claim.holds_if:
        selected = {group: losses for group, losses in groups.items() if _selects(part, group)}
        lacking = list(_lacking(part, selected))
        missing |= dict.fromkeys(lacking)
        if not lacking:
            tests += _tests_of_part(part, selected, level)
    return tests, list(missing)


def _selects(part: Part, group: Group) -> bool:
    dataset, model = group
    known = {dataset, study_dataset(dataset)}
    return (not part.datasets or bool(known & set(part.datasets))) and (not part.models or model in part.models)


def _lacking(part: Part, groups: Groups) -> Iterator[Missing]:
    if not groups:
        yield Missing((" or ".join(part.datasets), " or ".join(part.models)))
    for group, losses in groups.items():
        for loss in part.all_losses:
            for metric in (*part.metrics, *part.and_metrics):
                if loss not in losses or not losses[loss].has(metric):
                    yield Missing(group, loss, metric)
                elif losses[loss].measure(metric).sample_std is None:
                    yield Missing(group, loss, metric, "has a single run of")


def _tests_of_part(part: Part, groups: Groups, level: float) -> list[Test]:
    if part.kind == "opposed":
        return [_opposed(part, groups, metric, other) for metric, other in _metric_pairs(part)]
    tests: list[Test] = []
    for group, losses in groups.items():
        if part.kind == "same_best":
            tests += [_same_best(part, group, losses, metric, other) for metric, other in _metric_pairs(part)]
            continue
        first = losses[part.loss]
        for metric in part.metrics:
            if part.kind in ("above", "below"):
                tests += _ask(part, group, level, [_settled(first, _number(0.0, first, metric), metric)])
            else:
                others = [losses[other] for other in part.against]
                tests += _ask(part, group, level, [_settled(first, other, metric) for other in others])
    return tests


def _metric_pairs(part: Part) -> Iterator[tuple[str, str]]:
    return zip(part.metrics, part.and_metrics, strict=True)


def _ask(part: Part, group: Group, level: float, comparisons: Sequence[Comparison]) -> Iterator[Test]:
    """Yield the tests of a part on pairs: each bound is asked for, and against."""
    for bound, holds, fails in _bounds(part):
        of, against = (Question(level, direction=way, bound=bound).ask(comparisons) for way in (holds, fails))
        for pair, opposite in zip(of, against, strict=True):
            # The best has the highest mean, and nobody is above by the margin.
            p = 1.0 if part.kind == "best" and pair.difference < 0 else _p(pair, holds)
            subject, measures = f"{pair.first} - {pair.second}", "difference"
            if part.kind in ("above", "below"):
                subject, measures = pair.first, "mean"
            compared = pair.comparison
            p_against = _p(opposite, fails)
            yield Test(group, compared.metric, subject, pair.difference, p, p_against, measures, compared.varies)


def _p(pair: Pair, way: Direction) -> float:
    """Return the p-value of a pair; of an exact difference whether it is on this side."""
    if pair.p is not None:
        return pair.p
    return float(pair.verdict != {Direction.ABOVE: "better", Direction.BELOW: "worse"}[way])


def _bounds(part: Part) -> list[tuple[float, Direction, Direction]]:
    """Return the bounds of the true difference or mean, the side on which it has to be, and the other side."""
    margin, than = part.margin or 0.0, part.than or 0.0
    above, below = (Direction.ABOVE, Direction.BELOW), (Direction.BELOW, Direction.ABOVE)
    bounds = {
        "beats": [(part.by, above)],
        "best": [(-margin, above)],
        "not_better": [(margin, below)],
        "alike": [(-margin, above), (margin, below)],
        "above": [(than, above)],
        "below": [(than, below)],
    }[part.kind]
    return [(bound, *sides) for bound, sides in bounds]


def _settled(first: Runs, second: Runs, metric: str) -> Comparison:
    """Compare two candidates over seeds and images, as far as both have them.

    Where all seeds of each candidate have one value, as counts at an end of their range have, the difference is exact.
    """
    compared = compare(first, second, metric, over_images=True)
    is_exact = compared.test is None and not any(scatters(side.measure(metric)) for side in (first, second))
    return replace(compared, is_exact=True) if is_exact else compared


def _number(value: float, like: Runs, metric: str) -> Runs:
    """Return a number as a candidate whose runs and images all have it, to compare another with it."""
    if not like.values:
        return Runs("", means={metric: Measure(value, 0.0, like.measure(metric).seeds)})
    images = {run: np.full_like(values, value) for run, values in like.images.get(metric, {}).items()}
    values = {run: {metric: value} for run in like.values}
    return Runs("", values, images={metric: images} if images else {}, is_repeated=like.is_repeated)


def _same_best(part: Part, group: Group, losses: Mapping[str, Runs], metric: str, other: str) -> Test:
    shown = same_best([losses[loss] for loss in part.losses], metric, other, part.margin or 0.0, _settled)
    compared = shown.compared
    assert compared is not None
    # The last metric is that of the difference.
    named = f"{metric}, {other}" if compared.metric == other else f"{other}, {metric}"
    subject = f"{compared.first} - {compared.second}"
    return Test(group, named, subject, shown.value, shown.p, shown.p_against, varies=compared.varies)


def _opposed(part: Part, groups: Groups, metric: str, other: str) -> Test:
    sides = [[losses[loss] for loss in part.losses] for losses in groups.values()]
    shown: Shown = opposed(sides, metric, other, _settled)
    group = next(iter(groups)) if len(groups) == 1 else ("all", "all")
    subject = f"{len(groups)} orders of {len(part.losses)} losses"
    varies = {_settled(losses[0], losses[1], other).varies for losses in sides}
    said = varies.pop() if len(varies) == 1 else "seeds"
    return Test(group, f"{metric}, {other}", subject, shown.value, shown.p, shown.p_against, "slope", said)
