"""Which candidate won on each dataset, and whether it is better or only luckier.

The validation metric alone selects the winner; the test metric decides the verdict. Welch's test decides: unlike the
paired test it keeps 2(n - 1) degrees of freedom, and runs of different losses with one seed are hardly correlated
(where they are correlated, Welch's test errs towards *tie*). The paired test is reported and decides nothing: the
smaller of two p-values would be a third, invalid test.

The winner is selected for its high value (the winner's curse), and the test and validation values of a run are
correlated. The winner is *better* only where it beats every other candidate by a two-sided test at the level, each
with the seeds that it has. A winner that has an equal must beat this equal, whatever the number of candidates; the gap
between the best two is least reliable when there are only two [Gutmann1987], and so the rate of two candidates bounds
that of many. The level is 3.5 %, so that at most 4 % of studies are wrong: with five seeds of fourfold spread
Welch's test at 3.5 % errs in 3.9 %, with three seeds in 4.1 %, of sixfold spread in 4.4 %. Fixed designs of older
versions keep their level of 4 %.

``comparisons`` says how p-values are corrected where the winner does not beat them all, each dataset by itself. A
baseline from which no candidate differs is called beaten in at most 4 % of studies.

How often a winner with an equal is called better, and how often a lead is found, is in
``docs/evidence/verdict-errors.md``; ``python -m tests.benchmarks race`` simulates it. A variance pooled over the
candidates finds more leads, but where spreads differ fourfold it is wrong in 9 to 14 % of studies of three to five
seeds; so Welch's test is used.

References:
    [Gutmann1987] Gutmann and Maymin, Is the selected population the best?, Annals of Statistics 15, 456-461.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from orchestrator.results.candidates import (
    Candidate,
    Comparison,
    DatasetVerdict,
    Standing,
    Verdict,
    weakest,
)
from orchestrator.results.comparisons import LEVEL, Rules, compare, find_candidate, possible
from orchestrator.results.metric_ranges import range_of
from orchestrator.results.statistics import bootstrap_interval, measure, t_interval
from trainables.errors import ConfigError

SAME_METRIC = 1e-6
"""Relative difference up to which a mean over images and a mean over queries differ by rounding alone."""

FEWEST_TESTED = 2
"""Fewest seeds of a candidate that can be compared."""

__all__ = ["LEVEL", "Candidate", "Comparison", "DatasetVerdict", "Standing", "Verdict", "judge"]


def judge(
    candidates: Iterable[Candidate],
    *,
    metric: str = "test/rsum",
    selection: str = "val/rsum",
    baseline: str | None = None,
    level: float = LEVEL,
    seed: int = 0,
    resamples: int = 9999,
    over_images: bool = False,
    smallest_difference: float = 1.0,
    everyone: bool = True,
) -> tuple[DatasetVerdict, ...]:
    """Return the winner of each dataset, and the verdict on its comparisons.

    Args:
        candidates: Candidates of any datasets, in any order; the order changes nothing.
        metric: The metric that decides; equal to ``selection`` where the test split stays closed.
        selection: The metric whose highest mean over the candidates without a lost seed names the winner; of equal
            means, the first label wins.
        baseline: A label, or a loss, which stands for its candidate with the highest mean of ``selection``.
        level: A corrected p-value up to this level counts as a difference; below ``LEVEL`` after earlier looks at test.
        seed: Seed of the bootstrap.
        resamples: Number of resamples of the bootstrap, >= 1.
        over_images: Whether seeds and images decide instead of the seeds alone; where a candidate of a dataset has no
            values of images, the seeds decide, and a warning says why.
        smallest_difference: The smallest lead that matters, in the metric's unit, >= 0; it decides nothing.
        everyone: Whether the winner must beat every candidate, or runner-up, rival and baseline alone, as in older
            versions.

    Returns:
        One verdict per dataset, in the order of the datasets' names.

    Raises:
        ConfigError: If no dataset has the baseline, or a seed lacks one of the two metrics.
        ValueError: If a metric is not finite, two candidates of a dataset share a label, or the mean over the values of
            the images is not the metric.
    """
    rules = Rules(metric, selection, baseline, level, seed, resamples, over_images, smallest_difference, everyone)
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        _check(candidate, (metric, selection))
        _check_images(candidate, metric)
        groups.setdefault(candidate.dataset, []).append(candidate)
    known = sorted({name for group in groups.values() for one in group for name in (one.label, one.loss)})
    if baseline is not None and baseline not in known:
        raise ConfigError(f"baseline {baseline!r} is neither a candidate nor its loss; there are {', '.join(known)}")
    return tuple(_judge_dataset(dataset, group, rules) for dataset, group in sorted(groups.items()))


def _check(candidate: Candidate, needed: Sequence[str]) -> None:
    """Refuse metrics that are missing or not finite, naming candidate and seed."""
    for seed, metrics in candidate.values.items():
        where = f"{candidate.dataset}, {candidate.label!r}, seed {seed}"
        for name in needed:
            if name not in metrics:
                raise ConfigError(f"{where}: has no {name}; there are {', '.join(sorted(metrics))}")
        for name, value in metrics.items():
            if not np.isfinite(value):
                raise ValueError(f"{where}: {name} must be finite, got {value}")
        if seed in candidate.missing:
            raise ValueError(f"{where}: both has metrics and is missing ({candidate.missing[seed]})")


def _check_images(candidate: Candidate, metric: str) -> None:
    """Refuse values of images whose mean is not the metric."""
    for seed, values in candidate.images.items():
        told, made = candidate.values[seed][metric], float(values.mean())
        if abs(told - made) > SAME_METRIC * max(1.0, abs(told)):
            where = f"{candidate.dataset}, {candidate.label!r}, seed {seed}"
            raise ValueError(f"{where}: {metric} is {told}, but its images have the mean {made}")


def _judge_dataset(dataset: str, group: Sequence[Candidate], rules: Rules) -> DatasetVerdict:
    ranked = _rank(group, rules)
    lacking = [one.label for one in ranked if not one.images] if rules.over_images else []
    if lacking:
        rules = replace(rules, over_images=False)
    tested = compare(ranked, rules)
    comparisons = tuple(comparison for comparison in tested if comparison.roles)
    baseline = find_candidate(ranked, rules.baseline)
    return DatasetVerdict(
        dataset=dataset,
        metric=rules.metric,
        selection=rules.selection,
        verdict=_overall(ranked, comparisons),
        standings=tuple(_standing(one, rank, rules) for rank, one in enumerate(ranked, start=1)),
        comparisons=comparisons,
        warnings=(
            *_missing_seeds(group),
            *_without_images(lacking, len(ranked)),
            *_missing_baseline(dataset, ranked, rules.baseline),
        ),
        decided_by="seeds_and_images" if rules.over_images else "seeds",
        images=ranked[0].image_runs().shape[1] if rules.over_images and ranked else None,
        baseline=None if baseline is None else baseline.label,
        others=tuple(comparison for comparison in tested if not comparison.roles),
        level=rules.level,
    )


def _rank(group: Sequence[Candidate], rules: Rules) -> list[Candidate]:
    """Return the candidates that have a seed: the best that lost no seed, then the others by their validation mean."""
    labels = [candidate.label for candidate in group]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{group[0].dataset}: two candidates are called {label!r}")

    def key(candidate: Candidate) -> tuple[bool, float, str]:
        # Older versions ranked candidates that had left a race last, and so compared the winner with the others.
        last = candidate.left and not rules.everyone
        return last, -float(candidate.sample(rules.selection).mean()), candidate.label

    ranked = sorted((candidate for candidate in group if candidate.values), key=key)
    winner = next((one for one in ranked if not one.missing and not one.left), None)
    return ranked if winner is None else [winner, *(one for one in ranked if one is not winner)]


def _standing(candidate: Candidate, rank: int, rules: Rules) -> Standing:
    values = candidate.sample(rules.metric)
    low, high = range_of(rules.metric)
    return Standing(
        candidate=candidate,
        rank=rank,
        selected_by=float(candidate.sample(rules.selection).mean()),
        result=measure(values),
        bootstrap=possible(bootstrap_interval(values, seed=rules.seed, resamples=rules.resamples), low, high),
        student=possible(t_interval(values), low, high),
        measures=candidate.measures(),
    )


def _overall(ranked: Sequence[Candidate], comparisons: Sequence[Comparison]) -> Verdict:
    """Return the weakest verdict of the comparisons; a winner that lost a seed, as all did, beats nobody."""
    decisive = weakest(comparisons)
    if decisive is None:
        return Verdict.UNTESTED
    if ranked[0].missing and decisive.verdict is not Verdict.WORSE:
        return Verdict.UNTESTED
    return decisive.verdict


def _without_images(lacking: Sequence[str], candidates: int) -> list[str]:
    """Say that the seeds alone decide although seeds and images were to decide, and why."""
    if not lacking:
        return []
    return [
        f"the verdict holds for these test images alone: the ranks of {len(lacking)} of {candidates} candidates were "
        f"not kept"
    ]


def _missing_seeds(group: Sequence[Candidate]) -> list[str]:
    """Name each candidate that has fewer seeds than it was given, or than another candidate has."""
    most = max(len(one.values) + len(one.missing) for one in group)
    sentences = []
    for one in sorted(group, key=lambda candidate: candidate.label):
        given = most if one.given is None else one.given
        if one.missing or (one.has_seeds and len(one.values) < given):
            fates = [f"seed {seed} {one.missing[seed]}" for seed in sorted(one.missing)]
            unknown = given - len(one.values) - len(one.missing)
            fates += [f"{unknown} not run"] if unknown else []
            barred = "; candidates with all seeds rank before it" if one.missing else ""
            barred += ", and a test needs two seeds" if one.missing and len(one.values) < FEWEST_TESTED else ""
            sentences.append(f"{one.label} has {len(one.values)} of {given} seeds: {', '.join(fates)}{barred}")
    return sentences


def _missing_baseline(dataset: str, ranked: Sequence[Candidate], baseline: str | None) -> list[str]:
    if baseline is None or find_candidate(ranked, baseline) is not None:
        return []
    return [f"the baseline {baseline} has no finished seed on {dataset}, so nothing was compared with it"]
