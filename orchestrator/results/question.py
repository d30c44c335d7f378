"""A question: who is compared with whom, in which direction, in which family, at which level.

A question gives each of its comparisons one p-value and one word. Everybody who says a word about a pair asks a
question: which loss, which coefficients, better than published, the claim of a paper, a regression, the alias of a
registry. No word is computed anywhere else, or read from a text.

The family corrects the p-values of its comparisons for what was compared, and for how the first candidate was chosen.
``alone`` corrects nothing, for a pair that was fixed beforehand. ``holm_adjusted`` holds for several such pairs.
``winner_family.WinnerFamily`` is the family of a winner that was chosen for its high value.

A conclusion over several pairs is an intersection: the first candidate is *better* than all of them only where it is
better than each. This errs at most as often as the least sure of its pairs, however many there are [Berger1982].

References:
    [Berger1982] Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24, 295-300.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from orchestrator.results.comparison import EQUAL, Comparison
from orchestrator.results.statistics import Interval, holm


class Verdict(StrEnum):
    """The word on a pair: how its first candidate compares with its second."""

    BETTER = "better"
    TIE = "tie"
    """The test finds no difference in the direction of the question."""
    WORSE = "worse"
    UNTESTED = "untested"
    """The candidates lack the values that a test needs; never a win."""

    @property
    def turned(self) -> "Verdict":
        """The word on the second candidate."""
        return {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}.get(self, self)


class Direction(StrEnum):
    """The words that a question can have beside *tie* and *untested*."""

    BOTH = "both"
    """Better or worse, by a two-sided test."""
    ABOVE = "above"
    """Better alone, by a one-sided test of a true difference above the question's bound."""
    BELOW = "below"
    """Worse alone, by a one-sided test of a true difference below the question's bound."""


P = float | None
"""A p-value; ``None`` of a comparison that was not tested."""

Family = Callable[[Sequence[Comparison], Sequence[P]], Sequence[P]]
"""Comparisons of a question, and the p-value of each -> p-values that hold for all of them."""


def alone(comparisons: Sequence[Comparison], p_values: Sequence[P]) -> Sequence[P]:
    """Correct nothing: each pair was fixed beforehand, and each has the whole level."""
    return p_values


def holm_adjusted(comparisons: Sequence[Comparison], p_values: Sequence[P]) -> Sequence[P]:
    """Correct by Holm: of pairs that were fixed beforehand, any word is wrong at most as often as the level says."""
    known = [p for p in p_values if p is not None]
    corrected = iter(holm(known))
    return [None if p is None else next(corrected) for p in p_values]


@dataclass(frozen=True)
class Bonferroni:
    """Correct for a number of tests and looks, >= 1, of which a question sees only a part."""

    times: int

    def __call__(self, comparisons: Sequence[Comparison], p_values: Sequence[P]) -> Sequence[P]:
        """Return each p-value times the number, at most 1."""
        return [None if p is None else min(1.0, p * self.times) for p in p_values]


@dataclass(frozen=True)
class Pair:
    """A comparison with the p-value and the word that a question gives it.

    Attributes:
        p: The p-value after the correction of the question's family; ``None`` where nothing was tested.
    """

    comparison: Comparison
    p: float | None
    verdict: Verdict

    @property
    def first(self) -> str:
        """Label of the first candidate."""
        return self.comparison.first

    @property
    def second(self) -> str:
        """Label of the second candidate."""
        return self.comparison.second

    @property
    def difference(self) -> float:
        """Mean of the first minus mean of the second, in the metric's unit."""
        return self.comparison.difference

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the difference, by the test that decides the word."""
        return self.comparison.interval

    def turned(self) -> "Pair":
        """Return the pair as seen from its second candidate."""
        return Pair(self.comparison.turned(), self.p, self.verdict.turned)

    def to_dict(self) -> dict[str, Any]:
        """Return the pair as plain values for JSON."""
        return {**self.comparison.to_dict(), "p": self.p, "verdict": str(self.verdict)}


@dataclass(frozen=True)
class Question:
    """Who is compared with whom is given by the comparisons; direction, family and level are the question's own.

    Attributes:
        level: A p-value of the family up to this level counts, in (0, 1).
        bound: The true difference that a one-sided question asks about, in the metric's unit; 0 for a two-sided one.

    Example:
        >>> from orchestrator.results.comparison import compare
        >>> from orchestrator.results.runs import Runs
        >>> def runs(label, *values):
        ...     return Runs.of_seeds(label, {seed: {"test/rsum": value} for seed, value in enumerate(values)})
        >>> ours, theirs = runs("ours", 201.0, 203.0, 202.0), runs("theirs", 190.0, 191.0, 195.0)
        >>> (pair,) = Question(level=0.05).ask([compare(ours, theirs, "test/rsum")])
        >>> pair.verdict, round(pair.p, 4)
        (<Verdict.BETTER: 'better'>, 0.0137)
        >>> (pair,) = Question(level=0.05, direction=Direction.ABOVE, bound=9.0).ask([pair.comparison])
        >>> str(pair.verdict), round(pair.p, 2)
        ('tie', 0.3)
    """

    level: float
    family: Family = alone
    direction: Direction = Direction.BOTH
    bound: float = 0.0

    def ask(self, comparisons: Iterable[Comparison]) -> tuple[Pair, ...]:
        """Return each comparison with its p-value and its word, in the same order."""
        group = list(comparisons)
        p_values = self.family(group, [self._p(compared) for compared in group])
        return tuple(self._pair(compared, p) for compared, p in zip(group, p_values, strict=True))

    def _p(self, compared: Comparison) -> float | None:
        """Return the p-value of a comparison before the family; ``None`` without a test."""
        if compared.test is None or self.direction is Direction.BOTH:
            return compared.p
        if self.direction is Direction.ABOVE:
            return compared.p_above(self.bound)
        return compared.turned().p_above(-self.bound)

    def _pair(self, compared: Comparison, p: float | None) -> Pair:
        lead = compared.difference - self.bound
        if p is None and not compared.is_exact:
            return Pair(compared, None, Verdict.UNTESTED)
        if abs(lead) < EQUAL if p is None else lead == 0 or p > self.level:
            return Pair(compared, p, Verdict.TIE)
        word = Verdict.BETTER if lead > 0 else Verdict.WORSE
        said = {Direction.ABOVE: Verdict.BETTER, Direction.BELOW: Verdict.WORSE}.get(self.direction, word)
        return Pair(compared, p, word if word is said else Verdict.TIE)


@dataclass(frozen=True)
class Conclusion:
    """What several pairs with one first candidate say together.

    Attributes:
        verdict: *better* where the first is better than every other; else *worse*, *untested* or *tie*, the first of
            these that a pair has.
        p: The p-value of the conclusion: of *better* the largest of all pairs, else that of ``deciding``; ``None``
            where nothing was tested.
        deciding: The pair on which the conclusion rests; ``None`` without a pair.
    """

    verdict: Verdict
    p: float | None
    deciding: Pair | None


def conclude(pairs: Sequence[Pair]) -> Conclusion:
    """Return the conclusion over pairs with one first candidate.

    Of several pairs that are worse, the surest decides; else the one with the least sure lead.
    """
    if not pairs:
        return Conclusion(Verdict.UNTESTED, None, None)
    for word in (Verdict.WORSE, Verdict.UNTESTED, Verdict.TIE):
        said = [pair for pair in pairs if pair.verdict is word]
        if said:
            break
    else:
        word, said = Verdict.BETTER, list(pairs)
    if word is Verdict.WORSE:
        deciding = min(said, key=lambda pair: (pair.p or 0.0, pair.difference))
    elif word is Verdict.UNTESTED:
        deciding = min(said, key=lambda pair: pair.difference)
    else:
        deciding = max(said, key=_reach)
    p_values = [pair.p for pair in said if pair.p is not None]
    p = max(p_values, default=None) if word is Verdict.BETTER else deciding.p
    return Conclusion(word, p, deciding)


def _reach(pair: Pair) -> tuple[float, float]:
    """Return a key that is larger the less sure a lead is; a candidate that does not lead is least sure of all."""
    p = pair.comparison.p
    return (p if p is not None and pair.difference > 0 else float(pair.difference <= 0), -pair.difference)


def only_worse(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Return pairs whose first candidate lost a run, so that no word but *worse* can be said of it."""
    return tuple(pair if pair.verdict is Verdict.WORSE else replace(pair, verdict=Verdict.UNTESTED) for pair in pairs)
