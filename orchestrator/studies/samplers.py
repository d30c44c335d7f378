"""The samplers by name: samplers of Optuna, two samplers of this product, and samplers of plug-ins.

A sampler is a function of the study so far and of a seed, which returns a point (``search_spaces.sampling``), and is
adapted to Optuna's interface. A plug-in's subclass of Optuna's ``BaseSampler`` is made, suggests once, and is dropped.
A sampler is made for one suggestion, from a seed of its own and the study's trials. So an interrupted search suggests
the points of an undisturbed search. Optuna's CMA-ES and quasi-Monte Carlo samplers keep a state in the trials instead
(CMA-ES a pickled state), which is not in the journal. ``cma_es`` and ``sobol`` compute it from the trials.

References:
    [Hansen2016] Hansen, The CMA Evolution Strategy: A Tutorial. arXiv:1604.00772
    [Joe2008] Joe and Kuo, Constructing Sobol sequences with better two-dimensional projections. SIAM J. Sci. Comput. 30
"""

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Real
from typing import Any, cast

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from search_spaces import PastTrial, Range, StudySoFar, StudySpace, Values
from search_spaces.study import State
from trainables.config import derive_seed
from trainables.errors import Blaming, PluginError
from trainables.plugins.in_use import run_offer

Suggest = Callable[[StudySoFar, int], Mapping[str, Any]]
"""Returns parameter -> value; parameters without a value are drawn at random."""

STATES: Mapping[TrialState, State] = {
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "stopped_early",
    TrialState.FAIL: "failed",
}
"""State of an ended Optuna trial -> its name for samplers."""


def distribution(bound: Range | Values) -> BaseDistribution:
    """Return a bound as Optuna's distribution."""
    if isinstance(bound, Values):
        return CategoricalDistribution(bound.values)
    if bound.whole:
        return IntDistribution(int(bound.low), int(bound.high), log=bound.log)
    return FloatDistribution(bound.low, bound.high, log=bound.log)


class ByFunction(RandomSampler):
    """A sampler that is a function; parameters that its point leaves out are drawn at random."""

    def __init__(self, suggest: Suggest, space: StudySpace, seed: int, number: int, trials: int) -> None:
        """Prepare one suggestion, see ``make_sampler``."""
        super().__init__(seed=derive(seed, number))
        self._suggest, self._bounds = suggest, space.bounds()
        self._seed, self._number, self._size = seed, number, trials

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return all parameters, which are suggested together."""
        return {name: distribution(bound) for name, bound in self._bounds.items()}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the point."""
        so_far = StudySoFar(
            bounds=dict(self._bounds),
            # Optuna has already added the trial whose point is to be suggested.
            trials=tuple(_past(other) for other in study.get_trials(deepcopy=False) if other.number != trial.number),
            directions=tuple(direction.name.lower() for direction in study.directions),
            number=self._number,
            size=self._size,
            seed=self._seed,
        )
        return cast(dict[str, Any], self._suggest(so_far, derive(self._seed, self._number)))


class PluginSampler(BaseSampler):
    """A plug-in's sampler, whose points are checked against the bounds of a study.

    ``before_trial`` and ``after_trial`` of the sampler are not called. They would let it keep a state in the attributes
    of trials, which the journal does not hold. ``place`` begins a message about a wrong point.
    """

    def __init__(self, sampler: BaseSampler, space: StudySpace, place: str) -> None:
        self._sampler, self._bounds, self._place = sampler, space.bounds(), place

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that the sampler suggests together."""
        with Blaming():
            return self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the values of these parameters, as plain values."""
        point: Any
        with Blaming():
            point = self._sampler.sample_relative(study, trial, search_space)
        if not isinstance(point, Mapping):
            raise PluginError(f"{self._place}: must return a dict of parameters and values, got {point!r:.60}")
        return {name: self._plain(name, value) for name, value in point.items()}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return the value of one parameter."""
        with Blaming():
            value = self._sampler.sample_independent(study, trial, param_name, param_distribution)
        return self._plain(param_name, value)

    def _plain(self, name: str, value: Any) -> Any:
        if name not in self._bounds:
            known = ", ".join(self._bounds) or "none"
            raise PluginError(f"{self._place}: suggests {name!r:.60}, which is not searched; searched are: {known}")
        bound = self._bounds[name]
        try:
            return plain_value(bound, value)
        except ValueError:
            raise PluginError(f"{self._place}: suggests {name} = {value!r:.60}, which is not in {bound}") from None


def derive(seed: int, number: int) -> int:
    """Return the seed of one suggestion."""
    return derive_seed(seed, number, bits=32)


def plain_value(bound: Range | Values, value: Any) -> Any:
    """Return a value within a bound as a plain number, or as the equal value of a list.

    Raises:
        ValueError: If the value lies outside the bound, or is not in the list.

    Example:
        >>> plain_value(Range(1, 4, whole=True), 2.0)
        2
    """
    if isinstance(bound, Values):
        choice = tuple(value) if isinstance(value, list) else value
        for listed in bound.values:
            # ``True`` equals 1 in Python, but the two are different values of a list.
            if isinstance(listed, bool) == isinstance(choice, bool) and listed == choice:
                return listed
        raise ValueError(f"{value!r} is not in {bound}")
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not bound.contains(value) or (bound.whole and not float(value).is_integer()):
        raise ValueError(f"{value!r} is not in {bound}")
    return int(value) if bound.whole else float(value)


def _past(trial: FrozenTrial) -> PastTrial:
    """Return an Optuna trial in the form that samplers of this product and of plug-ins get."""
    values = tuple(trial.values) if trial.state is TrialState.COMPLETE else ()
    return PastTrial(
        dict(trial.params), STATES.get(trial.state, "running"), values, dict(sorted(trial.intermediate_values.items()))
    )


SIGMA = 0.3
"""First step size of CMA-ES, as a share of each range: about a third, as [Hansen2016] advises."""

WORST = -1e9
"""Value that CMA-ES gets for a trial without a value: less than any metric."""


def make_sampler(name: str, space: StudySpace, seed: int, number: int, trials: int) -> BaseSampler:
    """Return a sampler for one suggestion, whose number counts from 0.

    The name is one of ``experiment.values.SAMPLERS`` except ``grid``, whose points are planned. Space and seed are
    those of the study, which has ``trials`` >= 1 trials in the end.

    Raises:
        PluginError: If the plug-in that offers the sampler cannot be run, or its code raises.
    """
    if name in MAKERS:
        return MAKERS[name](space, seed, number, trials)
    offer, file = run_offer("samplers", name)
    with Blaming():
        # ``Any``, because the class of a plug-in, and so its constructor, is known only at run time.
        suggester: Any = offer.definition
        if isinstance(suggester, type) and issubclass(suggester, BaseSampler):
            sampler: BaseSampler = cast(Any, suggester)(seed=derive(seed, number))
        else:
            sampler = ByFunction(suggester() if isinstance(suggester, type) else suggester, space, seed, number, trials)
    return PluginSampler(sampler, space, f"{file}: the sampler {offer.name}")


def needs_every_trial(name: str) -> bool:
    """Say whether a sampler is shown all trials of a long study rather than a part.

    The state of CMA-ES follows from every generation, and a plug-in's sampler may use any trial.
    """
    return name == "cmaes" or name not in MAKERS


def sobol(study: StudySoFar, seed: int) -> dict[str, Any]:
    """Return the point of a scrambled Sobol sequence [Joe2008] whose position is the trial's number."""
    from scipy.stats import qmc

    if not study.bounds:
        return {}
    sequence = qmc.Sobol(len(study.bounds), scramble=True, rng=study.seed)
    sequence.fast_forward(study.number)
    (point,) = sequence.random(1)
    return {name: bound.at(float(share)) for (name, bound), share in zip(study.bounds.items(), point, strict=True)}


def cma_es(study: StudySoFar, seed: int) -> dict[str, Any]:
    """Return a draw of CMA-ES [Hansen2016] over the ranges of a space; listed values are left out and drawn at random.

    CMA-ES gets the ended trials, generation by generation in the order of their numbers. A trial that was stopped early
    counts with its best value, a trial that diverged or failed with a value below all others.
    """
    from cmaes import CMA

    ranges = {name: bound for name, bound in study.bounds.items() if isinstance(bound, Range)}
    box = np.array([[0.0, 1.0]] * len(ranges))
    # Each suggestion has a seed of its own, which does not depend on how many trials CMA-ES gets.
    strategy = CMA(mean=np.full(len(box), 0.5), sigma=SIGMA, bounds=box, seed=seed % 2**32)
    ended = [trial for trial in study.trials if trial.has_ended]
    size = strategy.population_size
    for first in range(0, len(ended) - size + 1, size):
        generation = ended[first : first + size]
        points = [[bound.share_of(member.params[name]) for name, bound in ranges.items()] for member in generation]
        strategy.tell([(np.array(point), -_worth(member)) for point, member in zip(points, generation, strict=True)])
    point = strategy.ask()
    return {name: bound.at(float(share)) for (name, bound), share in zip(ranges.items(), point, strict=True)}


def _tpe(space: StudySpace, seed: int, number: int, trials: int) -> BaseSampler:
    return TPESampler(
        seed=derive(seed, number),
        multivariate=True,
        constant_liar=True,
        group=space.is_conditional,
        n_startup_trials=_startup(trials),
    )


MAKERS: Mapping[str, Callable[[StudySpace, int, int, int], BaseSampler]] = {
    "tpe": _tpe,
    "cmaes": partial(ByFunction, cma_es),
    "gp": lambda space, seed, number, trials: GPSampler(
        seed=derive(seed, number), n_startup_trials=_startup(trials), deterministic_objective=False
    ),
    "random": lambda space, seed, number, trials: RandomSampler(seed=derive(seed, number)),
    "qmc": partial(ByFunction, sobol),
}
"""Sampler -> function that makes it from space, seed of the study, number of the trial and number of trials."""


def _startup(trials: int) -> int:
    """Return how many trials are drawn at random before a model is fitted."""
    # With few trials in all, the usual ten random trials would leave none to be suggested by the model.
    return max(3, min(10, trials // 4))


def _worth(trial: PastTrial) -> float:
    """Return the value of an ended trial for CMA-ES: larger is better, and always finite."""
    return WORST if trial.best is None else trial.best
