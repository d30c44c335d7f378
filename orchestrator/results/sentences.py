"""A verdict in sentences, for people: what the winner reached, how it compares, and what is to be known beside that."""

from collections.abc import Mapping
from typing import Any

from orchestrator.results.equal_budget_words import describe_budgets, describe_seeds
from orchestrator.results.judged import describe_judged
from orchestrator.results.race_words import describe_race
from orchestrator.results.summary import Summary
from orchestrator.text.values import count_text, values_text

UNCONFIRMED = "unconfirmed: the best of its search; confirm it with fresh seeds before believing it"


def statements(dataset: str, summary: Summary, *, brief: bool = False) -> list[str]:
    """Return what is to be known of a dataset's winner, the verdict first.

    Args:
        dataset: Name of the dataset.
        summary: Summary of the experiment.
        brief: Whether only to say what was compared, what was found and what would change it.
    """
    verdict = next((one for one in summary["verdicts"] if one["dataset"] == dataset), None)
    sentences = [UNCONFIRMED] if verdict is None else _in_words(verdict)
    sentences += describe_judged(summary["judged"].get(dataset, ()))
    if brief:
        return sentences
    sentences += [] if verdict is None else _in_numbers(verdict)
    race = summary["races"].get(dataset)
    sentences += [] if race is None else describe_race(race, summary["metric"])
    if verdict is not None:
        sentences += describe_seeds(verdict, summary["confirm_looks"].get(dataset, 0))
    sentences += describe_budgets(summary["equal_budget"][dataset]) if dataset in summary["equal_budget"] else []
    opened = summary["test_openings"].get(dataset, 0)
    sentences += [f"the test split was opened {'once' if opened == 1 else f'{opened} times'}"] if opened else []
    return [*sentences, *(sentence.rstrip(".") for sentence in summary["caveats"].get(dataset, []))]


def verdict_sentences(verdict: Mapping[str, Any]) -> list[str]:
    """Return what ``DatasetVerdict.to_dict()`` says, in words and then in numbers."""
    return [*_in_words(verdict), *_in_numbers(verdict)]


def _in_words(verdict: Mapping[str, Any]) -> list[str]:
    """Return the sentences for people, what the verdict rests on first."""
    others = [sentence for sentence in verdict["found"] if sentence != verdict["reason"]]
    compared = [f"compared: {verdict['compared']}"] if verdict["compared"] else []
    change = [f"what would change it: {sentence}" for sentence in verdict["would_change"]]
    return [f"{verdict['verdict']}: {verdict['reason']}", *others, *compared, *change]


def _in_numbers(verdict: Mapping[str, Any]) -> list[str]:
    sentences = []
    if verdict["standings"]:
        sentences.append(_winner(verdict["standings"][0], verdict["metric"]))
    names = {standing["label"]: _name(standing) for standing in verdict["standings"]}
    sentences += [_comparison(comparison, names[comparison["label"]]) for comparison in verdict["comparisons"]]
    return [*sentences, *verdict["warnings"]]


def _winner(standing: Mapping[str, Any], metric: str) -> str:
    result, interval = standing["result"], standing["bootstrap"]
    spread, seeds = result["sample_std"], count_text(result["seeds"], "seed")
    deviation = "" if spread is None else f" ± {spread:.2f} (sample standard deviation)"
    bounds = f"95 % bootstrap interval {_between(interval)}" if interval else "too few for an interval"
    return f"{_name(standing)}: {metric} {result['mean']:.2f}{deviation} over {seeds}, {bounds}"


def _name(standing: Mapping[str, Any]) -> str:
    """Return the label of a candidate with the hyper-parameters that tell it from others."""
    return f"{standing['label']} ({values_text(standing['parameters']) or 'defaults'})"


def _comparison(comparison: Mapping[str, Any], name: str) -> str:
    """Return the statistics against one other candidate; what could not be computed is left out."""
    roles = " and ".join(role.replace("_", "-") for role in comparison["roles"])
    interval = f" {_between(comparison['interval'])}" if comparison["interval"] else ""
    images = comparison["over_images"]
    interval += f", on new images {_between(images['interval'])}" if images else ""
    numbers = {
        "Welch p": comparison["welch_p"],
        "p over seeds and images": images["p"] if images else None,
        "corrected": comparison["holm_p"],
        f"paired p over {comparison['pairs']} seeds": comparison["paired_p"],
        "Hedges' g": comparison["effect"],
    }
    shown = "".join(f", {name} {value:.2g}" for name, value in numbers.items() if value is not None)
    words = f"{comparison['difference']:+.2f}{interval}{shown}"
    return f"against the {roles} {name}: {comparison['verdict']}, {words}"


def _between(interval: Mapping[str, float]) -> str:
    return f"[{interval['low']:.2f}, {interval['high']:.2f}]"
