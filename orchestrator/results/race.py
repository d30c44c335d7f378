"""The rounds of a design: each candidate gets equally many seeds, then the leader and the candidate nearest to it more.

A fixed design gives all seeds in its first round, so that there is no other. A race gives each candidate ``SHARE`` of
what it would get there, but at least ``LEAST`` seeds. The other trainings go, round by round, to the two candidates on
which the verdict depends. These are the leader (highest mean on val) and the candidate closest to the leader (largest
p-value of Welch's test on val). No candidate leaves: a candidate that falls back gets no seed until it is the closest
again.

The race ends when the leader is ahead of every candidate at p <= ``CLEAR``, or when its trainings are used up. Test is
opened then. The winner is *better* only where it beats every other candidate, with the seeds that they have, at
``LEVEL`` (``verdict.py``). This level is below that of a fixed design for two reasons. A candidate whose first seeds
were unlucky gets no seed that would correct them. A lead that images caused may end a race early. A constant share of
the trainings comes first, because without it the error rate grows with the number of trainings. Error rates and power:
``docs/evidence/verdict-errors.md``, measured by ``python -m tests.benchmarks race``.

A race is a function of the values so far: a race that was killed is computed again from its first round, with equal
rounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from orchestrator.results.statistics import welch_test
from orchestrator.text.values import count_text
from orchestrator.text.wording import metric_words, number_text, p_equals

SHARE = 2 / 3
"""Share of the trainings that all candidates get alike."""

LEAST = 3
"""Fewest seeds of each candidate in the first round of a race that has the trainings for them."""

CLEAR = 0.001
"""Largest p-value of any comparison on val with which a race ends before its trainings are used up."""

LEVEL = 0.02
"""Level of the verdict after a race, at which at most 4 % of simulated races call a winner better that has an equal."""


Ended = Mapping[int, float | None]
"""Seed of an ended training -> the metric on val; ``None`` where it diverged or failed."""


@dataclass(frozen=True)
class Round:
    """One round of a race, after all its trainings ended.

    Attributes:
        seeds: Label -> number of seeds that the candidate had been given.
        means: Label -> mean of the metric over these seeds, of each candidate with a finished seed.
        leader: Label of the candidate with the highest mean, among candidates that lost no seed.
        closest: Label of the candidate with the largest p-value against the leader; ``None`` where there is no other.
        p: Two-sided p-value of the leader's lead over the closest; 1 where the leader is not ahead.
    """

    seeds: Mapping[str, int]
    means: Mapping[str, float]
    leader: str
    closest: str | None
    p: float


@dataclass(frozen=True)
class Race:
    """The state of a race, or of a fixed design, which is a race of a single round.

    Attributes:
        rounds: The rounds whose trainings have all ended.
        seeds: Label -> number of seeds that the candidate has been given so far, including the current round.
        ended: Why the race is over, in words; ``None`` while trainings are due.
        trainings: Largest number of trainings that the race may use.
    """

    rounds: tuple[Round, ...]
    seeds: Mapping[str, int]
    ended: str | None
    trainings: int

    @property
    def used(self) -> int:
        """Number of trainings that the race has given out."""
        return sum(self.seeds.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the race as plain values for JSON."""
        return {
            "trainings": self.trainings,
            "used": self.used,
            "ended": self.ended,
            "seeds": dict(self.seeds),
            "rounds": list(map(asdict, self.rounds)),
        }


def first_seeds(trainings: int, candidates: int) -> int:
    """Return how many seeds each candidate gets in the first round of a race.

    Example:
        >>> first_seeds(30, 6), first_seeds(60, 6), first_seeds(14, 6)
        (3, 6, 2)
    """
    return max(min(LEAST, trainings // candidates), int(trainings * SHARE) // candidates)


def run_race(entrants: Mapping[str, Ended], first: int, trainings: int, seeds: Sequence[int]) -> Race:
    """Run a race up to the first round with missing values.

    Args:
        entrants: Label of each candidate of a dataset -> its ended trainings; seeds that a candidate was not given are
            ignored.
        first: Seeds of each candidate in the first round, >= 1.
        trainings: Largest number of trainings in all, at least ``first`` for each candidate; a fixed design has no
            more than these.
        seeds: Seeds in the order in which every candidate gets them; ``trainings`` of them are always enough.

    Returns:
        The race; where it has not ended, ``seeds`` includes the round for which trainings are missing.
    """
    counts = dict.fromkeys(entrants, first)
    rounds: list[Round] = []
    ended: str | None = None
    while ended is None:
        round_seeds = {label: seeds[:count] for label, count in counts.items()}
        if any(seed not in known for label, known in entrants.items() for seed in round_seeds[label]):
            break
        closed = _close_round(entrants, round_seeds)
        if closed is None:
            ended = "every candidate lost a seed"
            break
        rounds.append(closed)
        in_front = [label for label in counts if label in (closed.leader, closed.closest)]
        # Late in a race, single seeds would leave machines idle.
        fewest = min(counts[label] for label in in_front)
        further = min(max(1, fewest // 4), (trainings - sum(counts.values())) // 2)
        if closed.closest is None:
            ended = "there is no other candidate with two seeds"
        elif closed.p <= CLEAR:
            ended = f"its leader is ahead of every candidate on val, p ≤ {CLEAR:g}"
        elif further < 1:
            ended = "the trainings are used up"
        else:
            counts = {label: count + further * (label in in_front) for label, count in counts.items()}
    return Race(tuple(rounds), counts, ended, trainings)


def _close_round(entrants: Mapping[str, Ended], round_seeds: Mapping[str, Sequence[int]]) -> Round | None:
    """Return the result of a round; ``None`` where every candidate lost a seed, so that nobody can win."""
    values = {label: [ended[seed] for seed in sorted(round_seeds[label])] for label, ended in entrants.items()}
    samples = {label: np.array([value for value in of if value is not None]) for label, of in values.items()}
    means = {label: float(sample.mean()) for label, sample in samples.items() if len(sample)}
    whole = [label for label, of in values.items() if None not in of]
    if not whole:
        return None
    leader = max(whole, key=lambda label: means[label])
    # A candidate of which a single seed is left after losses has no spread, and the verdict passes over it as well.
    others = [label for label, sample in samples.items() if label != leader and len(sample) > 1]
    tests = {label: welch_test(samples[leader], samples[label]) for label in others}
    p = {label: test.p if test is not None and test.difference > 0 else 1.0 for label, test in tests.items()}
    closest = max(others, key=lambda label: (p[label], means[label]), default=None)
    counts = {label: len(seeds) for label, seeds in round_seeds.items()}
    return Round(counts, means, leader, closest, p[closest] if closest else 1.0)


def describe_race(race: Race, metric: str, names: Mapping[str, str]) -> list[str]:
    """Return sentences about the state of a race, and about its newest round; ``names`` see ``race_names``."""
    trainings = f"{race.used} of at most {race.trainings} trainings"
    if race.ended is None:
        state = f"Round {len(race.rounds) + 1} runs: {trainings} are given out."
    else:
        state = f"The race ended after {count_text(len(race.rounds), 'round')} and {trainings}: {race.ended}."
    newest = [describe_round(race.rounds[-1], len(race.rounds), metric, names)] if race.rounds else []
    counts = "; ".join(f"{count} of {names[label]}" for label, count in race.seeds.items())
    return [state, *newest, f"Seeds: {counts}."]


def describe_round(closed: Round, number: int, metric: str, names: Mapping[str, str]) -> str:
    """Return a sentence about the result of a round of a race; rounds are numbered from 1."""
    leader, mean, unit = names[closed.leader], closed.means[closed.leader], metric_words(metric)
    if closed.closest is None:
        seeds = count_text(closed.seeds[closed.leader], "seed")
        return f"Round {number}: {leader} leads with {number_text(mean, metric)} {unit} over {seeds}."
    # A candidate that lost a seed does not lead, also where its mean is higher.
    behind = mean - closed.means[closed.closest]
    lead = f"{number_text(abs(behind), metric)} {unit} {'behind' if behind >= 0 else 'ahead of'} {leader}"
    return f"Round {number}: {names[closed.closest]} is {lead}, {p_equals(closed.p)}."


def race_outcome(race: Race, label: str) -> str:
    """Return the outcome of a race for a candidate, short enough for a tag."""
    seeds = count_text(race.seeds[label], "seed")
    newest = race.rounds[-1] if race.rounds else None
    place = {newest.leader: "leader", newest.closest: "closest"}.get(label) if newest else None
    return f"{seeds}, {place}" if place else seeds
