"""Sentences about a dataset's winner, for people: its values, its comparisons, and warnings."""

from orchestrator.results.analyses import describe_optimism, equal_budget_answer
from orchestrator.results.candidates import Candidate, Comparison, DatasetVerdict, Standing
from orchestrator.results.judged import judged_answer
from orchestrator.results.outside import OUTSIDE
from orchestrator.results.race import describe_race
from orchestrator.results.statistics import Interval
from orchestrator.results.summary import Summary
from orchestrator.results.trends import describe_trend
from orchestrator.text.values import count_text, values_text

UNCONFIRMED = "unconfirmed: the best of its search; confirm it with fresh seeds before believing it"


def statements(dataset: str, summary: Summary, *, brief: bool = False) -> list[str]:
    """Return the sentences about a dataset's winner, the verdict first.

    Args:
        dataset: Name of the dataset.
        summary: Summary of the experiment.
        brief: Whether to leave out statistics and caveats: the findings, the compared candidates and what would change
            the verdict are left.
    """
    verdict = summary.verdicts.get(dataset)
    sentences = [UNCONFIRMED] if verdict is None else _in_words(verdict)
    sentences += [sentence for trend in summary.trends.get(dataset, ()) for sentence in describe_trend(trend)]
    judged = judged_answer(dataset, summary.judged.get(dataset, ()))
    sentences += judged.sentences if judged else []
    if brief:
        return sentences
    sentences += [] if verdict is None else _in_numbers(verdict)
    if dataset in summary.races:
        sentences += describe_race(summary.races[dataset], summary.metric)
    if dataset in summary.analyses.equal_budget:
        sentences += equal_budget_answer(dataset, summary.analyses.equal_budget[dataset]).sentences
    optimism = summary.analyses.optimism.get(dataset)
    if optimism is not None and optimism["excess"] is not None:
        winner = None if verdict is None or verdict.winner is None else verdict.winner.candidate.label
        sentences += describe_optimism(optimism, winner)
    opened = summary.test_openings.get(dataset, 0)
    sentences += [f"the test split was opened {'once' if opened == 1 else f'{opened} times'}"] if opened else []
    return [*sentences, *caveats_of(dataset, summary)]


def caveats_of(dataset: str, summary: Summary) -> list[str]:
    """Return the sentences that qualify a dataset's results, without full stops."""
    return [sentence.rstrip(".") for sentence in summary.caveats.get(dataset, ())]


def verdict_sentences(verdict: DatasetVerdict) -> list[str]:
    """Return a verdict in words and then in numbers."""
    return [*_in_words(verdict), *_in_numbers(verdict)]


def _in_words(verdict: DatasetVerdict) -> list[str]:
    """Return a verdict in words, the comparison that decides first."""
    others = [sentence for sentence in verdict.found if sentence != verdict.reason]
    compared = [f"compared: {verdict.compared}"] if verdict.compared else []
    change = [f"what would change it: {sentence}" for sentence in verdict.would_change]
    return [f"{verdict.verdict}: {verdict.reason}", *others, *compared, *change]


def _in_numbers(verdict: DatasetVerdict) -> list[str]:
    names = {standing.candidate.label: _name(standing.candidate) for standing in verdict.standings}
    return [
        *(_winner(standing, verdict.metric) for standing in verdict.standings[:1]),
        *(_comparison(comparison, names[comparison.label]) for comparison in verdict.comparisons),
        *verdict.warnings,
    ]


def _winner(standing: Standing, metric: str) -> str:
    result, interval = standing.result, standing.bootstrap
    spread, seeds = result.sample_std, count_text(result.seeds, "seed")
    deviation = "" if spread is None else f" ± {spread:.2f} (sample standard deviation)"
    bounds = f"95 % bootstrap interval {_between(interval)}" if interval else "too few for an interval"
    return f"{_name(standing.candidate)}: {metric} {result.mean:.2f}{deviation} over {seeds}, {bounds}"


def _name(candidate: Candidate) -> str:
    """Return the label of a candidate with the hyper-parameters that tell it from others, where they are known."""
    known = "trained elsewhere" if candidate.model == OUTSIDE else "defaults"
    return f"{candidate.label} ({values_text(candidate.parameters) or known})"


def _comparison(comparison: Comparison, name: str) -> str:
    """Return the statistics of one comparison; statistics that could not be computed are left out."""
    images = comparison.over_images
    interval = f" {_between(comparison.interval)}" if comparison.interval else ""
    interval += f", on new images {_between(images.interval)}" if images else ""
    numbers = {
        "Welch p": comparison.welch_p,
        "p over seeds and images": images.p if images else None,
        "corrected": comparison.holm_p,
        f"paired p over {comparison.pairs} seeds": comparison.paired_p,
        "Hedges' g": comparison.effect,
    }
    shown = "".join(f", {name} {value:.2g}" for name, value in numbers.items() if value is not None)
    words = f"{comparison.difference:+.2f}{interval}{shown}"
    return f"against the {comparison.roles_in_words} {name}: {comparison.verdict}, {words}"


def _between(interval: Interval) -> str:
    return f"[{interval.low:.2f}, {interval.high:.2f}]"
