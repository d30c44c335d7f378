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

The winner is better where it leads every other candidate at a p-value up to the level (an intersection-union test
[Berger1982]): a winner that has an equal must beat this equal, which it does at most as often as the level says, so no
correction for the number of candidates is needed. Where it does not beat them all, the comparisons with runner-up,
rival and baseline are corrected by Holm's procedure, and a lead for the choice of the winner: any other candidate could
have been the winner over the baseline, and any of the winner's loss over the rival (``best_of_p``). The candidate that
was missed by most is shown beside them. A baseline from which no candidate differs is called beaten in at most 4 % of
studies.

Where possible, each comparison has two tests: on this test set, where only seeds vary (Welch's test of the runs), and
on new images of this kind, where seeds and images vary (``crossed``). ``over_images`` chooses which test decides.

How often a winner with an equal is called better, and how often a lead is found, is in
``docs/evidence/verdict-errors.md``; ``python -m tests.benchmarks race`` simulates it. A variance pooled over the
candidates finds more leads, but where spreads differ fourfold it is wrong in 9 to 14 % of studies of three to five
seeds; so Welch's test is used.

References:
    [Berger1982] Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24, 295-300.
    [Gutmann1987] Gutmann and Maymin, Is the selected population the best?, Annals of Statistics 15, 456-461.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from orchestrator.results.candidates import Candidate, Comparison, DatasetVerdict, Verdict, weakest
from orchestrator.results.crossed import crossed_test, own_parts
from orchestrator.results.statistics import DifferenceTest, Sample, best_of_p, has_spread, holm, lead_p, welch_test
from trainables.errors import ConfigError

LEVEL = 0.035
"""A corrected p-value up to this level counts as a difference, in a new fixed design; above is why it is so low."""

SAME_METRIC = 1e-6
"""Relative difference up to which a mean over images and a mean over queries differ by rounding alone."""

FEWEST_TESTED = 2
"""Fewest seeds of a candidate that can be compared."""

_Tests = Mapping[str, DifferenceTest | None]
"""Label of another candidate -> its test; ``None`` where no test could be made."""


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
        candidates: The candidates of one dataset, at least one, in any order; the order changes nothing.
        metric: The metric that decides; equal to ``selection`` where the test split stays closed.
        selection: The metric whose highest mean over the candidates without a lost seed names the winner; of equal
            means, the first label wins.
        baseline: A label, or a loss, which stands for its candidate with the highest mean of ``selection``.
        level: A corrected p-value up to this level counts as a difference; below ``LEVEL`` after earlier looks at test.
        over_images: Whether seeds and images decide instead of the seeds alone; where a candidate has no values of
            images, the seeds decide, and a warning says why.
        smallest_difference: The smallest lead that matters, in the metric's unit, >= 0; it decides nothing.

    Raises:
        ConfigError: If no candidate is the baseline, or a seed lacks one of the two metrics.
        ValueError: If a metric is not finite, two candidates share a label, or the mean over the values of the images
            is not the metric.
    """
    group = list(candidates)
    for candidate in group:
        _check(candidate, metric, selection)
    known = sorted({name for one in group for name in (one.label, one.loss)})
    if baseline is not None and baseline not in known:
        raise ConfigError(f"baseline {baseline!r} is neither a candidate nor its loss; there are {', '.join(known)}")
    ranked = _rank(group, selection)
    lacking = [one.label for one in ranked if not one.images] if over_images else []
    decided_by_images = over_images and not lacking and bool(ranked)
    tested = compare(ranked, metric, baseline, level, over_images=decided_by_images)
    comparisons = tuple(comparison for comparison in tested if comparison.roles)
    found = find_candidate(ranked, baseline)
    warnings = _missing_seeds(group)
    if lacking:
        kept = f"the ranks of {len(lacking)} of {len(ranked)} candidates were not kept"
        warnings.append(f"the verdict holds for these test images alone: {kept}")
    if baseline is not None and found is None:
        warnings.append(f"the baseline {baseline} has no finished seed, so nothing was compared with it")
    return DatasetVerdict(
        dataset=group[0].dataset,
        metric=metric,
        selection=selection,
        verdict=_overall(ranked, comparisons),
        candidates=tuple(replace(one, metric=metric, selection=selection) for one in ranked),
        comparisons=comparisons,
        warnings=tuple(warnings),
        level=level,
        decided_by="seeds_and_images" if decided_by_images else "seeds",
        images=ranked[0].image_runs().shape[1] if decided_by_images else None,
        baseline=None if found is None else found.label,
        others=tuple(comparison for comparison in tested if not comparison.roles),
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
        if seed in candidate.missing:
            raise ValueError(f"{where}: both has metrics and is missing ({candidate.missing[seed]})")
        value = metrics[metric]
        mean = float(candidate.images[seed].mean()) if candidate.images else value
        if abs(value - mean) > SAME_METRIC * max(1.0, abs(value)):
            raise ValueError(f"{where}: {metric} is {value}, but its images have the mean {mean}")


def _rank(group: Sequence[Candidate], selection: str) -> list[Candidate]:
    """Return the candidates that have a seed: the best that lost no seed, then the others by their validation mean."""
    labels = [candidate.label for candidate in group]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{group[0].dataset}: two candidates are called {label!r}")
    with_seeds = (candidate for candidate in group if candidate.values)
    ranked = sorted(with_seeds, key=lambda one: (-float(one.sample(selection).mean()), one.label))
    winner = next((one for one in ranked if not one.missing and not one.left), None)
    return ranked if winner is None else [winner, *(one for one in ranked if one is not winner)]


def _overall(ranked: Sequence[Candidate], comparisons: Sequence[Comparison]) -> Verdict:
    """Return the weakest verdict of the comparisons; a winner that lost a seed, as all did, beats nobody."""
    decisive = weakest(comparisons)
    if decisive is None:
        return Verdict.UNTESTED
    if ranked[0].missing and decisive.verdict is not Verdict.WORSE:
        return Verdict.UNTESTED
    return decisive.verdict


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


def compare(
    ranked: Sequence[Candidate], metric: str, baseline: str | None, level: float, *, over_images: bool
) -> tuple[Comparison, ...]:
    """Compare the winner, the first candidate, with every other candidate that can be tested; see ``judge``.

    Runner-up, rival and baseline have roles, and so has the closest of the other candidates unless all are beaten; the
    p-values of the others are not corrected. The comparisons with roles come first.
    """
    opponents = find_opponents(ranked, baseline)
    named = [other.label for other, _ in opponents]
    # Of a candidate that lost seeds and cannot win, one seed may be left, which the winner need not beat.
    others = [
        one for one in ranked[1:] if one.label in named or not (one.has_seeds and one.missing and len(one.values) < 2)
    ]
    on_test_set = {
        one.label: welch_test(
            ranked[0].sample(metric), one.sample(metric), (not ranked[0].has_seeds, not one.has_seeds)
        )
        for one in others
    }
    crossed = _crossed_tests(ranked[0], others) if over_images else dict.fromkeys(on_test_set)
    leads = {one.label: _lead_p(ranked[0], one, crossed[one.label] or on_test_set[one.label], metric) for one in others}
    closest = max(others, key=lambda one: leads[one.label], default=None)
    if closest is not None and leads[closest.label] > level and closest.label not in named:
        opponents.append((closest, ("closest",)))
    chances = {other.label: _could_have_won(ranked, roles) for other, roles in opponents}
    p_of_seeds, p_over_images = (_corrected(ranked, tests, chances, metric, level) for tests in (on_test_set, crossed))

    def comparison(other: Candidate, roles: tuple[str, ...]) -> Comparison:
        label, first, second = other.label, ranked[0].sample(metric), other.sample(metric)
        difference, p = float(first.mean() - second.mean()), p_of_seeds.get(label)
        verdict, reason = (
            _without_test((ranked[0], other), first, second) if p is None else (_decide(difference, p, level), "")
        )
        about = (metric, label, roles, difference, on_test_set[label], crossed[label])
        test = crossed[label]
        if test is None:
            return Comparison(*about, p, verdict, reason, verdict, p)
        corrected = p_over_images[label]
        return Comparison(*about, corrected, _decide(test.difference, corrected, level), "", verdict, p)

    without_role = [(one, ()) for one in others if one.label not in chances]
    return tuple(comparison(other, roles) for other, roles in [*opponents, *without_role])


def _lead_p(winner: Candidate, other: Candidate, test: DifferenceTest | None, metric: str) -> float:
    """Return the p-value with which the winner leads; 0 and 1 where a comparison needs no test or cannot have one."""
    if test is not None:
        return lead_p(test.difference, test.p)
    verdict, _ = _without_test((winner, other), winner.sample(metric), other.sample(metric))
    return 0.0 if verdict is Verdict.BETTER else 1.0


def _corrected(
    ranked: Sequence[Candidate], tests: _Tests, chances: Mapping[str, int], metric: str, level: float
) -> dict[str, float]:
    """Return the corrected p-value of each test that could be made; ``chances`` see ``_could_have_won``."""
    made = {label: test for label, test in tests.items() if test is not None}
    shown = [label for label in chances if label in made and chances[label]]
    after_holm = dict(zip(shown, holm([made[label].p for label in shown]), strict=True))
    by_label = {one.label: one for one in ranked}
    leads = [_lead_p(ranked[0], by_label[label], test, metric) for label, test in tests.items()]
    largest = max(leads, default=1.0)
    corrected = {label: test.p for label, test in made.items()}
    for label, test in made.items():
        if label in after_holm:
            # A lead counts with at least the probability that the luckiest candidate leads as far.
            lucky = best_of_p(test.p, chances[label]) if test.difference > 0 else 0.0
            p = max(after_holm[label], lucky)
            corrected[label] = largest if largest <= level < p else p
        elif test.difference < 0:
            # Nobody named this candidate beforehand: that it is better than the winner pays for every other one.
            corrected[label] = min(1.0, test.p * (len(ranked) - 1))
    return corrected


def _crossed_tests(winner: Candidate, others: Sequence[Candidate]) -> dict[str, DifferenceTest | None]:
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
    """Return from how many candidates the winner was chosen; 0 of the closest, compared at its own p-value."""
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
    kinds = [(one.model, one.loss) for one in ranked]
    others = (one for one, kind in zip(ranked, kinds, strict=True) if kind != kinds[0])
    holders = {
        "runner_up": ranked[1] if len(ranked) > 1 else None,
        "rival": next(others, None) if kinds[1:2] == kinds[:1] else None,
        "baseline": find_candidate(ranked, baseline),
    }
    named = {role: one for role, one in holders.items() if one is not None and one is not ranked[0]}
    by_label = {one.label: one for one in named.values()}
    return [(other, tuple(role for role in named if named[role] is other)) for other in by_label.values()]


def find_candidate(ranked: Sequence[Candidate], baseline: str | None) -> Candidate | None:
    """Return the candidate with a label, or else the best candidate of a loss."""
    by_loss = next((one for one in ranked if one.loss == baseline), None)
    return next((one for one in ranked if one.label == baseline), by_loss)


def _decide(difference: float, p: float, level: float) -> Verdict:
    if p > level:
        return Verdict.TIE
    return Verdict.BETTER if difference > 0 else Verdict.WORSE


def _without_test(pair: tuple[Candidate, Candidate], first: Sample, second: Sample) -> tuple[Verdict, str]:
    """Return the verdict on two samples that can't be tested, and why; equal samples without spread are a tie."""
    if not any(one.has_seeds for one in pair):
        difference = float(first.mean() - second.mean())
        if abs(difference) < 1e-9:
            return Verdict.TIE, "neither candidate has seeds, and both have the same value"
        reason = "neither candidate has seeds, so the difference is exact on these test images"
        return _decide(difference, 0.0, 0.0), reason
    if any(one.has_seeds and len(one.values) < 2 for one in pair):
        return Verdict.UNTESTED, "a test needs at least two seeds of each candidate"
    if not has_spread(np.concatenate([first, second])):
        return Verdict.TIE, "all seeds of both candidates have the same value"
    return Verdict.UNTESTED, "no candidate varies over its seeds, so there is no spread to test against"
