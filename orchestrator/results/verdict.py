"""Which candidate won on each dataset, and whether it is better or only luckier.

The validation metric alone selects the winner; the test metric decides the verdict. Welch's test decides, because it
keeps 2(n - 1) degrees of freedom, unlike the paired test. Runs of different losses with one seed are hardly correlated;
where they are, Welch's test errs towards *tie*.

The winner is selected for its high value (the winner's curse), and the test and validation values of a run are
correlated. The winner is *better* only where it beats every other candidate by a two-sided test at the level, with the
seeds that they have. This is an intersection-union test [Berger1982]. A winner that has an equal must beat this equal,
whatever the number of candidates. The gap between the best two is least reliable when there are only two [Gutmann1987],
and so the rate of two candidates bounds that of many. The level is 3.5 %, so that at most 4 % of studies are wrong.
With five seeds of fourfold spread Welch's test at 3.5 % errs in 3.9 %, with three seeds in 4.1 %, of sixfold spread in
4.4 %. Fixed designs of older versions keep their level of 4 %.

Where the winner does not beat them all, the comparisons with runner-up, rival and baseline are corrected by Holm's
procedure. A lead is also corrected for the choice of the winner (``best_of_p``): any other candidate could have been
the winner over the baseline, and any of the winner's loss over the rival. The candidate that was missed by most is
shown beside them. A baseline from which no candidate differs is called beaten in at most 4 % of studies.

Where possible, a comparison has two tests. On this test set, only seeds vary (Welch's test of the runs). On new images
of this kind, seeds and images vary (``crossed``). The argument ``over_images`` chooses which test decides.

How often a winner with an equal is called better, and how often a lead is found, is in
``docs/evidence/verdict-errors.md``; ``python -m tests.benchmarks race`` simulates it. A variance pooled over the
candidates is not used, although it finds more leads: where spreads differ fourfold, it is wrong in 9 to 14 % of studies
of three to five seeds.

References:
    [Berger1982] Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24, 295-300.
    [Gutmann1987] Gutmann and Maymin, Is the selected population the best?, Annals of Statistics 15, 456-461.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from orchestrator.results.candidates import Candidate, Comparison, DatasetVerdict, Verdict, verdict_at, weakest
from orchestrator.results.crossed import crossed_test
from orchestrator.results.statistics import has_spread, holm, welch_test
from trainables.errors import ConfigError

LEVEL = 0.035
"""A corrected p-value up to this level counts as a difference, in a new fixed design; above is why it is so low."""

SAME_METRIC = 1e-6
"""Relative difference up to which a mean over images and a mean over queries differ by rounding alone."""


def judge(
    candidates: Iterable[Candidate],
    *,
    metric: str = "test/rsum",
    selection: str = "val/rsum",
    baseline: str | None = None,
    level: float = LEVEL,
    over_images: bool = False,
    smallest_difference: float = 1.0,
) -> DatasetVerdict:
    """Return the winner of a dataset, and the verdict on its comparisons.

    Args:
        candidates: The candidates of one dataset, at least one, with labels of their own; the order changes nothing.
        metric: The metric that decides; equal to ``selection`` where the test split stays closed.
        selection: The metric whose highest mean over the candidates without a lost seed names the winner; of equal
            means, the first label wins.
        baseline: A label, or a loss, which means its candidate with the highest mean of ``selection``.
        level: A corrected p-value up to this level counts as a difference; below ``LEVEL`` after earlier looks at test.
        over_images: Whether seeds and images decide instead of the seeds alone. Where a candidate has no values of
            images, the seeds decide, and a warning says why.
        smallest_difference: The smallest lead that matters, in the metric's unit, >= 0; it decides nothing.

    Raises:
        ConfigError: If a seed lacks one of the two metrics.
        ValueError: If a metric is not finite, or the mean over the values of the images is not the metric.
    """
    group = list(candidates)
    for member in group:
        _check(member, metric, selection)
    ranked = _rank(group, selection)
    called_so = (candidate for candidate in ranked if baseline in (candidate.label, candidate.loss))
    compared_with = min(called_so, key=lambda candidate: candidate.label != baseline, default=None)
    lacking = [candidate.label for candidate in ranked if not candidate.images] if over_images else []
    by_images = over_images and not lacking and bool(ranked)
    several = len(ranked) > 1
    comparisons = _compare(ranked, compared_with, metric, level, over_images=by_images) if several else []
    named = [comparison for comparison in comparisons if comparison.roles]
    warnings = _missing_seeds(group)
    if lacking:
        kept = f"the ranks of {len(lacking)} of {len(ranked)} candidates were not kept"
        warnings.append(f"the verdict holds for these test images alone: {kept}")
    if baseline is not None and compared_with is None:
        warnings.append(f"the baseline {baseline} has no finished seed, so nothing was compared with it")
    decisive = weakest(named)
    verdict = Verdict.UNTESTED if decisive is None else decisive.verdict
    if ranked and ranked[0].missing and verdict is not Verdict.WORSE:
        # A winner that lost a seed, as all did, beats nobody.
        verdict = Verdict.UNTESTED
    return DatasetVerdict(
        dataset=group[0].dataset,
        metric=metric,
        selection=selection,
        verdict=verdict,
        candidates=tuple(replace(candidate, metric=metric, selection=selection) for candidate in ranked),
        comparisons=tuple(named),
        warnings=tuple(warnings),
        level=level,
        images=ranked[0].image_runs().shape[1] if by_images else None,
        baseline=None if compared_with is None else compared_with.label,
        others=tuple(comparison for comparison in comparisons if not comparison.roles),
        smallest_difference=smallest_difference,
    )


def _check(candidate: Candidate, metric: str, selection: str) -> None:
    """Refuse metrics that are missing or not finite, and values of images whose mean is not the metric."""
    for seed, metrics in candidate.values.items():
        where = f"{candidate.dataset}, {candidate.label!r}, seed {seed}"
        for name in (metric, selection):
            if name not in metrics:
                raise ConfigError(f"{where}: has no {name}; there are {', '.join(sorted(metrics))}")
        for name, value in metrics.items():
            if not np.isfinite(value):
                raise ValueError(f"{where}: {name} must be finite, got {value}")
        value = metrics[metric]
        mean = float(candidate.images[seed].mean()) if candidate.images else value
        if abs(value - mean) > SAME_METRIC * max(1.0, abs(value)):
            raise ValueError(f"{where}: {metric} is {value}, but its images have the mean {mean}")


def _rank(group: Sequence[Candidate], selection: str) -> list[Candidate]:
    """Return the candidates that have a seed: the best that lost no seed, then the others by their validation mean."""
    with_seeds = (member for member in group if member.values)
    ranked = sorted(with_seeds, key=lambda candidate: (-float(candidate.sample(selection).mean()), candidate.label))
    winner = next((candidate for candidate in ranked if not candidate.missing and not candidate.left), None)
    return ranked if winner is None else [winner, *(candidate for candidate in ranked if candidate is not winner)]


def _missing_seeds(group: Sequence[Candidate]) -> list[str]:
    """Name each candidate that has fewer seeds than it was given, or than another candidate of a fixed design has."""
    most = max((len(member.values) + len(member.missing) for member in group if member.given is None), default=0)
    sentences = []
    for member in sorted(group, key=lambda candidate: candidate.label):
        seeds = most if member.given is None else member.given
        if member.missing or (member.has_seeds and len(member.values) < seeds):
            fates = [f"{member.unit} {run} {member.missing[run]}" for run in sorted(member.missing)]
            unknown = seeds - len(member.values) - len(member.missing)
            fates += [f"{unknown} not run"] if unknown else []
            barred = f"; candidates with all {member.units} rank before it" if member.missing else ""
            barred += ", and a test needs two" if member.missing and len(member.values) < 2 else ""
            sentences.append(
                f"candidate {member.label} has {len(member.values)} of {seeds} {member.units}: "
                f"{', '.join(fates)}{barred}"
            )
    return sentences


def _compare(
    ranked: Sequence[Candidate], baseline: Candidate | None, metric: str, level: float, *, over_images: bool
) -> list[Comparison]:
    """Compare the winner, the first of several candidates, with every other candidate that can be tested.

    Runner-up, rival and baseline have roles, and so has the closest of the other candidates unless all are beaten. The
    p-values of the others are not corrected. The comparisons with roles come first.
    """
    winner, runner_up, *_ = ranked
    rival = (
        next((candidate for candidate in ranked if candidate.kind != winner.kind), None)
        if runner_up.kind == winner.kind
        else None
    )
    roles: dict[str, tuple[str, ...]] = {}
    for role, holder in (("runner_up", runner_up), ("rival", rival), ("baseline", baseline)):
        if holder is not None and holder is not winner:
            roles[holder.label] = (*roles.get(holder.label, ()), role)
    # Of a candidate that lost seeds and cannot win, one seed may be left, which the winner need not beat.
    tested = {
        candidate.label: _test(winner, candidate, metric, over_images=over_images)
        for candidate in ranked[1:]
        if candidate.label in roles or not (candidate.has_seeds and candidate.missing and len(candidate.values) < 2)
    }
    # From how many candidates the winner was chosen, if the other candidate is its equal.
    chances = {
        "runner_up": 1,
        "rival": sum(candidate.kind == winner.kind for candidate in ranked),
        "baseline": len(ranked) - 1,
    }
    p_values = {label: p for label in roles if (p := tested[label].p) is not None}
    after_holm = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    leads = {label: pair.lead() for label, pair in tested.items()}
    closest = max(leads, key=leads.__getitem__)
    largest = leads[closest]
    if largest > level and closest not in roles:
        roles[closest] = ("closest",)
    comparisons = []
    for label in [*roles, *(label for label in tested if label not in roles)]:
        comparison, p = tested[label], tested[label].p
        if p is not None and label in after_holm:
            # A lead counts with at least the probability that the luckiest candidate leads as far.
            p = max(after_holm[label], comparison.luckiest(p, chances[roles[label][-1]]))
            p = largest if largest <= level < p else p
        elif p is not None and comparison.difference < 0:
            # Nobody named this candidate beforehand, so its lead over the winner pays for every other candidate.
            p = min(1.0, p * (len(ranked) - 1))
        verdict = comparison.verdict if p is None else verdict_at(comparison.difference, p, level)
        comparisons.append(replace(comparison, roles=roles.get(label, ()), holm_p=p, verdict=verdict))
    return comparisons


def _test(winner: Candidate, other: Candidate, metric: str, *, over_images: bool) -> Comparison:
    """Return the tests of a comparison; where there is none, the verdict on the two samples, and why."""
    first, second = winner.sample(metric), other.sample(metric)
    is_lone = any(candidate.has_seeds and len(candidate.values) < 2 for candidate in (winner, other))
    on_test_set = welch_test(first, second, (not winner.has_seeds, not other.has_seeds))
    crossed = crossed_test(winner.image_runs(), other.image_runs()) if over_images and not is_lone else None
    difference = float(first.mean() - second.mean())
    verdict = Verdict.UNTESTED
    if on_test_set is not None or crossed is not None:
        reason = ""
    elif not winner.has_seeds and not other.has_seeds and abs(difference) < 1e-9:
        verdict, reason = Verdict.TIE, "neither candidate has seeds, and both have the same value"
    elif not winner.has_seeds and not other.has_seeds:
        verdict = verdict_at(difference, 0.0, 0.0)
        reason = "neither candidate has seeds, so the difference is exact on these test images"
    elif is_lone:
        reason = f"a test needs at least two {winner.units} of each candidate"
    elif not has_spread(np.concatenate([first, second])):
        verdict, reason = Verdict.TIE, "all seeds of both candidates have the same value"
    else:
        reason = "no candidate varies over its seeds, so there is no spread to test against"
    return Comparison(metric, other.label, difference, on_test_set, crossed, verdict, reason)
