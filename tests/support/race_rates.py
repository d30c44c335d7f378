"""Races by the thousand: the rules of a race written again in arrays, as an oracle of what is stated about races.

All studies go through the rounds together; a study that is over is judged and taken out.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from orchestrator.results.race import EARLIEST, FIRST, LEVEL, most_seeds
from orchestrator.results.race_departures import TRAILS
from orchestrator.results.spending import levels_of_looks
from tests.support.study_rates import Array, holm


@dataclass(frozen=True)
class Raced:
    """What became of many races.

    Attributes:
        verdicts: 1 better, 0 tie, -1 worse, shape (studies,).
        baseline: The same of the comparison with the baseline alone; 0 where the baseline won or there is none.
        winner: Index of the winner, shape (studies,).
        trainings: That were used, shape (studies,).
        seeds: Of the winner, shape (studies,).
        level: Of the verdict, shape (studies,).
    """

    verdicts: Array
    baseline: Array
    winner: Array
    trainings: Array
    seeds: Array
    level: Array


class Races:
    """Studies of one race each.

    Args:
        val: Shape (studies, candidates, seeds); the last candidate is the baseline.
        test: The same, of the metric that the verdict is about.
        trainings: At most so many in each race.
        baseline: Whether there is one.
        kinds: Shape (candidates,), the loss of each; by default every candidate has its own.
        level: Of a whole race.
    """

    def __init__(
        self,
        val: Array,
        test: Array,
        trainings: int,
        *,
        baseline: bool = True,
        kinds: Array | None = None,
        level: float = LEVEL,
    ) -> None:
        self.studies, self.candidates, _ = val.shape
        self.val, self.test = _sums(val), _sums(test)
        self.trainings, self.has_baseline, self.level = trainings, baseline, level
        self.kinds = np.arange(self.candidates) if kinds is None else kinds
        self.most = most_seeds(trainings, self.candidates)
        self.seeds = np.full((self.studies, self.candidates), FIRST)
        self.inside = np.ones((self.studies, self.candidates), dtype=bool)
        self.trailed = np.zeros((self.studies, self.candidates), dtype=bool)
        self.results = np.zeros((6, self.studies))

    def run(self) -> Raced:
        """Run all races to their ends."""
        waiting = [(np.arange(self.studies), FIRST, ())]
        while waiting:
            these, seeds, looks = waiting.pop()
            looks = (*looks, seeds) if seeds >= EARLIEST else looks
            continues, further = self._close_round(these, looks)
            for step in np.unique(further[continues]):
                on = these[continues & (further == step)]
                self.seeds[on] = np.where(self.inside[on], seeds + step, self.seeds[on])
                waiting.append((on, seeds + int(step), looks))
        verdicts, baseline, winner, trainings, seeds_of_winner, level = self.results
        return Raced(verdicts, baseline, winner.astype(int), trainings, seeds_of_winner, level)

    def _close_round(self, these: Array, looks: tuple[int, ...]) -> tuple[Array, Array]:
        means, variances, seeds = self._measured(self.val, these)
        every = np.arange(len(these))
        leader = np.where(self.inside[these], means, -np.inf).argmax(1)
        order = self._order(these, means, leader)
        level = self._level(looks, last=False) if looks else -1.0
        roles, found = self._compare(order, means, variances, seeds, level)
        opponent, beaten = np.zeros_like(self.inside[these]), np.zeros_like(self.inside[these])
        for role, result in zip(roles, found, strict=True):
            there = role >= 0
            opponent[every[there], role[there]] = True
            beaten[every[there & (result == 1)], role[there & (result == 1)]] = True
        freedom = (seeds - 1).sum(1)
        spread = np.sqrt(((seeds - 1) * variances).sum(1) / freedom)
        error = spread[:, None] * np.sqrt(1 / seeds + 1 / seeds[every, leader][:, None])
        lags = stdtr(freedom[:, None], (means - means[every, leader][:, None]) / error) < TRAILS
        trails = self.inside[these] & lags & ~opponent
        trails[every, leader] = False
        self.trailed[these] |= trails
        self.inside[these] &= ~(trails | beaten)
        decided = np.where(roles >= 0, found, 2).min(0) == 1
        staying = self.inside[these].sum(1)
        newest = self.seeds[these].max(1)
        left = self.trainings - self.seeds[these].sum(1)
        further = np.minimum(np.maximum(1, newest // 4), left // staying)
        over = decided | (staying < 2) | (further < 1)
        self._judge(these[over], order[over], looks)
        return ~over, further

    def _judge(self, these: Array, order: Array, looks: tuple[int, ...]) -> None:
        level = self._level(looks or (FIRST,), last=True)
        means, variances, seeds = self._measured(self.test, these)
        roles, found = self._compare(order, means, variances, seeds, level)
        winner = order[:, 0]
        baseline = np.where(winner == self.candidates - 1, 0, 0.0)
        for role, result in zip(roles, found, strict=True):
            baseline = np.where((role == self.candidates - 1) & self.has_baseline, result, baseline)
        used = self.seeds[these].sum(1)
        own = seeds[np.arange(len(these)), winner]
        verdicts = np.where(roles >= 0, found, 2).min(0)
        self.results[:, these] = [verdicts, baseline, winner, used, own, np.full(len(these), level)]

    def _measured(self, sums: tuple[Array, Array], these: Array) -> tuple[Array, Array, Array]:
        """Return mean and variance of the seeds that each candidate has, and their number."""
        seeds = self.seeds[these]
        total, squares = (np.take_along_axis(one[these], seeds[..., None], 2)[..., 0] for one in sums)
        means = total / seeds
        return means, np.maximum(squares - seeds * means**2, 0) / (seeds - 1), seeds

    def _order(self, these: Array, means: Array, leader: Array) -> Array:
        """Return the ranking: the leader, the others by their means, last those that trailed."""
        keys = np.where(self.trailed[these], -1e9, 0.0) + means
        keys[np.arange(len(these)), leader] = np.inf
        return np.argsort(-keys, axis=1, kind="stable")

    def _level(self, looks: tuple[int, ...], *, last: bool) -> float:
        return levels_of_looks(looks, max(self.most, looks[-1]), self.level, last=last)[-1]

    def _compare(self, order: Array, means: Array, variances: Array, seeds: Array, level: float) -> tuple[Array, Array]:
        """Return whom the leader is compared with (negative: nobody), and 1 better, 0 tie, -1 worse, each (3, n)."""
        count, every = self.candidates, np.arange(len(order))
        winner, second = order[:, 0], order[:, 1]
        other = self.kinds[order] != self.kinds[winner][:, None]
        rival = np.where(other.any(1), order[every, other.argmax(1)], -1)
        rival = np.where(self.kinds[second] == self.kinds[winner], rival, -1)
        last = np.where((winner != count - 1) & self.has_baseline, count - 1, -1)
        roles = np.stack([second, rival, last])
        same_kind = (self.kinds == self.kinds[winner][:, None]).sum(1)
        could_win = np.stack([np.ones(len(order)), same_kind, np.full(len(order), count - 1.0)])
        for later, earlier in ((1, 0), (2, 0), (2, 1)):
            same = (roles[later] == roles[earlier]) & (roles[later] >= 0)
            could_win[earlier] = np.where(same, could_win[later], could_win[earlier])
            roles[later] = np.where(same, -2, roles[later])
        at = np.maximum(roles, 0)
        first = [each[every, winner] for each in (means, variances / seeds, seeds)]
        lead = first[0] - means[every, at]
        errors = (variances / seeds)[every, at]
        freedom = (first[1] + errors) ** 2 / (first[1] ** 2 / (first[2] - 1) + errors**2 / (seeds[every, at] - 1))
        p = np.where(roles >= 0, 2 * stdtr(freedom, -np.abs(lead) / np.sqrt(first[1] + errors)), np.inf)
        luck = 1 - (1 - np.minimum(p, 1) / 2) ** could_win
        corrected = np.where(lead > 0, np.maximum(holm(p), luck), holm(p))
        return roles, np.where((roles >= 0) & (corrected <= level), np.sign(lead), 0)


def race_studies(val: Array, test: Array, trainings: int, **rules: object) -> Raced:
    """Run races; see ``Races``."""
    return Races(val, test, trainings, **rules).run()  # type: ignore[arg-type]


def draw_both(
    generator: np.random.Generator,
    studies: int,
    candidates: int,
    trainings: int,
    *,
    lead: float = 0.0,
    spreads: Array | float = 1.0,
    likeness: float = 1.0,
) -> tuple[Array, Array]:
    """Return val and test of candidates with as many seeds as a race may give one; the first leads.

    Args:
        generator: Of the numbers.
        studies: How many.
        candidates: Of each study.
        trainings: Of a race.
        lead: In standard deviations of the first candidate.
        spreads: Standard deviation of each candidate.
        likeness: Correlation of val and test over the seeds of a candidate.
    """
    scale = np.broadcast_to(np.asarray(spreads, dtype=np.float64), (candidates,))[:, None]
    noise = generator.standard_normal((2, studies, candidates, most_seeds(trainings, candidates)))
    noise[1] = likeness * noise[0] + np.sqrt(1 - likeness**2) * noise[1]
    scores = scale * noise
    scores[:, :, 0] += lead * scale[0]
    return scores[0], scores[1]


def _sums(scores: Array) -> tuple[Array, Array]:
    """Return the sums of the first 0, 1, 2 ... seeds, and of their squares, shape (studies, candidates, seeds + 1)."""
    nothing = np.zeros((*scores.shape[:2], 1))
    return (
        np.concatenate([nothing, scores.cumsum(-1)], -1),
        np.concatenate([nothing, (scores**2).cumsum(-1)], -1),
    )
