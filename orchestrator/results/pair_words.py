"""The word on a pair of candidates as one sentence, with difference, interval, p-value, and what it rests on."""

from dataclasses import dataclass

from orchestrator.results.question import Pair, Verdict
from orchestrator.results.statistics import Interval
from orchestrator.results.verdict import LEVEL
from orchestrator.text.wording import interval_text, metric_words, number_text, p_equals


@dataclass(frozen=True)
class Unit:
    """How values of a metric are shown.

    Attributes:
        metric: Name of the metric.
        decimals: Digits after the point; ``None`` for those of the metric.
        lower_is_better: Whether candidates hold the metric with the other sign, so that larger values are better.
    """

    metric: str
    decimals: int | None = None
    lower_is_better: bool = False

    def value(self, value: float, *, signed: bool = False) -> str:
        """Return a value, or with ``signed`` a difference, as it is shown."""
        return number_text(self.shown(value), self.metric, signed=signed, decimals=self.decimals)

    def shown(self, value: float) -> float:
        """Return a value with the sign of the metric."""
        return -value if self.lower_is_better else value

    def ends(self, interval: Interval) -> tuple[float, float]:
        """Return the ends of an interval with the sign of the metric, the lower end first."""
        low, high = sorted(map(self.shown, interval))
        return low, high

    def interval(self, interval: Interval) -> str:
        """Return an interval as it is shown."""
        return interval_text(*self.ends(interval), self.metric, decimals=self.decimals)


def pair_sentence(pair: Pair, unit: Unit, basis: str) -> str:
    """Return the sentence of a pair; ``basis`` is such as ``5 seeds``."""
    words = metric_words(unit.metric)
    evidence = "" if pair.interval is None else f", 95 % CI {unit.interval(pair.interval)}"
    evidence += "" if pair.p is None else f", {p_equals(pair.p)}"
    signed = unit.value(pair.difference, signed=True)
    if pair.verdict is Verdict.BETTER and not unit.lower_is_better:
        return f"{pair.first} beats {pair.second} by {unit.value(pair.difference)} {words}{evidence} ({basis})."
    if pair.verdict is Verdict.BETTER:
        return f"{pair.first} beats {pair.second}: {signed} {words}, lower is better{evidence} ({basis})."
    if pair.verdict is Verdict.WORSE:
        return f"{pair.first} is worse than {pair.second}: {signed} {words}{evidence} ({basis})."
    if pair.verdict is Verdict.TIE:
        if pair.interval is not None and not pair.interval.low <= 0 <= pair.interval.high:
            evidence += f" at a level of {LEVEL:g}"
        return f"{pair.first} and {pair.second} do not differ significantly: {signed} {words}{evidence} ({basis})."
    reason = pair.comparison.reason
    return f"{pair.first} and {pair.second} differ by {signed} {words}, untested{f': {reason}' if reason else ''}."
