"""Answers about runs that were made elsewhere: which candidate is better, how sure that is, and what is not known.

The candidates of a dataset are compared by ``compare``, and one ``Question`` gives each pair its word:

    a baseline is named     each other candidate against the baseline, Holm-adjusted over these pairs
    no baseline             every candidate against every other, Holm-adjusted over all pairs

The second holds whichever candidate is shown as the best, because its pairs were all counted. So the words *better* and
*worse* on a dataset hold together at ``LEVEL``, as far as Welch's test is exact: ``python -m tests.benchmarks judge``
simulates few seeds and unequal spreads. Looks at the test split before this table multiply the
p-values. A candidate that lacks a run is never called better: a lost run is often a run that failed.

How a candidate was chosen, how often test was opened and whether a search was repeated is in no table. It is asked in
``Circumstances``; an unknown circumstance is printed as a limit of the answer.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from orchestrator.results.answer import Answer, Cell, Column, Quantity, table_of
from orchestrator.results.comparison import Comparison, compare
from orchestrator.results.question import P, Pair, Question, Verdict, conclude, holm_adjusted, only_worse
from orchestrator.results.questions import needed_text
from orchestrator.results.runs import Runs, Unit
from orchestrator.results.statistics import Interval, has_spread, two_sided
from orchestrator.results.verdict import LEVEL, LEVELS_OF_SEARCHES
from orchestrator.text.values import count_text
from orchestrator.text.wording import interval_text, listed, metric_words, number_text, p_equals

VALUE = "value"
"""Metric of the runs, larger is better."""

FAR = 10.0
"""Standard deviations of the other runs from which on a run is called far away."""

CHOSEN = {
    None: "It is not known how the candidates were chosen (--chosen); if by these numbers, the lead is too high.",
    "test": "These numbers chose the candidates, so the lead of the best is too high; fresh seeds would show it.",
    "val": "",
    "beforehand": "",
}
"""How the candidates were chosen -> the limit that follows."""

SETTINGS = {
    None: "It is not known whether settings were searched (--settings): another search may find others.",
    "searched": "One search a candidate: another search may find other settings, which these seeds do not show.",
    "fixed": "",
}
"""Where the settings come from -> the limit that follows, for candidates of a single search."""


@dataclass(frozen=True)
class Circumstances:
    """What a table of results does not say.

    Attributes:
        metric: Name of the metric for people.
        lower_is_better: Whether the runs hold the metric with the other sign.
        baseline: Label that every other candidate is compared with; ``None`` compares all pairs.
        looks: How often these candidates were compared on the test split, this time included; ``None`` if unknown.
        chosen: ``beforehand``, ``val`` or ``test``; ``None`` if unknown.
        settings: ``fixed`` or ``searched``; ``None`` if unknown.
        ignore_missing: Whether runs without a value are left out without consequence.
        over_queries: Whether the queries vary beside the seeds, where their values are known.
    """

    metric: str
    lower_is_better: bool = False
    baseline: str | None = None
    looks: int | None = None
    chosen: str | None = None
    settings: str | None = None
    ignore_missing: bool = False
    over_queries: bool = True


@dataclass(frozen=True)
class MetricForm:
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


def pair_sentence(pair: Pair, form: MetricForm, basis: str, level: float = LEVEL) -> str:
    """Return the word on a pair as a sentence; ``basis`` is such as ``5 seeds``, ``level`` that of the question."""
    words = metric_words(form.metric)
    evidence = "" if pair.interval is None else f", 95 % CI {form.interval(pair.interval)}"
    evidence += "" if pair.p is None else f", {p_equals(pair.p)}"
    signed = form.value(pair.difference, signed=True)
    if pair.verdict is Verdict.BETTER and not form.lower_is_better:
        return f"{pair.first} beats {pair.second} by {form.value(pair.difference)} {words}{evidence} ({basis})."
    if pair.verdict is Verdict.BETTER:
        return f"{pair.first} beats {pair.second}: {signed} {words}, lower is better{evidence} ({basis})."
    if pair.verdict is Verdict.WORSE:
        return f"{pair.first} is worse than {pair.second}: {signed} {words}{evidence} ({basis})."
    if pair.verdict is Verdict.TIE:
        if pair.interval is not None and not pair.interval.low <= 0 <= pair.interval.high:
            evidence += f" at a level of {level:g}"
        return f"{pair.first} and {pair.second} do not differ significantly: {signed} {words}{evidence} ({basis})."
    reason = pair.comparison.reason
    return f"{pair.first} and {pair.second} differ by {signed} {words}, untested{f': {reason}' if reason else ''}."


def turned_values(runs: Runs) -> Runs:
    """Return a candidate whose values have the other sign, so that a larger value is better."""
    return replace(
        runs,
        values={run: {name: -value for name, value in metrics.items()} for run, metrics in runs.values.items()},
        images={name: {run: -values for run, values in known.items()} for name, known in runs.images.items()},
        means={name: replace(known, mean=-known.mean) for name, known in runs.means.items()},
    )


class TableVerdict:
    """The candidates of a dataset, the best first, and the words on their pairs.

    Args:
        dataset: Its name; may be empty.
        candidates: With the metric ``VALUE``, larger is better.
        about: The circumstances.
    """

    def __init__(self, dataset: str, candidates: Sequence[Runs], about: Circumstances) -> None:
        self._dataset, self._about = dataset, about
        known = [runs for runs in candidates if runs.values or runs.means]
        if not about.over_queries:
            # Over the runs alone, a single run says nothing of another.
            known = [replace(runs, has_seeds=True) for runs in known]
        searches = min((runs.searches for runs in known if runs.unit is Unit.SEARCH), default=0)
        self._level = LEVELS_OF_SEARCHES.get(searches, LEVEL)
        self._empty = [runs for runs in candidates if not (runs.values or runs.means)]
        self._order = sorted(known, key=lambda runs: -runs.mean(VALUE))
        self._form = MetricForm(about.metric, _decimals(self._order), about.lower_is_better)
        self._by_label = {runs.label: runs for runs in self._order}
        baseline = self._by_label.get(about.baseline or "")
        others = [runs for runs in self._order if runs is not baseline]
        sides = [(runs, baseline) for runs in others] if baseline else list(combinations(self._order, 2))
        pairs = Question(self._level, self._family).ask([self._compare(*side) for side in sides])
        self._pairs = tuple(self._with_missing(pair) for pair in pairs)
        self._first = baseline or (self._order[0] if self._order else None)
        self._baseline = baseline

    def _family(self, comparisons: Sequence[Comparison], p_values: Sequence[P]) -> Sequence[P]:
        looks = self._about.looks or 1
        return [None if p is None else min(1.0, p * looks) for p in holm_adjusted(comparisons, p_values)]

    def _compare(self, first: Runs, second: Runs) -> Comparison:
        return compare(first, second, VALUE, over_images=self._about.over_queries)

    def _with_missing(self, pair: Pair) -> Pair:
        """Return a pair without the word that a candidate with lost runs cannot get."""
        if self._about.ignore_missing:
            return pair
        if self._by_label[pair.first].missing:
            (pair,) = only_worse([pair])
        if self._by_label[pair.second].missing:
            (pair,) = (back.turned() for back in only_worse([pair.turned()]))
        return pair

    @property
    def best(self) -> str | None:
        """Label of the candidate with the best mean; ``None`` where fewer than two have values."""
        return self._order[0].label if len(self._order) > 1 else None

    @property
    def shown(self) -> tuple[Pair, ...]:
        """The pairs that the answer has rows for: every other candidate against the baseline, or the best."""
        if self._baseline is not None or self._first is None:
            return self._pairs
        return tuple(pair for pair in self._pairs if pair.first == self._first.label)

    def answer(self) -> Answer:
        """Return which candidate is better, and how sure that is."""
        question = f"Which is better, by {metric_words(self._about.metric)}?"
        if len(self._order) < 2 or self._first is None:
            alone = listed(self._by_label) if self._order else "none"
            said = f"A comparison needs two candidates with values; there is {alone}."
            return Answer("table", self._dataset, question, said, str(Verdict.UNTESTED), notes=tuple(self._missing()))
        if self._baseline is not None:
            question = f"Better than {self._baseline.label}, by {metric_words(self._about.metric)}?"
        shown = self.shown
        word, deciding, headline = self._headline(shown)
        low, high = (deciding.interval and self._form.ends(deciding.interval)) or (None, None)
        test = deciding.comparison.test
        numbers: dict[str, float | int | None] = {
            "difference": self._form.shown(deciding.difference),
            "low": low,
            "high": high,
            "p": deciding.p,
            "p_unadjusted": deciding.comparison.p,
            "smallest_detectable_difference": None if test is None else test.detectable(self._level_of_pair),
        }
        notes = [*self._lone(), *self._settle(deciding), *self._missing(), *self._odd(), *self._limits(deciding)]
        table = table_of(*self._table(shown))
        return Answer(
            "table", self._dataset, question, headline, str(word), deciding.second, numbers, table, tuple(notes)
        )

    @property
    def _level_of_pair(self) -> float:
        """The level of a single pair, at the largest correction of the family."""
        return self._level / (max(1, len(self._pairs)) * (self._about.looks or 1))

    def _headline(self, shown: Sequence[Pair]) -> tuple[Verdict, Pair, str]:
        """Return the word, the pair that it rests on, and the sentence."""
        if self._baseline is not None:
            by_p = sorted(shown, key=lambda pair: (pair.p if pair.p is not None else 2.0, -pair.difference))
            deciding = by_p[0]
            better = [pair.first for pair in shown if pair.verdict is Verdict.BETTER]
            if len(shown) > 1 and better:
                deciding = next(pair for pair in by_p if pair.verdict is Verdict.BETTER)
                count = f"{len(better)} of {len(shown)} candidates beat {self._baseline.label}"
                return Verdict.BETTER, deciding, f"{count}: {listed(better)}. Surest: {self._sentence(deciding)}"
            return deciding.verdict, deciding, self._sentence(deciding)
        conclusion = conclude(shown)
        deciding = conclusion.deciding or shown[0]
        if conclusion.verdict is Verdict.BETTER and len(shown) > 1:
            p = "" if conclusion.p is None else f", {p_equals(conclusion.p).replace('=', '≤')}"
            closest = min(shown, key=lambda pair: pair.difference)
            return (
                conclusion.verdict,
                closest,
                f"{closest.first} beats every other candidate{p}. Closest: {self._sentence(closest)}",
            )
        return conclusion.verdict, deciding, self._sentence(deciding)

    def _sentence(self, pair: Pair) -> str:
        lost = [side for side in (pair.first, pair.second) if self._by_label[side].missing]
        if pair.verdict is Verdict.UNTESTED and lost and not self._about.ignore_missing:
            signed = self._form.value(pair.difference, signed=True)
            return f"{pair.first} and {pair.second} differ by {signed}, and {listed(lost)} lost a run: no verdict."
        return pair_sentence(pair, self._form, self._basis(pair), self._level)

    def _basis(self, pair: Pair) -> str:
        counts = sorted({_count(self._by_label[side]) for side in (pair.first, pair.second)})
        noun = "search" if pair.comparison.unit is Unit.SEARCH else "run"
        runs = " and ".join([*(f"{count:,}" for count in counts[:-1]), count_text(counts[-1], noun)])
        return runs if pair.comparison.images is None else f"{runs} × {pair.comparison.images:,} queries"

    def _lone(self) -> list[str]:
        """Say what follows from a single run, or from unequal numbers of runs."""
        notes = []
        for runs in self._order:
            if _count(runs) == 1 and runs.values:
                notes.append(
                    f"{runs.label} has one run: the verdict is about this run, and not about training it again."
                    if not runs.has_seeds
                    else f"{runs.label} has one run; a verdict needs at least two of each candidate."
                )
                notes += self._as_a_run_of(runs) if runs.has_seeds else []
        counts = {runs.label: _count(runs) for runs in self._order}
        if len(set(counts.values())) > 1 and min(counts.values()) > 1:
            said = listed(f"{label} {count}" for label, count in counts.items())
            notes.append(f"The candidates have unequal numbers of runs ({said}); Welch's test allows it.")
        return notes

    def _as_a_run_of(self, lone: Runs) -> list[str]:
        """Say how often another candidate has a run as far away as a single run, if both spread alike."""
        wide = [runs for runs in self._order if _count(runs) > 2 and runs.values]
        if not wide:
            return []
        other = max(wide, key=_count)
        sample = other.sample(VALUE)
        spread = float(sample.std(ddof=1)) * math.sqrt(1 + 1 / len(sample))
        if spread <= 0:
            return []
        away = (float(lone.sample(VALUE)[0]) - float(sample.mean())) / spread
        p = two_sided(away, len(sample) - 1)
        return [
            f"If its runs spread like those of {other.label}, a run as far away has {p_equals(p)}; this is no verdict."
        ]

    def _settle(self, deciding: Pair) -> list[str]:
        test = deciding.comparison.test
        if deciding.verdict is not Verdict.TIE or test is None:
            return []
        smallest = self._size(test.detectable(self._level_of_pair))
        said = f"With these data the smallest detectable difference is {smallest}"
        needed = test.range_of_seeds(self._level_of_pair) if deciding.difference else None
        gap = self._size(abs(deciding.difference))
        if deciding.comparison.share_of_images > 0.5:
            return [f"{said}; most of the uncertainty comes from the queries, not from the runs."]
        fewest, most = needed or (None, None)
        return [f"{said}; {needed_text(fewest, most, 'runs', gap)}."]

    def _size(self, size: float) -> str:
        return replace(self._form, lower_is_better=False).value(size)

    def _missing(self) -> list[str]:
        notes = []
        for runs in (*self._order, *self._empty):
            if runs.missing:
                seeds = listed(str(run.seed) for run in sorted(runs.missing))
                why = listed(dict.fromkeys(runs.missing.values()))
                notes.append(f"{runs.label} lacks a value of seed {seeds} ({why}).")
        if notes and not self._about.ignore_missing:
            notes.append("A candidate with lost runs is never called better (--ignore-missing leaves them out).")
        return notes

    def _odd(self) -> list[str]:
        """Say which runs are far from the others of their candidate, and whose runs are all alike."""
        notes = []
        for runs in self._order:
            sample = runs.sample(VALUE) if runs.values else np.empty(0)
            if len(sample) > 1 and not has_spread(sample):
                notes.append(f"All runs of {runs.label} have the same value: does the seed change anything?")
            for place, value in enumerate(sample if len(sample) > 3 else []):
                rest = np.delete(sample, place)
                if abs(value - rest.mean()) > FAR * max(float(rest.std(ddof=1)), 1e-12) and has_spread(rest):
                    notes.append(
                        f"A run of {runs.label} is far from its others: {self._form.value(float(value))} beside "
                        f"{self._form.value(float(rest.mean()))} in the mean."
                    )
        return notes

    def _limits(self, deciding: Pair) -> list[str]:
        limits = [CHOSEN[self._about.chosen]]
        if deciding.comparison.unit is not Unit.SEARCH:
            limits.append(SETTINGS[self._about.settings])
        if self._about.looks is None:
            limits.append("It is not known how often test was opened before (--looks); p counts one look.")
        if deciding.comparison.images is None:
            limits.append("The test varies the runs alone, on these data.")
        return [limit for limit in limits if limit]

    def _table(self, shown: Sequence[Pair]) -> tuple[list[Column], list[Sequence[Cell]]]:
        against = self._baseline.label if self._baseline else "the best"
        metric, decimals = self._about.metric, self._form.decimals
        columns = [
            Column("candidate", "candidate"),
            Column("runs", "runs", unit="count"),
            Column("result", "mean ± sd", unit=metric, shows="apart", decimals=decimals),
            Column("difference", f"against {against}", unit=metric, signed=True, shows="both", decimals=decimals),
            Column("p", "p" if len(self._pairs) < 2 else "p (Holm)", unit="p"),
            Column("verdict", "verdict"),
        ]
        by_label = {pair.first: pair for pair in shown} if self._baseline else {}
        by_label |= {} if self._baseline else {pair.second: pair.turned() for pair in shown}
        rows: list[Sequence[Cell]] = []
        for runs in self._order:
            pair = by_label.get(runs.label)
            first = "baseline" if self._baseline else "best"
            about: list[Cell] = [runs.label, _count(runs), self._quantity(runs)]
            if pair is None:
                rows.append([*about, None, None, first])
                continue
            ends = self._form.ends(pair.interval) if pair.interval else ()
            rows.append([*about, Quantity(self._form.shown(pair.difference), None, *ends), pair.p, str(pair.verdict)])
        return columns, rows

    def _quantity(self, runs: Runs) -> Quantity:
        known = runs.measure(VALUE)
        interval = runs.interval(VALUE) if runs.values else None
        ends = self._form.ends(interval) if interval else ()
        return Quantity(self._form.shown(known.mean), known.sample_std, *ends)


def over_datasets(verdicts: Mapping[str, TableVerdict], baseline: str | None = None) -> Answer:
    """Return on how many datasets each candidate is ahead, and how often it beats all others, or the baseline."""
    best: dict[str, list[str]] = {}
    beats: Counter[str] = Counter()
    for dataset, verdict in verdicts.items():
        if verdict.best is not None:
            best.setdefault(verdict.best, []).append(dataset)
        beats.update(pair.first for pair in verdict.shown if pair.verdict is Verdict.BETTER)
    ahead = [f"{label} is ahead on {len(names)} of {len(verdicts)} datasets" for label, names in best.items()]
    sure = sum(bool(of.shown) and all(pair.verdict is Verdict.BETTER for pair in of.shown) for of in verdicts.values())
    shown = f"the best is better than all others on {sure}"
    if baseline is not None:
        said = [f"{label} beats {baseline} on {count}" for label, count in beats.most_common()]
        shown = "; ".join(said) or f"no candidate beats {baseline} on any"
    headline = f"{'; '.join(ahead)}; {shown}." if ahead else "No dataset has two candidates with values."
    note = "Each dataset is a question of its own; the p-values are not corrected for the number of datasets."
    return Answer("datasets", "", "Over all datasets?", headline, notes=(note,))


def _count(runs: Runs) -> int:
    return runs.means[VALUE].seeds if not runs.values else len(runs.sample(VALUE, runs.unit))


def _decimals(candidates: Sequence[Runs]) -> int:
    """Return the digits after the point that two digits of the smallest spread need, between 0 and 6."""
    spreads = [runs.measure(VALUE).sample_std or 0.0 for runs in candidates]
    size = min((spread for spread in spreads if spread > 0), default=0.0)
    if not size:
        size = max((abs(runs.mean(VALUE)) for runs in candidates), default=0.0) / 100
    return 1 if size <= 0 else min(6, max(0, 1 - math.floor(math.log10(size))))
