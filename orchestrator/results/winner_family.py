"""The family of a winner that was chosen for its high value, against every other candidate of its dataset.

A winner is chosen for its high value (the winner's curse), and the gap between the best two is least reliable when
there are only two [Gutmann1987]. So the p-value of a lead is at least the probability that the luckiest of k candidates
leads an equal as far (``statistics.best_of_p``). A pair belongs to one of two groups, of which each is asked whether
the winner leads all of it:

    (a)  candidates of other losses (or models)    k is the number of candidates of the winner's loss
    (b)  other settings of the winner's loss       k is twice the number of losses with several candidates that the
                                                   winner does not beat, its own among them: the two best of a loss may
                                                   be equal, and the winner is the luckiest of all of them; twice as
                                                   many where the winner does not beat all of (a), as below

The largest p-value of a group's leads holds for all pairs of the group, because an intersection errs at most as often
as its least sure lead [Berger1982]. A pair alone is a comparison that nobody named beforehand, of any two candidates
that could be the winner and the other one. In (a), k is the number of candidates of other losses than its own for the
best of each loss, which val names; their p-values are Holm-adjusted together. Of any other candidate of (a), k is the
number of all candidates, and the p-value is Holm-adjusted over all of (a). In (b), k is the number of settings of the
loss times the losses that the winner does not beat, Holm-adjusted over all of (b). A baseline that was named beforehand
is one pair alone:

    (c)  the baseline                              k is twice the number of all candidates

The p-value of a pair is the smallest of those that hold for it. So a pair has one p-value and one word, whichever
question it answers. Three questions err more often together than one. So (b) and (c) have twice the k that they would
have alone, but (b) only where (a) finds no best loss: a best loss that is found is right nearly always, and then (b) is
the only question left. ``docs/evidence/verdict-errors.md`` has the error rates.

References:
    [Berger1982] Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24, 295-300.
    [Gutmann1987] Gutmann and Maymin, Is the selected population the best?, Annals of Statistics 15, 456-461.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.results.comparison import Comparison
from orchestrator.results.question import P
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import best_of_p, holm


@dataclass(frozen=True)
class WinnerFamily:
    """The family of a winner's comparisons, which are the winner against other candidates, each by its label.

    Attributes:
        candidates: All candidates, the winner first, the others in the order of the metric that chose it.
        level: Level of the question.
        baseline: Label of a candidate that was named beforehand; ``None`` without one.
    """

    candidates: Sequence[Runs]
    level: float
    baseline: str | None = None

    def __call__(self, comparisons: Sequence[Comparison], p_values: Sequence[P]) -> Sequence[P]:
        """Return the p-values of the comparisons, adjusted; ``None`` of a comparison that was not tested."""
        winner = self.candidates[0]
        kinds = {candidate.label: candidate.kind for candidate in self.candidates}
        sizes = Counter(kinds.values())
        p_of = {compared.second: p for compared, p in zip(comparisons, p_values, strict=True)}
        others = [compared for compared in comparisons if kinds[compared.second] != winner.kind]
        own = [compared for compared in comparisons if kinds[compared.second] == winner.kind]
        best = self.best_of_other_losses()
        chances = {compared.second: len(self.candidates) - sizes[kinds[compared.second]] for compared in others}
        shown = [compared for compared in others if compared.second in best]
        every = dict.fromkeys(chances, len(self.candidates))
        adjusted = {**_alone(others, p_of, every), **_alone(shown, p_of, chances)}
        self._lower(adjusted, others, p_of, sizes[winner.kind])
        rivals = 1 + sum(sizes[kinds[label]] > 1 and not self._is_beaten(label, adjusted, others) for label in best)
        rivals *= 1 if all(self._is_beaten(compared.second, adjusted, others) for compared in others) else 2
        adjusted |= _alone(own, p_of, dict.fromkeys((compared.second for compared in own), sizes[winner.kind] * rivals))
        self._lower(adjusted, own, p_of, 2 * rivals)
        return [adjusted.get(compared.second) for compared in comparisons]

    def _lower(
        self, adjusted: dict[str, float], group: Sequence[Comparison], p_of: Mapping[str, P], chances: int
    ) -> None:
        """Lower the p-values of a group to that with which the winner leads all of it, and that of the baseline."""
        largest = max((_lead(compared, p_of[compared.second], chances) for compared in group), default=1.0)
        for compared in group:
            label, p = compared.second, p_of[compared.second]
            if p is not None:
                named = _luckiest(compared, p, 2 * len(self.candidates)) if label == self.baseline else 1.0
                adjusted[label] = min(adjusted[label], largest, named)

    def best_of_other_losses(self) -> list[str]:
        """Return the label of the first candidate of each loss and model but the winner's."""
        first: dict[tuple[str, str], str] = {}
        for candidate in self.candidates:
            first.setdefault(candidate.kind, candidate.label)
        return [label for kind, label in first.items() if kind != self.candidates[0].kind]

    def _is_beaten(self, label: str, adjusted: Mapping[str, float], comparisons: Sequence[Comparison]) -> bool:
        compared = next((compared for compared in comparisons if compared.second == label), None)
        if compared is None or compared.difference <= 0:
            return False
        return adjusted[label] <= self.level if label in adjusted else compared.is_exact


def _alone(comparisons: Sequence[Comparison], p_of: Mapping[str, P], chances: Mapping[str, int]) -> dict[str, float]:
    """Return label -> p-value of each pair for itself, Holm-adjusted over the comparisons."""
    luckiest = {
        compared.second: _luckiest(compared, p, chances[compared.second])
        for compared in comparisons
        if (p := p_of[compared.second]) is not None
    }
    return dict(zip(luckiest, holm(list(luckiest.values())), strict=True))


def _luckiest(compared: Comparison, p: float, chances: int) -> float:
    """Return a p-value, that of a lead corrected for the number of candidates that could have been the winner."""
    return max(p, best_of_p(p, chances)) if compared.difference > 0 else p


def _lead(compared: Comparison, p: P, chances: int) -> float:
    """Return the p-value of a lead, of the luckiest of some candidates; 1 where there is no lead, or no test."""
    if compared.difference <= 0:
        return 1.0
    return float(not compared.is_exact) if p is None else _luckiest(compared, p, chances)
