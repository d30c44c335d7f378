"""Which candidate won on each dataset, and whether it is better or only luckier.

Selection looks at the validation metric alone; the verdict looks at the test metric. Welch's test decides: unlike the
paired test it keeps 2(n - 1) degrees of freedom, and runs of different losses with one seed have little in common
(where they do, it errs on the side of *tie*). The paired test is shown beside it and decides nothing: taking the
smaller of two p-values would be a third, wrong test.

The winner was picked for being high (the winner's curse), and test and validation numbers of a run go up and down
together. For the runner-up a two-sided test pays for that in full, whatever the number of candidates: the gap between
the best two is least to be trusted when there are only two [Gutmann1987]. Against the baseline, any of the others could
have been the winner; so the p-value of a lead is not below the chance that the luckiest of so many candidates leads as
far (``best_of_p``), and a baseline that no candidate differs from is called beaten in at most 4 % of studies, whatever
the number of candidates and their spreads. The rival, the best of another loss, is treated as a baseline of the
candidates of the winner's loss. Holm's correction over the comparisons of the dataset holds as well, and the level is
4 %, not 5 %, because Welch's test is not exact for few seeds of unequal spread. Other datasets are other questions,
with their own correction.

Share of simulated studies without a true difference that get a verdict other than *tie* (normal values, 5 seeds; the
worst case, in which the metric tested is the one selected by): 3.4 % with 2 candidates (2.9 % with 3 seeds, 4.2 % with
10, 4.2 % where one spread is four times the other), below 1 % with 4 or more. Baseline called beaten: 1.6 % with 2
candidates, 1.9 % with 12, 0.8 % with 60; where all spreads but its own are four times as wide, 3.8 % with 12 and 3.2 %
with 60. The price: *better* is found at 3 standard deviations in 97, 91, 72 and 42 % with 2, 4, 12 and 48 candidates
and 5 seeds, and in 61, 33, 12 and 3 % with 3 seeds. Three seeds are enough to rank, seldom to tell, and a tie after so
few says so (``power.py``). A variance pooled over the candidates finds more leads, but calls the baseline beaten
without a reason more often than stated where spreads differ; hence Welch's.

References:
    [Gutmann1987] Gutmann and Maymin, Is the selected population the best?, Annals of Statistics 15, 456-461.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.results.candidates import Candidate, Comparison, DatasetVerdict, Departed, Standing, Verdict
from orchestrator.results.metric_ranges import range_of
from orchestrator.results.power import weakness_of_tie
from orchestrator.results.statistics import (
    Interval,
    Sample,
    WelchTest,
    best_of_p,
    bootstrap_interval,
    has_spread,
    hedges_g,
    holm,
    measure,
    paired_p,
    t_interval,
    welch_test,
)
from trainables.errors import ConfigError

__all__ = ["LEVEL", "Candidate", "Comparison", "DatasetVerdict", "Standing", "Verdict", "judge"]

LEVEL = 0.04
"""A corrected p-value up to this makes a difference; see above for what it becomes in the end."""


def judge(
    candidates: Iterable[Candidate],
    *,
    metric: str = "test/rsum",
    selection: str = "val/rsum",
    baseline: str | None = None,
    level: float = LEVEL,
    seed: int = 0,
    resamples: int = 9999,
) -> tuple[DatasetVerdict, ...]:
    """Name the winner of each dataset and say how sure that is.

    Args:
        candidates: In any order; the order changes nothing.
        metric: It decides; the one of ``selection`` where the test split stays closed.
        selection: The winner has its highest mean among the candidates that lost no seed (of equals, the first label).
        baseline: A label, or a loss, which stands for its candidate with the highest mean of ``selection``.
        level: A corrected p-value up to this makes a difference; less than ``LEVEL`` where other looks have spent some.
        seed: Of the bootstrap.
        resamples: Of the bootstrap, >= 1.

    Returns:
        One verdict a dataset, in the order of their names.

    Raises:
        ConfigError: If no dataset has the baseline, or a seed lacks one of the two metrics.
        ValueError: If a metric is not finite, or two candidates of a dataset share a label.
    """
    rules = _Rules(metric, selection, baseline, level, seed, resamples)
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        _check(candidate, (metric, selection))
        groups.setdefault(candidate.dataset, []).append(candidate)
    known = sorted({name for group in groups.values() for one in group for name in (one.label, one.loss)})
    if baseline is not None and baseline not in known:
        raise ConfigError(f"baseline {baseline!r} is neither a candidate nor its loss; there are {', '.join(known)}")
    return tuple(_judge_dataset(dataset, group, rules) for dataset, group in sorted(groups.items()))


@dataclass(frozen=True)
class _Rules:
    """The arguments of ``judge``."""

    metric: str
    selection: str
    baseline: str | None
    level: float
    seed: int
    resamples: int


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


def _judge_dataset(dataset: str, group: Sequence[Candidate], rules: _Rules) -> DatasetVerdict:
    ranked = _rank(group, rules.selection)
    comparisons = _comparisons(ranked, rules)
    verdict, reason = _overall(ranked, comparisons)
    return DatasetVerdict(
        dataset=dataset,
        metric=rules.metric,
        selection=rules.selection,
        verdict=verdict,
        reason=reason,
        standings=tuple(_standing(one, rank, rules) for rank, one in enumerate(ranked, start=1)),
        comparisons=comparisons,
        warnings=(
            # The shares of ``power.py`` are those of one look with the whole level.
            *(_weak_tie(verdict, ranked, comparisons) if rules.level == LEVEL else ()),
            *_missing_seeds(group),
            *_missing_baseline(dataset, ranked, rules.baseline),
        ),
        level=rules.level,
    )


def _rank(group: Sequence[Candidate], selection: str) -> list[Candidate]:
    """Return the candidates that have a seed: the best that lost none, then all others by their validation mean.

    Candidates that trailed in a race come last: with fewer seeds, their means are those of a moment.
    """
    labels = [candidate.label for candidate in group]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{group[0].dataset}: two candidates are called {label!r}")
    finished = [one for one in group if one.values]
    ranked = sorted(finished, key=lambda one: (_trailed(one), -float(one.sample(selection).mean()), one.label))
    winner = next((one for one in ranked if not one.missing and one.left is None), None)
    return ranked if winner is None else [winner, *(one for one in ranked if one is not winner)]


def _trailed(candidate: Candidate) -> bool:
    return candidate.left is not None and candidate.left.how is Departed.TRAILED


def _standing(candidate: Candidate, rank: int, rules: _Rules) -> Standing:
    values = candidate.sample(rules.metric)
    low, high = range_of(rules.metric)
    return Standing(
        candidate=candidate,
        rank=rank,
        selected_by=float(candidate.sample(rules.selection).mean()),
        result=measure(values),
        bootstrap=_possible(bootstrap_interval(values, seed=rules.seed, resamples=rules.resamples), low, high),
        student=_possible(t_interval(values), low, high),
        measures=candidate.measures(),
    )


def _possible(interval: Interval | None, low: float, high: float) -> Interval | None:
    """Return the part of an interval that lies in a range, if there is an interval."""
    return None if interval is None else interval.within(low, high)


def _comparisons(ranked: Sequence[Candidate], rules: _Rules) -> tuple[Comparison, ...]:
    """Compare the winner with its opponents, their p-values corrected together and for how the winner was picked."""
    opponents = _opponents(ranked, rules.baseline)
    tests = [welch_test(ranked[0].sample(rules.metric), other.sample(rules.metric)) for other, _ in opponents]
    after_holm = iter(holm([test.p for test in tests if test]))
    return tuple(
        _comparison(
            (ranked[0], other),
            roles,
            rules,
            test,
            _corrected(test, next(after_holm), _could_have_won(ranked, roles)) if test else None,
        )
        for (other, roles), test in zip(opponents, tests, strict=True)
    )


def _could_have_won(ranked: Sequence[Candidate], roles: Collection[str]) -> int:
    """Return the number of candidates of which the winner is the best, as far as a comparison has to pay for them."""
    if "baseline" in roles:
        return len(ranked) - 1
    if "rival" in roles:
        winner = ranked[0]
        return sum((one.model, one.loss) == (winner.model, winner.loss) for one in ranked)
    return 1


def _corrected(test: WelchTest, after_holm: float, candidates: int) -> float:
    """Return the p-value that decides: a lead is also weighed as the luckiest of several; to lag is no such luck."""
    return max(after_holm, best_of_p(test.p, candidates)) if test.difference > 0 else after_holm


def _opponents(ranked: Sequence[Candidate], baseline: str | None) -> list[tuple[Candidate, tuple[str, ...]]]:
    """Return runner-up, rival and baseline with their roles; they may be one candidate, or the winner itself.

    The rival is there where the runner-up has the winner's model and loss: then it is the best that has not.
    """
    holders = {
        "runner_up": ranked[1] if len(ranked) > 1 else None,
        "rival": _rival(ranked),
        "baseline": _find(ranked, baseline),
    }
    named = {role: one for role, one in holders.items() if one is not None and one is not ranked[0]}
    others = {one.label: one for one in named.values()}
    return [(other, tuple(role for role in named if named[role] is other)) for other in others.values()]


def _rival(ranked: Sequence[Candidate]) -> Candidate | None:
    kinds = [(one.model, one.loss) for one in ranked]
    if len(kinds) < 2 or kinds[1] != kinds[0]:
        return None
    return next((one for one, kind in zip(ranked, kinds, strict=True) if kind != kinds[0]), None)


def _comparison(
    pair: tuple[Candidate, Candidate], roles: tuple[str, ...], rules: _Rules, test: WelchTest | None, p: float | None
) -> Comparison:
    (winner, other), metric = pair, rules.metric
    first, second = winner.sample(metric), other.sample(metric)
    difference = float(first.mean() - second.mean())
    seeds = sorted(set(winner.values) & set(other.values))
    low, high = range_of(metric)
    verdict, reason = (_decide(difference, p, rules.level), "") if p is not None else _without_test(first, second)
    return Comparison(
        label=other.label,
        roles=roles,
        difference=difference,
        interval=_possible(test.interval if test else None, low - high, high - low),
        welch_p=test.p if test else None,
        holm_p=p,
        paired_p=paired_p(np.array([winner.values[s][metric] - other.values[s][metric] for s in seeds])),
        pairs=len(seeds),
        effect=hedges_g(first, second),
        verdict=verdict,
        reason=reason,
    )


def _decide(difference: float, p: float, level: float) -> Verdict:
    if p > level:
        return Verdict.TIE
    return Verdict.BETTER if difference > 0 else Verdict.WORSE


def _without_test(first: Sample, second: Sample) -> tuple[Verdict, str]:
    """Say why two samples can't be tested; equal ones without spread are a tie all the same."""
    if min(len(first), len(second)) < 2:
        return Verdict.UNTESTED, "one seed has no spread to test against; confirm with at least 3"
    if not has_spread(np.concatenate([first, second])):
        return Verdict.TIE, "all seeds of both gave the same value"
    return Verdict.UNTESTED, "the seeds made no difference to either, so there is no spread to test against"


def _overall(ranked: Sequence[Candidate], comparisons: Sequence[Comparison]) -> tuple[Verdict, str]:
    """Return the weakest of the verdicts with a sentence."""
    if not ranked:
        return Verdict.UNTESTED, "no seed of any candidate finished"
    if not comparisons:
        return Verdict.UNTESTED, f"{ranked[0].label!r} had nobody to compare with"
    order = (Verdict.WORSE, Verdict.UNTESTED, Verdict.TIE, Verdict.BETTER)
    weakest = min(comparisons, key=lambda comparison: order.index(comparison.verdict))
    if ranked[0].missing and weakest.verdict is not Verdict.WORSE:
        why = f"every candidate lost a seed, {ranked[0].label!r} too, and the seeds that are left may flatter it"
        return Verdict.UNTESTED, why
    return weakest.verdict, _sentence(ranked[0].label, weakest)


def _sentence(winner: str, comparison: Comparison) -> str:
    roles = " and ".join(role.replace("_", "-") for role in comparison.roles)
    words = {
        Verdict.BETTER: "is better than",
        Verdict.TIE: "is not told apart from",
        Verdict.WORSE: "won on validation but is worse than",
        Verdict.UNTESTED: "could not be tested against",
    }
    numbers = f"difference {comparison.difference:+.2f}"
    numbers += f", Welch p = {comparison.holm_p:.2g} corrected" if comparison.holm_p is not None else ""
    why = f": {comparison.reason}" if comparison.reason else ""
    return f"{winner!r} {words[comparison.verdict]} the {roles} {comparison.label!r} ({numbers}){why}"


def _weak_tie(verdict: Verdict, ranked: Sequence[Candidate], comparisons: Sequence[Comparison]) -> list[str]:
    tested = {one.label for one in comparisons if one.holm_p is not None}
    if verdict is not Verdict.TIE or not tested:
        return []
    fewest = min(len(one.values) for one in ranked if one is ranked[0] or one.label in tested)
    sentence = weakness_of_tie(len(tested), len(ranked), fewest)
    return [sentence] if sentence else []


def _find(ranked: Sequence[Candidate], baseline: str | None) -> Candidate | None:
    """Return the candidate of a label, else the best one of a loss."""
    by_loss = next((one for one in ranked if one.loss == baseline), None)
    return next((one for one in ranked if one.label == baseline), by_loss)


def _missing_seeds(group: Sequence[Candidate]) -> list[str]:
    """Name each candidate that has fewer seeds than it was given, or than another has."""
    most = max(len(one.values) + len(one.missing) for one in group)
    sentences = []
    for one in sorted(group, key=lambda candidate: candidate.label):
        if one.missing or (one.left is None and len(one.values) < most):
            fates = [f"seed {seed} {one.missing[seed]}" for seed in sorted(one.missing)]
            unknown = 0 if one.left is not None else most - len(one.values) - len(one.missing)
            fates += [f"{unknown} not run"] if unknown else []
            barred = "; it can't win before the others" if one.missing else ""
            given = most if one.left is None else len(one.values) + len(one.missing)
            sentences.append(f"{one.label!r} has {len(one.values)} of {given} seeds: {', '.join(fates)}{barred}")
    return sentences


def _missing_baseline(dataset: str, ranked: Sequence[Candidate], baseline: str | None) -> list[str]:
    if baseline is None or _find(ranked, baseline) is not None:
        return []
    return [f"the baseline {baseline!r} has no finished seed on {dataset}; nothing was compared with it"]
