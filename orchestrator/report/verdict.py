"""The verdict on each dataset on the page: confirmed, with its statistics, or unconfirmed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.journal.trial import Trial
from orchestrator.report.studies import Study, leaders_of, names_of, renamed
from orchestrator.results.candidates import Comparison as ConfirmedComparison
from orchestrator.results.candidates import DatasetVerdict, OverImages
from orchestrator.results.candidates import Standing as ConfirmedStanding
from orchestrator.results.caveats import caveats
from orchestrator.results.statistics import FEWEST, Interval, Measure
from orchestrator.text.values import count_text, metric_text, values_text
from orchestrator.text.wording import probability_text

SHOWN = 5

TICKS = 4
"""Approximate number of ticks of a scale."""

_HEADLINES = {
    "better": "{winner} wins",
    "tie": "A tie: {winner} leads, and the seeds do not tell",
    "worse": "{winner} won on validation and lost on test",
    "untested": "Untested: {winner} leads",
}


@dataclass(frozen=True)
class Standing:
    """The values of one candidate.

    Attributes:
        label: Label of its study.
        detail: Trial and parameters.
        value: The value, as text.
        bar: Left end and width of its interval and the place of its value, in percent of the scale; without an interval
            the width is 0.
        note: Text under the value, e.g. the number of seeds.
    """

    label: str
    detail: str
    value: str
    bar: tuple[float, float, float]
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """The tests of the winner against another candidate.

    Attributes:
        against: Label of the other candidate.
        verdict: ``better``, ``tie``, ``worse`` or ``untested``.
        statistics: Names and values, as text.
    """

    against: str
    verdict: str
    statistics: list[tuple[str, str]]


@dataclass(frozen=True)
class Verdict:
    """The verdict on a dataset.

    Attributes:
        tone: ``better``, ``tie``, ``worse``, ``untested``, ``unconfirmed`` or ``none``.
        headline: The verdict in words.
        sentence: The basis of the verdict.
        measure: Description of the values.
        standings: Candidates, best first.
        scale: Places on the scale of the standings in percent, and the values there; empty if all values are equal.
        comparisons: Comparisons with the runner-up and the baseline, if there was a confirmation.
        warnings: Cautions about the verdict.
        compared: Sentence about the comparison; empty without a confirmation.
        found: Finding of each comparison.
        change: What would change the verdict.
        judged: Whether the verdict survives people's judgements of pairs, a sentence for each source.
    """

    dataset: str
    tone: str
    headline: str
    sentence: str
    measure: str = ""
    standings: list[Standing] = field(default_factory=list)
    scale: list[tuple[float, str]] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    compared: str = ""
    found: list[str] = field(default_factory=list)
    change: list[str] = field(default_factory=list)
    judged: list[str] = field(default_factory=list)


def unconfirmed(dataset: str, studies: Sequence[Study]) -> Verdict:
    """Return the verdict on a dataset without trials that were confirmed with fresh seeds."""
    ranked = leaders_of(studies)
    warnings = _warnings(studies)
    if not ranked:
        return Verdict(
            dataset,
            "none",
            "No verdict",
            "No trial has been trained to its end, so none can win.",
            warnings=warnings,
        )
    study, best = ranked[0]
    return Verdict(
        dataset,
        "unconfirmed",
        f"Unconfirmed: {study.label} leads",
        f"{_trained(study, best)} {metric_text(best.metric, study.value_of(best))}. "
        "It was picked because it is the highest, so it is probably too high; confirm it with fresh seeds first.",
        measure=f"{best.metric}, best epoch of {_of_how_many(study, best)}",
        standings=_standings(ranked[:SHOWN]),
        scale=scale([(value, value) for pair in ranked[:SHOWN] if (value := pair[0].value_of(pair[1])) is not None]),
        warnings=warnings,
    )


def _trained(study: Study, trial: Trial) -> str:
    count = len(study.points[trial.id].finished)
    name = study.name_of(trial)
    if count > 1:
        return f"{count} trainings of {name} reached on average"
    return f"One training of {name}, at its epoch {trial.best_epoch}, reached"


def _of_how_many(study: Study, trial: Trial) -> str:
    count = len(study.points[trial.id].finished)
    return f"each of {count} trainings, their mean" if count > 1 else "a single training"


def _standings(ranked: Sequence[tuple[Study, Trial]]) -> list[Standing]:
    values = [study.value_of(trial) or 0.0 for study, trial in ranked]
    return [
        Standing(
            label=study.label,
            detail=" · ".join(part for part in (f"trial {trial.number:04d}", values_text(trial.parameters)) if part),
            value=metric_text(trial.metric, study.value_of(trial)),
            bar=bar,
        )
        for (study, trial), bar in zip(ranked, bars([(value, value, value) for value in values]), strict=True)
    ]


def bars(intervals: Sequence[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Return left end, width and point of each (low, value, high), on a scale from 0 to 100 that holds all intervals.

    The scale has a margin of 6 on either side. The value need not be in the middle of its interval.
    """
    low, high = min(low for low, _, _ in intervals), max(high for _, _, high in intervals)
    if high <= low:
        return [(50.0, 0.0, 50.0) for _ in intervals]
    per_unit = 88 / (high - low)
    return [
        (
            round(6 + (left - low) * per_unit, 2),
            round((right - left) * per_unit, 2),
            round(6 + (value - low) * per_unit, 2),
        )
        for left, value, right in intervals
    ]


def scale(intervals: Sequence[tuple[float, float]]) -> list[tuple[float, str]]:
    """Return the ticks of the scale on which ``bars`` places intervals: places in percent, and round values.

    Args:
        intervals: Low and high of each interval.
    """
    low, high = min((low for low, _ in intervals), default=0.0), max((high for _, high in intervals), default=0.0)
    if high <= low:
        return []
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    decimals = max(0, -math.floor(math.log10(step)))
    values = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return [(round(6 + (value - low) * 88 / (high - low), 2), f"{value:.{decimals}f}") for value in values]


def _warnings(studies: Sequence[Study]) -> list[str]:
    sentences = caveats([trial for study in studies for trial in (*study.trials, *study.repeats)])
    return [renamed(sentence, names_of(studies)) for sentence in sentences]


def confirmed(given: DatasetVerdict, studies: Sequence[Study], names: Mapping[str, str]) -> Verdict:
    """Return the verdict on a dataset whose candidates were confirmed.

    Args:
        given: The verdict with its statistics.
        studies: Studies of the dataset.
        names: Id of a trial -> its name on the page.
    """

    def sentences(texts: Iterable[str]) -> list[str]:
        return [_sentence(renamed(text, names)) for text in texts]

    tone, winner, metric = str(given.verdict), given.winner, given.metric
    intervals = [interval_of(standing) for standing in given.standings]
    return Verdict(
        dataset=studies[0].dataset,
        tone=tone,
        headline=_HEADLINES[tone].format(winner=renamed(winner.candidate.label, names)) if winner else "No verdict",
        sentence="",
        measure=f"{metric}: mean ± sample standard deviation over fresh seeds on this test set, with its "
        f"95 % bootstrap interval (from {FEWEST} seeds on); chosen by {given.selection} alone",
        standings=_confirmed_standings(given, intervals, names),
        scale=scale([(low, high) for low, _, high in intervals]),
        comparisons=[_comparison(comparison, metric, names) for comparison in given.comparisons],
        warnings=[*sentences(given.warnings), *_warnings(studies)],
        compared="",
        found=[],
        change=[],
    )


def _sentence(text: str) -> str:
    """Return a statement as a sentence."""
    return f"{text[:1].upper()}{text[1:]}."


def _confirmed_standings(
    given: DatasetVerdict, intervals: Sequence[tuple[float, float, float]], names: Mapping[str, str]
) -> list[Standing]:
    placed = bars(intervals) if intervals else []
    return [
        Standing(
            label=renamed(one.candidate.label, names),
            detail=values_text(one.candidate.parameters),
            value=spread_text(one.result, given.metric),
            bar=bar,
            note=interval_note(interval, one.result.seeds, given.metric),
        )
        for one, interval, bar in zip(given.standings, intervals, placed, strict=True)
    ]


def interval_of(standing: ConfirmedStanding) -> tuple[float, float, float]:
    """Return low, mean and high of a candidate's value; without an interval all three are the mean."""
    mean, interval = standing.result.mean, standing.bootstrap
    return (interval.low, mean, interval.high) if interval else (mean, mean, mean)


def spread_text(result: Measure, metric: str) -> str:
    """Return a mean over seeds with its standard deviation, if known."""
    mean = metric_text(metric, result.mean)
    return mean if result.sample_std is None else f"{mean} ± {metric_text(metric, result.sample_std)}"


def interval_note(interval: tuple[float, float, float], seeds: int, metric: str) -> str:
    """Return the number of seeds as text, after the interval if the interval is known."""
    words = count_text(seeds, "seed")
    low, _, high = interval
    return words if low == high else f"[{metric_text(metric, low)}, {metric_text(metric, high)}], {words}"


def _comparison(given: ConfirmedComparison, metric: str, names: Mapping[str, str]) -> Comparison:
    between = f" {_between(given.interval)}" if given.interval else ""
    statistics = [
        (f"difference in {metric}", f"{given.difference:+.2f}{between}"),
        *_over_images(given.over_images, metric),
        ("p that decides, corrected", _p_text(given.holm_p)),
        ("Welch p (seeds alone)", _p_text(given.welch_p)),
        (f"paired p, {count_text(given.pairs, 'pair')}", _p_text(given.paired_p)),
        ("Hedges' g", "–" if given.effect is None else f"{given.effect:+.2f}"),
    ]
    return Comparison(f"{renamed(given.label, names)} ({given.roles_in_words})", str(given.verdict), statistics)


def _over_images(found: OverImages | None, metric: str) -> list[tuple[str, str]]:
    """Return the statistics of the test over seeds and images; empty without this test."""
    if found is None:
        return []
    return [
        (f"difference in {metric}, new images", _between(found.interval)),
        ("p over seeds and images", _p_text(found.p)),
        ("probability of being better", probability_text(found.probability)),
        (f"by at least {found.smallest_difference:g}", probability_text(found.probability_of_smallest)),
        ("uncertainty: images alone", f"{found.share_of_images:.0%}"),
        ("uncertainty: seeds alone", f"{found.share_of_seeds:.0%}"),
    ]


def _between(interval: Interval) -> str:
    return f"[{interval.low:+.2f}, {interval.high:+.2f}]"


def _p_text(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def verdicts_of(
    studies: Mapping[str, Sequence[Study]],
    given: Sequence[DatasetVerdict],
    names: Mapping[str, str],
    judged: Mapping[str, Sequence[str]],
) -> list[Verdict]:
    """Return the verdict on each dataset: the confirmed verdict if available, else the unconfirmed verdict.

    Args:
        studies: Studies by dataset.
        given: Verdicts on the datasets whose candidates were confirmed.
        names: Id of a trial -> its name on the page.
        judged: Dataset -> sentences about people's judgements.
    """
    sentences = {Path(dataset).name: each for dataset, each in judged.items()}
    known = {Path(verdict.dataset).name: verdict for verdict in given}
    return [
        replace(
            confirmed(known[dataset], group, names) if dataset in known else unconfirmed(dataset, group),
            judged=[_sentence(renamed(one, names)) for one in sentences.get(dataset, ())],
        )
        for dataset, group in studies.items()
    ]


def ranking(given: Sequence[DatasetVerdict]) -> dict[str, list[str]]:
    """Return the ids of the confirmed trials of each dataset, the winner first."""
    return {Path(one.dataset).name: [standing.candidate.label for standing in one.standings] for one in given}
