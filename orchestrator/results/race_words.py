"""A race in sentences: its candidates, which left after which round and why, and how the race ended."""

from orchestrator.results.candidates import Departed
from orchestrator.results.race import Race, Round
from orchestrator.text.values import count_text

WHY = {
    Departed.BEATEN: "the leader was found better",
    Departed.TRAILED: "it trailed too far behind the leader",
    Departed.LOST: "a training of it was lost, so it could not win any more",
}
"""How a candidate left -> reason in words."""


def describe_race(race: Race, metric: str) -> list[str]:
    """Return sentences about the state of a race, and about which candidate left after which round and why.

    Args:
        race: The race of a dataset.
        metric: Metric on val that decides the race.
    """
    numbered = enumerate(race.rounds, start=1)
    return [
        _standing(race),
        *(_departure(one, number, label, metric) for number, one in numbered for label in one.left),
    ]


def describe_round(one: Round, number: int, metric: str) -> str:
    """Return a sentence about the result of a round of a race; rounds are numbered from 1."""
    leads = f"{one.leader} leads with {metric} {one.means[one.leader]:.2f} over {_seeds(one.seeds)}"
    left = "".join(f"; {_departure(one, number, label, metric)}" for label in one.left)
    return f"race, round {number}: {leads}{left}"


def race_outcome(race: Race, label: str) -> str:
    """Return the outcome of a race for a candidate, short enough for a tag."""
    left = race.left.get(label)
    if left is not None:
        return f"left after {_seeds(left.seeds)}: {left.how}"
    return "stayed to the end" if race.ended else "in the race"


def _standing(race: Race) -> str:
    trainings = f"{race.used} of at most {race.trainings} trainings"
    names = ", ".join(f"{label} ({_seeds(race.seeds[label])})" for label in race.staying)
    if race.ended is None:
        return f"race, round {len(race.rounds) + 1} under way, {trainings} given out; in the race: {names}"
    rounds = count_text(len(race.rounds), "round")
    how = f"race: over after {rounds} and {trainings}, because {race.ended}"
    return f"{how}; to the end: {names}; level of the verdict: {race.level:.2g}"


def _departure(one: Round, number: int, label: str, metric: str) -> str:
    """Return why a candidate left after a round; a candidate without finished trainings has no mean."""
    why = WHY[one.left[label].how]
    if label not in one.means:
        return f"{label} left after round {number}: {why}"
    behind = one.means[one.leader] - one.means[label]
    return f"{label} left after round {number}, {behind:.2f} {metric} behind {one.leader}: {why}"


def _seeds(count: int) -> str:
    return count_text(count, "seed")
