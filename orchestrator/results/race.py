"""A race: after each round, which candidates get a further seed, which leave, and whether the race is decided.

A fixed design gives every candidate as many seeds as the winner gets. A race gives each candidate ``FIRST`` seeds, and
the rest of its trainings to the candidates that still matter:

- A candidate that *trails* leaves: if it had the leader's true mean, so large a lag would come about with a probability
  below ``TRAILS`` of ``race_departures`` (one-sided, Student's distribution, with the spread of all candidates together
  [Maron1994]). Leaving claims nothing about a candidate but that it does not become the winner.
- Whom the verdict compares with the leader (runner-up, best of another loss, baseline) stays until its comparison is
  decided: until the verdict's own rule, asked about val at the level of the round, finds the leader better.
- A candidate that *lost* a seed cannot win any more (see ``verdict.py``) and leaves, if nobody is compared with it.

The race ends when the verdict on val is *better*, when nobody is left to race with, or when the trainings do not
suffice for another round. The rounds are looks at the same numbers, so each gets a part of the level (``spending.py``),
and looks begin with ``EARLIEST`` seeds. The verdict on test, which is opened after the race, has the level of the last
look. The level of a whole race is ``LEVEL``, below the one of a fixed design: the nominal levels are exact for normal
values with known spread, and Welch's test is not for few values of unequal spread.

Everything here is a function of the values so far: a race that was killed is run again from its first round, and comes
to the same rounds. Error rates and power: ``docs/confirming.md``, measured by ``python -m tests.benchmarks race``.

References:
    [Maron1994] Maron and Moore, Hoeffding races: accelerating model selection search for classification and function
        approximation. NIPS 6, 59-66.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.results.candidates import Candidate, DatasetVerdict, Departure, Verdict
from orchestrator.results.race_departures import leaving
from orchestrator.results.spending import levels_of_looks
from orchestrator.results.verdict import judge

FIRST = 2
"""Seeds of each candidate before any candidate can leave."""

EARLIEST = 3
"""Seeds of the leader at the first look that can decide a comparison."""

LEVEL = 0.035
"""Of a whole race; two candidates alike are then called different in at most 4.8 % of studies, see ``spending.py``."""


@dataclass(frozen=True)
class RaceRules:
    """The rules of a race.

    Attributes:
        trainings: At most so many in all, >= ``FIRST`` times the number of candidates.
        seeds: In the order in which every candidate gets them; at least as many as a candidate can get.
        metric: Metric on val, which decides which candidates stay in the race.
        baseline: Label or loss of the baseline among the candidates; ``None`` where there is none.
        level: Level of the whole race.
    """

    trainings: int
    seeds: Sequence[int]
    metric: str
    baseline: str | None = None
    level: float = LEVEL

    def most_seeds(self, candidates: int) -> int:
        """Return how many seeds a candidate can get: when all but two leave after the first round."""
        return most_seeds(self.trainings, candidates)


@dataclass(frozen=True)
class Round:
    """One round of a race, after all its trainings ended.

    Attributes:
        seeds: Seeds that each candidate in the race has after the round.
        level: Nominal, of the look after the round; ``None`` before looks begin.
        leader: Label of the candidate with the highest mean that can win.
        means: Label -> mean of the metric over the seeds so far, of each candidate that has one.
        left: Label -> how a candidate left after this round.
    """

    seeds: int
    level: float | None
    leader: str
    means: Mapping[str, float]
    left: Mapping[str, Departure]

    def to_dict(self) -> dict[str, Any]:
        """Return the round as plain values for JSON."""
        left = {label: str(departure.how) for label, departure in self.left.items()}
        return {**vars(self), "means": dict(self.means), "left": left}


@dataclass(frozen=True)
class Race:
    """How a race stands.

    Attributes:
        rounds: Those whose trainings have all ended.
        seeds: Label -> seeds that the candidate has been given so far, the seeds of the current round included.
        left: Label -> how a candidate left, of all rounds.
        ended: Why the race is over, in words; ``None`` while trainings are due.
        level: What is left of the level for the verdict; ``None`` while trainings are due.
        trainings: The most that the race may use.
    """

    rounds: tuple[Round, ...]
    seeds: Mapping[str, int]
    left: Mapping[str, Departure]
    ended: str | None
    level: float | None
    trainings: int

    @property
    def used(self) -> int:
        """How many trainings the race has given out."""
        return sum(self.seeds.values())

    @property
    def staying(self) -> list[str]:
        """The labels of the candidates that are in the race, or were at its end."""
        return [label for label in self.seeds if label not in self.left]

    def to_dict(self) -> dict[str, Any]:
        """Return the race as plain values for JSON."""
        return {
            "trainings": self.trainings,
            "used": self.used,
            "ended": self.ended,
            "level": self.level,
            "seeds": dict(self.seeds),
            "staying": self.staying,
            "left": {label: {"how": str(one.how), "seeds": one.seeds} for label, one in self.left.items()},
            "rounds": [one.to_dict() for one in self.rounds],
        }


def most_seeds(trainings: int, candidates: int) -> int:
    """Return how many seeds a candidate of a race can get at most."""
    return FIRST + max(0, trainings - FIRST * candidates) // min(2, candidates)


def run_race(candidates: Sequence[Candidate], rules: RaceRules) -> Race:
    """Run a race as far as there are values.

    Args:
        candidates: Candidates of one dataset, in an order that never changes; seeds that a candidate was not given
            are ignored.
        rules: Rules of the race.

    Returns:
        The race; where it has not ended, the seeds of the round for which trainings are missing are in ``seeds``.
    """
    state = _State({one.label: FIRST for one in candidates})
    while True:
        current = [_so_far(one, state, rules.seeds) for one in candidates]
        if any(_waits(one, state, rules.seeds) for one in current):
            return Race(tuple(state.rounds), state.seeds, state.left, None, None, rules.trainings)
        ended = _close_round(current, state, rules)
        if ended is not None:
            level = _levels(state, rules, len(candidates), last=True)
            return Race(tuple(state.rounds), state.seeds, state.left, ended, level, rules.trainings)


@dataclass
class _State:
    """The state of a race, which changes from round to round.

    Attributes:
        seeds: Label -> seeds given.
        left: Label -> how it left.
        rounds: Those that are over.
        looks: Seeds of the leader at each look that could decide.
    """

    seeds: dict[str, int]
    left: dict[str, Departure] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    looks: list[int] = field(default_factory=list)

    @property
    def newest(self) -> int:
        """Seeds of the candidates that are in the race."""
        return max(self.seeds.values())


def _so_far(candidate: Candidate, state: _State, seeds: Sequence[int]) -> Candidate:
    """Return a candidate with the seeds alone that it was given, and how it left."""
    given = set(seeds[: state.seeds[candidate.label]])
    return replace(
        candidate,
        values={seed: found for seed, found in candidate.values.items() if seed in given},
        missing={seed: fate for seed, fate in candidate.missing.items() if seed in given},
        left=state.left.get(candidate.label),
    )


def _waits(candidate: Candidate, state: _State, seeds: Sequence[int]) -> bool:
    return len(candidate.values) + len(candidate.missing) < state.seeds[candidate.label]


def _close_round(current: Sequence[Candidate], state: _State, rules: RaceRules) -> str | None:
    """Let candidates leave and give the others their next seeds; return why the race is over, if it is."""
    seeds = state.newest
    looks = seeds >= EARLIEST
    state.looks += [seeds] if looks else []
    level = _levels(state, rules, len(current), last=False) if looks else None
    # Where no comparison can be decided yet, the verdict is asked for the ranking and the opponents alone.
    verdict = _ask(current, rules, level or 0.0)
    able = [one.candidate for one in verdict.standings if _can_win(one.candidate)]
    if not able:
        return "every candidate lost a seed"
    gone = leaving(current, able[0], verdict)
    state.left |= gone
    state.rounds.append(Round(seeds, level, able[0].label, _means(verdict), gone))
    if verdict.verdict is Verdict.BETTER:
        return "the leader is better than all that it is compared with"
    return _next_round(current, state, rules)


def _ask(current: Sequence[Candidate], rules: RaceRules, level: float) -> DatasetVerdict:
    (verdict,) = judge(
        current, metric=rules.metric, selection=rules.metric, baseline=rules.baseline, level=level, resamples=1
    )
    return verdict


def _can_win(candidate: Candidate) -> bool:
    return candidate.left is None and not candidate.missing


def _means(verdict: DatasetVerdict) -> dict[str, float]:
    return {one.candidate.label: one.selected_by for one in verdict.standings}


def _next_round(current: Sequence[Candidate], state: _State, rules: RaceRules) -> str | None:
    """Give every candidate that is in the race further seeds; return why there is no further round."""
    staying = [one.label for one in current if one.label not in state.left]
    if len(staying) < 2:
        return "nobody is left to race with"
    left = rules.trainings - sum(state.seeds.values())
    # A quarter more: far into a race, rounds of one seed would leave machines idle, and tell little.
    further = min(max(1, state.newest // 4), left // len(staying))
    if further < 1:
        return "the trainings are used up"
    seeds = state.newest + further
    state.seeds |= dict.fromkeys(staying, seeds)
    return None


def _levels(state: _State, rules: RaceRules, candidates: int, *, last: bool) -> float:
    """Return the nominal level of the newest look; a race that ends before the first look has one look."""
    looks = state.looks or [state.newest]
    most = max(rules.most_seeds(candidates), looks[-1])
    return levels_of_looks(looks, most, rules.level, last=last)[-1]
