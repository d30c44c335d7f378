"""A race: after each round, which candidates get a further seed, which leave, and whether the race is decided.

A fixed design gives every candidate as many seeds as the winner gets. A race gives each candidate ``FIRST`` seeds, and
the other trainings to the candidates that can still change the verdict:

- A candidate that *trails* leaves: if its true mean were the leader's, so large a lag would occur with a probability
  below ``TRAILS`` of ``race_departures`` (one-sided, Student's distribution, with the spread pooled over all candidates
  [Maron1994]). A departure claims only that the candidate does not become the winner.
- A candidate that the verdict compares with the leader (runner-up, best of another loss, baseline) stays until its
  comparison is decided: until the rule of the verdict, on val at the level of the round, finds the leader better.
- A candidate that *lost* a seed cannot win any more (see ``verdict.py``) and leaves, unless the verdict compares it.

The race ends when the verdict on val is *better*, when only the leader remains, or when the trainings do not suffice
for another round. Each round is a look (an interim analysis) at the values so far, so each look gets a part of the
level (``spending.py``); looks begin with ``EARLIEST`` seeds. The verdict on test, which is opened after the race, has
the level of the last look. The level of a whole race is ``LEVEL``, below the level of a fixed design: nominal levels
are exact for normal values with known spread, but Welch's test is not exact for few values of unequal spread.

A race is a function of the values so far: a race that was killed is computed again from its first round, with equal
rounds. Error rates and power: ``docs/confirming.md``, measured by ``python -m tests.benchmarks race``.

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
"""Level of a whole race, at which at most 4.8 % of studies call two equal candidates different, see ``spending.py``."""


@dataclass(frozen=True)
class RaceRules:
    """The rules of a race.

    Attributes:
        trainings: Largest number of trainings in all, >= ``FIRST`` times the number of candidates.
        seeds: Seeds in the order in which every candidate gets them; at least as many as a candidate can get.
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
        """Return how many seeds a candidate can get, if all but two candidates leave after the first round."""
        return most_seeds(self.trainings, candidates)


@dataclass(frozen=True)
class Round:
    """One round of a race, after all its trainings ended.

    Attributes:
        seeds: Seeds that each candidate in the race has after the round.
        level: Nominal level of the look after the round; ``None`` before looks begin.
        leader: Label of the candidate with the highest mean, among candidates that can win.
        means: Label -> mean of the metric over the seeds so far, of each candidate with a finished seed.
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
    """The state of a race.

    Attributes:
        rounds: The rounds whose trainings have all ended.
        seeds: Label -> number of seeds that the candidate has been given so far, including the current round.
        left: Label -> how a candidate left, of all rounds.
        ended: Why the race is over, in words; ``None`` while trainings are due.
        level: The level that remains for the verdict on test; ``None`` while trainings are due.
        trainings: Largest number of trainings that the race may use.
    """

    rounds: tuple[Round, ...]
    seeds: Mapping[str, int]
    left: Mapping[str, Departure]
    ended: str | None
    level: float | None
    trainings: int

    @property
    def used(self) -> int:
        """Number of trainings that the race has given out."""
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
    """Run a race up to the first round with missing values.

    Args:
        candidates: Candidates of one dataset, in an order that never changes; seeds that a candidate was not given
            are ignored.
        rules: Rules of the race.

    Returns:
        The race; where it has not ended, ``seeds`` includes the round for which trainings are missing.
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
        seeds: Label -> number of seeds given.
        left: Label -> how the candidate left.
        rounds: The rounds that are over.
        looks: Number of the leader's seeds at each look that could decide.
    """

    seeds: dict[str, int]
    left: dict[str, Departure] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    looks: list[int] = field(default_factory=list)

    @property
    def newest(self) -> int:
        """Number of seeds of each candidate that is in the race."""
        return max(self.seeds.values())


def _so_far(candidate: Candidate, state: _State, seeds: Sequence[int]) -> Candidate:
    """Return a candidate with only the seeds that the race has given it, and how it left."""
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
    # Before the first look the level is 0, so that the verdict only ranks the candidates and names the opponents.
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
    # A round adds a quarter of the seeds so far: late in a race, rounds of one seed would leave machines idle.
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
