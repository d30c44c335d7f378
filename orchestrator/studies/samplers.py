"""The samplers by name: samplers of Optuna, two samplers of this product, and samplers of plug-ins.

A sampler is made for one suggestion, from a seed of its own and the study's trials, so that an interrupted search
suggests the points of an undisturbed search. Optuna's CMA-ES and quasi-Monte Carlo samplers keep a state in the trials
instead (CMA-ES a pickled state), which is not in the journal; ``cma_es`` and ``sobol`` compute it from the trials.

References:
    [Hansen2016] Hansen, The CMA Evolution Strategy: A Tutorial. arXiv:1604.00772
    [Joe2008] Joe and Kuo, Constructing Sobol sequences with better two-dimensional projections. SIAM J. Sci. Comput. 30
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler

from orchestrator.studies.suggesting import ByFunction, derive, sampler_of
from search_spaces import PastTrial, Range, StudySoFar, StudySpace
from trainables.plugins.in_use import run_offer

SIGMA = 0.3
"""First step size of CMA-ES, as a share of each range: about a third, as [Hansen2016] advises."""

WORST = -1e9
"""Value that CMA-ES gets for a trial without a value: less than any metric."""


def make_sampler(name: str, space: StudySpace, seed: int, number: int, trials: int) -> BaseSampler:
    """Return a sampler for one suggestion.

    Args:
        name: A name of ``experiment.samplers.SAMPLERS`` except ``grid``, whose points are planned.
        space: Search space of the study.
        seed: Seed of the study.
        number: Number of the suggestion, from 0.
        trials: Trials that the study has in the end, >= 1.

    Raises:
        PluginError: If the plug-in that offers the sampler cannot be run.
    """
    if name in MAKERS:
        return MAKERS[name](space, seed, number, trials)
    found = run_offer("samplers", name)
    if found is None:
        raise KeyError(name)
    return sampler_of(*found, space, seed, number, trials)


def needs_every_trial(name: str) -> bool:
    """Say whether a sampler is shown all trials of a long study rather than a part (``shown.py``).

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
    import numpy as np
    from cmaes import CMA

    ranges = {name: bound for name, bound in study.bounds.items() if isinstance(bound, Range)}
    box = np.array([[0.0, 1.0]] * len(ranges))
    # Each suggestion has a seed of its own, which does not depend on how many trials CMA-ES gets.
    strategy = CMA(mean=np.full(len(box), 0.5), sigma=SIGMA, bounds=box, seed=seed % 2**32)
    ended = [trial for trial in study.trials if trial.has_ended]
    size = strategy.population_size
    for first in range(0, len(ended) - size + 1, size):
        generation = ended[first : first + size]
        strategy.tell([(np.array(_shares(ranges, trial)), -_worth(trial)) for trial in generation])
    point = strategy.ask()
    return {name: bound.at(float(share)) for (name, bound), share in zip(ranges.items(), point, strict=True)}


def _random(space: StudySpace, seed: int, number: int, trials: int) -> BaseSampler:
    return RandomSampler(seed=derive(seed, number))


def _gp(space: StudySpace, seed: int, number: int, trials: int) -> BaseSampler:
    return GPSampler(seed=derive(seed, number), n_startup_trials=_startup(trials), deterministic_objective=False)


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
    "gp": _gp,
    "random": _random,
    "qmc": partial(ByFunction, sobol),
}
"""Sampler -> function that makes it from space, seed of the study, number of the trial and number of trials."""


def _startup(trials: int) -> int:
    """Return how many trials are drawn at random before a model is fitted."""
    # With few trials in all, the usual ten random trials would leave none to be suggested by the model.
    return max(3, min(10, trials // 4))


def _shares(ranges: Mapping[str, Range], trial: PastTrial) -> list[float]:
    return [bound.share_of(trial.params[name]) for name, bound in ranges.items()]


def _worth(trial: PastTrial) -> float:
    """Return the value of an ended trial for CMA-ES: larger is better, and always finite."""
    return WORST if trial.best is None else trial.best
