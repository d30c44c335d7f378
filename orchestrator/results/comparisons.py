"""Tests of a dataset's winner against every other candidate, with p-values corrected for the choice of the winner.

The winner is better where it leads every other candidate at a p-value up to the level (an intersection-union test
[Berger1982]): a winner that has an equal must beat this equal, which it does at most as often as the level says, so no
correction for the number of candidates is needed. Where it does not beat them all, the comparisons with runner-up,
rival and baseline are corrected by Holm's procedure, and a lead for the choice of the winner: any other candidate could
have been the winner over the baseline, and any of the winner's loss over the rival (``best_of_p``). The candidate that
was missed by most is shown beside them.

Where possible, each comparison has two tests: on this test set, where only seeds vary (Welch's test of the runs), and
on new images of this kind, where seeds and images vary (``crossed``). ``Rules.over_images`` chooses which test decides.

References:
    [Berger1982] Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24, 295-300.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from orchestrator.results.candidates import Candidate, Comparison, Detectable, OverImages, Verdict
from orchestrator.results.crossed import CrossedTest, crossed_test, own_parts
from orchestrator.results.metric_ranges import range_of
from orchestrator.results.statistics import (
    Interval,
    Sample,
    WelchTest,
    best_of_p,
    has_spread,
    hedges_g,
    holm,
    lead_p,
    needed_seeds,
    paired_p,
    welch_test,
)

LEVEL = 0.035
"""A corrected p-value up to this level counts as a difference, in a new fixed design; ``verdict`` says why so low."""


@dataclass(frozen=True)
class Rules:
    """How a verdict is found.

    Attributes:
        selection: Metric that chose the winner.
        baseline: Label or loss of the baseline; ``None`` without a baseline.
        level: A corrected p-value up to this level counts as a difference.
        seed: Seed of the bootstrap of a candidate's mean.
        smallest_difference: The smallest lead that matters, in the metric's unit, >= 0.
        everyone: Whether the winner must beat every candidate, or runner-up, rival and baseline alone.
    """

    metric: str
    selection: str
    baseline: str | None
    level: float
    seed: int
    resamples: int
    over_images: bool
    smallest_difference: float
    everyone: bool


_Tests = Mapping[str, WelchTest | CrossedTest | None]
"""Label of another candidate -> its test; ``None`` where no test could be made."""


def compare(ranked: Sequence[Candidate], rules: Rules) -> tuple[Comparison, ...]:
    """Compare the winner with every other candidate that can be tested.

    Runner-up, rival and baseline have roles, and so has the closest of the other candidates unless all are beaten; the
    p-values of the others are not corrected. Where ``rules.everyone`` is not set, only candidates with a role are
    compared.

    Args:
        ranked: Candidates, the winner first; with values of images for every seed where ``rules.over_images`` is set.
        rules: Rules of the verdict.

    Returns:
        The comparisons with roles, runner-up first, then the others in the order of the ranking.
    """
    opponents = find_opponents(ranked, rules.baseline)
    named = [other.label for other, _ in opponents]
    others = [one for one in ranked[1:] if one.label in named or (rules.everyone and _is_testable(one))]
    metric = rules.metric
    on_test_set = {
        one.label: welch_test(
            ranked[0].sample(metric), one.sample(metric), (not ranked[0].has_seeds, not one.has_seeds)
        )
        for one in others
    }
    crossed = _crossed_tests(ranked[0], others) if rules.over_images else dict.fromkeys(on_test_set)
    decisive = {label: crossed[label] or on_test_set[label] for label in crossed}
    leads = {one.label: _lead_p(ranked[0], one, decisive[one.label], metric) for one in others}
    closest = max(others, key=lambda one: leads[one.label], default=None)
    if closest is not None and leads[closest.label] > rules.level and closest.label not in named:
        opponents.append((closest, ("closest",)))
    chances = {other.label: _could_have_won(ranked, roles) for other, roles in opponents}
    p_of_seeds, p_over_images = (_corrected(ranked, tests, chances, rules) for tests in (on_test_set, crossed))
    comparisons = []
    for other, roles in [*opponents, *((one, ()) for one in others if one.label not in chances)]:
        label = other.label
        comparison = _on_test_set((ranked[0], other), roles, rules, on_test_set[label], p_of_seeds.get(label))
        if (test := crossed[label]) is not None:
            comparison = _over_images(comparison, test, p_over_images[label], rules)
        comparisons.append(_with_power(comparison, decisive[label], rules.level))
    return tuple(comparisons)


def _is_testable(other: Candidate) -> bool:
    """Whether the winner must beat a candidate; of a candidate that lost seeds and cannot win, one seed may be left."""
    return not (other.has_seeds and other.missing and len(other.values) < 2)


def _lead_p(winner: Candidate, other: Candidate, test: WelchTest | CrossedTest | None, metric: str) -> float:
    """Return the p-value with which the winner leads; 0 and 1 where a comparison needs no test or cannot have one."""
    if test is not None:
        return lead_p(test.difference, test.p)
    verdict, _ = _without_test((winner, other), winner.sample(metric), other.sample(metric))
    return 0.0 if verdict is Verdict.BETTER else 1.0


def _corrected(
    ranked: Sequence[Candidate], tests: _Tests, chances: Mapping[str, int], rules: Rules
) -> dict[str, float]:
    """Return the corrected p-value of each test that could be made.

    Args:
        ranked: Candidates, the winner first.
        tests: Tests of the winner against every other candidate.
        chances: Label of each shown opponent -> from how many candidates the winner was chosen; 0 of the closest.
        rules: Rules of the verdict.
    """
    made = {label: test for label, test in tests.items() if test is not None}
    shown = [label for label in chances if label in made and chances[label]]
    after_holm = dict(zip(shown, holm([made[label].p for label in shown]), strict=True))
    by_label = {one.label: one for one in ranked}
    leads = [_lead_p(ranked[0], by_label[label], test, rules.metric) for label, test in tests.items()]
    largest = max(leads, default=1.0) if rules.everyone else 1.0
    corrected = {label: test.p for label, test in made.items()}
    for label, test in made.items():
        if label in after_holm:
            # A lead counts with at least the probability that the luckiest candidate leads as far.
            lucky = best_of_p(test.p, chances[label]) if test.difference > 0 else 0.0
            p = max(after_holm[label], lucky)
            corrected[label] = largest if largest <= rules.level < p else p
        elif test.difference < 0:
            # Nobody named this candidate beforehand: that it is better than the winner pays for every other one.
            corrected[label] = min(1.0, test.p * (len(ranked) - 1))
    return corrected


def _crossed_tests(winner: Candidate, others: Sequence[Candidate]) -> dict[str, CrossedTest | None]:
    """Return the tests over seeds and images; ``None`` where a candidate has one run, without a spread."""
    if winner.has_seeds and len(winner.values) < 2:
        return dict.fromkeys(other.label for other in others)
    runs = winner.image_runs()
    parts = own_parts(runs)
    return {
        other.label: None
        if other.has_seeds and len(other.values) < 2
        else crossed_test(runs, other.image_runs(), parts)
        for other in others
    }


def _could_have_won(ranked: Sequence[Candidate], roles: Collection[str]) -> int:
    """Return from how many candidates the winner was chosen, as the correction of a comparison counts them.

    The closest of the others is 0: it is compared at its own p-value.
    """
    if "closest" in roles:
        return 0
    if "baseline" in roles:
        return len(ranked) - 1
    if "rival" in roles:
        winner = ranked[0]
        return sum((one.model, one.loss) == (winner.model, winner.loss) for one in ranked)
    return 1


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
    pair: tuple[Candidate, Candidate], roles: tuple[str, ...], rules: Rules, test: WelchTest | None, p: float | None
) -> Comparison:
    """Return the comparison on this test set, over the seeds alone."""
    (winner, other), metric = pair, rules.metric
    first, second = winner.sample(metric), other.sample(metric)
    difference = float(first.mean() - second.mean())
    seeds = sorted(set(winner.values) & set(other.values))
    verdict, reason = _without_test(pair, first, second) if p is None else (_decide(difference, p, rules.level), "")
    return Comparison(
        label=other.label,
        roles=roles,
        difference=difference,
        interval=possible(test.interval, *_range(metric)) if test else None,
        welch_p=test.p if test else None,
        holm_p=p,
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
        share_of_images=test.variances.image_variance / test.error**2,
        share_of_seeds=test.variances.seed_variance / test.error**2,
    )
    decided = _decide(test.difference, corrected, rules.level)
    return replace(comparison, holm_p=corrected, verdict=decided, reason="", over_images=found)


def _with_power(comparison: Comparison, test: WelchTest | CrossedTest | None, level: float) -> Comparison:
    """Return a comparison with the differences that its test finds; a winner beats each candidate at the level."""
    if test is None:
        return comparison
    parts, ahead = test.variances, test.difference > 0
    found = Detectable(
        smallest=parts.detectable(level),
        with_twice_the_seeds=parts.resized(seeds=2).detectable(level),
        on_twice_the_images=parts.resized(images=2).detectable(level) if parts.images else None,
        seeds=needed_seeds(test.difference, parts, level) if ahead else None,
    )
    return replace(comparison, detectable=found)


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
        return Verdict.UNTESTED, "a test needs at least two seeds of each candidate"
    if not has_spread(np.concatenate([first, second])):
        return Verdict.TIE, "all seeds of both candidates have the same value"
    return Verdict.UNTESTED, "no candidate varies over its seeds, so there is no spread to test against"


def _as_it_is(difference: float) -> tuple[Verdict, str]:
    """Return the verdict on two candidates without seeds, whose values on this test set cannot vary."""
    if abs(difference) < 1e-9:
        return Verdict.TIE, "neither candidate has seeds, and both have the same value"
    better = Verdict.BETTER if difference > 0 else Verdict.WORSE
    return better, "neither candidate has seeds, so the difference is exact on these test images"
