"""Sentences about losses at equal budgets: which loss is ahead, where curves cross, and what more budget may gain."""

import math

from orchestrator.results.equal_budget_answers import EqualBudget, LossComparison, Unit


def describe_budgets(found: EqualBudget) -> list[str]:
    """Return sentences about the losses of a dataset at equal budgets."""
    return [sentence for one in found.comparisons for sentence in _comparison(one, found)]


def _comparison(one: LossComparison, found: EqualBudget) -> list[str]:
    ahead = f"{abs(one.difference):.2f} {found.metric} {'ahead of' if one.difference >= 0 else 'behind'}"
    return [
        f"with {one.trials} trials each, {one.first} is expected {ahead} {one.other}, and is ahead in "
        f"{one.probability:.0%} of the searches that are drawn anew from these trials",
        _crossing(one, found),
        f"{one.other} has at most an even chance to improve on its best at all with {one.further_trials} further "
        f"trials",
    ]


def _crossing(one: LossComparison, found: EqualBudget) -> str:
    parts = [
        ", ".join(f"from {_budget(each.at, unit)} {found.name_of(unit)} on {each.ahead} is ahead" for each in crossed)
        for unit, crossed in one.crossings.items()
        if crossed
    ]
    if not parts:
        return f"the curves of {one.first} and {one.other} do not cross at any budget that both had"
    return f"the curves of {one.first} and {one.other} cross: {'; '.join(parts)}"


def _budget(at: float, unit: Unit) -> str:
    """Return a budget as a number; of trials and epochs, which are spent whole, the next whole number."""
    return f"{at:.3g}" if unit == "hours" else str(math.ceil(at))
