"""Which trials a sampler is shown: of a short study all, of a long study the best, the newest and the running trials.

A sampler fits a model to the trials that it is shown, which takes longer with more trials: with all of 10,000 trials,
one suggestion of TPE takes 0.17 s. TPE [Bergstra2011] divides the trials into the best, of which Optuna takes 25 at
most, and the others, of which the oldest weigh least. Of a long study, TPE is shown the best of all trials, and the
newest trials represent the others. ``tests.benchmarks window`` compares the regrets.

The choice follows from the trials alone, and not from the order in which they ended, so that an interrupted search
suggests the points of an undisturbed search.

References:
    [Bergstra2011] Bergstra et al., Algorithms for Hyper-Parameter Optimization. NeurIPS 2011
"""

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Sequence
from copy import deepcopy as copied

from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

NEWEST = 500
"""Newest trials that a sampler is always shown; a study of no more trials is shown whole."""

BEST = 25
"""Best trials that a sampler is always shown: the most trials that TPE models as good."""

Rank = tuple[int, int, float, int]
"""Sort key of trials, the best first, as in Optuna's TPE: finished trials by their value, then stopped trials by their
last epoch and their value there; of equal trials the earlier trial comes first."""


class Known:
    """The trials of a study as Optuna's trials, by their numbers.

    Args:
        directions: ``maximize`` or ``minimize`` for each objective.
        trials: Trials of other experiments, whose numbers come first.
    """

    def __init__(self, directions: Sequence[str], trials: Iterable[FrozenTrial] = ()) -> None:
        self._signs = [1.0 if direction == "maximize" else -1.0 for direction in directions]
        self._trials: dict[int, FrozenTrial] = {}
        self._numbers: list[int] = []
        self._running: set[int] = set()
        self._ranks: dict[int, Rank] = {}
        self._ranked: list[Rank] = []
        self._front: set[int] = set()
        for trial in trials:
            self.put(trial)

    def __getitem__(self, number: int) -> FrozenTrial:
        """Return the trial with a number."""
        return self._trials[number]

    def put(self, trial: FrozenTrial) -> None:
        """Add a trial, or replace the known trial of its number."""
        number = trial.number
        if number in self._trials:
            self._forget(number)
        else:
            insort(self._numbers, number)
        self._trials[number] = trial
        if trial.state is OptunaState.RUNNING:
            self._running.add(number)
        elif len(self._signs) == 1:
            self._rank(trial)
        elif trial.state is OptunaState.COMPLETE:
            self._compare(trial)

    def all(self) -> list[FrozenTrial]:
        """Return all trials, in the order of their numbers."""
        return [self._trials[number] for number in self._numbers]

    def shown(self) -> list[FrozenTrial]:
        """Return the trials that a sampler is shown, in the order of their numbers."""
        if len(self._numbers) <= NEWEST:
            return self.all()
        newest = self._numbers[-NEWEST:]
        best = (rank[-1] for rank in self._ranked[:BEST])
        return [self._trials[number] for number in sorted({*newest, *best, *self._front, *self._running})]

    def _forget(self, number: int) -> None:
        """Remove a trial that is about to change from the running and the ranked trials."""
        self._running.discard(number)
        if number in self._ranks:
            del self._ranked[bisect_left(self._ranked, self._ranks.pop(number))]
        if number in self._front:
            # Trials that this trial dominated may join the front when this trial is gone.
            self._front.clear()
            for other in self._trials.values():
                if other.number != number and other.state is OptunaState.COMPLETE:
                    self._compare(other)

    def _rank(self, trial: FrozenTrial) -> None:
        """Rank a trial among the ended trials; a trial that diverged or failed has no rank."""
        if trial.state is OptunaState.COMPLETE and trial.value is not None:
            rank = (0, 0, -self._signs[0] * trial.value, trial.number)
        elif trial.state is OptunaState.PRUNED and trial.intermediate_values:
            epoch, value = max(trial.intermediate_values.items())
            rank = (1, -epoch, -self._signs[0] * value, trial.number)
        else:
            return
        self._ranks[trial.number] = rank
        insort(self._ranked, rank)

    def _compare(self, trial: FrozenTrial) -> None:
        """Put a trial on the Pareto front unless a trial of the front dominates it."""
        if any(self._betters(self._trials[number], trial) for number in self._front):
            return
        self._front -= {number for number in self._front if self._betters(trial, self._trials[number])}
        self._front.add(trial.number)

    def _betters(self, one: FrozenTrial, other: FrozenTrial) -> bool:
        """Say whether a trial dominates another: no worse in any objective, and better in at least one objective."""
        pairs = zip(self._signs, one.values, other.values, strict=True)
        gains = [sign * (value - than) for sign, value, than in pairs]
        return min(gains) >= 0 and max(gains) > 0


class ShownTrials(InMemoryStorage):
    """A storage for one suggestion, with the trials that are shown; Optuna adds the suggested trial.

    Args:
        trials: The trials that are shown; their numbers are above 0, which is the number of the suggested trial.
    """

    def __init__(self, trials: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._shown = trials

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[OptunaState] | None = None
    ) -> list[FrozenTrial]:
        """Return the trials that are shown, then the trials that Optuna has added."""
        own = super().get_all_trials(study_id, deepcopy, states)
        shown = [trial for trial in self._shown if states is None or trial.state in states]
        return [*(copied(shown) if deepcopy else shown), *own]
