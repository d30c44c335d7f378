"""Answers at equal budget in sentences: who is ahead, where curves cross, and what more budget may do."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.results.candidates import Verdict
from orchestrator.results.needed_seeds import POWER, needed_seeds
from orchestrator.results.spending import level_of_plan
from orchestrator.results.verdict import LEVEL


def describe_budgets(found: Mapping[str, Any]) -> list[str]:
    """Return what the losses of a dataset reach at equal budgets.

    Args:
        found: The answers for a dataset, see ``equal_budget.equal_budgets``.
    """
    sentences = [sentence for one in found["comparisons"] for sentence in _comparison(one, found)]
    if found["flattery"] is not None:
        more, of = ("higher" if found["flattery"] >= 0 else "lower"), found["metric"]
        sentences.append(
            f"in the search, {of} of the confirmed candidates was {abs(found['flattery']):.2f} {more} "
            f"than with fresh seeds, on average"
        )
    return sentences


def describe_seeds(verdict: Mapping[str, Any], looks: int) -> list[str]:
    """Return how many seeds would be likely to turn each tie of a verdict into a difference.

    Args:
        verdict: ``DatasetVerdict.to_dict()``.
        looks: How often the test split was opened for repeats; the next look has the level that these have left.
    """
    level = level_of_plan(LEVEL, looks)
    ties = [one for one in verdict["comparisons"] if one["verdict"] == Verdict.TIE and one["effect"]]
    return [_seeds(one, level) for one in ties]


def _comparison(one: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    first, other = one["first"], one["other"]
    ahead = f"{abs(one['difference']):.2f} {found['metric']} {'ahead of' if one['difference'] >= 0 else 'behind'}"
    return [
        f"with {one['trials']} trials each, {first} is expected {ahead} {other}, and is ahead in "
        f"{one['probability']:.0%} of the searches that are drawn anew from these trials",
        _crossing(one, found["hours_are"]),
        f"{other} has at most an even chance to improve on its best at all with {one['further_trials']} further trials",
    ]


def _crossing(one: Mapping[str, Any], hours: str) -> str:
    names = {"trials": "trials", "epochs": "epochs", "hours": hours}
    parts = [_where(crossed, names[budget]) for budget, crossed in one["crossings"].items() if crossed]
    if not parts:
        return f"the curves of {one['first']} and {one['other']} do not cross at any budget that both had"
    return f"the curves of {one['first']} and {one['other']} cross: {'; '.join(parts)}"


def _where(crossed: Sequence[Mapping[str, Any]], unit: str) -> str:
    return ", ".join(f"from {one['at']:.3g} {unit} on {one['ahead']} is ahead" for one in crossed)


def _seeds(one: Mapping[str, Any], level: float) -> str:
    roles = " and ".join(role.replace("_", "-") for role in one["roles"])
    seeds = needed_seeds(one["effect"], level)
    if seeds is None:
        return f"the measured difference to the {roles} is so small that no affordable number of seeds would find it"
    return (
        f"if the difference to the {roles} is as large as measured, about {seeds} seeds of each in all would find it "
        f"in {POWER:.0%} of such studies, at the level {level:.2g} that is left for a further look"
    )
