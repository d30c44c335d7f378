"""Tests of a dataset's winner against its opponents, with p-values corrected for the choice of the winner.

Where possible, each comparison has two tests: on this test set, where only seeds vary (Welch's test of the runs), and
on new images of this kind, where seeds and images vary (``crossed``). ``Rules.over_images`` chooses which test decides.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from orchestrator.results.candidates import Candidate, Comparison, OverImages, Verdict
from orchestrator.results.crossed import CrossedTest, crossed_test
from orchestrator.results.metric_ranges import range_of
from orchestrator.results.statistics import (
    Interval,
    Sample,
    best_of_p,
    has_spread,
    hedges_g,
    holm,
    paired_p,
    welch_test,
)

LEVEL = 0.04
"""A corrected p-value up to this level counts as a difference; ``verdict`` states the resulting error rates."""


@dataclass(frozen=True)
class Rules:
    """How a verdict is found.

    Attributes:
        metric: Metric that decides.
        selection: Metric that chose the winner.
        baseline: Label or loss of the baseline; ``None`` without a baseline.
        level: A corrected p-value up to this level counts as a difference.
        seed: Seed of the bootstrap of a candidate's mean.
        resamples: Number of resamples of this bootstrap.
        over_images: Whether seeds and images decide, or seeds alone.
        smallest_difference: The smallest lead that matters, in the metric's unit, >= 0.
    """

    metric: str
    selection: str
    baseline: str | None
    level: float
    seed: int
    resamples: int
    over_images: bool
    smallest_difference: float


@dataclass(frozen=True)
class _Tested:
    """A test that could be made, with its p-value before and after the corrections."""

    difference: float
    interval: Interval
    p: float
    corrected: float


def compare(ranked: Sequence[Candidate], rules: Rules) -> tuple[Comparison, ...]:
    """Compare the winner with its opponents; p-values are corrected for their number and the choice of the winner.

    Args:
        ranked: Candidates, the winner first; with values of images for every seed where ``rules.over_images`` is set.
        rules: Rules of the verdict.
    """
    opponents = find_opponents(ranked, rules.baseline)
    chances = [_could_have_won(ranked, roles) for _, roles in opponents]
    on_test_set = _tests([_welch(ranked[0], other, rules.metric) for other, _ in opponents], chances)
    made = [_crossed(ranked[0], other) if rules.over_images else None for other, _ in opponents]
    over_images = _tests([_p_of(test) for test in made], chances)
    comparisons = []
    for (other, roles), seeds, test, images in zip(opponents, on_test_set, made, over_images, strict=True):
        comparison = _on_test_set((ranked[0], other), roles, rules, seeds)
        if test is not None and images is not None:
            comparison = _over_images(comparison, test, images.corrected, rules)
        comparisons.append(comparison)
    return tuple(comparisons)


def _tests(tests: Sequence[tuple[float, Interval, float] | None], chances: Sequence[int]) -> list[_Tested | None]:
    """Correct the p-values of the tests that could be made."""
    after_holm: Iterator[float] = iter(holm([test[2] for test in tests if test]))
    return [
        None if test is None else _Tested(*test, _corrected(test[0], test[2], next(after_holm), chance))
        for test, chance in zip(tests, chances, strict=True)
    ]


def _welch(winner: Candidate, other: Candidate, metric: str) -> tuple[float, Interval, float] | None:
    exact = (not winner.has_seeds, not other.has_seeds)
    test = welch_test(winner.sample(metric), other.sample(metric), exact)
    return None if test is None else (test.difference, test.interval, test.p)


def _crossed(winner: Candidate, other: Candidate) -> CrossedTest | None:
    """Return the test over seeds and images; ``None`` where a candidate has one run, which has no spread over seeds."""
    if any(one.has_seeds and len(one.values) < 2 for one in (winner, other)):
        return None
    return crossed_test(winner.image_runs(), other.image_runs())


def _p_of(test: CrossedTest | None) -> tuple[float, Interval, float] | None:
    return None if test is None else (test.difference, test.interval, test.p)


def _could_have_won(ranked: Sequence[Candidate], roles: Collection[str]) -> int:
    """Return from how many candidates the winner was chosen, as the correction of a comparison counts them."""
    if "baseline" in roles:
        return len(ranked) - 1
    if "rival" in roles:
        winner = ranked[0]
        return sum((one.model, one.loss) == (winner.model, winner.loss) for one in ranked)
    return 1


def _corrected(difference: float, p: float, after_holm: float, candidates: int) -> float:
    """Return the p-value that decides: for a lead, at least the probability that the luckiest candidate leads so."""
    return max(after_holm, best_of_p(p, candidates)) if difference > 0 else after_holm


def find_opponents(ranked: Sequence[Candidate], baseline: str | None) -> list[tuple[Candidate, tuple[str, ...]]]:
    """Return runner-up, rival and baseline with their roles; a candidate may have several roles, the winner has none.

    Where the runner-up has the winner's model and loss, the rival is the best candidate of another model or loss.
    """
    holders = {
        "runner_up": ranked[1] if len(ranked) > 1 else None,
        "rival": _rival(ranked),
        "baseline": find_candidate(ranked, baseline),
    }
    named = {role: one for role, one in holders.items() if one is not None and one is not ranked[0]}
    others = {one.label: one for one in named.values()}
    return [(other, tuple(role for role in named if named[role] is other)) for other in others.values()]


def find_candidate(ranked: Sequence[Candidate], baseline: str | None) -> Candidate | None:
    """Return the candidate with a label, or else the best candidate of a loss."""
    by_loss = next((one for one in ranked if one.loss == baseline), None)
    return next((one for one in ranked if one.label == baseline), by_loss)


def possible(interval: Interval | None, low: float, high: float) -> Interval | None:
    """Return the part of an interval that lies in a range; ``None`` without an interval."""
    return None if interval is None else interval.within(low, high)


def _rival(ranked: Sequence[Candidate]) -> Candidate | None:
    kinds = [(one.model, one.loss) for one in ranked]
    if len(kinds) < 2 or kinds[1] != kinds[0]:
        return None
    return next((one for one, kind in zip(ranked, kinds, strict=True) if kind != kinds[0]), None)


def _on_test_set(
    pair: tuple[Candidate, Candidate], roles: tuple[str, ...], rules: Rules, tested: _Tested | None
) -> Comparison:
    """Return the comparison on this test set, over the seeds alone."""
    (winner, other), metric = pair, rules.metric
    first, second = winner.sample(metric), other.sample(metric)
    difference = float(first.mean() - second.mean())
    seeds = sorted(set(winner.values) & set(other.values))
    verdict, reason = (
        (_decide(difference, tested.corrected, rules.level), "") if tested else _without_test(pair, first, second)
    )
    return Comparison(
        label=other.label,
        roles=roles,
        difference=difference,
        interval=possible(tested.interval, *_range(metric)) if tested else None,
        welch_p=tested.p if tested else None,
        holm_p=tested.corrected if tested else None,
        paired_p=paired_p(np.array([winner.values[s][metric] - other.values[s][metric] for s in seeds])),
        pairs=len(seeds),
        effect=hedges_g(first, second),
        verdict=verdict,
        reason=reason,
    )


def _over_images(comparison: Comparison, test: CrossedTest, corrected: float, rules: Rules) -> Comparison:
    """Return the comparison that seeds and images decide; ``over_images`` keeps the verdict of the seeds alone."""
    found = OverImages(
        interval=test.interval.within(*_range(rules.metric)),
        p=test.p,
        probability=test.probability_beyond(0.0),
        smallest_difference=rules.smallest_difference,
        probability_of_smallest=test.probability_beyond(rules.smallest_difference),
        on_this_test_set=comparison.verdict,
        on_this_test_set_p=comparison.holm_p,
        error=test.error,
        share_of_images=test.image_variance / test.error**2,
        share_of_seeds=test.seed_variance / test.error**2,
        told_from=test.reach(),
        told_with_twice_the_seeds=test.reach(seeds=2),
        told_on_twice_the_images=test.reach(images=2),
    )
    decided = _decide(test.difference, corrected, rules.level)
    return replace(comparison, holm_p=corrected, verdict=decided, reason="", over_images=found)


def _range(metric: str) -> tuple[float, float]:
    """Return the lowest and the highest difference of two values of a metric."""
    low, high = range_of(metric)
    return low - high, high - low


def _decide(difference: float, p: float, level: float) -> Verdict:
    if p > level:
        return Verdict.TIE
    return Verdict.BETTER if difference > 0 else Verdict.WORSE


def _without_test(pair: tuple[Candidate, Candidate], first: Sample, second: Sample) -> tuple[Verdict, str]:
    """Return the verdict on two samples that can't be tested, and why; equal samples without spread are a tie."""
    if not any(one.has_seeds for one in pair):
        return _as_it_is(float(first.mean() - second.mean()))
    if any(one.has_seeds and len(one.values) < 2 for one in pair):
        return Verdict.UNTESTED, "one seed has no spread to test against; confirm with at least 3"
    if not has_spread(np.concatenate([first, second])):
        return Verdict.TIE, "all seeds of both gave the same value"
    return Verdict.UNTESTED, "the seeds made no difference to either, so there is no spread to test against"


def _as_it_is(difference: float) -> tuple[Verdict, str]:
    """Return the verdict on two candidates without seeds, whose values on this test set cannot vary."""
    if abs(difference) < 1e-9:
        return Verdict.TIE, "neither has seeds, and both have the same value"
    return (Verdict.BETTER if difference > 0 else Verdict.WORSE), "neither has seeds, so the values are what they are"
