"""Which candidate won on each dataset, and whether it is better or only luckier.

The validation metric alone selects the winner; the test metric decides the verdict. The winner is compared with every
other candidate (``comparison``), and each pair gets one p-value and one word (``question``, ``winner_family``). What
people ask of a dataset are conclusions over some of these pairs: which loss, which coefficients, better than published.

The winner is *better* only where it beats every other candidate of a question by a two-sided test at the level, with
the seeds that they have. A winner that has an equal must beat this equal, whatever the number of candidates, and so the
rate of two candidates bounds that of many. The level is 3.5 %, so that at most 4 % of studies are wrong. With five
seeds of fourfold spread Welch's test at 3.5 % errs in 3.9 %, with three seeds in 4.1 %, of sixfold spread in 4.4 %.
Fixed designs of version 0.2 keep their level of 4 %.

The argument ``over_images`` chooses what varies in the test: seeds on this test set, or seeds and images. How often a
winner with an equal is called better, and how often a lead is found, is in ``docs/evidence/verdict-errors.md``;
``python -m tests.benchmarks questions`` and ``race`` simulate it. A variance pooled over the candidates is not used,
although it finds more leads: where spreads differ fourfold, it is wrong in 9 to 14 % of studies of three to five seeds.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from orchestrator.results.comparison import Comparison, compare
from orchestrator.results.question import Conclusion, Pair, Question, Verdict, conclude, only_worse
from orchestrator.results.runs import RunId, Runs, Unit
from orchestrator.results.winner_family import WinnerFamily
from trainables.errors import ConfigError

LEVEL = 0.035
"""A p-value of a pair up to this level counts as a difference, in a new fixed design; above is why it is so low."""

LEVELS_OF_SEARCHES = {2: 0.012, 3: 0.03}
"""Number of repeated searches -> the level of their verdict; four and more have ``LEVEL``.

So few values say little about the luck of a search, least where the luck of one loss is many times that of another.
"""

SAME_METRIC = 1e-6
"""Relative difference up to which a mean over images and a mean over queries differ by rounding alone."""

WHICH_LOSS, WHICH_COEFFICIENTS, PUBLISHED = "loss", "coefficients", "published"
"""Keys of the questions about a winner, which their answers have as well."""

WINNER = "winner"
"""Word on the winner itself."""


@dataclass(frozen=True)
class DatasetVerdict:
    """The verdict on the confirmed candidates of a dataset.

    Attributes:
        metric: The metric that decides.
        selection: The metric that chose the winner.
        candidates: The candidates with a finished seed, the winner first, the others in the order of the selection.
        pairs: The winner with every other candidate that can be compared, in the order of the candidates.
        warnings: Sentences about the limits of the verdict, e.g. missing seeds.
        level: p-values up to this level count as a difference; earlier looks at test used the rest of it.
        images: Number of test images where they decide; ``None`` where the units alone decide.
        baseline: Label of the baseline; ``None`` where no candidate is the baseline.
        named_baseline: Whether the user named the baseline; else it is the published settings.
        smallest_difference: The smallest lead that matters, in the metric's unit, >= 0; it decides nothing.
    """

    dataset: str
    metric: str
    selection: str
    candidates: tuple[Runs, ...]
    pairs: tuple[Pair, ...]
    warnings: tuple[str, ...]
    level: float
    images: int | None = None
    baseline: str | None = None
    named_baseline: bool = False
    smallest_difference: float = 0.0

    @property
    def unit(self) -> Unit:
        """What varies beside images: searches where a candidate has several of them."""
        return Unit.SEARCH if any(candidate.unit is Unit.SEARCH for candidate in self.candidates) else Unit.SEED

    @property
    def decided_by(self) -> str:
        """What varies in the test that decides: ``seeds`` or ``searches``, or followed by ``_and_images``."""
        units = self.unit.plural
        return units if self.images is None else f"{units}_and_images"

    @property
    def winner(self) -> Runs | None:
        """The first candidate; ``None`` where no seed of any candidate finished."""
        return self.candidates[0] if self.candidates else None

    @cached_property
    def pair_of(self) -> dict[str, Pair]:
        """Label of another candidate -> the winner with this candidate, where they were compared."""
        return {pair.second: pair for pair in self.pairs}

    def word_on(self, label: str) -> str:
        """Return ``winner``, or how a candidate compares with the winner; ``untested`` where it was not compared."""
        if self.winner is not None and label == self.winner.label:
            return WINNER
        pair = self.pair_of.get(label)
        return str(Verdict.UNTESTED if pair is None else pair.verdict.turned)

    def others(self, question: str) -> list[Runs]:
        """Return the candidates that a question compares with the winner."""
        if self.winner is None:
            return []
        rest, kind = self.candidates[1:], self.winner.kind
        if question == PUBLISHED:
            return [candidate for candidate in rest if candidate.label == self.baseline]
        return [candidate for candidate in rest if (candidate.kind == kind) is (question == WHICH_COEFFICIENTS)]

    def conclusion(self, question: str) -> Conclusion:
        """Return what the pairs of a question say together."""
        return conclude([self.pair_of[other.label] for other in self.others(question) if other.label in self.pair_of])

    def chances(self, question: str) -> int:
        """Return of how many candidates the luckiest could have led an equal in a question, see ``winner_family``."""
        if question == PUBLISHED:
            return 2 * len(self.candidates)
        if question == WHICH_LOSS:
            return 1 + len(self.others(WHICH_COEFFICIENTS))
        sizes = Counter(candidate.kind for candidate in self.candidates)
        best = {other.kind: other.label for other in reversed(self.others(WHICH_LOSS))}
        unbeaten = [kind for kind, label in best.items() if self.word_on(label) != Verdict.WORSE]
        is_best = all(self.word_on(other.label) == Verdict.WORSE for other in self.others(WHICH_LOSS))
        return (2 if is_best else 4) * (1 + sum(sizes[kind] > 1 for kind in unbeaten))

    @property
    def first_question(self) -> str:
        """The question of the headline: which loss, or which coefficients where one loss was confirmed."""
        return WHICH_LOSS if self.others(WHICH_LOSS) else WHICH_COEFFICIENTS

    @property
    def verdict(self) -> Verdict:
        """The word of the headline."""
        return self.conclusion(self.first_question).verdict

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values for JSON."""
        return {
            "dataset": self.dataset,
            "winner": self.winner.label if self.winner else None,
            "verdict": str(self.verdict),
            "metric": self.metric,
            "selection": self.selection,
            "decided_by": self.decided_by,
            "level": self.level,
            "baseline": self.baseline,
            "pairs": [self._pair(pair) for pair in self.pairs],
            "standings": [self._standing(candidate, rank) for rank, candidate in enumerate(self.candidates, start=1)],
            "warnings": list(self.warnings),
        }

    def _pair(self, pair: Pair) -> dict[str, Any]:
        """Return a pair, and where images vary how probable a lead is that matters."""
        test, least = pair.comparison.test, self.smallest_difference
        if test is None or test.images is None:
            return pair.to_dict()
        new_images = {
            "probability": test.probability_beyond(0.0),
            "smallest_difference": least,
            "probability_of_smallest": test.probability_beyond(least),
            "error": test.error,
            "share_of_images": pair.comparison.share_of_images,
            "share_of_seeds": test.seed_variance / test.error**2,
        }
        return {**pair.to_dict(), "on_new_images": new_images}

    def _standing(self, candidate: Runs, rank: int) -> dict[str, Any]:
        result, student = candidate.measure(self.metric), candidate.interval(self.metric)
        return {
            **candidate.to_dict(),
            "rank": rank,
            "verdict": self.word_on(candidate.label),
            "selected_by": candidate.mean(self.selection),
            "result": {"mean": result.mean, "std": result.std, "seeds": result.seeds, "sample_std": result.sample_std},
            "student": student and student._asdict(),
        }


def judge(
    candidates: Iterable[Runs],
    *,
    metric: str = "test/rsum",
    selection: str = "val/rsum",
    baseline: str | None = None,
    level: float = LEVEL,
    over_images: bool = False,
    smallest_difference: float = 1.0,
) -> DatasetVerdict:
    """Return the winner of a dataset, and the verdict on its pairs.

    Args:
        candidates: The candidates of one dataset, at least one, with labels of their own; the order changes nothing.
        metric: The metric that decides; equal to ``selection`` where the test split stays closed.
        selection: The metric whose highest mean over the candidates without a lost seed names the winner; of equal
            means, the first label wins.
        baseline: A label, or a loss, which means its candidate with the highest mean of ``selection``.
        level: A p-value of a pair up to this level counts as a difference; below ``LEVEL`` after earlier looks at test.
        over_images: Whether images vary in the test beside the seeds. Where a candidate has no values of images, the
            seeds decide, and a warning says why.
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
    lacking = [candidate for candidate in ranked if candidate.image_rows(metric) is None] if over_images else []
    by_images = over_images and not lacking and bool(ranked)
    named = None if compared_with is None else compared_with.label
    warnings = _missing_seeds(group)
    if lacking:
        kept = f"the ranks of {len(lacking)} of {len(ranked)} candidates were not kept"
        warnings.append(f"the verdict holds for these test images alone: {kept}")
    if baseline is not None and compared_with is None:
        warnings.append(f"the baseline {baseline} has no finished seed, so nothing was compared with it")
    rows = ranked[0].image_rows(metric) if by_images else None
    return DatasetVerdict(
        dataset=group[0].dataset,
        metric=metric,
        selection=selection,
        candidates=tuple(ranked),
        pairs=_ask(ranked, named, metric, level, over_images=by_images) if ranked else (),
        warnings=tuple(warnings),
        level=level,
        images=None if rows is None else rows.shape[1],
        baseline=named,
        smallest_difference=smallest_difference,
    )


def _ask(
    ranked: Sequence[Runs], baseline: str | None, metric: str, level: float, *, over_images: bool
) -> tuple[Pair, ...]:
    """Return the winner, the first candidate, with every other that can be compared, each with its word."""
    winner, *others = ranked
    comparisons: list[Comparison] = [
        compare(winner, other, metric, over_images=over_images)
        for other in others
        # Of a candidate that lost seeds and cannot win, one seed may be left, which the winner need not beat.
        if not (other.has_seeds and other.missing and other.count < 2)
    ]
    pairs = Question(level, family=WinnerFamily(ranked, level, baseline)).ask(comparisons)
    # A winner that lost a seed, as all did, beats nobody.
    return only_worse(pairs) if winner.missing else pairs


def _check(candidate: Runs, metric: str, selection: str) -> None:
    """Refuse metrics that are missing or not finite, and values of images whose mean is not the metric."""
    images = candidate.images.get(metric, {})
    for run, metrics in candidate.values.items():
        where = _where(candidate, run)
        for name in (metric, selection):
            if name not in metrics:
                raise ConfigError(f"{where}: has no {name}; there are {', '.join(sorted(metrics))}")
        for name, value in metrics.items():
            if not np.isfinite(value):
                raise ValueError(f"{where}: {name} must be finite, got {value}")
        value = metrics[metric]
        mean = float(images[run].mean()) if run in images else value
        if abs(value - mean) > SAME_METRIC * max(1.0, abs(value)):
            raise ValueError(f"{where}: {metric} is {value}, but its images have the mean {mean}")


def _where(candidate: Runs, run: RunId) -> str:
    place = [candidate.dataset, repr(candidate.label)] if candidate.dataset else [repr(candidate.label)]
    search = [f"search {run.search}"] if candidate.searches > 1 else []
    return ", ".join([*place, *search, f"seed {run.seed}"])


def _rank(group: Sequence[Runs], selection: str) -> list[Runs]:
    """Return the candidates that have a seed: the best that lost no seed, then the others by their validation mean."""
    with_seeds = (member for member in group if member.values)
    ranked = sorted(with_seeds, key=lambda candidate: (-candidate.mean(selection), candidate.label))
    winner = next((candidate for candidate in ranked if not candidate.missing), None)
    return ranked if winner is None else [winner, *(candidate for candidate in ranked if candidate is not winner)]


def _missing_seeds(group: Sequence[Runs]) -> list[str]:
    """Name each candidate that has fewer seeds than it was given, or than another candidate of a fixed design has."""
    most = max((member.count + len(member.missing) for member in group if member.planned is None), default=0)
    sentences = []
    for member in sorted(group, key=lambda candidate: candidate.label):
        seeds = most if member.planned is None else member.planned
        if member.missing or (member.has_seeds and member.count < seeds):
            fates, units = member.fates(), member.unit.plural
            unknown = seeds - member.count - len(member.missing)
            fates += [f"{unknown} not run"] if unknown else []
            barred = f"; candidates with all {units} rank before it" if member.missing else ""
            barred += ", and a test needs two" if member.missing and member.count < 2 else ""
            sentences.append(
                f"candidate {member.label} has {member.count} of {seeds} {units}: {', '.join(fates)}{barred}"
            )
    return sentences


def deprecated_verdict(verdict: DatasetVerdict) -> dict[str, Any]:
    """Return a verdict by the keys of version 0.2, each number derived from the pairs; gone in the next version."""
    plain = verdict.to_dict()
    comparisons = [
        {
            "label": pair["second"],
            "difference": pair["difference"],
            "interval": pair["interval"],
            "welch_p": pair["p_unadjusted"],
            "holm_p": pair["p"],
            "verdict": pair["verdict"],
            "reason": pair["reason"],
        }
        for pair in plain.pop("pairs")
    ]
    return {"deprecated": DEPRECATED, **plain, "comparisons": comparisons}


DEPRECATED = "use datasets"
"""What the key ``verdicts`` says of itself, which goes in the next version."""
