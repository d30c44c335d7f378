"""Where the next point comes from. With ``study`` the only user of Optuna.

A sampler lives for one suggestion: it is made from a seed of its own and sees the study's trials, so that a search that
was interrupted suggests what an undisturbed one would. Optuna's CMA-ES and quasi-Monte Carlo keep a state in the trials
instead (CMA-ES a pickled one), which the journal does not hold; hence ours, which work their state out of the trials.

References:
    [Hansen2016] Hansen, The CMA Evolution Strategy: A Tutorial. arXiv:1604.00772
    [Joe2008] Joe and Kuo, Constructing Sobol sequences with better two-dimensional projections. SIAM J. Sci. Comput. 30
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from search_spaces import Range, StudySpace, Values
from trainables.seeding import derive_seed

SIGMA = 0.3
"""First step of CMA-ES, as a share of each range; a third of the box, as [Hansen2016] advises."""


def make_sampler(
    name: str, space: StudySpace, seed: int, number: int, trials: int, ended: Callable[[], list[FrozenTrial]]
) -> BaseSampler:
    """Return a sampler for one suggestion.

    Args:
        name: ``tpe``, ``cmaes``, ``gp``, ``random`` or ``qmc``; see ``sections.Search``.
        space: Of the study.
        seed: Of the study.
        number: Of the suggestion, from 0.
        trials: That the study has in the end, >= 1.
        ended: Returns all trials of the study that have ended, in the order of their numbers: a sampler whose state
            follows from every trial needs more than Optuna is shown of a long study.
    """
    own = derive(seed, number)
    # With few trials in all, the usual ten random ones at the start would leave a model nothing to do.
    startup = max(3, min(10, trials // 4))
    if name == "random":
        return RandomSampler(seed=own)
    if name == "qmc":
        return Sobol(space, seed, number)
    if name == "cmaes":
        return CmaEs(space, own, ended())
    if name == "gp":
        return GPSampler(seed=own, n_startup_trials=startup, deterministic_objective=False)
    return TPESampler(
        seed=own, multivariate=True, constant_liar=True, group=space.is_conditional, n_startup_trials=startup
    )


def derive(seed: int, number: int) -> int:
    """Return the seed of one suggestion."""
    return derive_seed(seed, number, bits=32)


def distribution(bound: Range | Values) -> BaseDistribution:
    """Return what Optuna calls a bound."""
    if isinstance(bound, Values):
        return CategoricalDistribution(bound.values)
    if bound.whole:
        return IntDistribution(int(bound.low), int(bound.high), log=bound.log)
    return FloatDistribution(bound.low, bound.high, log=bound.log)


class _Stateless(BaseSampler):
    """A sampler over the bounds that it was given; what is not among them is drawn at random."""

    def __init__(self, bounds: Mapping[str, Range | Values], seed: int) -> None:
        self._bounds = bounds
        self._random = RandomSampler(seed=seed)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that are suggested together."""
        return {name: distribution(bound) for name, bound in self._bounds.items()}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a parameter at random."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)


class Sobol(_Stateless):
    """The point of a scrambled Sobol sequence [Joe2008] whose position is the trial's number."""

    def __init__(self, space: StudySpace, seed: int, number: int) -> None:
        super().__init__(space.bounds(), derive(seed, number))
        self._seed, self._number = seed, number

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the point."""
        from scipy.stats import qmc

        if not self._bounds:
            return {}
        sequence = qmc.Sobol(len(self._bounds), scramble=True, rng=self._seed)
        sequence.fast_forward(self._number)
        (point,) = sequence.random(1)
        return {name: _from_unit(bound, float(u)) for (name, bound), u in zip(self._bounds.items(), point, strict=True)}


class CmaEs(_Stateless):
    """CMA-ES [Hansen2016] over the ranges of a space; listed values are drawn at random.

    Its distribution is that of the ended trials, told to it generation by generation in the order of their numbers. A
    trial that was stopped early counts with its best value, one that diverged or failed with less than any other.
    """

    def __init__(self, space: StudySpace, seed: int, ended: Sequence[FrozenTrial]) -> None:
        super().__init__({name: bound for name, bound in space.bounds().items() if isinstance(bound, Range)}, seed)
        self._seed, self._ended = seed, ended

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return a draw of the distribution that the trials so far have led to."""
        import numpy as np
        from cmaes import CMA

        box = np.array([[0.0, 1.0]] * len(self._bounds))
        # One seed a suggestion: to tell draws nothing from it.
        strategy = CMA(mean=np.full(len(box), 0.5), sigma=SIGMA, bounds=box, seed=self._seed % 2**32)
        size = strategy.population_size
        for first in range(0, len(self._ended) - size + 1, size):
            strategy.tell([(self._to_unit(one), -_worth(one)) for one in self._ended[first : first + size]])
        point = strategy.ask()
        return {name: _from_unit(bound, float(u)) for (name, bound), u in zip(self._bounds.items(), point, strict=True)}

    def _to_unit(self, trial: FrozenTrial) -> Any:
        import numpy as np

        return np.array([_to_unit(bound, trial.params[name]) for name, bound in self._bounds.items()])


def _worth(trial: FrozenTrial) -> float:
    """Return the value that a trial counts with: larger is better, and always finite."""
    if trial.state is TrialState.COMPLETE and trial.value is not None:
        return trial.value
    if trial.state is TrialState.PRUNED and trial.intermediate_values:
        return max(trial.intermediate_values.values())
    return -1e9


def _to_unit(bound: Range | Values, value: Any) -> float:
    """Return where a value of a range lies between its ends, in [0, 1]."""
    assert isinstance(bound, Range)
    if bound.log:
        return math.log(value / bound.low) / math.log(bound.high / bound.low)
    return (value - bound.low) / (bound.high - bound.low)


def _from_unit(bound: Range | Values, u: float) -> Any:
    """Return the value at a place in [0, 1]."""
    if isinstance(bound, Values):
        return bound.values[min(int(u * len(bound.values)), len(bound.values) - 1)]
    value = bound.low * (bound.high / bound.low) ** u if bound.log else bound.low + u * (bound.high - bound.low)
    # Rounding may leave the range by a hair.
    value = min(max(value, bound.low), bound.high)
    return round(value) if bound.whole else value
